"""A cache on disk that runs share: rows of arrays, each found by the hash of what it was made from.

Rows of one sort (the features of one network, say) are a *space*, which is a folder. Its files are safetensors, each
with some rows and their keys, named by their own hash, and never changed. So several runs can use a cache at once, and
what is damaged is noticed. Nothing in it can run code, and all of it can be deleted at any time.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, cast

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from newkinds.environment import number_from
from newkinds.errors import RunError
from newkinds.files import TEMPORARY, is_temporary, write_atomic
from newkinds.progress import QUIET, Progress

FOLDER, LIMIT = "NEWKINDS_CACHE", "NEWKINDS_CACHE_MB"  # environment variables
DEFAULT_MB = 10_000
SPACES = ("features", "pixels", "rehearsal", "transfer")
MOST_ROWS, MOST_BYTES = 2048, 1 << 26  # of one file: what a killed run loses at most, and what writing takes in memory

_FILE = re.compile(r"[0-9a-f]{32}\.(safetensors|pixels)")  # `.pixels`: see `newkinds.images.decoding`
_ABANDONED = 24 * 3600.0  # seconds after which an unfinished file counts as left by a killed process


def cache_folder() -> Path | None:
    """Return $NEWKINDS_CACHE, otherwise the folder newkinds in $XDG_CACHE_HOME or ~/.cache; None if it is set to ""."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER]) if os.environ[FOLDER] else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newkinds"


def cache_limit() -> int:
    """Return how many bytes the cache may take: $NEWKINDS_CACHE_MB, by default 10 GB."""
    return int(number_from(LIMIT, DEFAULT_MB, of="megabytes") * 10**6)


def open_cache(progress: Progress = QUIET) -> Cache:
    """Return the cache that the environment says."""
    return Cache(cache_folder(), cache_limit(), progress)


def code_of(*modules: ModuleType) -> str:
    """Return a hash of the source of modules: of what rows depend on, so that no other version's are taken."""
    return row_key("".join(map(inspect.getsource, modules)).encode()).hex()


