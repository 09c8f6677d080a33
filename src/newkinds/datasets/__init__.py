"""Data sets by name, `NAME` or `NAME:PART`, which are taken wherever a folder is."""

from __future__ import annotations

from pathlib import Path

from newkinds.datasets.cifar import DATASET10, DATASET100
from newkinds.datasets.dataset import ROOT, Dataset, Request, data_root
from newkinds.datasets.digits import DIGITS
from newkinds.datasets.imagenet import IMAGENET
from newkinds.datasets.letters import LETTERS
from newkinds.datasets.omniglot import OMNIGLOT
from newkinds.datasets.svhn import SVHN
from newkinds.errors import UsageError
from newkinds.images.decode import MAX_PIXELS
from newkinds.images.imageset import ImageSet
from newkinds.images.store import LARGEST
from newkinds.progress import QUIET, Progress

DATASETS: dict[str, Dataset] = {
    one.name: one
    for one in (
        DIGITS,
        LETTERS,
        OMNIGLOT,
        DATASET10,
        DATASET100,
        SVHN,
        IMAGENET,
    )
}


def named(
    source: object,
    *,
    labelled: bool = False,
    data: str | Path | None = None,
    size: int | None = None,
    channels: int | None = None,
    largest: int = LARGEST,
    fit: str = "crop",
    max_pixels: int = MAX_PIXELS,
    progress: Progress = QUIET,
) -> ImageSet | None:
    """Return the set of pictures called `source`, or None if it is not a NAME or NAME:PART known here.

    A bare name means the paper's labelled part if `labelled`, otherwise its unlabelled part; a folder of that name
    takes precedence. NAME:PART always means the data set, and a `Path` never does.

    data: the folder that holds the data sets, default $NEWKINDS_DATA. size, channels: what data sets that are published
    as image files are resized to; arrays are not resized. The rest is as in `newkinds.images.open_images`.
    """
    if not isinstance(source, str) or not is_named(source):
        return None
    name, colon, part = source.partition(":")
    dataset = DATASETS[name]
    if not colon:
        part = _default_part(dataset, labelled)
    return dataset.open(part, Request(data_root(data), size, channels, largest, fit, max_pixels, progress))


def is_named(source: object) -> bool:
    """Return whether `named` opens what is called `source`."""
    if not isinstance(source, str):
        return False
    name, colon, _ = source.partition(":")
    return name in DATASETS and (bool(colon) or not Path(source).exists())


def _default_part(dataset: Dataset, labelled: bool) -> str:
    chosen = dataset.known if labelled else dataset.unsorted
    if chosen is None:
        raise UsageError(
            f"{dataset.name!r} has several parts to discover kinds in. {dataset.choose}",
            hint=f"Say which, as {dataset.name}:PART.",
        )
    return chosen


__all__ = ["DATASETS", "ROOT", "Dataset", "is_named", "named"]
