"""Sprite sheets: thumbnails of the pictures, many in one image, for the page's cards and map."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.images.decode import encode
from newkinds.randomness import one_thread

MAX_THUMBNAILS = 20_000
MAX_SIDE = 64  # of a thumbnail
SIDES = (64, 48, 32, 24)  # the first at which the required thumbnails fit into the budget is used
BUDGET = 7_500_000  # bytes of all sheets; a third more on the page, in base64
TRIED = 200  # thumbnails that are encoded to estimate the bytes of one
SHEET_SIDE = 2_048  # of a sheet: phones decode this, WebP's limit is 16,383
PIXEL_ART = 32  # pictures up to this side are shown enlarged, each pixel a square
LOSSLESS_BYTES = 4_000_000  # of raw pixel art: above this, sheets would outweigh the page
LOSSY_QUALITY = 80
BORDER = 1  # each thumbnail's edge is repeated around it: smooth scaling must not mix neighbours


@dataclass(frozen=True)
class Place:
    """The place of a thumbnail: the sheet's number and the upper left corner on it, in the sheet's pixels."""

    sheet: int
    x: int
    y: int


@dataclass(frozen=True)
class Sheet:
    """One encoded image of thumbnails."""

    data: bytes
    mime: str
    width: int
    height: int

    @property
    def uri(self) -> str:
        """The sheet as a data: URI, which needs no second file and no network."""
        return f"data:{self.mime};base64,{base64.b64encode(self.data).decode('ascii')}"


@dataclass(frozen=True)
class Sprites:
    """Sheets of equal thumbnails, `width` x `height` pixels each, and the place of each picture's."""

    sheets: tuple[Sheet, ...]
    places: dict[int, Place]
    width: int
    height: int

    @property
    def pixelated(self) -> bool:
        """Whether to enlarge without smoothing."""
        return max(self.width, self.height) <= PIXEL_ART

    @property
    def scale(self) -> int:
        """Screen pixels for each thumbnail pixel, on a card: whole, so that pixels stay squares."""
        return max(1, MAX_SIDE // max(self.width, self.height))


def make_sprites(
    pixels: NDArray[np.uint8],
    items: NDArray[np.int64],
    *,
    limit: int = MAX_THUMBNAILS,
    needed: int = 0,
    budget: int = BUDGET,
) -> Sprites:
    """Make thumbnails of pictures uint8 (N, C, H, W) at the row numbers `items`, the first `limit` of them.

    They are made smaller until the first `needed` of them fit into the budget of bytes; those beyond it are left out.
    """
    items = items[:limit]
    for side in SIDES:
        height, width = _thumbnail_size(pixels.shape[2], pixels.shape[3], side)
        lossless = max(width, height) <= PIXEL_ART and len(items) * height * width * pixels.shape[1] <= LOSSLESS_BYTES
        each = _bytes_each(pixels, items, height, width, lossless)
        if each * min(needed, len(items)) <= budget:
            break
    items = items[: max(1, int(budget / each))]
    step_x, step_y = width + 2 * BORDER, height + 2 * BORDER
    most = (SHEET_SIDE // step_x) * (SHEET_SIDE // step_y)
    sheets: list[Sheet] = []
    places: dict[int, Place] = {}
    for start in range(0, len(items), most):
        chunk = items[start : start + most]
        columns = min(SHEET_SIDE // step_x, math.ceil(math.sqrt(len(chunk) * step_y / step_x)))
        sheets.append(_sheet(thumbnails(pixels[chunk], height, width), columns, lossless))
        for slot, item in enumerate(chunk.tolist()):
            row, column = divmod(slot, columns)
            places[item] = Place(len(sheets) - 1, column * step_x + BORDER, row * step_y + BORDER)
    return Sprites(tuple(sheets), places, width, height)


def _bytes_each(pixels: NDArray[np.uint8], items: NDArray[np.int64], height: int, width: int, lossless: bool) -> float:
    """Estimate how many bytes a thumbnail takes, from some of them."""
    some = items[:: math.ceil(len(items) / TRIED)]
    columns = min(len(some), SHEET_SIDE // (width + 2 * BORDER))
    return len(_sheet(thumbnails(pixels[some], height, width), columns, lossless).data) / len(some)


def thumbnails(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Shrink pictures uint8 (n, C, H, W) to (n, C, height, width), each new pixel the mean of the area it covers."""
    if pixels.shape[2:] == (height, width):
        return pixels
    down, across = _areas(pixels.shape[2], height), _areas(pixels.shape[3], width)
    small = np.empty((*pixels.shape[:2], height, width), dtype=np.uint8)
    with one_thread():
        for i, picture in enumerate(pixels):  # one at a time: as floats, thousands would not fit into memory
            small[i] = np.rint(down @ picture.astype(np.float64) @ across.T)
    return small


def _areas(old: int, new: int) -> NDArray[np.float64]:
    """Return (new, old): how much of each new pixel each old one covers; rows sum to 1."""
    edges = np.arange(new + 1) * (old / new)
    left, right = edges[:-1, None], edges[1:, None]
    cells = np.arange(old)
    cover = np.clip(np.minimum(right, cells + 1) - np.maximum(left, cells), 0.0, None)
    return np.asarray(cover / cover.sum(axis=1, keepdims=True), dtype=np.float64)


def _thumbnail_size(height: int, width: int, side: int) -> tuple[int, int]:
    shrink = min(1.0, side / max(height, width))
    return max(1, round(height * shrink)), max(1, round(width * shrink))


def _sheet(small: NDArray[np.uint8], columns: int, lossless: bool) -> Sheet:
    n, channels = small.shape[:2]
    rows = math.ceil(n / columns)
    edge = (BORDER, BORDER)
    framed = np.pad(small, ((0, 0), (0, 0), edge, edge), mode="edge")
    height, width = framed.shape[2:]
    cells = np.zeros((rows * columns, channels, height, width), dtype=np.uint8)
    cells[:n] = framed
    grid = cells.reshape(rows, columns, channels, height, width).transpose(2, 0, 3, 1, 4)
    picture = np.ascontiguousarray(grid.reshape(channels, rows * height, columns * width))
    form = "png" if lossless else "webp"
    return Sheet(encode(picture, form, quality=LOSSY_QUALITY), f"image/{form}", columns * width, rows * height)
