"""The ImageSet: the decoded pictures of one source, which every later stage works on."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.cache import row_key
from newkinds.errors import DataError


@dataclass(frozen=True)
class Skipped:
    """A file that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class ImageSet:
    """Pictures in memory or memory-mapped, with their names and, where known, their kinds.

    pixels: uint8 (N, C, H, W) with C 1 or 3, or, for ready-made embeddings, float32 (N, d).
    names: N unique names: the path below the source with forward slashes, or what the list or array file says.
    labels: int64 (N,) indices into `classes`, or None. For unsorted pictures they are for scores only, and the
        class "" holds those whose kind is not known.
    fingerprint: hex hash of names, pixels and, except for unsorted pictures, labels: equal for equal data wherever it
        is stored. For a selection, it is a hash of the original's fingerprint and of the items selected.
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

    @cached_property
    def row_keys(self) -> tuple[bytes, ...]:
        """A hash of each picture's pixels (or embedding), by which equal ones are found."""
        return tuple(row_key(np.ascontiguousarray(row).data) for row in self.pixels)

    def select(self, items: NDArray[np.int64] | Sequence[int]) -> ImageSet:
        """Return the pictures at `items`, in that order; classes and numbering stay."""
        every = np.arange(len(self), dtype=np.int64)
        items = every[np.asarray(items, dtype=np.int64)]  # no negative indices, for the fingerprint
        return replace(
            self,
            pixels=self.pixels[items],
            names=tuple(self.names[item] for item in items),
            labels=None if self.labels is None else self.labels[items],
            fingerprint=_hash([self.fingerprint, "items", items.tolist()]),
        )

    def with_classes(self, keep: Sequence[int]) -> ImageSet:
        """Return the pictures of the classes `keep` (indices), renumbered 0, 1, ... in that order."""
        if self.labels is None:
            raise ValueError("this ImageSet has no labels")
        number = np.full(len(self.classes), -1, dtype=np.int64)
        number[list(keep)] = np.arange(len(keep))
        items = np.flatnonzero(number[self.labels] >= 0)
        chosen, labels, classes = self.select(items), number[self.labels[items]], tuple(self.classes[c] for c in keep)
        mark = _hash([chosen.fingerprint, "classes", labels.tolist(), list(classes)])
        return replace(chosen, labels=labels, classes=classes, fingerprint=mark, skipped=())


def joined(first: ImageSet, second: ImageSet) -> ImageSet:
    """Return the pictures of two sets of one shape, one set after the other, without labels."""
    return replace(
        first,
        pixels=np.concatenate([first.pixels, second.pixels]),
        names=first.names + second.names,
        labels=None,
        classes=(),
        fingerprint=_hash([first.fingerprint, "and", second.fingerprint]),
        skipped=(),
    )


def image_set(
    pixels: NDArray[Any],
    names: Sequence[str],
    labels: NDArray[np.int64] | None,
    classes: Sequence[str],
    source: str,
    *,
    labelled: bool,
    skipped: Sequence[Skipped] = (),
    digest: str | None = None,
) -> ImageSet:
    """Return an ImageSet with its fingerprint, which leaves out labels that are for scores only.

    Names and classes become `printable`: they go into tables and pages, which not every text can.
    labelled: whether the labels are part of the data. digest: see `fingerprint`; the rest is as in `ImageSet`.
    """
    names, classes = _all_printable(names, "pictures", source), _all_printable(classes, "kinds", source)
    told = (labels, classes) if labelled else (None, ())
    mark = fingerprint(pixels, names, *told, digest=digest)
    return ImageSet(pixels, tuple(names), labels, tuple(classes), source, mark, tuple(skipped))


def fingerprint(
    pixels: NDArray[Any],
    names: Sequence[str],
    labels: NDArray[np.int64] | None,
    classes: Sequence[str],
    *,
    digest: str | None = None,
) -> str:
    """Return the hex hash of an ImageSet's content, for its `fingerprint`.

    digest: the pixels' `pixel_digest`, if it is already known.
    """
    numbers = None if labels is None else labels.tolist()
    digest = pixel_digest(pixels) if digest is None else digest
    content = [list(names), numbers, list(classes), pixels.dtype.str, list(pixels.shape), digest]
    return _hash(content)


def pixel_digest(pixels: NDArray[Any]) -> str:
    """Return the hex hash of an array's bytes in C order, read in parts so that a memory-mapped one stays on disk."""
    hashed = hashlib.blake2b(digest_size=16)
    rows = max(1, (1 << 24) // max(1, pixels[:1].nbytes))
    for start in range(0, len(pixels), rows):
        hashed.update(pixels[start : start + rows].tobytes())
    return hashed.hexdigest()


def printable(name: str) -> str:
    """Return a file name with the bytes that are not UTF-8 and the control characters written as \\xNN."""
    return name if name.isprintable() else "".join(map(_escaped, name))


def _all_printable(names: Sequence[str], what: str, source: str) -> tuple[str, ...]:
    """Return names in print; raise a DataError if two of them, different before, are the same there."""
    shown = tuple(map(printable, names))
    if shown != tuple(names) and len(set(shown)) < len(set(names)):
        twice = next(name for name, number in Counter(shown).items() if number > 1)
        raise DataError(
            f"{source} has two {what} whose names are the same in print: {twice!r}.",
            hint="Call one of them otherwise: control characters and what is not Unicode are written as \\xNN.",
        )
    return shown


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else character


def group_of(name: str) -> str:
    """Return the group of a kind: the part of its name before the first "/", or nothing."""
    return name.split("/")[0] if "/" in name else ""


def numbered(kinds: Sequence[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the kinds as indices, int64 (N,), into their sorted names, and those names."""
    values = sorted(set(kinds))
    number = {value: index for index, value in enumerate(values)}
    return np.array([number[kind] for kind in kinds], dtype=np.int64), tuple(str(value) for value in values)


def _hash(content: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()
