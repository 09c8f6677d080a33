"""Small pictures and array files for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.images.decode import encode


def picture(seed: int, height: int = 12, width: int = 12, channels: int = 3) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (channels, height, width), dtype=np.uint8)
    return encode(pixels, "png")


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def integers(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def shop(parent: Path) -> Path:
    """Make a folder with two classes of three pictures, a broken one among them, and strays."""
    root = parent / "shop"
    for kind, first in (("mugs", 0), ("caps", 10)):
        (root / kind).mkdir(parents=True)
        for number in range(3):
            (root / kind / f"{number}.png").write_bytes(picture(first + number))
    (root / "mugs" / "broken.png").write_bytes(picture(99)[:-40])
    (root / "mugs" / "notes.txt").write_text("x")
    (root / "stray.png").write_bytes(picture(50))
    (root / "void").mkdir()
    (root / "words").mkdir()
    (root / "words" / "a.txt").write_text("x")
    return root
