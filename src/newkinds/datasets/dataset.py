"""The definition of a named data set, and how its files are found below the root folder of all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from newkinds.errors import DataError
from newkinds.images.decode import MAX_PIXELS
from newkinds.images.imageset import ImageSet
from newkinds.images.store import LARGEST
from newkinds.progress import QUIET, Progress

ROOT = "NEWKINDS_DATA"  # the environment variable that names the folder if --data does not


@dataclass(frozen=True)
class Request:
    """Where the data sets are, and in which shape to decode those that are image files.

    root: the folder that holds the publishers' folders, or None. size, channels: what was asked for, None if the data
    set should choose. The rest is as in `newkinds.images.open_images`.
    """

    root: Path | None = None
    size: int | None = None
    channels: int | None = None
    largest: int = LARGEST
    fit: str = "crop"
    max_pixels: int = MAX_PIXELS
    progress: Progress = QUIET


@dataclass(frozen=True)
class Dataset:
    """A data set with a name, in parts.

    title, address: the publisher's name for it and where to get it, "" if it needs no download.
    parts: what each part is. known, unsorted: the part that the bare name means where known or unsorted pictures are
    expected; None if one has to be chosen, in which case `choose` says from what.
    needs: what it needs below the root, in words; the error lists all places that were searched.
    open: reads a part.
    """

    name: str
    title: str
    parts: Mapping[str, str]
    known: str
    unsorted: str | None
    open: Callable[[str, Request], ImageSet]
    address: str = ""
    needs: str = ""
    choose: str = ""


@dataclass(frozen=True)
class Publisher:
    """The publisher of a data set, for finding its files and for errors when they are missing or damaged."""

    title: str
    address: str

    def find(self, places: Sequence[str], request: Request) -> Path:
        """Return the first of `places`, paths below the root, that exists."""
        if request.root is None:
            raise DataError(
                f"{self.title} is known by its name, but not the folder that it lies in.",
                hint=f"Say it with --data ROOT or the variable {ROOT}. It is to be had at {self.address}",
            )
        if not request.root.is_dir():
            raise DataError(
                f"{self.title} was looked for in {request.root}, which is not a folder.",
                hint=f"Give --data or the variable {ROOT} the folder that the data sets lie in.",
            )
        for place in places:
            if (request.root / place).exists():
                return request.root / place
        raise self.error(f"{self.title} is not in {request.root}: looked for {' or '.join(places)}.")

    def error(self, what: str) -> DataError:
        """Return the error for a copy of the data that cannot be used."""
        return DataError(what, hint=f"Unpack the publisher's own copy there: {self.address}")

    def damaged(self, path: Path, why: str) -> DataError:
        """Return the error for a file that is not what the publisher made."""
        return self.error(f"{path} is not as it was published: {why}.")


def data_root(data: str | Path | None) -> Path | None:
    """Return the folder of the data sets: `data`, otherwise the variable NEWKINDS_DATA, otherwise None."""
    chosen = os.environ.get(ROOT) if data is None else data
    return Path(chosen).expanduser() if chosen else None
