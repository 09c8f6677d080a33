"""CIFAR-10 and CIFAR-100: 50,000 training pictures each, 32 x 32 in colour, published as pickles.

The paper's splits: of CIFAR-10, classes 0 to 4 are labelled and 5 to 9 are to be discovered; of CIFAR-100, 0 to 79 are
labelled, 80 to 89 the probes of Algorithm 2, and 90 to 99 are to be discovered. The test pictures are not used.

The splits of generalized category discovery: half of each of the first 5 or 80 classes is labelled, drawn at random;
the heap is their other half and all pictures of the other classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.datasets.dataset import Dataset, Publisher, Request
from newkinds.datasets.unpickle import UnpickleError, unpickle
from newkinds.errors import unknown_name
from newkinds.images.decode import ImageError
from newkinds.images.imageset import ImageSet, fingerprint
from newkinds.images.scan import read_file
from newkinds.randomness import generator

SIZE = 32
ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar.html"


@dataclass(frozen=True)
class Cifar:
    """CIFAR-10 or CIFAR-100: where its files are, the keys in them, and which classes are in which part.

    halves: the parts of which the first `known` classes have only their labelled half (True) or only the other.
    """

    name: str
    publisher: Publisher
    folder: str
    batches: tuple[str, ...]
    labels: bytes
    meta: str
    class_names: bytes
    parts: dict[str, range]
    n_classes: int
    known: int
    halves: Mapping[str, bool] = field(default_factory=lambda: {"gcd-labelled": True, "gcd-heap": False})


CIFAR10 = Cifar(
    "cifar10",
    Publisher("CIFAR-10", ADDRESS),
    "cifar-10-batches-py",
    tuple(f"data_batch_{number}" for number in range(1, 6)),
    b"labels",
    "batches.meta",
    b"label_names",
    {
        "labelled": range(5),
        "unlabelled": range(5, 10),
        "all": range(10),
        "gcd-labelled": range(5),
        "gcd-heap": range(10),
    },
    10,
    5,
)
CIFAR100 = Cifar(
    "cifar100",
    Publisher("CIFAR-100", ADDRESS),
    "cifar-100-python",
    ("train",),
    b"fine_labels",
    "meta",
    b"fine_label_names",
    {
        "labelled": range(80),
        "probes": range(80, 90),
        "labelled+probes": range(90),
        "unlabelled": range(90, 100),
        "gcd-labelled": range(80),
        "gcd-heap": range(100),
    },
    100,
    80,
)


def cifar(which: Cifar, part: str, request: Request) -> ImageSet:
    """Return the training pictures of a part's classes, (N, 3, 32, 32), in the published order."""
    if part not in which.parts:
        raise unknown_name(f"part of {which.publisher.title}", part, which.parts)
    wanted = which.parts[part]
    # One by one, so that the error names the missing file.
    files = [which.publisher.find((f"{which.folder}/{file}",), request) for file in which.batches]
    classes = _class_names(which, which.publisher.find((f"{which.folder}/{which.meta}",), request))
    batches = [_batch(which, file) for file in files]
    labels = np.concatenate([labels for _, labels in batches])
    chosen = np.isin(labels, wanted)
    if part in which.halves:
        chosen &= (labels >= which.known) | (_labelled_half(which, labels) == which.halves[part])
    ends = np.cumsum([len(labels) for _, labels in batches])[:-1]
    pairs = zip(batches, np.split(chosen, ends), strict=True)
    pixels = np.concatenate([pixels[some] for (pixels, _), some in pairs]).reshape(-1, 3, SIZE, SIZE)
    labels, items = labels[chosen] - wanted.start, np.flatnonzero(chosen)
    if not len(items):
        raise which.publisher.damaged(files[0].parent, f"it has no picture of the classes {wanted[0]} to {wanted[-1]}")
    names = tuple(f"train-{item:05d}" for item in items)
    chosen_classes = classes[wanted.start : wanted.stop]
    mark = fingerprint(pixels, names, labels, chosen_classes)
    return ImageSet(pixels, names, labels, chosen_classes, f"{which.name}:{part}", mark)


def _labelled_half(which: Cifar, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which pictures are of the labelled half of their class, bool (N,), by the labels of all, int64 (N,)."""
    found = np.zeros(len(labels), dtype=bool)
    for number in range(which.known):
        mine = np.flatnonzero(labels == number)
        drawn = generator(0, f"labelled half of {which.name}", number).permutation(mine)
        found[drawn[: len(mine) // 2]] = True
    return found


def _batch(which: Cifar, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the pixels uint8 (N, 3072) and labels int64 (N,) of a file."""
    content = _read(which, path)
    pixels, labels = content.get(b"data"), content.get(which.labels)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (3 * SIZE**2,):
        found = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise which.publisher.damaged(path, f"`data` is {found}, not uint8 (N, {3 * SIZE**2})")
    numbers = _whole_numbers(labels)
    title = which.labels.decode()
    if numbers is None or len(numbers) != len(pixels):
        raise which.publisher.damaged(path, f"`{title}` does not hold a number for each of {len(pixels)} pictures")
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < which.n_classes:
        span = f"{numbers.min()} to {numbers.max()}"
        raise which.publisher.damaged(path, f"`{title}` goes from {span}, not from 0 to {which.n_classes - 1}")
    return pixels, numbers


def _whole_numbers(values: Any) -> NDArray[np.int64] | None:
    """Return labels, a list or an array, as int64 (N,), or None if they are not a sequence of integers."""
    if isinstance(values, np.ndarray):
        return values.astype(np.int64) if values.ndim == 1 and values.dtype.kind in "iu" else None
    if not isinstance(values, list) or not all(type(value) is int and abs(value) < 2**31 for value in values):
        return None
    return np.array(values, dtype=np.int64)


def _class_names(which: Cifar, path: Path) -> tuple[str, ...]:
    names = _read(which, path).get(which.class_names)
    title = which.class_names.decode()
    if not isinstance(names, list) or not all(isinstance(name, bytes | str) for name in names):
        raise which.publisher.damaged(path, f"`{title}` is not a list of names")
    texts = tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names)
    if len(set(texts)) != which.n_classes or len(texts) != which.n_classes:
        raise which.publisher.damaged(path, f"`{title}` has {len(set(texts))} names, not {which.n_classes}")
    return texts


def _read(which: Cifar, path: Path) -> dict[Any, Any]:
    """Return the dict in a file, its keys as bytes: Python 3 may have written them as text."""
    try:
        content = unpickle(read_file(path))
    except (ImageError, UnpickleError) as error:
        raise which.publisher.damaged(path, error.message) from error
    if not isinstance(content, dict):
        raise which.publisher.damaged(path, f"it holds a {type(content).__name__}, not a dict")
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}


def _dataset(which: Cifar, *parts: str) -> Dataset:
    return Dataset(
        name=which.name,
        title=which.publisher.title,
        parts=dict(zip(which.parts, parts, strict=True)),
        known="labelled",
        unsorted="unlabelled",
        open=partial(cifar, which),
        address=ADDRESS,
        needs=f"{', '.join(which.batches)} and {which.meta} in {which.folder}",
    )


DATASET10 = _dataset(
    CIFAR10,
    "classes 0 to 4",
    "classes 5 to 9",
    "all ten classes",
    "half of the pictures of classes 0 to 4",
    "the other half of them, and classes 5 to 9",
)
DATASET100 = _dataset(
    CIFAR100,
    *(f"fine classes {span}" for span in ("0 to 79", "80 to 89", "0 to 89", "90 to 99")),
    "half of the pictures of fine classes 0 to 79",
    "the other half of them, and fine classes 80 to 99",
)
