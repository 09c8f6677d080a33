"""Where the pictures of a run are: files of their own, or rows of an array."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from newkinds.assignment import Assignment
from newkinds.datasets import DATASETS, named
from newkinds.errors import RunError, UsageError
from newkinds.images import ImageSet, Listing, Source, files_of, open_images, scan
from newkinds.progress import Progress
from newkinds.runs import RunFolder
from newkinds.runs.pictures import check_among, remember, source_of, unsorted_of

Item = TypeVar("Item")


@dataclass(frozen=True)
class Files:
    """Pictures that are files: their paths, the folder that all of them are in, and width and height of each."""

    paths: tuple[Path, ...]
    root: str
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Rows:
    """Pictures that are rows of an array, or of a data set."""

    images: ImageSet
    rows: tuple[int, ...]


def find_pictures(
    run: RunFolder, found: Assignment, out: Path, images: Source | None, data: str | Path | None, progress: Progress
) -> Files | Rows:
    """Return where the run's pictures are, after making sure that they are those of the run; write nothing.

    out: where the export goes, which must not lie among them. images: the pictures, if they have moved.
    """
    source = source_of(run, images)
    there = _files_of(source)
    pictures: Files | Rows
    if there is not None:
        if isinstance(there, Path):
            _check_outside(there, out)
        scanned = scan(there, max_pixels=run.settings.images.max_pixels, progress=progress)
        files = tuple(_looked_up(found.names, {one.name: one for one in scanned.found}, run, scanned.source))
        paths = tuple(one.path for one in files)
        root = str(there) if isinstance(there, Path) else _common_folder(paths)
        pictures = Files(paths, root, tuple((one.width, one.height) for one in files))
    else:
        opened = _opened(run, source, images is not None, data, progress)
        if opened.is_embedding:
            raise UsageError(
                f"{opened.source} has embeddings, of which no pictures can be made.", hint="Use --to csv or --to jsonl."
            )
        rows = {name: row for row, name in enumerate(opened.names)}
        pictures = Rows(opened, tuple(_looked_up(found.names, rows, run, opened.source)))
    check_among(run, source, data, progress)
    remember(run, images)
    return pictures


def _files_of(source: Source) -> Path | Listing | None:
    """Return a source as a folder or a list of pictures, if it is one and exists."""
    if isinstance(source, str | Path) and not Path(source).exists():
        return None
    if isinstance(source, str) and ":" in source and source.partition(":")[0] in DATASETS:
        return None
    files = files_of(source)
    return None if isinstance(files, Path) and not files.is_dir() else files


def _common_folder(files: Sequence[Path]) -> str:
    """Return the innermost folder that contains all files: paths relative to it cannot leave the target."""
    return os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])


def _opened(run: RunFolder, source: Source, elsewhere: bool, data: str | Path | None, progress: Progress) -> ImageSet:
    """Open pictures that are not in a folder."""
    if elsewhere:
        return named(source, data=data, progress=progress) or open_images(source, progress=progress)
    assert isinstance(source, str)
    if source.partition(":")[0] not in DATASETS and not Path(source).exists():
        raise RunError(
            f"The pictures of the run in {run.path} came from {source}, which is not there.",
            hint="Say where they are with --images, or put them back. From Python, give them as `images`.",
        )
    return unsorted_of(run, data, progress)


def _looked_up(names: Sequence[str], there: Mapping[str, Item], run: RunFolder, where: str) -> Iterator[Item]:
    """Yield what is there of each of the run's pictures."""
    missing = [name for name in names if name not in there]
    if missing:
        raise RunError(
            f"{len(missing)} of the {len(names)} pictures of the run in {run.path} are not in {where}, such as "
            f"{missing[0]!r}.",
            hint="Put them back, or run `newkinds discover` again with another --out.",
        )
    return (there[name] for name in names)


def _check_outside(root: Path, out: Path) -> None:
    """Refuse a target inside the folder of pictures: they would be found twice, and no longer match the run."""
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(root)):
        raise UsageError(
            f"{out} lies in {root}, among the pictures that are to be exported.", hint="Choose another --out."
        )
