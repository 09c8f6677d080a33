"""Files that are whole or not there: written beside their target, synced and moved into place; never through a link."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from newkinds.errors import RunError, UsageError

TEMPORARY = ".tmp-newkinds-"  # prefix of what is being written
SEAL = "sha256"  # the key of a JSON file's own hash

_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK  # neither through a link, nor waiting for a pipe
_being_written: set[tuple[int, str]] = set()  # the folder's descriptor and the name of each temporary file
_TEMPORARY_FILE = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{16}}(-[0-9a-f]{{16}})?")


@contextmanager
def replacing(path: Path, root: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file for writing that is moved into place when the block ends; after an error nothing of it is left.

    A crash at any moment leaves the old file or the new one, whole, and what it leaves beside them is removed by the
    next one to write the same file. The temporary name cannot be guessed, nothing that is there already is written to,
    and the folder is opened once: it is the same one in which the file is moved. A link at `path` is replaced, not
    followed. root: as in `opened_folder`.
    """
    with opened_folder(path.parent, root) as folder:
        _check_replaceable(path, folder)
        begin = f"{TEMPORARY}{digest(os.fsencode(path.name))[:16]}-"
        _remove_abandoned(folder, begin)
        beside = f"{begin}{secrets.token_hex(8)}"
        being_written = (folder, beside)
        _being_written.add(being_written)
        try:
            with open(_created(folder, beside), "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            if isinstance(error, OSError):
                raise named(error, path) from error
            raise
        finally:
            _being_written.discard(being_written)
        with suppress(OSError):  # not every file system can
            os.fsync(folder)


def check_target(path: Path, begin: bytes) -> None:
    """Raise an error unless a file of the user's choice can be written: nothing but an older one like it is there.

    begin: how files like it begin; so that a slip of the hand overwrites no picture.
    """
    way_out = "Choose another place, or remove what is there."
    if not path.parent.is_dir():
        raise UsageError(
            f"{path} cannot be written: there is no folder {path.parent}.", hint="Make it, or mend the path."
        )
    if not os.path.lexists(path):
        return
    if not stat.S_ISREG(path.lstat().st_mode):
        raise UsageError(f"{path} is a link, a folder or a device, and is left as it is.", hint=way_out)
    with open(path, "rb") as stream:
        found = stream.read(len(begin))
    if found not in (b"", begin):
        raise UsageError(f"{path} is there, and nothing but an older table is overwritten.", hint=way_out)


def _check_replaceable(path: Path, folder: int) -> None:
    """Raise an error if what is at a path, in an opened folder, is a pipe, a device or a folder."""
    with suppress(FileNotFoundError):
        mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise RunError(f"{path} is a folder, a pipe or a device, and is left as it is.", hint="Remove it.")


def _created(folder: int, name: str) -> int:
    """Make a file and lock it, for as long as the process lives or has it open; return its descriptor."""
    while True:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        try:
            with suppress(OSError):  # where nothing can be locked, nothing is taken for abandoned either
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:  # before it was locked, somebody may have taken it for abandoned
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _remove_abandoned(folder: int, begin: str) -> None:
    """Delete what killed processes left in an opened folder: files whose names begin so and that nobody has locked."""
    with os.scandir(folder) as entries:
        left = [entry.name for entry in entries if entry.name.startswith(begin) and is_temporary(entry.name)]
    for name in left:
        with suppress(OSError), _closing(os.open(name, os.O_RDONLY | _PLAIN, dir_fd=folder)) as descriptor:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=folder)


def as_path(value: str | os.PathLike[str]) -> Path:
    """Return a path that the system can take, or raise a UsageError."""
    try:
        path = Path(value)
        if b"\0" in os.fsencode(path):
            raise ValueError("it has a byte of 0")
    except (TypeError, ValueError) as error:
        raise UsageError(f"{value!r:.100} is no path: {error}.", hint="Give a str or a Path.") from None
    return path


def abandon() -> None:
    """Delete what is being written, before the process leaves without ending its blocks."""
    for folder, beside in tuple(_being_written):
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)


