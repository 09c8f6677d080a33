"""Data sets that are published as image files, one folder a class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.datasets.dataset import Publisher, Request
from newkinds.errors import UsageError
from newkinds.images.decoding import MEMORY_MB, Decoding, Options
from newkinds.images.imageset import Skipped
from newkinds.images.scan import Found


@dataclass(frozen=True)
class Decoded:
    """Pixels uint8 (N, C, H, W), the names of those N pictures, what was skipped, and the pixels' digest if known."""

    pixels: NDArray[np.uint8]
    names: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    digest: str | None


def decode_folders(folders: dict[str, Path], suffix: str, size: int, channels: int, request: Request) -> Decoded:
    """Decode the pictures in some folders; a picture is named by its folder's key here, a slash and its file name.

    folders: name to path, read in that order; in each, the files that end in `suffix`, in order of their names.
    size, channels: of the result. Pixels that do not fit into memory are memory-mapped, as for any folder.
    """
    if size < 1:
        raise UsageError(f"size={size} should be >= 1.")
    if channels not in (1, 3):
        raise UsageError(f"channels={channels} should be 1 or 3.")
    # Headers are not read: the shape is known, and a large data set has a million files.
    files = [
        Found(folder / file, f"{name}/{file}", size, size, channels)
        for name, folder in folders.items()
        for file in _listed(folder, suffix)
    ]
    options = Options(request.fit, request.max_pixels, MEMORY_MB, None, None, request.progress)
    decoding = Decoding(files, size, channels, options)
    pixels, dropped, digest = decoding.into_memory() if decoding.fits_in_memory else decoding.into_file()
    gone = {one.name for one in dropped}
    names = tuple(file.name for file in files if file.name not in gone)
    return Decoded(pixels, names, tuple(dropped), digest)


def subfolders(folder: Path, publisher: Publisher) -> dict[str, Path]:
    """Return the folders in a folder, by name, in order of their names."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise publisher.damaged(folder, f"it cannot be read ({error.strerror})") from error
    return {name: folder / name for name in names}


def _listed(folder: Path, suffix: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from sorted(e.name for e in entries if e.name.endswith(suffix) and not e.name.startswith("."))
