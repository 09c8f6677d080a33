"""Letters of four scripts, drawn in a font that comes with matplotlib and distorted: 32 x 32 pixels, no download."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from newkinds.datasets.dataset import Dataset, Request
from newkinds.errors import unknown_name
from newkinds.images.imageset import ImageSet, image_set
from newkinds.randomness import generator

SIZE = 32
# One face: a letter with serifs has another shape, which would be a kind of its own to anybody who cannot read it.
FACE = "DejaVuSans"
# The size that letters are drawn in, the longer side that they are then brought to, and the side of the square around.
POINTS, LONGEST, BOX = 96, 46, 64
LEAN = 0.12  # below one half: the level at which a blurred stroke is as thick as it was


@dataclass(frozen=True)
class Part:
    """Letters of which there are `fewest` to `most` pictures each."""

    letters: str
    fewest: int
    most: int


# One letter of each shape: A is also a Greek and a Cyrillic letter, and all letters are brought to the same size.
KNOWN = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "adefghijmnqrty" + "ΓΔΘΛΞΠΣΦΨΩ" + "αβγδεζηλμξπρσφψω" + "БДЖЗИЛЦЧШЩЪЫЭЮЯ"
GEORGIAN = "ბდთლფყჩ"  # seven of 33, picked because they are easy to tell apart
PARTS = {"known": Part(KNOWN, 48, 48), "georgian": Part(GEORGIAN, 30, 90)}


@dataclass(frozen=True)
class Distortion:
    """How far pictures differ from a letter as it is printed; each picture draws its own numbers.

    degrees, shear, stretch, shift: ranges, in both directions, of an affine map; shift as a share of the side.
    warp: the standard deviation of a smooth displacement, as a share of the side, which is drawn at `knots` x `knots`
    points. pen: range, in both directions, of the level that makes strokes thinner or thicker. ink, paper: how far they
    may be from black and from white, noise: its standard deviation; all three as shares of white.
    """

    degrees: float = 15.0
    shear: float = 0.3
    stretch: float = 0.15
    shift: float = 0.04
    warp: float = 0.045
    knots: int = 5
    pen: float = 0.12
    ink: float = 0.45
    paper: float = 0.15
    noise: float = 0.03


DISTORTION = Distortion()


def letters(part: str, request: Request | None = None) -> ImageSet:
    """Return letters of Latin, Greek and Cyrillic ("known") or Georgian, with their labels; the request is ignored."""
    if part not in PARTS:
        raise unknown_name("part of the letters", part, PARTS)
    return drawn(part, seed=0)


def drawn(part: str, seed: int, how: Distortion = DISTORTION) -> ImageSet:
    """Return the letters of a part as `seed` draws them; those of seed 0 are the data set."""
    which = PARTS[part]
    random = generator(seed, "letters", list(PARTS).index(part))
    sizes = random.integers(which.fewest, which.most + 1, len(which.letters))
    labels = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    printed = _printed(which.letters)[labels]
    pixels = _distorted(torch.from_numpy(printed[:, None]), how, random)
    classes = [_name(letter) for letter in which.letters]
    numbers = np.concatenate([np.arange(size) for size in sizes])
    names = [f"{classes[label]}-{number:02d}" for label, number in zip(labels, numbers, strict=True)]
    return image_set(pixels, names, labels, classes, f"letters:{part}", labelled=True)


def _name(letter: str) -> str:
    """Return a letter's name, its script before a "/": "cyrillic/capital-zhe"."""
    script, _, name = unicodedata.name(letter).lower().replace("letter ", "").partition(" ")
    return f"{script}/{name.replace(' ', '-')}"


@cache
def _printed(chosen: str) -> NDArray[np.float32]:
    """Return letters as the font has them, each fitted into the middle of a square: float32 (L, BOX, BOX), ink is 1."""
    from newkinds.plotting import FT2Font, mpl  # takes long to import

    font = FT2Font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{FACE}.ttf"))
    font.set_size(POINTS, 72)
    squares = []
    for letter in chosen:
        font.set_text(letter)
        font.draw_glyphs_to_bitmap(antialiased=True)
        bitmap = np.asarray(font.get_image())
        rows, columns = np.flatnonzero(bitmap.any(axis=1)), np.flatnonzero(bitmap.any(axis=0))
        inked = bitmap[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        side = max(inked.shape)
        margins = [((side - length) // 2, side - length - (side - length) // 2) for length in inked.shape]
        square = torch.from_numpy(np.pad(inked, margins).astype(np.float32) / 255)
        fitted = F.interpolate(square[None, None], (LONGEST,) * 2, mode="bilinear", antialias=True)
        squares.append(F.pad(fitted[0, 0], ((BOX - LONGEST) // 2,) * 4).numpy())
    return np.stack(squares)


def _distorted(printed: Tensor, how: Distortion, random: np.random.Generator) -> NDArray[np.uint8]:
    """Return pictures uint8 (N, 1, SIZE, SIZE) of letters float32 (N, 1, BOX, BOX), no two of them alike."""
    number = len(printed)
    grid = F.affine_grid(_affine_maps(number, how, random), [number, 1, BOX, BOX], align_corners=False)
    knots = random.normal(0, 2 * how.warp, (number, 2, how.knots, how.knots)).astype(np.float32)
    bent = F.interpolate(torch.from_numpy(knots), (BOX, BOX), mode="bicubic", align_corners=True)
    moved = F.grid_sample(printed, grid + bent.permute(0, 2, 3, 1), align_corners=False)

    def each(low: float, high: float) -> Tensor:
        return torch.from_numpy(random.uniform(low, high, (number, 1, 1, 1)).astype(np.float32))

    soft = F.avg_pool2d(F.pad(moved, (2,) * 4), 5, 1)  # its contours at other levels are thinner or thicker strokes
    inked = torch.clamp(0.5 + 4 * (soft - each(0.5 - LEAN - how.pen, 0.5 - LEAN + how.pen)), 0, 1)
    inked = F.interpolate(inked, (SIZE, SIZE), mode="bilinear", antialias=True, align_corners=False)
    paper, ink = each(1 - how.paper, 1), each(0, how.ink)
    noise = torch.from_numpy(random.normal(0, how.noise, inked.shape).astype(np.float32))
    floats = torch.clamp(paper + (ink - paper) * inked + noise, 0, 1)
    pixels: NDArray[np.uint8] = (255 * floats).round().to(torch.uint8).numpy()
    return pixels


def _affine_maps(number: int, how: Distortion, random: np.random.Generator) -> Tensor:
    """Return random affine maps, float32 (N, 2, 3)."""
    signed = random.uniform(-1, 1, (6, number))
    angle, shear = np.deg2rad(how.degrees * signed[0]), how.shear * signed[1]
    wide, high = np.exp(how.stretch * signed[2:4])
    cos, sin = np.cos(angle), np.sin(angle)
    rows = [[wide * cos, high * (shear * cos - sin)], [wide * sin, high * (shear * sin + cos)]]
    maps = np.concatenate([np.array(rows), 2 * how.shift * signed[4:6][:, None]], axis=1)
    return torch.from_numpy(maps.transpose(2, 0, 1).astype(np.float32))


LETTERS = Dataset(
    name="letters",
    title="Letters in a font that comes with matplotlib",
    parts={
        "known": f"{len(KNOWN)} letters of Latin, Greek and Cyrillic",
        "georgian": f"{len(GEORGIAN)} distinct ones of Georgian",
    },
    known="known",
    unsorted="georgian",
    open=letters,
)
