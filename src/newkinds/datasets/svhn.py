"""SVHN: house numbers, cropped to single digits, 32 x 32 in colour, published as a MATLAB file.

The paper's split: the digits 0 to 4 are labelled, 5 to 9 are to be discovered. The training file only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from newkinds.datasets.dataset import Dataset, Publisher, Request
from newkinds.errors import unknown_name
from newkinds.images.imageset import ImageSet, fingerprint

PUBLISHER = Publisher("SVHN", "http://ufldl.stanford.edu/housenumbers/")
PLACES = ("svhn/train_32x32.mat", "SVHN/train_32x32.mat", "train_32x32.mat")
PARTS = {"labelled": range(5), "unlabelled": range(5, 10)}
SIZE = 32


def svhn(part: str, request: Request) -> ImageSet:
    """Return the training pictures of a part's digits, (N, 3, 32, 32), in the published order."""
    if part not in PARTS:
        raise unknown_name("part of SVHN", part, PARTS)
    path = PUBLISHER.find(PLACES, request)
    published, digits = _read(path)
    items = np.flatnonzero(np.isin(digits, PARTS[part]))
    if not len(items):
        raise PUBLISHER.damaged(path, f"it has no digit of {PARTS[part][0]} to {PARTS[part][-1]}")
    pixels = np.ascontiguousarray(published[..., items].transpose(3, 2, 0, 1))
    labels = digits[items] - PARTS[part].start
    names = tuple(f"train-{item:05d}" for item in items)
    classes = tuple(map(str, PARTS[part]))
    mark = fingerprint(pixels, names, labels, classes)
    return ImageSet(pixels, names, labels, classes, f"svhn:{part}", mark)


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the pixels as published, uint8 (32, 32, 3, N), and the digits, int64 (N,)."""
    try:
        content: dict[str, Any] = loadmat(path, variable_names=("X", "y"))
    except MemoryError as error:
        raise PUBLISHER.damaged(path, "it needs more memory than there is") from error
    except Exception as error:  # on broken bytes, scipy may raise anything
        raise PUBLISHER.damaged(path, f"it is cut short or broken ({type(error).__name__}: {error})") from error
    pixels, labels = content.get("X"), content.get("y")
    if not isinstance(pixels, np.ndarray) or not isinstance(labels, np.ndarray):
        raise PUBLISHER.damaged(path, "it does not hold the arrays X and y")
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[:3] != (SIZE, SIZE, 3):
        raise PUBLISHER.damaged(path, f"X is {pixels.dtype} {pixels.shape}, not uint8 ({SIZE}, {SIZE}, 3, N)")
    if labels.dtype.kind not in "iuf" or labels.size != pixels.shape[3]:
        raise PUBLISHER.damaged(path, f"y is {labels.dtype} {labels.shape}, not a digit for each of {pixels.shape[3]}")
    if not np.isin(labels, np.arange(11)).all():
        raise PUBLISHER.damaged(path, "y has other values than the digits 1 to 9 and 10 for 0")
    return pixels, labels.reshape(-1).astype(np.int64) % 10


SVHN = Dataset(
    name="svhn",
    title=PUBLISHER.title,
    parts={"labelled": "the digits 0 to 4", "unlabelled": "the digits 5 to 9"},
    known="labelled",
    unsorted="unlabelled",
    open=svhn,
    address=PUBLISHER.address,
    needs="svhn/train_32x32.mat or train_32x32.mat",
)
