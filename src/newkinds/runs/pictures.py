"""Opening pictures for a finished run: new ones in the shape that its model takes, and its own unsorted ones again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from newkinds.cache import Cache
from newkinds.datasets import named
from newkinds.errors import RunError
from newkinds.images import Source, in_memory, open_images
from newkinds.images.imageset import ImageSet, fingerprint
from newkinds.images.lists import list_from_json, relocated
from newkinds.networks.files import network_about
from newkinds.progress import Progress
from newkinds.runs import names
from newkinds.runs.folder import RunFolder
from newkinds.runs.results import read_assignment

Which = Literal["known", "unsorted"]


def source_of(run: RunFolder, images: Source | None = None, which: Which = "unsorted") -> Source:
    """Return where a run's pictures are: where they are said to be now, or where the run found them.

    A grown run has a list of its own, over several weeks: `images` or, if that was remembered, a folder is where those
    are looked for that are not in their place any more. Others have the pictures themselves.
    """
    for own in (names.pictures(which), names.pictures(which, files=False)):
        if run.lists(own):
            place = run.sources.get(which, "") if images is None else images
            if own.endswith(".npz") or not (isinstance(place, str | os.PathLike) and Path(place).is_dir()):
                return str(run.path / own)
            return relocated(list_from_json(run.path / own, labelled=which == "known"), Path(place))
    return run.source(which) if images is None else images


def open_for(
    run: RunFolder,
    source: Source,
    data: str | Path | None,
    progress: Progress,
    *,
    labelled: bool = False,
    cache: Cache | None = None,
) -> ImageSet:
    """Open pictures in the shape that a run's model takes. data: the folder of named data sets.

    labelled, cache: as in `open_images`.
    """
    about = network_about(run.get(names.NETWORK), str(run.path / names.NETWORK))
    options = run.settings.images
    shape: dict[str, Any] = {
        "size": None if about["network"] == "identity" else about["size"],
        "channels": about["channels"],
        "fit": options.fit,
        "max_pixels": options.max_pixels,
        "progress": progress,
    }
    named_set = named(source, labelled=labelled, data=data, **shape)
    return open_images(named_set or source, labelled=labelled, cache=cache, **shape)


def unsorted_of(run: RunFolder, data: str | Path | None, progress: Progress, images: Source | None = None) -> ImageSet:
    """Reopen a run's unsorted pictures: `images`, if given, which is remembered, otherwise where the run found them."""
    source = source_of(run, images)
    if isinstance(source, str) and in_memory(source):
        raise RunError(
            f"The unsorted pictures of the run in {run.path} were given in memory ({source}).",
            hint="Give them again, in Python, with images=.",
        )
    opened = open_for(run, source, data, progress)
    if not _are_those_of(run, opened):
        raise _others(run, opened)
    remember(run, images)
    return opened


def is_remembered(images: Source | None) -> bool:
    """Return whether pictures that were given lie in a place that a run can remember."""
    return isinstance(images, str | os.PathLike)


def remember(run: RunFolder, images: Source | None) -> None:
    """Let a run that is open for writing remember where its unsorted pictures are, if it was told."""
    if isinstance(images, str | os.PathLike):
        run.remember("unsorted", os.path.abspath(images) if os.path.exists(images) else os.fspath(images))


def check_among(run: RunFolder, source: Source, data: str | Path | None, progress: Progress) -> None:
    """Raise an error unless a run's unsorted pictures are among those of a source, unchanged."""
    opened = open_for(run, source, data, progress)
    if _are_those_of(run, opened):
        return
    row, wanted = {name: number for number, name in enumerate(opened.names)}, read_assignment(run).names
    if all(name in row for name in wanted):
        pixels = opened.pixels[[row[name] for name in wanted]]
        if fingerprint(pixels, wanted, None, ()) == run.data["unsorted"]["fingerprint"]:
            return
    raise _others(run, opened)


def _are_those_of(run: RunFolder, images: ImageSet) -> bool:
    """Return whether pictures are a run's: not by names alone, as those of an array are numbers, and others change."""
    return bool(images.fingerprint == run.data["unsorted"]["fingerprint"])


def _others(run: RunFolder, opened: ImageSet) -> RunError:
    wanted = read_assignment(run).names
    return RunError(
        f"The pictures in {opened.source} are not, or no longer, those of the run in {run.path}: "
        f"{_difference(opened.names, wanted)}.",
        hint="Say where they are with --images, put them back, or run `newkinds discover` again with another --out.",
    )


def _difference(there: Sequence[str], wanted: Sequence[str]) -> str:
    """Return in words how the pictures of a run differ from those that are there."""
    missing, more = sorted(set(wanted) - set(there)), sorted(set(there) - set(wanted))
    if missing:
        return f"{len(missing):,} of {len(wanted):,} are missing, such as {missing[0]!r}"
    if more:
        return f"there are {len(more):,} others, such as {more[0]!r}"
    return "they have the same names, and other pixels"
