"""The pictures of a run that another one goes on from, where they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.cache import Cache
from newkinds.datasets import is_named
from newkinds.errors import DataError, RunError
from newkinds.images import Listing, Source, files_of, in_memory
from newkinds.images.imageset import ImageSet, fingerprint
from newkinds.images.scan import named_files
from newkinds.progress import Progress
from newkinds.runs import RunFolder
from newkinds.runs.pictures import Which, open_for, source_of

SHOWN = 3
Files = tuple[Path | None, ...]


@dataclass(frozen=True)
class Elsewhere:
    """Where the pictures of the earlier run are now, if they have moved or were given in memory."""

    known: Source | None = None
    unsorted: Source | None = None
    data: str | Path | None = None

    @property
    def given(self) -> dict[str, Source]:
        """The pictures of which it was said where they are now."""
        sources = {"known": self.known, "unsorted": self.unsorted}
        return {which: source for which, source in sources.items() if source is not None}


@dataclass(frozen=True, eq=False)
class Part:
    """Pictures of one source that a grown run takes, and the file of each, None of what is none.

    rows: which of the earlier run's pictures they are, int64 (n,). intact: whether all are as that run saw them.
    """

    images: ImageSet
    files: Files
    rows: NDArray[np.int64]
    intact: bool = True


def open_earlier(
    run: RunFolder,
    which: Which,
    elsewhere: Source | None,
    data: str | Path | None,
    cache: Cache | None,
    progress: Progress,
    wanted: Sequence[str] | None = None,
) -> Part:
    """Open a run's pictures where they are now; what is not there any more is said, and left out.

    wanted: the names of the pictures of the run, None: all that are there.
    """
    source = source_of(run, elsewhere, which)
    option = "--known" if which == "known" else "--pictures"
    if isinstance(source, str) and in_memory(source):
        raise RunError(
            f"The {which} pictures of the run in {run.path} were given from memory ({source}).",
            hint=f"Give them again, in Python, with {option.removeprefix('--')}=.",
        )
    try:
        images = open_for(run, source, data, progress, labelled=which == "known", cache=cache)
    except DataError as error:
        raise RunError(
            f"The {which} pictures of {run.path} cannot be opened: {error.message}",
            hint=f"Give their new place with {option} FOLDER.",
        ) from error
    row = {name: number for number, name in enumerate(images.names)}
    wanted = images.names if wanted is None else wanted
    rows = np.array([number for number, name in enumerate(wanted) if name in row], dtype=np.int64)
    gone = [name for name in wanted if name not in row]
    if gone:
        if len(rows) == 0:
            raise RunError(
                f"None of the {len(wanted):,} {which} pictures of {run.path} is in {images.source}: "
                f"{gone[0]!r}, for example, is not there.",
                hint=f"Give their new place with {option} FOLDER.",
            )
        progress.warn(
            f"{len(gone):,} of the {len(wanted):,} {which} pictures of {run.path} are missing and are "
            f"left out: {some_of(gone)}. What was said about them stays in that run."
        )
    picked = images.select([row[wanted[number]] for number in rows.tolist()])
    intact = not gone and _is_same(run, which, picked)
    if not gone and not intact:
        progress.warn(f"The {which} pictures in {images.source} have changed since {run.path} was made.")
    files = picture_files(images, source)
    return Part(picked, tuple(files[row[name]] for name in picked.names), rows, intact)


def _is_same(run: RunFolder, which: Which, images: ImageSet) -> bool:
    """Return whether pictures are those that a run saw, all of them and in the same order."""
    told = run.data[which]["fingerprint"]
    if which == "unsorted":
        return bool(fingerprint(images.pixels, images.names, None, ()) == told)
    if "grown" in run.data:  # beside the known ones it had those of open kinds
        told = run.data["grown"]["known"]
    return bool(fingerprint(images.pixels, images.names, images.labels, images.classes) == told)


def picture_files(images: ImageSet, source: Source) -> Files:
    """Return the file of each picture, None of those that are rows of an array or of a data set."""
    files = None if is_named(source) or isinstance(source, ImageSet) else files_of(source)
    if files is None:
        return (None,) * len(images)
    there = dict(zip(files.names, files.paths, strict=True)) if isinstance(files, Listing) else named_files(Path(files))
    return tuple(there[name].absolute() for name in images.names)


def some_of(things: Sequence[str]) -> str:
    more = f" and {len(things) - SHOWN:,} more" if len(things) > SHOWN else ""
    return ", ".join(map(repr, things[:SHOWN])) + more
