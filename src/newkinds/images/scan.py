"""Scanning: find the pictures below a folder or in a list, and why everything else is skipped. Changes nothing."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from newkinds.errors import DataError, UsageError
from newkinds.files import as_path, read_plain
from newkinds.images.decode import MAX_PIXELS, ImageError, decode, probe
from newkinds.images.formats import by_ending
from newkinds.images.imageset import Skipped, printable
from newkinds.images.limits import FILES
from newkinds.images.lists import Kind, Listing, list_from_table
from newkinds.images.tables import is_table
from newkinds.progress import QUIET, Progress

GIVE = "Give a folder of pictures, a .csv or .parquet list of them, or an .npz file of arrays."
MAX_BYTES = 1 << 30  # of one file: anything larger is a film or an archive, whatever its name says

_SYSTEM_NAMES = ("thumbs.db", "desktop.ini", "__macosx", "@eadir")  # hidden on the systems that write them
_SPECIAL = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
_CHUNK = 16  # files that a thread takes at a time; a future for each would cost more than decoding a small picture

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Found:
    """A picture file: its path, its name below the root or in the list, and what its header says (channels 1 or 3)."""

    path: Path
    name: str
    width: int
    height: int
    channels: int


@dataclass(frozen=True)
class Scan:
    """The contents of a folder, both parts sorted by name; or those of a list, the pictures in the list's order."""

    root: Path
    found: tuple[Found, ...]
    skipped: tuple[Skipped, ...]
    listing: Listing | None = None

    @property
    def source(self) -> str:
        """The name of the folder or list."""
        return str(self.root) if self.listing is None else self.listing.source

    @property
    def has_kinds(self) -> bool:
        """Whether a list gives kinds. In a folder, the subfolders may be kinds, but need not be."""
        return self.listing is not None and self.listing.kinds is not None

    def kind_of(self, name: str) -> Kind | None:
        """Return the kind of a picture: what the list says, or the first folder below the root; None without."""
        if self.listing is not None:
            return None if self.listing.kinds is None else self.listing.kinds[name]
        return name.split("/", 1)[0] if "/" in name else None


def scan(
    source: str | Path | Listing,
    *,
    verify: bool = False,
    max_pixels: int = MAX_PIXELS,
    workers: int | None = None,
    progress: Progress = QUIET,
) -> Scan:
    """List all pictures below a folder, or those in a list, and everything that is skipped, with the reason.

    In a folder, links to files are followed, links to folders are not. Names have forward slashes; bytes that are not
    UTF-8 and control characters in them are written as \\xNN. They are sorted by code point, whatever the locale. A
    file in a list that does not exist is an error.

    source: a folder, a .csv or .parquet file, or a Listing.
    verify: decode every picture, to find broken ones whose header is intact.
    workers: threads; None: as many as there are processors.
    """
    listing = _listing_of(source)
    if listing is None:
        root = as_path(str(source))
        paths, skipped = _walk(root)
        files = sorted(paths)
    else:
        root, skipped = listing.root, []
        files = [(name, os.fspath(path)) for name, path in zip(listing.names, listing.paths, strict=True)]

    def examine(file: tuple[str, str]) -> Found | Skipped | None:
        if listing is not None:
            reason = _why_not_listed(file[1])
            if reason != "":
                return None if reason is None else Skipped(file[0], reason)
        return _examined(*file, verify, max_pixels)

    title = "Checking pictures" if verify else "Reading headers"
    examined = list(in_threads(examine, files, workers, title, progress))
    if listing is not None:
        listing.check_there([one is not None for one in examined])
    found = [one for one in examined if isinstance(one, Found)]
    skipped += [one for one in examined if isinstance(one, Skipped)]
    unique = {one.name: one for one in reversed(found)}
    skipped += [
        Skipped(one.name, "another file has the same name in print") for one in found if one is not unique[one.name]
    ]
    skipped.sort(key=lambda one: (one.name, one.reason))
    return Scan(root, tuple(one for one in found if one is unique[one.name]), tuple(skipped), listing)


def list_files(source: Path | Listing) -> list[Path]:
    """Return the files below a folder in order of their names, or those that a list names and that are there."""
    if isinstance(source, Listing):
        return [path for path in source.paths if _why_not_listed(os.fspath(path)) == ""]
    return [Path(path) for _, path in sorted(_walk(source)[0])]


def named_files(root: Path) -> dict[str, Path]:
    """Return the files below a folder by the names that `scan` gives them, without opening any."""
    return {name: Path(path) for name, path in _walk(root)[0]}


def _examined(name: str, path: str, verify: bool, max_pixels: int) -> Found | Skipped:
    try:
        header = probe(Path(path), max_pixels=max_pixels)
        if verify:
            with file_bytes(Path(path)) as data:
                decode(data, size=64, channels=header.channels, max_pixels=max_pixels)
    except ImageError as error:
        return Skipped(name, error.message)
    return Found(Path(path), name, header.width, header.height, header.channels)


