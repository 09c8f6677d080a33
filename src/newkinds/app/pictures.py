"""The pictures of a run, to be looked at: decoded and encoded again, never the bytes of a file as they are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from newkinds.datasets import is_named
from newkinds.errors import DataError, RunError
from newkinds.images import ImageSet, Listing, Source, files_of, in_memory
from newkinds.images.decode import MAX_PIXELS, WITHIN, ImageError, decode, encode, fit_pixels, probe
from newkinds.images.scan import file_bytes, named_files
from newkinds.progress import Progress
from newkinds.runs import RunFolder
from newkinds.runs.pictures import open_for, source_of

THUMB = 192  # pixels of a thumbnail's side
LARGEST = 2048  # pixels of the longer side of an enlarged picture
KEPT = 64_000_000  # bytes of thumbnails in memory
LOOKED_FOR = 20  # pictures that are looked for to tell whether a folder is the run's


class MissingError(Exception):
    """A picture cannot be shown. The message says why, for people."""


@dataclass(frozen=True)
class Encoded:
    """A picture to be sent: its bytes, and what they are."""

    data: bytes
    media_type: str


class Pictures:
    """N pictures by their rows, from a folder, a list, or an array; or no pictures at all.

    names: of the pictures, as the run has them. what: a folder, or a list of files, or pixels, or None where there are
    no pictures, as with embeddings.
    """

    def __init__(
        self, names: Sequence[str], what: Path | Listing | ImageSet | None, *, max_pixels: int = MAX_PIXELS
    ) -> None:
        self.names = names
        self._what = what
        self._max_pixels = max_pixels
        self._kept: OrderedDict[int, Encoded] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self._files: dict[str, Path] | None = None
        if isinstance(what, Listing):
            self._files = dict(zip(what.names, what.paths, strict=True))
        self._rows = {name: row for row, name in enumerate(what.names)} if isinstance(what, ImageSet) else {}

    @property
    def are_there(self) -> bool:
        """Whether there is anything to look at."""
        return self._what is not None and not (isinstance(self._what, ImageSet) and self._what.is_embedding)

    def path(self, row: int) -> Path | None:
        """Return the file of a picture, be it there or not; None of one that is no file of its own."""
        name = self.names[row]
        if isinstance(self._what, Path):
            if "\\" in name:  # bytes that cannot be printed: only a look at the folder tells
                with self._lock:
                    self._files = named_files(self._what) if self._files is None else self._files
                return self._files.get(name)
            below = PurePosixPath(name)
            return None if below.is_absolute() or ".." in below.parts else self._what / below
        return None if self._files is None else self._files.get(name)

    def is_there(self, row: int) -> bool:
        """Return whether a picture can be shown."""
        try:
            self.thumbnail(row)
        except MissingError:
            return False
        return True

    def thumbnail(self, row: int) -> Encoded:
        """Return a small square of a picture; one that is smaller stays as it is. Raises a MissingError."""
        with self._lock:
            if row in self._kept:
                self._kept.move_to_end(row)
                return self._kept[row]
        made = self._thumbnail(row)
        with self._lock:
            if row not in self._kept:
                self._kept[row] = made
                self._bytes += len(made.data)
            while self._bytes > KEPT and len(self._kept) > 1:
                self._bytes -= len(self._kept.popitem(last=False)[1].data)
        return made

    def whole(self, row: int) -> Encoded:
        """Return a whole picture, its longer side at most LARGEST pixels. Raises a MissingError."""
        pixels = self._pixels(row)
        if pixels is not None:
            return _encoded(pixels)
        try:
            with file_bytes(self._file(row)) as data:
                found = decode(data, size=LARGEST, channels=3, max_pixels=self._max_pixels, fit=WITHIN)
        except ImageError as error:
            raise MissingError(error.message) from error
        return _encoded(found)

    def _thumbnail(self, row: int) -> Encoded:
        pixels = self._pixels(row)
        if pixels is not None:
            small = max(pixels.shape[1:]) <= THUMB
            return _encoded(pixels if small else fit_pixels(pixels, size=THUMB, channels=len(pixels)))
        file = self._file(row)
        try:
            header = probe(file, max_pixels=self._max_pixels)
            size = None if max(header.width, header.height) <= THUMB else THUMB
            with file_bytes(file) as data:
                found = decode(data, size=size, channels=header.channels, max_pixels=self._max_pixels)
        except ImageError as error:
            raise MissingError(error.message) from error
        return _encoded(found)

    def _pixels(self, row: int) -> NDArray[np.uint8] | None:
        """Return the pixels (C, H, W) of a picture that is in memory, None of a file."""
        if not self.are_there:
            raise MissingError("there are no pictures: the run was given in memory, or as embeddings")
        if not isinstance(self._what, ImageSet):
            return None
        place = self._rows.get(self.names[row])
        if place is None:
            raise MissingError("it is not among the pictures any more")
        pixels: NDArray[np.uint8] = self._what.pixels[place]
        return pixels

    def _file(self, row: int) -> Path:
        file = self.path(row)
        if file is None or not file.is_file():
            raise MissingError("the file is not there any more")
        return file


def open_pictures(
    run: RunFolder, names: Sequence[str], images: Source | None, data: str | Path | None, progress: Progress
) -> Pictures:
    """Return the pictures of a run: where it found them, or where they are said to be now.

    Raises a RunError if they have moved, or are said to be where none of them is.
    """
    source = source_of(run, images)
    limit = run.settings.images.max_pixels
    if isinstance(source, str) and in_memory(source):
        progress.warn("The pictures of this run were given in memory: their names are shown, not the pictures.")
        return Pictures(names, None)
    try:
        files = None if is_named(source) else files_of(source)
        if isinstance(files, Path) and not files.is_dir():
            raise DataError(f"{files} does not exist.")
        pictures = Pictures(names, open_for(run, source, data, progress) if files is None else files, max_pixels=limit)
    except DataError as error:
        raise RunError(
            f"The pictures of {run.path} cannot be opened: {error.message}",
            hint="Say where they are now with --pictures FOLDER; that is remembered.",
        ) from error
    if images is not None and pictures.are_there:
        _check_theirs(pictures, run, str(images))
    return pictures


def _check_theirs(pictures: Pictures, run: RunFolder, where: str) -> None:
    """Raise a RunError if none of some pictures of the run is there."""
    rows = range(0, len(pictures.names), max(1, len(pictures.names) // LOOKED_FOR))
    if any(pictures.is_there(row) for row in rows):
        return
    raise RunError(
        f"{where} has none of the pictures of {run.path}, such as {pictures.names[0]!r}.",
        hint="Give the folder, list or file in which the run found them, where it is now.",
    )


def _encoded(pixels: NDArray[np.uint8]) -> Encoded:
    """Return pixels (C, H, W) as PNG where they are few, which shows every one, and as JPEG otherwise."""
    if max(pixels.shape[1:]) <= THUMB // 2:
        return Encoded(encode(pixels, "png"), "image/png")
    return Encoded(encode(pixels, "jpeg", quality=85), "image/jpeg")
