"""Augmentation: random views of pictures, whole batches at a time, on the device that holds them.

A view is a pure function of (seed, epoch, item, view): the same picture gets the same crop whatever batch, process or
worker it is drawn in, so that an interrupted run continues with the views it would have seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from newkinds.errors import unknown_name
from newkinds.images.imageset import ImageSet
from newkinds.parallel.devices import to_device
from newkinds.randomness import uniforms

# Columns of the table of random numbers that each picture gets for each view.
_COLUMNS = 10


@dataclass(frozen=True)
class Augmentation:
    """What may happen to a picture. The default does nothing.

    border: pixels of reflected border from which a crop of the picture's own size is taken.
    flip: whether the picture may be mirrored left to right.
    resized_crop: smallest share of the area that a random crop, scaled back to full size, may keep; 1 for none.
    degrees, translate, scale, shear: ranges of an affine map: rotation and shear in +- degrees, translation as a
        share of the side, scale as (1 - scale) to (1 + scale).
    """

    border: int = 0
    flip: bool = False
    resized_crop: float = 1.0
    degrees: float = 0.0
    translate: float = 0.0
    scale: float = 0.0
    shear: float = 0.0

    @property
    def warps(self) -> bool:
        """Whether pictures are resampled, not only shifted and mirrored."""
        return self.resized_crop < 1 or any((self.degrees, self.translate, self.scale, self.shear))


POLICIES = {
    "none": Augmentation(),
    "crop": Augmentation(border=4),
    "crop-flip": Augmentation(border=4, flip=True),
    "resized-crop": Augmentation(resized_crop=0.85),
    "resized-crop-flip": Augmentation(resized_crop=0.6, flip=True),
    "affine": Augmentation(degrees=5.0, translate=0.1, scale=0.2, shear=10.0),
}


def policy(name: str, size: int) -> Augmentation:
    """Return the augmentation called `name` for pictures of `size` pixels.

    The reflected border is the customary 4 pixels at 32 and keeps that proportion at other sizes.
    """
    if name not in POLICIES:
        raise unknown_name("augmentation", name, POLICIES)
    chosen = POLICIES[name]
    if chosen.border:
        chosen = replace(chosen, border=min(max(1, round(chosen.border * size / 32)), size - 1))
    return chosen


def augment(
    pixels: Tensor, items: NDArray[np.int64], how: Augmentation, *, seed: int, epoch: int, view: int = 0
) -> Tensor:
    """Return one random view of each picture.

    pixels: uint8 (B, C, H, W); items: int64 (B,), the pictures' numbers in their set, which the randomness depends on.

    Returns float32 (B, C, H, W) in [0, 1].
    """
    if how == POLICIES["none"]:
        return pixels.float().div_(255)
    random = uniforms(seed, "augment", epoch, items, _COLUMNS, view)
    if how.border or how.flip:
        pixels = _shift_and_flip(pixels, how, random)
    floats = pixels.float().div_(255)
    return _warp(floats, how, random) if how.warps else floats


def quarter_turned(floats: Tensor, turns: NDArray[np.int64]) -> Tensor:
    """Return square pictures (B, C, H, H), each turned left by `turns` (B,), 0 to 3, times 90 degrees.

    Pixels are looked up for all pictures at once: with one index for each number of turns, shapes would depend on the
    batch, and some devices recompile for each shape.
    """
    side = floats.shape[-1]
    places = np.arange(side**2).reshape(side, side)
    table = to_device(np.stack([np.rot90(places, turn).ravel() for turn in range(4)]), floats.device)
    sources = table[to_device(turns, floats.device)][:, None].expand(-1, floats.shape[1], -1)
    return floats.flatten(2).gather(2, sources).view_as(floats)


def _shift_and_flip(pixels: Tensor, how: Augmentation, random: NDArray[np.float64]) -> Tensor:
    """Crop from a reflected border and mirror, by looking rows and columns up: no pixel value changes."""
    batch, _, height, width = pixels.shape
    shifts = np.floor(random[:, :2] * (2 * how.border + 1)).astype(np.int64) - how.border
    rows = _reflected(np.arange(height) + shifts[:, :1], height)
    columns = _reflected(np.arange(width) + shifts[:, 1:], width)
    if how.flip:
        columns = np.where(random[:, 2:3] < 0.5, columns[:, ::-1], columns)
    device = pixels.device
    which = torch.arange(batch, device=device)[:, None, None]
    row = to_device(rows, device)[:, :, None]
    column = to_device(columns, device)[:, None, :]
    return pixels.permute(0, 2, 3, 1)[which, row, column].permute(0, 3, 1, 2).contiguous()


def _reflected(index: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Fold indices outside 0..length-1 back by reflection at the border pixels."""
    last = length - 1
    folded: NDArray[np.int64] = last - np.abs(last - np.abs(index))
    return folded


def _warp(floats: Tensor, how: Augmentation, random: NDArray[np.float64]) -> Tensor:
    """Resample by a random crop and affine map; outside the picture, its edge pixels are repeated."""
    signed = 2 * random - 1
    area = 1 - random[:, 3] * (1 - how.resized_crop)
    ratio = np.exp(signed[:, 4] * np.log(4 / 3) / 2) if how.resized_crop < 1 else np.ones(len(random))
    width = np.minimum(np.sqrt(area) * ratio, 1.0)
    height = np.minimum(np.sqrt(area) / ratio, 1.0)
    angle = np.deg2rad(signed[:, 5] * how.degrees)
    shear = np.tan(np.deg2rad(signed[:, 6] * how.shear))
    zoom = 1 / (1 + signed[:, 7] * how.scale)
    # Maps target coordinates in [-1, 1] to source coordinates: rotate, shear and zoom inside the chosen crop.
    cos, sin = np.cos(angle) * zoom, np.sin(angle) * zoom
    theta = np.empty((len(random), 2, 3))
    theta[:, 0, 0] = cos * width
    theta[:, 0, 1] = (cos * shear - sin) * height
    theta[:, 1, 0] = sin * width
    theta[:, 1, 1] = (sin * shear + cos) * height
    theta[:, 0, 2] = signed[:, 8] * ((1 - width) + 2 * how.translate)
    theta[:, 1, 2] = signed[:, 9] * ((1 - height) + 2 * how.translate)
    matrix = to_device(theta.astype(np.float32), floats.device)  # not every device has float64
    grid = F.affine_grid(matrix, list(floats.shape), align_corners=False)
    return F.grid_sample(floats, grid, mode="bilinear", padding_mode="border", align_corners=False)


def suited_policy(name: str, images: ImageSet) -> str:
    """Return the name of a policy; "auto" becomes the one that suits the pictures."""
    if name != "auto":
        return name
    return "none" if images.is_embedding else "crop-flip" if images.channels == 3 else "affine"
