"""Find the pictures below a folder, and say of everything else why it is not used. Changes nothing."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from newkinds.errors import DataError, UsageError
from newkinds.images.decode import MAX_PIXELS, ImageError, decode, probe
from newkinds.images.imageset import Skipped
from newkinds.progress import QUIET, Progress

MAX_BYTES = 1 << 30  # of one file: what is larger is a film or an archive, whatever its name says

_SYSTEM_NAMES = ("thumbs.db", "desktop.ini", "__macosx", "@eadir")  # hidden on the systems that write them
_SPECIAL = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
_CHUNK = 16  # files a thread takes at a time; a future for each costs more than a small picture

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Found:
    """A picture file: its path, its name below the root, and what its header says (channels 1 or 3)."""

    path: Path
    name: str
    width: int
    height: int
    channels: int


@dataclass(frozen=True)
class Scan:
    """What lies below a folder, both parts sorted by name."""

    root: Path
    found: tuple[Found, ...]
    skipped: tuple[Skipped, ...]


def scan(
    root: str | Path,
    *,
    verify: bool = False,
    max_pixels: int = MAX_PIXELS,
    workers: int | None = None,
    progress: Progress = QUIET,
) -> Scan:
    """List all pictures below `root`, and everything that is not used with the reason.

    Links to files are followed, links to folders are not. Names have forward slashes; bytes that are not UTF-8 and
    control characters in them are written as \\xNN. The order is that of the names' code points, whatever the locale.

    verify: decode every picture, to find the broken ones whose header is in order.
    workers: threads; as many as there are processors where None.
    """
    root = Path(root)
    paths, skipped = _walk(root)

    def examine(file: tuple[str, str]) -> Found | Skipped:
        name, path = file
        try:
            header = probe(Path(path), max_pixels=max_pixels)
            if verify:
                decode(read_file(Path(path)), size=64, channels=header.channels, max_pixels=max_pixels)
        except ImageError as error:
            return Skipped(name, error.message)
        return Found(Path(path), name, header.width, header.height, header.channels)

    title = "Checking pictures" if verify else "Reading headers"
    examined = list(in_threads(examine, sorted(paths), workers, title, progress))
    found = [one for one in examined if isinstance(one, Found)]
    skipped += [one for one in examined if isinstance(one, Skipped)]
    unique = {one.name: one for one in reversed(found)}
    skipped += [
        Skipped(one.name, "another file has the same name in print") for one in found if one is not unique[one.name]
    ]
    skipped.sort(key=lambda one: (one.name, one.reason))
    return Scan(root, tuple(one for one in found if one is unique[one.name]), tuple(skipped))


def read_file(path: Path) -> bytes:
    """Return the content of a file; raise ImageError with the reason where that is not possible."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ImageError(f"cannot be read ({error.strerror})") from error
    if len(data) > MAX_BYTES:
        raise ImageError(f"larger than {MAX_BYTES:,} bytes")
    return data


def printable(name: str) -> str:
    """Return a file name with the bytes that are not UTF-8 and the control characters written as \\xNN."""
    return "".join(map(_escaped, name))


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else character


def in_threads(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int | None,
    title: str,
    progress: Progress,
) -> Iterator[Result]:
    """Yield `work` of each item in order, a bounded number of them ahead, and show the progress."""
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
    """Return (name, path) of the regular files below root, and the rest; with a list instead of recursion."""
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
        return DataError(f"{root} does not exist.", hint="Give a folder of pictures or an .npz file of arrays.")
    if isinstance(error, NotADirectoryError):
        return DataError(f"{root} is a file, not a folder.", hint="Give the folder that the pictures are in.")
    return DataError(f"{root} cannot be read ({error.strerror}).", hint=f"Look at its permissions: ls -ld {root}")


def _why_not(entry: os.DirEntry[str]) -> str:
    """Return the reason to skip a directory entry without opening it, or "" for a file or folder to look into."""
    if entry.name.startswith(".") or entry.name.lower() in _SYSTEM_NAMES:
        return "hidden folder" if entry.is_dir(follow_symlinks=False) else "hidden file"
    try:
        status = entry.stat()
    except OSError as error:
        return "link that leads nowhere" if entry.is_symlink() else f"cannot be read ({error.strerror})"
    if stat.S_ISDIR(status.st_mode):
        return "link to a folder, not followed" if entry.is_symlink() else ""
    if not stat.S_ISREG(status.st_mode):
        return f"not a file but a {_SPECIAL.get(stat.S_IFMT(status.st_mode), 'special one')}"
    return f"larger than {MAX_BYTES:,} bytes" if status.st_size > MAX_BYTES else ""
