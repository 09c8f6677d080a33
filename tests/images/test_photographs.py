"""Which pictures are photographs: by their size, their colours and their tones, from a look at some of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from newkinds.images import photographs
from newkinds.images.decode import MAX_PIXELS, encode
from newkinds.images.photographs import Look, colours, look_at, tones
from pictures import photograph, write_pictures

RNG = np.random.default_rng


def grey_as_rgb(seed: int, side: int = 96) -> NDArray[np.uint8]:
    return np.repeat(photograph(seed, side)[:1], 3, axis=0)


def sepia(seed: int, side: int = 96) -> NDArray[np.uint8]:
    return (grey_as_rgb(seed, side) * np.array([1, 0.85, 0.65])[:, None, None]).astype(np.uint8)


def drawing(seed: int, side: int = 96) -> NDArray[np.uint8]:
    """Return a few coloured strokes on a coloured ground, with soft edges."""
    rng = RNG(seed)
    y, x = np.mgrid[:side, :side] / side
    pixels = np.broadcast_to(rng.integers(0, 256, (3, 1, 1)), (3, side, side)).astype(float)
    for _ in range(3):
        angle, place = rng.uniform(0, np.pi), rng.uniform(0.2, 0.8)
        ink = np.clip(4 - side * np.abs(np.cos(angle) * (x - place) + np.sin(angle) * (y - place)), 0, 1)
        pixels = pixels * (1 - ink) + rng.integers(0, 256, (3, 1, 1)) * ink
    return pixels.astype(np.uint8)


def scan(seed: int, side: int = 96) -> NDArray[np.uint8]:
    """Return ink on yellow paper, with the noise of a scanner."""
    ink = drawing(seed, side)[:1] / 255
    paper, black = np.array([245, 235, 205])[:, None, None], np.array([30, 30, 60])[:, None, None]
    noise = RNG(seed).normal(0, 3, (3, side, side))
    return np.clip(ink.round() * paper + (1 - ink.round()) * black + noise, 0, 255).astype(np.uint8)


def looked(pixels: list[NDArray[np.uint8]], size: int | None = None, largest: int = 64) -> Look:
    found = look_at(([*pixels], [str(n % 2) for n in range(len(pixels))]), size=size, largest=largest, max_pixels=99999)
    assert found is not None
    return found


# The rule


@pytest.mark.parametrize(
    ("make", "expected"), [(photograph, True), (grey_as_rgb, True), (sepia, True), (drawing, False), (scan, False)]
)
def test_photographs_have_hundreds_of_colours_or_many_tones(make: object, expected: bool) -> None:
    found = looked([make(seed) for seed in range(8)])  # type: ignore[operator]
    assert found.are_photographs is expected
    assert found.side == 96


@pytest.mark.parametrize(("side", "expected"), [(32, False), (48, False), (49, True), (64, True), (300, True)])
def test_small_pictures_are_none(side: int, expected: bool) -> None:
    assert looked([photograph(seed, side) for seed in range(4)]).are_photographs is expected


def test_less_may_be_asked_for() -> None:
    pixels = [photograph(seed) for seed in range(4)]
    assert looked(pixels, size=32).side == 32
    assert not looked(pixels, size=32).are_photographs
    assert looked(pixels, largest=8).side == 8
    assert looked(pixels, largest=64).side == 96  # what they would be decoded to without a pretrained network


def test_the_typical_picture_counts() -> None:
    mostly = [photograph(seed) for seed in range(5)] + [drawing(seed) for seed in range(3)]
    assert looked(mostly).are_photographs
    assert not looked([drawing(seed) for seed in range(5)] + [photograph(seed) for seed in range(3)]).are_photographs


def test_colours() -> None:
    assert colours(np.zeros((3, 64, 64), dtype=np.uint8)) == 1
    assert colours(np.zeros((1, 9, 12), dtype=np.uint8)) == 1
    halves = np.zeros((3, 64, 64), dtype=np.uint8)
    halves[:, :, 32:] = 7  # one of 32 levels
    assert colours(halves) == 1
    halves[2, :, 32:] = 8
    assert colours(halves) == 2


def test_tones() -> None:
    flat = np.zeros((1, 64, 64), dtype=np.uint8)
    assert tones(flat) == 0
    halves = flat.copy()
    halves[:, :, 32:] = 255
    assert tones(halves) == pytest.approx(1)
    every = np.arange(64 * 64, dtype=np.int64).reshape(1, 64, 64) % 256
    assert tones(np.repeat(every.astype(np.uint8), 3, axis=0)) == pytest.approx(5)  # 32 levels, equally often


def test_grey_photographs_count_and_grey_drawings_do_not() -> None:
    assert looked([photograph(seed)[:1] for seed in range(4)]).are_photographs
    assert not looked([drawing(seed)[:1] for seed in range(4)]).are_photographs
    assert not looked([photograph(seed, 32)[:1] for seed in range(4)]).are_photographs


def test_the_words() -> None:
    assert str(Look(224, 1150, 4.5)) == "typically 224 pixels a side and 1,150 colours"
    assert str(Look(224, 32, 4.5)) == "typically 224 pixels a side and 32 colours in many shades"
    limits = "photographs have more than 48 pixels, and 256 colours or many shades"
    assert str(Look(32, 900, 4.0)) == f"typically 32 pixels a side and 900 colours; {limits}"
    assert str(Look(105, 32, 0.9)) == f"typically 105 pixels a side and 32 colours in few shades; {limits}"


# The sources


def write(folder: Path, number: int, side: int = 60) -> Path:
    for seed in range(number):
        file = folder / ("ab"[seed % 2]) / f"{seed:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(photograph(seed, side), "png"))
    return folder


def look(source: object) -> Look | None:
    return look_at(source, size=None, largest=64, max_pixels=MAX_PIXELS)  # type: ignore[arg-type]


def test_folders_lists_and_arrays_look_alike(tmp_path: Path) -> None:
    folder = write(tmp_path / "photos", 6)
    (folder / "a" / "notes.txt").write_text("no picture")
    os.mkfifo(folder / "a" / "pipe.png")  # would never end
    files = sorted(folder.rglob("*.png"))
    pixels, labels = np.stack([photograph(seed, 60) for seed in range(6)]), np.arange(6) % 2
    np.savez(tmp_path / "photos.npz", images=pixels, labels=labels)
    table = tmp_path / "list.csv"
    table.write_text("path,label\n" + "".join(f"{file},{file.parent.name}\n" for file in files if file.is_file()))
    from_folder = look(folder)
    assert from_folder is not None
    assert from_folder.are_photographs
    assert look(str(folder)) == look(table) == from_folder
    assert look(tmp_path / "photos.npz") == look((pixels, labels)) == look(([*pixels], labels)) == from_folder


def test_some_of_many_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    read = photographs.read_file
    monkeypatch.setattr(photographs, "LOOKED_AT", 4)
    monkeypatch.setattr(photographs, "read_file", lambda path: (seen.append(path), read(path))[1])
    assert look(write(tmp_path, 30)) is not None
    assert [file.stem for file in seen] == ["000", "018", "009", "029"]  # of both folders


def test_where_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    assert look((np.zeros((4, 7), dtype=np.float32), [0, 0, 1, 1])) is None  # embeddings
    assert look(tmp_path) is None
    assert look(tmp_path / "absent") is None
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert look(tmp_path) is None
    assert look(tmp_path / "absent.npz") is None


def test_the_pictures_of_other_tests_are_none(tmp_path: Path) -> None:
    write_pictures(tmp_path, ("bolt", "nut"), each=4, size=24)
    found = look(tmp_path)
    assert found is not None
    assert not found.are_photographs
