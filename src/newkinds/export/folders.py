"""The unsorted pictures of a run sorted into one folder a kind: as copies, links, or PNG files made from pixels."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from newkinds.errors import UsageError
from newkinds.export.names import LONGEST, fold, safe_component
from newkinds.export.pictures import Files, Rows
from newkinds.images import ImageSet
from newkinds.images.decode import encode
from newkinds.progress import Progress

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


def plan_folders(pictures: Files | Rows, names: Sequence[str], folders: Sequence[str], *, link: bool) -> Plan:
    """Choose a place for each picture, or raise an error. Nothing is written.

    names: of the pictures. folders: the one that each picture goes to.
    """
    if isinstance(pictures, Files):
        places = [
            f"{folder}/{os.path.relpath(file, pictures.root)}"
            for folder, file in zip(folders, pictures.paths, strict=True)
        ]
        return Plan(tuple(places), pictures.paths, None, link)
    if link:
        raise UsageError(
            f"The pictures of {pictures.images.source} are no files of their own that could be linked to.",
            hint="Use --copy, which writes PNG files.",
        )
    return Plan(unique_places(names, folders), pictures.rows, pictures.images, link)


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