def _listing_of(source: str | Path | Listing) -> Listing | None:
    """Return the source as a list, None if it is a folder."""
    if isinstance(source, Listing):
        return source
    return list_from_table(Path(source)) if is_table(Path(source)) else None


def read_file(path: Path) -> bytes:
    """Return the content of a file; raise ImageError with the reason if that fails."""
    try:
        return read_plain(path, MAX_BYTES)
    except OSError as error:
        large = f"larger than {MAX_BYTES:,} bytes"
        raise ImageError(large if error.errno == errno.EFBIG else f"cannot be read ({error.strerror})") from error


@contextmanager
def file_bytes(path: Path) -> Iterator[bytes]:
    """Yield the content of a file, in memory that threads share; raise ImageError as `read_file` does."""
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise ImageError(f"cannot be read ({error.strerror})") from error
    with FILES.of(min(size, MAX_BYTES)):
        yield read_file(path)


def in_threads(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int | None,
    title: str,
    progress: Progress,
) -> Iterator[Result]:
    """Yield `work(item)` for each item in order, computing a bounded number ahead, and show the progress."""
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers < 1:
        raise UsageError(f"workers={workers} should be >= 1.")

    def run(chunk: Sequence[Item]) -> list[Result]:
        return [work(item) for item in chunk]

    ahead: deque[Future[list[Result]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="newkinds-images")
    try:
        with progress.step(title, len(items)) as step:
            start = 0
            while start < len(items) or ahead:
                while start < len(items) and len(ahead) < 3 * workers:
                    ahead.append(pool.submit(run, items[start : start + _CHUNK]))
                    start += _CHUNK
                done = ahead.popleft().result()
                yield from done
                step.advance(len(done))
    finally:
        pool.shutdown(cancel_futures=True)


def _walk(root: Path) -> tuple[list[tuple[str, str]], list[Skipped]]:
    """Return (name, path) of the regular files below root, and the rest; iterative, not recursive."""
    files: list[tuple[str, str]] = []
    skipped: list[Skipped] = []
    folders = [("", os.fspath(root))]
    while folders:
        prefix, folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError as error:
            if not prefix:
                raise _no_root(root, error) from error
            skipped.append(Skipped(prefix.rstrip("/"), f"folder cannot be read ({error.strerror})"))
            continue
        for entry in entries:
            name = prefix + printable(entry.name)
            reason = _why_not(entry)
            if reason:
                skipped.append(Skipped(name, reason))
            elif entry.is_dir(follow_symlinks=False):
                folders.append((name + "/", entry.path))
            else:
                files.append((name, entry.path))
    return files, skipped


def _no_root(root: Path, error: OSError) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"{root} does not exist.", hint=GIVE)
    if isinstance(error, NotADirectoryError):
        if root.suffix.lower() == ".npz":
            return DataError(
                f"{root} has arrays, and pictures are scanned.",
                hint="Give a folder or a list of pictures; arrays are looked at when they are sorted.",
            )
        return DataError(f"{root} is a file, not a folder.", hint=GIVE)
    return DataError(f"{root} cannot be read ({error.strerror}).", hint=f"Look at its permissions: ls -ld {root}")


def is_hidden(name: str) -> bool:
    """Return whether a file or folder of this name is passed over."""
    return name.startswith(".") or name.lower() in _SYSTEM_NAMES


def _why_not(entry: os.DirEntry[str]) -> str:
    """Return the reason to skip a directory entry without opening it, or "" for a file or folder to open."""
    if is_hidden(entry.name):
        return "hidden folder" if entry.is_dir(follow_symlinks=False) else "hidden file"
    try:
        status = entry.stat()
    except OSError as error:
        return "link that leads nowhere" if entry.is_symlink() else f"cannot be read ({error.strerror})"
    if stat.S_ISDIR(status.st_mode):
        return "link to a folder, not followed" if entry.is_symlink() else ""
    return _why_not_file(status, entry.name)


def _why_not_listed(path: str) -> str | None:
    """Return the reason to skip a file in a list, without opening it; "" for none, None if the file is missing."""
    try:
        status = os.stat(path)
    except ValueError:  # a null byte or half a surrogate pair: no file can have that name
        return None
    except OSError as error:
        return None if error.errno in _NOT_THERE else f"cannot be read ({error.strerror})"
    return "not a file but a folder" if stat.S_ISDIR(status.st_mode) else _why_not_file(status, path)


def _why_not_file(status: os.stat_result, path: str) -> str:
    if not stat.S_ISREG(status.st_mode):
        return f"not a file but a {_SPECIAL.get(stat.S_IFMT(status.st_mode), 'special one')}"
    if status.st_size <= MAX_BYTES:
        return ""
    sort = by_ending(Path(path).suffix)
    return f"larger than {MAX_BYTES:,} bytes" if sort is None else sort.reason
