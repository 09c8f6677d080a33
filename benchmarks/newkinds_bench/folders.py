"""Folders of photographs as mixed heaps: known kinds, half of whose pictures are labelled, and new ones, by draw.

ROOT/grocery has one folder of photographs a kind. `grocery:gcd-labelled-0` is the labelled half of draw 0's known
kinds, `grocery:gcd-heap-0` their other half and all pictures of the other kinds. Draws from 100 on are for tuning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.cache import open_cache
from newkinds.datasets.dataset import data_root
from newkinds.errors import DataError, UsageError
from newkinds.images import open_images
from newkinds.images.imageset import ImageSet, fingerprint
from newkinds.randomness import generator

SIZE = 224  # pixels, at most: as the networks for photographs take them


@dataclass(frozen=True)
class Folders:
    """A folder of photographs below the root, how many of its kinds are known, and what it needs, in words."""

    name: str
    known: int
    needs: str


FOLDERS = {"grocery": Folders("grocery", 54, "photographs in grocery, a folder for each kind")}


def is_folder(source: str) -> bool:
    """Return whether a part is one of these."""
    return source.partition(":")[0] in FOLDERS


def open_part(source: str, data: Path | None) -> ImageSet:
    """Return the pictures of a part, `NAME:gcd-labelled-DRAW` or `NAME:gcd-heap-DRAW`."""
    name, _, part = source.partition(":")
    sort, _, draw = part.rpartition("-")
    if sort not in ("gcd-labelled", "gcd-heap") or not draw.isdigit():
        raise UsageError(f"Unknown part of {name}: {part!r}.", hint="There are gcd-labelled-DRAW and gcd-heap-DRAW.")
    images = _whole(FOLDERS[name], data_root(data))
    assert images.labels is not None
    known, labelled = drawn(images.labels, len(images.classes), FOLDERS[name].known, int(draw))
    rows = np.flatnonzero(labelled if sort == "gcd-labelled" else ~labelled)
    if sort == "gcd-heap":
        return _part(images, rows, np.arange(len(images.classes)), source)
    return _part(images, rows, known, source)


def drawn(labels: NDArray[np.int64], kinds: int, known: int, draw: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the known kinds of a draw, int64 (known,), and which pictures are labelled, bool (N,): half of each."""
    mine = np.sort(np.random.default_rng(draw).permutation(kinds)[:known])
    labelled = np.zeros(len(labels), dtype=bool)
    for kind in mine.tolist():
        order = generator(draw, "labelled half", kind).permutation(np.flatnonzero(labels == kind))
        labelled[order[: (len(order) + 1) // 2]] = True
    return mine, labelled


@lru_cache(maxsize=1)
def _whole(folders: Folders, root: Path | None) -> ImageSet:
    if root is None or not (root / folders.name).is_dir():
        raise DataError(
            f"There is no folder {folders.name} in {root}.",
            hint=f"Give --data the folder that holds it; it needs {folders.needs}.",
        )
    images = open_images(root / folders.name, labelled=True, largest=SIZE, cache=open_cache())
    if len(images.classes) <= folders.known:
        raise DataError(f"{root / folders.name} has {len(images.classes)} kinds, but {folders.known} are to be known.")
    return images


def _part(images: ImageSet, rows: NDArray[np.int64], kinds: NDArray[np.int64], source: str) -> ImageSet:
    """Return some pictures with their classes numbered anew."""
    assert images.labels is not None
    pixels, names = images.pixels[rows], tuple(images.names[row] for row in rows)
    labels = np.searchsorted(kinds, images.labels[rows]).astype(np.int64)
    classes = tuple(images.classes[kind] for kind in kinds)
    return ImageSet(pixels, names, labels, classes, source, fingerprint(pixels, names, labels, classes))
