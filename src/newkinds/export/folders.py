"""The unsorted pictures of a run sorted into one folder a kind: as copies, links, or PNG files made from pixels."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from newkinds.assignment import Assignment
from newkinds.datasets import DATASETS, named
from newkinds.errors import RunError, UsageError
from newkinds.export.names import LONGEST, fold, folder_names, safe_component
from newkinds.images import ImageSet, Listing, Source, files_of, open_images, scan
from newkinds.images.decode import encode
from newkinds.progress import Progress
from newkinds.runs import RunFolder
from newkinds.runs.pictures import check_among, remember, unsorted_of

Found = TypeVar("Found")

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
_ROOM = 20  # bytes of a name that are reserved for a unique suffix and .png


@dataclass(frozen=True)
class Plan:
    """What to write: a place below the target for each picture, and its source.

    places: relative paths. sources: files to be copied or linked, or the rows of `images` to be written as PNG.
    """

    places: tuple[str, ...]
    sources: tuple[Path | int, ...]
    images: ImageSet | None
    link: bool

    def write(self, into: Path, progress: Progress) -> None:
        """Make the folder `into` and everything in it."""
        into.mkdir()
        title = (
            "Writing pictures" if self.images is not None else "Linking pictures" if self.link else "Copying pictures"
        )
        with progress.step(title, len(self.places)) as step:
            for place, source in zip(self.places, self.sources, strict=True):
                target = into / place
                target.parent.mkdir(parents=True, exist_ok=True)
                if os.path.lexists(target):  # the target's file system may treat more names as equal than ours
                    raise FileExistsError(errno.EEXIST, "two pictures would have the same name there", place)
                self._put(source, target)
                step.advance()

    def _put(self, source: Path | int, target: Path) -> None:
        if isinstance(source, int):
            assert self.images is not None
            target.write_bytes(encode(self.images.pixels[source], "png"))
        elif self.link:
            target.symlink_to(os.path.abspath(source))
        else:
            shutil.copyfile(source, target)
            with suppress(OSError):  # not every file system keeps times and permissions
                shutil.copystat(source, target)


def plan_folders(
    run: RunFolder,
    found: Assignment,
    called: Sequence[str],
    out: Path,
    *,
    link: bool,
    images: Source | None,
    data: str | Path | None,
    progress: Progress,
) -> Plan:
    """Find the pictures and choose a place for each, or raise an error. Nothing is written.

    called: the name of each kind. images: the pictures, if they are not where the run found them.
    """
    folders = folder_names(called, progress)
    kinds = [folders[kind] for kind in found.labels.tolist()]
    source = run.source("unsorted") if images is None else images
    there = _files_of(source)
    if there is not None:
        if isinstance(there, Path):
            _check_outside(there, out)
        scanned = scan(there, max_pixels=run.settings.images.max_pixels, progress=progress)
        paths = {one.name: one.path for one in scanned.found}
        files = tuple(_looked_up(found.names, paths, run, scanned.source))
        check_among(run, source, data, progress)
        remember(run, images)
        root = there if isinstance(there, Path) else _common_folder(files)
        places = [f"{kind}/{os.path.relpath(file, root)}" for kind, file in zip(kinds, files, strict=True)]
        return Plan(tuple(places), files, None, link)
    opened = _opened(run, source, images is not None, data, progress)
    if opened.is_embedding:
        raise UsageError(
            f"{opened.source} has embeddings, of which no pictures can be made.", hint="Use --to csv or --to jsonl."
        )
    if link:
        raise UsageError(
            f"The pictures of {opened.source} are no files of their own that could be linked to.",
            hint="Use --copy, which writes PNG files.",
        )
    rows = {name: row for row, name in enumerate(opened.names)}
    items = tuple(_looked_up(found.names, rows, run, opened.source))
    check_among(run, source, data, progress)
    remember(run, images)
    return Plan(unique_places(found.names, kinds), items, opened, link)


def unique_places(names: Sequence[str], kinds: Sequence[str]) -> tuple[str, ...]:
    """Return a relative path for the PNG file of each picture: its kind's folder and its name, made safe.

    Folders in the names are kept. If two pictures would get the same place, or one that of a folder, "-2" and so on is
    appended to the later one's name: the same names in the same order get the same places.
    """
    wanted = [(kind, *_safe_parts(name)) for name, kind in zip(names, kinds, strict=True)]
    taken = {fold("/".join(parts[:depth])) for parts in wanted for depth in range(1, len(parts))}
    places = []
    tried: dict[str, int] = {}
    for *above, last in wanted:
        stem = "/".join([*above, last])
        place, number = f"{stem}.png", tried.get(fold(stem), 1)
        while fold(place) in taken:
            number += 1
            place = f"{stem}-{number}.png"
        tried[fold(stem)] = number  # so that a thousand pictures of one name do not take a million tries
        taken.add(fold(place))
        places.append(place)
    return tuple(places)


def _safe_parts(name: str) -> list[str]:
    """Return a picture's name as the components of a path, the last without its suffix if that is one of pictures."""
    parts = [part for part in name.split("/") if part not in ("", ".")] or [""]
    last = PurePosixPath(parts[-1])
    if last.suffix.lower() in _SUFFIXES:
        parts[-1] = last.stem
    return [_cut(safe_component(part)) for part in parts]


def _cut(part: str) -> str:
    return part.encode()[: LONGEST - _ROOM].decode(errors="ignore")


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


def _looked_up(names: Sequence[str], there: Mapping[str, Found], run: RunFolder, where: str) -> Iterator[Found]:
    """Yield the file of each of the run's pictures."""
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
