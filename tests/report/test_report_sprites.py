"""Thumbnails: each picture in its place, right to the pixel where nothing is lost."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from newkinds.report.sprites import SHEET_SIDE, Sprites, make_sprites, thumbnails


def cut(sprites: Sprites, item: int) -> np.ndarray:
    """Return a thumbnail (C, H, W), decoded from its sheet."""
    place = sprites.places[item]
    sheet = np.asarray(Image.open(io.BytesIO(sprites.sheets[place.sheet].data)))
    sheet = sheet[None] if sheet.ndim == 2 else sheet.transpose(2, 0, 1)
    assert sheet.shape[1:] == (sprites.sheets[place.sheet].height, sprites.sheets[place.sheet].width)
    return sheet[:, place.y : place.y + sprites.height, place.x : place.x + sprites.width]


@pytest.fixture
def flat_pictures() -> np.ndarray:
    colours = np.random.default_rng(0).integers(30, 226, (12, 3, 1, 1), dtype=np.uint8)
    return np.ascontiguousarray(np.broadcast_to(colours, (12, 3, 64, 64)))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_small_pictures_come_back_to_the_bit(n: int, channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (n, channels, 8, 8), dtype=np.uint8)
    sprites = make_sprites(pixels, np.arange(n)[::-1])
    assert sprites.pixelated
    assert sprites.scale == 8
    assert all(np.array_equal(cut(sprites, i), pixels[i]) for i in range(n))


def test_photographs_are_close(flat_pictures: np.ndarray) -> None:
    sprites = make_sprites(flat_pictures, np.arange(len(flat_pictures)))
    assert sprites.sheets[0].mime == "image/webp"
    assert not sprites.pixelated
    for i in range(len(flat_pictures)):
        inner = cut(sprites, i)[:, 8:-8, 8:-8].astype(int)
        assert np.abs(inner - flat_pictures[i, :, :1, :1]).mean() < 6


def test_many_pictures_take_several_sheets() -> None:
    pixels = np.zeros((2_000, 1, 64, 64), dtype=np.uint8)
    sprites = make_sprites(pixels, np.arange(2_000))
    assert len(sprites.sheets) == 3
    assert max(max(s.width, s.height) for s in sprites.sheets) <= SHEET_SIDE
    assert len({(p.sheet, p.x, p.y) for p in sprites.places.values()}) == 2_000


def test_limit() -> None:
    sprites = make_sprites(np.zeros((9, 1, 8, 8), dtype=np.uint8), np.array([4, 2, 7, 1]), limit=3)
    assert list(sprites.places) == [4, 2, 7]


def test_shrinking_takes_the_mean_of_the_area() -> None:
    pixels = np.array([[[[0, 0, 90], [0, 0, 90], [30, 30, 30]]]], dtype=np.uint8)
    assert thumbnails(pixels, 1, 1).item() == 30  # 270 / 9
    wide = np.array([[[[0, 60, 120]]]], dtype=np.uint8)  # halves: (0 + 60 / 2) / 1.5 and (60 / 2 + 120) / 1.5
    assert thumbnails(wide, 1, 2).tolist() == [[[[20, 100]]]]


@pytest.mark.parametrize(("shape", "size"), [((200, 100), (64, 32)), ((64, 64), (64, 64)), ((3, 1000), (1, 64))])
def test_size_keeps_the_aspect(shape: tuple[int, int], size: tuple[int, int]) -> None:
    sprites = make_sprites(np.full((2, 3, *shape), 77, dtype=np.uint8), np.arange(2))
    assert (sprites.height, sprites.width) == size
    assert np.abs(cut(sprites, 1).astype(int) - 77).max() <= 2


def test_the_budget_holds() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (600, 3, 64, 64), dtype=np.uint8)
    items = np.arange(600)
    whole = make_sprites(pixels, items)
    assert (len(whole.places), whole.width) == (600, 64)
    size = sum(len(sheet.data) for sheet in whole.sheets)
    half = make_sprites(pixels, items, budget=size // 2)
    assert 250 < len(half.places) < 350
    assert list(half.places) == list(range(len(half.places)))
    assert sum(len(sheet.data) for sheet in half.sheets) < size * 0.55
    smaller = make_sprites(pixels, items, budget=size // 2, needed=600)
    assert smaller.width < 64
    assert len(smaller.places) == 600
    assert sum(len(sheet.data) for sheet in smaller.sheets) < size * 0.55


@pytest.mark.parametrize("side", [8, 64])
def test_sheets_carry_no_metadata(side: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3, side, side), dtype=np.uint8)
    sheet = make_sprites(pixels, np.arange(20)).sheets[0]
    picture = Image.open(io.BytesIO(sheet.data))
    assert not picture.getexif()
    assert set(picture.info) <= {"background", "loop", "duration", "timestamp"}
    for mark in (b"EXIF", b"eXIf", b"XMP ", b"ICCP", b"iCCP", b"tEXt", b"iTXt", b"zTXt", b"tIME"):
        assert mark not in sheet.data
