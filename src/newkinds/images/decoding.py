"""Decode pictures once, in parallel, into memory or a memory-mapped cache file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.cache import Cache, Space, cache_folder, cache_limit, row_key, trim
from newkinds.errors import DataError
from newkinds.files import replacing, sealed, unsealed
from newkinds.images.decode import ImageError, decode
from newkinds.images.imageset import Skipped
from newkinds.images.scan import Found, Item, Result, file_bytes, in_threads
from newkinds.memory import free_memory
from newkinds.progress import Progress

MEMORY_MB = 2048  # of decoded pixels; a larger set goes to a file
DECODE_VERSION = 1  # raise it when decode() returns other pixels, so that older cache files are not used
LARGE = 1 << 16  # pixels of a file from which decoding takes longer than reading the cache

_MAGIC = b"newkinds"


@dataclass(frozen=True)
class Options:
    """How to decode, as `load` takes it."""

    fit: str
    max_pixels: int
    memory_mb: int
    cache_dir: Path | None
    workers: int | None
    progress: Progress
    cache: Cache = field(default_factory=Cache)


@dataclass(frozen=True)
class Decoding:
    """Decodes the pictures of some files, into memory or into a cache file.

    A cache file holds the pixels, a footer in JSON, the footer's length (8 bytes) and a magic word. Its name is the
    hash of all that the pixels depend on; pixels and footer are hashed, too, and compared before they are used again.
    """

    files: Sequence[Found]
    size: int
    channels: int
    options: Options

    @property
    def row(self) -> tuple[int, int, int]:
        return self.channels, self.size, self.size

    @property
    def n_bytes(self) -> int:
        return len(self.files) * self.channels * self.size**2

    @property
    def fits_in_memory(self) -> bool:
        free = free_memory()
        most = self.options.memory_mb * 2**20
        return self.n_bytes <= (most if free is None else min(most, free[0] // 2))

    def into_memory(self) -> tuple[NDArray[np.uint8], list[Skipped], None]:
        pixels = np.empty((len(self.files), *self.row), dtype=np.uint8)
        free = iter(pixels)
        about = [DECODE_VERSION, version("pillow"), *self.row, self.options.fit, self.options.max_pixels]
        with self.options.cache.space("pixels", about) as space:
            dropped = self.decode_all(lambda picture: np.copyto(next(free), picture), space=space)
        return pixels[: len(pixels) - len(dropped)], dropped, None

    def into_file(self) -> tuple[NDArray[np.uint8], list[Skipped], str]:
        """Map the cache file of these pictures, after writing it if it is not there; also return the pixels' digest."""
        folder = self.options.cache_dir or cache_folder()
        if folder is None:
            raise DataError(
                f"The decoded pictures take {self.n_bytes >> 20:,} MB, over memory_mb={self.options.memory_mb}, and "
                "there is no cache to write them to: NEWKINDS_CACHE is empty.",
                hint="Set NEWKINDS_CACHE to a folder with room, or raise memory_mb.",
            )
        hashes = self.hash_all()
        key = self.key(hashes)
        path = folder / f"{key}.pixels"
        if not _is_whole(path, key):
            try:
                self.write(path, key, hashes)
            except OSError as error:
                raise DataError(
                    f"The decoded pictures take {self.n_bytes >> 20:,} MB, over memory_mb={self.options.memory_mb}, "
                    f"and the cache {folder} cannot be written ({error.strerror or error}).",
                    hint="Set NEWKINDS_CACHE to a folder with room, or raise memory_mb.",
                ) from error
        footer = _read_footer(path, key)
        if footer is None:
            raise DataError(f"The cache file {path} does not read back.", hint="Set NEWKINDS_CACHE to another disk.")
        with suppress(OSError):
            os.utime(path)  # used now
        dropped = [Skipped(name, reason) for name, reason in footer["dropped"]]
        shape = (len(self.files) - len(dropped), *self.row)
        if shape[0] == 0:
            return np.empty(shape, dtype=np.uint8), dropped, footer["digest"]
        # Mode "c": torch wants writable arrays; what is written to them never reaches the file.
        return np.asarray(np.memmap(path, np.uint8, mode="c", shape=shape)), dropped, footer["digest"]

    def write(self, path: Path, key: str, hashes: Sequence[str]) -> None:
        """Write the cache file beside its place, sync it and move it there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < self.n_bytes:
            raise OSError(f"it has room for {free >> 20:,} MB")
        with replacing(path) as stream:
            digest = hashlib.blake2b(digest_size=16)

            def keep(picture: NDArray[np.uint8]) -> None:
                data = picture.tobytes()
                digest.update(data)
                stream.write(data)

            dropped = [[one.name, one.reason] for one in self.decode_all(keep, hashes)]
            content = {"key": key, "bytes": stream.tell(), "digest": digest.hexdigest(), "dropped": dropped}
            footer = sealed(content)
            stream.write(footer + len(footer).to_bytes(8, "little") + _MAGIC)
        trim(path.parent, cache_limit(), kept=path)

    def decode_all(
        self, keep: Callable[[NDArray[np.uint8]], None], hashes: Sequence[str] = (), space: Space | None = None
    ) -> list[Skipped]:
        """Pass the pictures to `keep` in order and return those that fail.

        hashes: the files must still have them. space: of the cache, which large pictures are taken from and put into.
        """

        def decoded(item: int) -> NDArray[np.uint8] | Skipped:
            file = self.files[item]
            try:
                with file_bytes(file.path) as data:
                    if hashes and _hash(data) != hashes[item]:
                        hint = "Try again when nothing writes it."
                        raise DataError(f"{file.path} changed while it was read.", hint=hint)
                    is_large = file.width * file.height >= LARGE
                    if space is None or not is_large:
                        return self.decoded(data)
                    return space.get_or_add(row_key(data), lambda: self.decoded(data))
            except ImageError as error:
                return Skipped(file.name, error.message)

        dropped = []
        for result in self.in_threads(decoded, range(len(self.files)), "Decoding pictures"):
            if isinstance(result, Skipped):
                dropped.append(result)
            else:
                keep(result)
        return dropped

    def decoded(self, data: bytes) -> NDArray[np.uint8]:
        """Return the pixels of one file, (channels, size, size)."""
        most, fit = self.options.max_pixels, self.options.fit
        return decode(data, size=self.size, channels=self.channels, max_pixels=most, fit=fit)

    def hash_all(self) -> list[str]:
        """Return a hash of each file's bytes; the reason, of one that cannot be read."""

        def hashed(file: Found) -> str:
            try:
                with file_bytes(file.path) as data:
                    return _hash(data)
            except ImageError as error:
                return error.message

        return list(self.in_threads(hashed, self.files, "Looking for decoded pictures"))

    def in_threads(self, work: Callable[[Item], Result], items: Sequence[Item], title: str) -> Iterator[Result]:
        return in_threads(work, items, self.options.workers, title, self.options.progress)

    def key(self, hashes: Sequence[str]) -> str:
        files = [[file.name, hashed] for file, hashed in zip(self.files, hashes, strict=True)]
        content = [DECODE_VERSION, self.row, self.options.fit, self.options.max_pixels, files]
        return _hash(json.dumps(content).encode())


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _is_whole(path: Path, key: str) -> bool:
    """Return whether a cache file is there with the pixels that were written to it."""
    footer = _read_footer(path, key)
    if footer is None:
        return False
    hashed, left = hashlib.blake2b(digest_size=16), footer["bytes"]
    with suppress(OSError), open(path, "rb") as stream:
        while left and (part := stream.read(min(left, 1 << 20))):
            hashed.update(part)
            left -= len(part)
    return not left and hashed.hexdigest() == footer["digest"]


def _read_footer(path: Path, key: str) -> dict[str, Any] | None:
    """Return the footer of a cache file that is whole, going by its magic word, key and size; otherwise None."""
    try:
        with open(path, "rb") as stream:
            end = stream.seek(-16, os.SEEK_END)
            tail = stream.read()
            start = end - int.from_bytes(tail[:8], "little")
            stream.seek(start)
            footer = unsealed(stream.read(end - start))
        whole = tail[8:] == _MAGIC and footer["key"] == key and footer["bytes"] == start
        whole = whole and {"digest", "dropped"} <= footer.keys()
    except (OSError, ValueError, OverflowError, KeyError, TypeError):
        return None
    return footer if whole else None
