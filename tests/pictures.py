"""Pictures that tests make up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.images.decode import encode

KNOWN, UNSORTED = ("bolt", "gear", "nut", "screw"), ("hinge", "spring", "washer")
EACH = 16


def write_pictures(root: Path, kinds: tuple[str, ...], each: int = EACH, size: int = 12, seed: int = 0) -> None:
    """Write `each` noisy pictures of coloured blocks of each kind, one folder a kind; the name makes the pattern."""
    for kind in kinds:
        blocks = np.random.default_rng(list(kind.encode())).integers(0, 256, (3, 3, 2))
        half = blocks.repeat(size // 3, axis=1).repeat(size // 4, axis=2)
        pattern = np.concatenate([half, half[:, :, ::-1]], axis=2)  # mirrored it is the same, as most things are
        noise = np.random.default_rng([seed, *kind.encode()])
        (root / kind).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            pixels = np.clip(pattern + noise.normal(0, 30, pattern.shape), 0, 255).astype(np.uint8)
            (root / kind / f"{number:02d}.png").write_bytes(encode(pixels, "png"))


def photograph(seed: int, side: int = 96) -> NDArray[np.uint8]:
    """Return smooth waves in all colours, uint8 (3, side, side), with as many shades as a photograph has."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    waves = [
        sum(np.sin(f * (rng.normal() * x + rng.normal() * y) + rng.uniform(0, 6)) / f**0.5 for f in (3, 5, 9, 17, 33))
        for _ in range(3)
    ]
    return np.clip(128 + 60 * np.stack(waves), 0, 255).astype(np.uint8)


def write_embeddings(folder: Path, axes: int = 8) -> tuple[Path, Path]:
    """Write embeddings, 16 of each of four known kinds and of three new ones, none below 0; return both files."""
    rng = np.random.default_rng(0)
    centres = np.abs(4 * rng.normal(size=(7, axes)))
    for name, kinds in (("known", range(4)), ("unsorted", range(4, 7))):
        labels = np.repeat(np.array(kinds), 16)
        points = np.abs(centres[labels] + 0.3 * rng.normal(size=(len(labels), axes))).astype(np.float32)
        np.savez(folder / f"{name}.npz", embeddings=points, labels=labels)
    return folder / "known.npz", folder / "unsorted.npz"
