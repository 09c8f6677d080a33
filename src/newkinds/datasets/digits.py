"""The handwritten digits that come with scikit-learn: 1,797 pictures of 8 x 8 pixels, no download."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from newkinds.datasets.dataset import Dataset, Request
from newkinds.errors import unknown_name
from newkinds.images.imageset import ImageSet, fingerprint

PARTS = {"known": range(5), "unsorted": range(5, 10)}
INK = 16  # the published pictures have 17 levels


def digits(part: str, request: Request | None = None) -> ImageSet:
    """Return the digits 0 to 4 ("known") or 5 to 9 ("unsorted"), with their labels; the request is ignored."""
    if part not in PARTS:
        raise unknown_name("part of the digits", part, PARTS)
    data = load_digits()
    items = np.flatnonzero(np.isin(data.target, PARTS[part]))
    pixels = np.rint(data.images[items, None] * (255 / INK)).astype(np.uint8)
    labels = (data.target[items] - PARTS[part].start).astype(np.int64)
    names = tuple(f"digit-{item:04d}" for item in items)
    classes = tuple(map(str, PARTS[part]))
    mark = fingerprint(pixels, names, labels, classes)
    return ImageSet(pixels, names, labels, classes, f"digits:{part}", mark)


DIGITS = Dataset(
    name="digits",
    title="The digits that come with scikit-learn",
    parts={"known": "the digits 0 to 4", "unsorted": "the digits 5 to 9"},
    known="known",
    unsorted="unsorted",
    open=digits,
)