@functools.cache
def code_of_package() -> str:
    """Return a hash of all of newkinds' source, for what depends on much of it."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return row_key(b"".join(file.read_bytes() for file in files)).hex()


def row_key(data: bytes | memoryview) -> bytes:
    """Return the key of what a row is made from."""
    return hashlib.blake2b(data, digest_size=16).digest()


class Cache:
    """A cache in a folder; without a folder, nothing is found and nothing is kept.

    limit: of its size in bytes, beyond which the files that were not used for longest are removed. What cannot be read
    or written is warned of once: the rows are made anew, and the run goes on.
    """

    def __init__(self, folder: Path | None = None, limit: int = DEFAULT_MB * 10**6, progress: Progress = QUIET) -> None:
        self.folder = folder
        self.limit = limit
        self._progress = progress
        self._warned: set[str] = set()
        self._is_writable = folder is not None

    @contextmanager
    def space(self, name: str, about: Any) -> Iterator[Space]:
        """Open a space; what was added to it is written by the end of the block, also if an error ends it.

        name: one of SPACES. about: JSON values, all that rows depend on beside what their keys are hashes of.
        """
        assert name in SPACES
        told = _hashed(json.dumps(about, sort_keys=True).encode())
        space = Space(self, None if self.folder is None else self.folder / name / told)
        try:
            yield space
        finally:
            space.flush()

    def rows(
        self,
        name: str,
        about: Any,
        keys: Sequence[bytes],
        make: Callable[[NDArray[np.int64]], NDArray[Any]],
        found: Callable[[int], None] = lambda number: None,
    ) -> NDArray[Any]:
        """Return a row for each of N keys, (N, ...), of which `make` makes those that are not there.

        make: from the numbers of keys, int64 (B,) with B at least 1, to their rows (B, ...). found: is told how many
        rows were there.
        """
        result: NDArray[Any] | None = None

        def put(items: Any, rows: NDArray[Any]) -> None:
            nonlocal result
            if result is None:
                result = np.empty((len(keys), *rows.shape[1:]), rows.dtype)
            result[items] = rows

        with self.space(name, about) as space:
            missing = []
            for number, key in enumerate(keys):
                row = space.get(key)
                if row is None:
                    missing.append(number)
                else:
                    put([number], row[None])
            found(len(keys) - len(missing))
            for start in range(0, len(missing), MOST_ROWS):
                part = np.array(missing[start : start + MOST_ROWS], dtype=np.int64)
                rows = make(part)
                put(part, rows)
                for number, row in zip(part, rows, strict=True):
                    space.add(keys[number], row)
        assert result is not None, "no keys"
        return result

    def value(self, name: str, about: Any, make: Callable[[], bytes]) -> bytes:
        """Return the bytes that depend on `about` alone, which `make` makes if they are not there."""
        row = self.rows(name, about, [b"\0" * 16], lambda _: np.frombuffer(make(), np.uint8)[None])
        return row.tobytes()

    def keep(self, file: Path, data: bytes) -> None:
        """Write a file of rows, and make room for it; a cache that cannot be written is left alone from then on."""
        if not self._is_writable or self.folder is None:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(file, data, root=self.folder)
            trim(self.folder, self.limit, kept=file)
        except (OSError, RunError) as error:
            self._is_writable = False
            why = error.message if isinstance(error, RunError) else error.strerror or error
            self.warn(
                f"The cache {self.folder} cannot be written ({why}): what is computed now is "
                f"computed again by the next run. {FOLDER} names another folder."
            )

    def warn(self, text: str) -> None:
        """Show a warning, each once."""
        if text not in self._warned:
            self._warned.add(text)
            self._progress.warn(text)

    def discard(self, file: Path) -> None:
        """Remove a file that is not what was written, and say so."""
        self.warn(f"Damaged files in the cache {self.folder} are ignored and made anew.")
        with suppress(OSError):
            file.unlink()


class Space:
    """Rows of one sort by their keys, 16 bytes each. folder: None if there is no cache."""

    def __init__(self, cache: Cache, folder: Path | None) -> None:
        self._cache = cache
        self._folder = folder
        self._index: dict[bytes, tuple[_File, int]] = {}
        self._added: dict[bytes, NDArray[Any]] = {}
        self._lock = Lock()
        with suppress(OSError):  # a folder that cannot be read, or be at all: `keep` warns of it
            for path in sorted(folder.glob("*.safetensors")) if folder is not None else ():
                if _FILE.fullmatch(path.name):
                    self._read(path)

    def _read(self, path: Path) -> None:
        try:
            file = _File(path)
        except FileNotFoundError:
            return  # another run made room
        except (OSError, SafetensorError, ValueError):
            self._cache.discard(path)
            return
        self._index |= {key: (file, place) for place, key in enumerate(file.keys)}

    def get(self, key: bytes) -> NDArray[Any] | None:
        """Return a row, or None if it is not there, intact."""
        file, place = self._index.get(key, (None, 0))
        if file is None:
            return None
        try:
            if file.is_intact():
                return file.row(place)
            self._cache.discard(file.path)
        except (OSError, SafetensorError):
            pass
        self._index = {key: (other, place) for key, (other, place) in self._index.items() if other is not file}
        return None

    def get_or_add(self, key: bytes, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return a row, which `make` makes if it is not there; may be called by several threads."""
        row = self.get(key)
        if row is None:
            row = make()
            self.add(key, row)
        return row

    def add(self, key: bytes, row: NDArray[Any]) -> None:
        """Keep a row, all rows of a space being of one shape and type; some are written at a time."""
        if self._folder is None:
            return
        with self._lock:
            self._added[key] = row
            if len(self._added) >= min(MOST_ROWS, max(1, MOST_BYTES // max(1, row.nbytes))):
                self._write(self._folder)

    def flush(self) -> None:
        """Write what was added."""
        with self._lock:
            if self._added and self._folder is not None:
                self._write(self._folder)

    def _write(self, folder: Path) -> None:
        keys = np.frombuffer(b"".join(self._added), np.uint8).reshape(-1, 16)
        tensors = {"keys": keys, "rows": np.stack(list(self._added.values()))}
        data = safetensors.numpy.save(tensors, metadata={"space": folder.name})
        self._added = {}
        self._cache.keep(folder / f"{_hashed(data)}.safetensors", data)


class _File:
    """A file of rows, memory-mapped. Its name is the hash of its bytes, which is checked before a row is taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        opened = cast(Any, safe_open(path, "numpy"))
        if (opened.metadata() or {}).get("space") != path.parent.name:
            raise ValueError("not a file of this space")
        self.keys = [key.tobytes() for key in opened.get_tensor("keys")]
        self._rows = opened.get_slice("rows")
        self._checked: bool | None = None

    def is_intact(self) -> bool:
        """Return whether the bytes are those that were written; marks the file as used now."""
        if self._checked is None:
            hashed = hashlib.blake2b(digest_size=16)
            with open(self.path, "rb") as stream:
                while part := stream.read(1 << 20):
                    hashed.update(part)
            self._checked = hashed.hexdigest() == self.path.stem
            with suppress(OSError):
                os.utime(self.path)
        return self._checked

    def row(self, place: int) -> NDArray[Any]:
        row: NDArray[Any] = self._rows[place : place + 1][0]
        return row


def _hashed(data: bytes) -> str:
    return row_key(data).hex()


@dataclass(frozen=True)
class Usage:
    """What a cache takes: files and bytes of each sort."""

    files: dict[str, int]
    sizes: dict[str, int]


def cache(*, clear: bool = False) -> dict[str, Any]:
    """Return where the cache is and what it takes: its folder, None if there is none, its limit, bytes and files.

    clear: whether to delete all of it first; later runs compute it again. "freed" says how many bytes that were.
    """
    folder = cache_folder()
    if folder is None:
        return {"folder": None}
    freed = emptied(folder) if clear else 0
    found = usage(folder)
    return {"folder": folder, "limit": cache_limit(), "bytes": found.sizes, "files": found.files, "freed": freed}


def usage(folder: Path) -> Usage:
    """Return what the cache in a folder takes."""
    files, sizes = dict.fromkeys(SPACES, 0), dict.fromkeys(SPACES, 0)
    for path, size, _ in _files(folder):
        sort = "pixels" if path.parent == folder else path.parent.parent.name
        files[sort] += 1
        sizes[sort] += size
    return Usage(files, sizes)


def emptied(folder: Path) -> int:
    """Remove the files of the cache in a folder, and nothing else that is there; return how many bytes that freed."""
    freed = 0
    for path, size, _ in _files(folder):
        path.unlink(missing_ok=True)
        freed += size
    for name in SPACES:
        for inner in [*sorted((folder / name).glob("*")), folder / name]:
            with suppress(OSError):  # not there, or not empty
                inner.rmdir()
    return freed


def trim(folder: Path, limit: int, kept: Path) -> None:
    """Remove the files that were not used for longest until a cache takes at most `limit` bytes; `kept` stays."""
    files = sorted(_files(folder), key=lambda file: file[2])
    total = sum(size for _, size, _ in files)
    for path, size, _ in files:
        if total <= limit:
            break
        if path != kept:
            path.unlink(missing_ok=True)
            total -= size
    for path in [*folder.glob(f"{TEMPORARY}*"), *folder.glob(f"*/*/{TEMPORARY}*")]:
        with suppress(OSError):
            if is_temporary(path.name) and time.time() - path.lstat().st_mtime > _ABANDONED:
                path.unlink()


def _files(folder: Path) -> list[tuple[Path, int, float]]:
    """Return path, bytes and time of last use of each file of a cache."""
    found = []
    for path in [*folder.glob("*"), *(path for name in SPACES for path in folder.glob(f"{name}/*/*"))]:
        with suppress(OSError):
            if _FILE.fullmatch(path.name) and path.is_file():
                about = path.stat()
                found.append((path, about.st_size, about.st_mtime))
    return found
