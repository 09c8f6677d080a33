"""The pictures of one source, decoded: what every later stage works on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Skipped:
    """A file that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class ImageSet:
    """Pictures in memory or memory-mapped, with their names and, where known, their kinds.

    pixels: uint8 (N, C, H, W) with C 1 or 3, or, for ready-made embeddings, float32 (N, d).
    names: N unique names: the path below the source with forward slashes, or what the array file says.
    labels: int64 (N,) indices into `classes`, or None where the pictures are not sorted.
    fingerprint: hex hash of names, labels and pixels: equal for equal data wherever it lies.
    """

    pixels: NDArray[Any]
    names: tuple[str, ...]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    source: str
    fingerprint: str
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def is_embedding(self) -> bool:
        """Whether the source gave embeddings instead of pictures."""
        return self.pixels.ndim == 2

    @property
    def channels(self) -> int:
        """Colour channels, or the width of the embeddings."""
        return int(self.pixels.shape[1])

    @property
    def size(self) -> int:
        """The side of the square pictures in pixels; 1 for embeddings."""
        return 1 if self.is_embedding else int(self.pixels.shape[2])

    def select(self, items: NDArray[np.int64] | Sequence[int]) -> ImageSet:
        """Return the pictures at `items`, in that order; classes and numbering stay."""
        items = np.asarray(items, dtype=np.int64)
        labels = None if self.labels is None else self.labels[items]
        return replace(self, pixels=self.pixels[items], names=tuple(self.names[i] for i in items), labels=labels)

    def with_classes(self, keep: Sequence[int]) -> ImageSet:
        """Return the pictures of the classes `keep` (indices), renumbered 0, 1, ... in that order."""
        if self.labels is None:
            raise ValueError("this ImageSet has no labels")
        number = np.full(len(self.classes), -1, dtype=np.int64)
        number[list(keep)] = np.arange(len(keep))
        items = np.flatnonzero(number[self.labels] >= 0)
        chosen = self.select(items)
        return replace(
            chosen, labels=number[self.labels[items]], classes=tuple(self.classes[c] for c in keep), skipped=()
        )


def fingerprint(
    pixels: NDArray[Any],
    names: Sequence[str],
    labels: NDArray[np.int64] | None,
    classes: Sequence[str],
    *,
    digest: str | None = None,
) -> str:
    """Return the hex hash of an ImageSet's content, for its `fingerprint`.

    digest: the pixels' `pixel_digest`, where it is known already.
    """
    numbers = None if labels is None else labels.tolist()
    digest = pixel_digest(pixels) if digest is None else digest
    content = [list(names), numbers, list(classes), pixels.dtype.str, list(pixels.shape), digest]
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def pixel_digest(pixels: NDArray[Any]) -> str:
    """Return the hex hash of an array's bytes in C order, read in parts so that a memory-mapped one stays on disk."""
    hashed = hashlib.blake2b(digest_size=16)
    rows = max(1, (1 << 24) // max(1, pixels[:1].nbytes))
    for start in range(0, len(pixels), rows):
        hashed.update(pixels[start : start + rows].tobytes())
    return hashed.hexdigest()