def named(error: OSError, path: Path) -> OSError:
    """Return an error of the system as one that says which file it is about, as a full disk does not."""
    if error.errno is None or (error.filename is not None and not is_temporary(os.path.basename(str(error.filename)))):
        return error
    return OSError(error.errno, os.strerror(error.errno), os.fspath(path))


def write_atomic(path: Path, data: bytes, root: Path | None = None) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one, whole; root: as in `replacing`."""
    with replacing(path, root) as stream:
        stream.write(data)


@contextmanager
def opened_folder(path: Path, root: Path | None = None) -> Iterator[int]:
    """Open a folder and yield its descriptor.

    root: a folder that `path` is in; below it, folders are made where they are missing, and none may be a link. What is
    given by the user, above, may be one.
    """
    parts = () if root is None else path.relative_to(root).parts
    given = os.open(path if root is None else root, os.O_RDONLY | os.O_DIRECTORY)
    with _closing(given), _below(given, parts, path) as last:
        yield last


@contextmanager
def _below(folder: int, parts: Sequence[str], path: Path) -> Iterator[int]:
    if not parts:
        yield folder
        return
    with suppress(FileExistsError):
        os.mkdir(parts[0], dir_fd=folder)
    try:
        inner = os.open(parts[0], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:
        raise RunError(
            f"{path} cannot be written to: {parts[0]} there is a link, or no folder. Nothing is written through links.",
            hint=f"Put a folder in the place of {parts[0]}, or choose another place with --out.",
        ) from None
    with _closing(inner), _below(inner, parts[1:], path) as last:
        yield last


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_plain(path: Path, flags: int) -> int:
    """Open a file that is no link, or raise an error; return its descriptor. flags: as in `os.open`."""
    try:
        descriptor = os.open(path, flags | _PLAIN, 0o644)
    except OSError:
        if path.is_symlink():
            raise _not_plain(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_plain(path)
    return descriptor


def _not_plain(path: Path) -> RunError:
    return RunError(f"{path} is a link, or no file. Nothing is written through links.", hint="Remove it.")


def read_plain(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a file, or raise an OSError: also for pipes and devices, which might never end.

    most: bytes that it may have.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device", os.fspath(path))
        if most is not None and found.st_size > most:
            raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, {most:,} are allowed", os.fspath(path))
        return stream.read(found.st_size + 1)  # memory for what the file has, also if it grows meanwhile


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a loss of power, where the system lets a folder be opened."""
    with suppress(OSError), _closing(os.open(folder, os.O_RDONLY)) as descriptor:
        os.fsync(descriptor)


def is_temporary(name: str) -> bool:
    """Return whether a file of this name was being written by `replacing`."""
    return _TEMPORARY_FILE.fullmatch(name) is not None


def remove_leftovers(folder: Path) -> None:
    """Delete what an interrupted write left in a folder and below it; links are neither followed nor deleted."""
    for inner, _, files in os.walk(folder):
        for name in filter(is_temporary, files):
            with suppress(OSError):
                if stat.S_ISREG(os.lstat(os.path.join(inner, name)).st_mode):
                    os.unlink(os.path.join(inner, name))


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, read in parts, in hex."""
    hashed = hashlib.sha256()
    with open(path, "rb") as stream:
        while part := stream.read(1 << 20):
            hashed.update(part)
    return hashed.hexdigest()


def sealed(values: Mapping[str, Any]) -> bytes:
    """Return values as a JSON file that has its own hash in it."""
    return _as_json({**values, SEAL: digest(_as_json(values))})


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the values of such a file; one without a hash is taken as it is, as earlier versions wrote it.

    Raises a ValueError if it is not JSON, no table, or not what was written.
    """
    try:
        values = json.loads(data)
    except RecursionError:
        raise ValueError("too deeply nested") from None
    if not isinstance(values, dict):
        raise ValueError("no table")
    seal = values.pop(SEAL, None)
    if seal is not None and seal != digest(_as_json(values)):
        raise ValueError("its hash differs")
    return values


def _as_json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()
