"""Known and unsorted pictures that are not two different things: the same place, swapped, or sharing pictures."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

import numpy as np

from newkinds.errors import DataError, NewkindsError, UsageError
from newkinds.files import as_path
from newkinds.images.imageset import ImageSet
from newkinds.images.lists import SHOWN, Listing
from newkinds.images.scan import is_hidden
from newkinds.images.sources import Source, files_of, labels_of

NEARLY_ALL = 0.9  # of the unsorted pictures: if as many are known ones, there is nothing to discover


def check_places(known: Source, unsorted: Source) -> None:
    """Raise a DataError if two sources are the same place, one inside the other, or swapped; look at no picture."""
    ours, others = _place_of(known), _place_of(unsorted)
    if ours is not None and others is not None:
        _check_apart(ours, others)
    if _number_of_kinds(known) != 0:
        return
    kinds = _number_of_kinds(unsorted)
    if kinds is not None and kinds >= 2:
        raise DataError(
            f"The known pictures{_where(ours)} have no folders of kinds and no labels, while the unsorted ones"
            f"{_where(others)} are of {kinds} kinds.",
            hint=_swapped(ours, others),
        )


def check_out(out: Path, *sources: Source) -> None:
    """Raise a UsageError if `out` lies in a folder of pictures: the run's own would be found there the next time."""
    for place in map(_place_of, sources):
        if place is None or not place.is_dir():
            continue
        inner, outer = Path(os.path.realpath(out)), Path(os.path.realpath(place))
        if inner.is_relative_to(outer) and not any(map(is_hidden, inner.relative_to(outer).parts)):
            raise UsageError(
                f"{out} lies in {place}, among the pictures: those of its report and figures would be taken for them.",
                hint=f"Choose another --out, outside of {place}.",
            )


def check_shared(known: ImageSet, unsorted: ImageSet) -> str | None:
    """Return a warning if some of the unsorted pictures are also known, by their pixels (or embeddings); None if not.

    Raises a DataError if that holds for NEARLY_ALL of them.
    """
    if known.pixels.shape[1:] != unsorted.pixels.shape[1:]:
        return None
    first: dict[bytes, int] = {}
    for item, mark in enumerate(known.row_keys):
        first.setdefault(mark, item)
    pairs = [(item, first[mark]) for item, mark in enumerate(unsorted.row_keys) if mark in first]
    if not pairs:
        return None
    shown = [_pair_in_words(unsorted.names[item], known.names[twin]) for item, twin in pairs[:SHOWN]]
    more = f" and {len(pairs) - SHOWN:,} more" if len(pairs) > SHOWN else ""
    is_are = "picture is" if len(pairs) == 1 else "pictures are"
    what = (
        f"{len(pairs):,} of {len(unsorted):,} unsorted {is_are} also among the known ones, by content: "
        f"{', '.join(shown)}{more}."
    )
    if len(pairs) >= NEARLY_ALL * len(unsorted):
        raise DataError(
            what, hint="New kinds are looked for among pictures whose kinds are not known: give others as unsorted."
        )
    return f"{what} They are sorted as if their kinds were not known: take them out of one of the two."


def _place_of(source: Source) -> Path | None:
    """Return the file or folder that a source is, None of what is given in memory."""
    return as_path(source) if isinstance(source, str | os.PathLike) else None


def _check_apart(known: Path, unsorted: Path) -> None:
    try:
        ours, theirs = known.resolve(strict=True), unsorted.resolve(strict=True)
    except (OSError, RuntimeError):  # what does not exist is reported when it is opened
        return
    if ours == theirs or os.path.samefile(ours, theirs):
        what = "folder" if ours.is_dir() else "file"
        raise DataError(
            f"The known and the unsorted pictures are the same {what}: {_both(known, unsorted)}.",
            hint="Give pictures of known kinds first, and after them others whose kinds are to be found.",
        )
    if _is_scanned(theirs, ours):
        raise DataError(
            f"The unsorted pictures in {unsorted} lie inside the known ones in {known}, and would be taken for a kind.",
            hint=f"Move {unsorted} out of {known}, or give the folder that holds nothing but the known kinds.",
        )
    if _is_scanned(ours, theirs):
        raise DataError(
            f"The known pictures in {known} lie inside the unsorted ones in {unsorted}, and would be sorted with them.",
            hint=f"Move {known} out of {unsorted}, or give the folder that holds nothing but the unsorted pictures.",
        )


def _is_scanned(inner: Path, outer: Path) -> bool:
    """Return whether a folder is below another one, and not hidden there."""
    if not (inner.is_dir() and inner.is_relative_to(outer)):
        return False
    return not any(map(is_hidden, inner.relative_to(outer).parts))


def _both(first: Path, second: Path) -> str:
    return str(first) if str(first) == str(second) else f"{first} and {second}"


def _where(place: Path | None) -> str:
    return "" if place is None else f" in {place}"


def _number_of_kinds(source: Source) -> int | None:
    """Return of how many kinds a source says its pictures are; None where that cannot be told."""
    if isinstance(source, ImageSet):
        return 0 if source.labels is None else len(set(source.classes) - {""})
    with suppress(NewkindsError, OSError, TypeError, ValueError):  # what is wrong is said when it is opened
        files = files_of(source)
        if isinstance(files, Listing):
            return len(set((files.kinds or {}).values()) - {""})
        if files is not None:
            with os.scandir(files) as entries:
                return sum(entry.is_dir(follow_symlinks=False) and not is_hidden(entry.name) for entry in entries)
        labels = labels_of(source)
        return 0 if labels is None else len(np.unique(labels))
    return None


def _swapped(known: Path | None, unsorted: Path | None) -> str:
    if known is None or unsorted is None:
        return "Are the two swapped? The known pictures come first."
    line = shlex.join(["newkinds", "discover", str(unsorted), str(known)])
    return f"Did you mean {line}? The known pictures come first."


def _pair_in_words(unsorted: str, known: str) -> str:
    return unsorted if unsorted == known else f"{unsorted} ({known})"
