"""Atomic targets: written completely or not at all, never over something else."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from newkinds.errors import RunError, UsageError
from newkinds.files import TEMPORARY, digest, sync_folder


def check_free(out: Path, *, folder: bool) -> None:
    """Raise an error if `out` exists, unless it is an empty folder for a folder, or if it cannot be written."""
    target = Path(os.path.abspath(out))
    if os.path.lexists(target) and not (folder and _is_empty_folder(target)):
        _clear_others(target)  # one that was killed may have been complete
        what = "is not empty" if target.is_dir() and not target.is_symlink() else "exists"
        raise UsageError(f"{out} {what}, and an export overwrites nothing.", hint="Choose another --out.")
    above = target.parent
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        raise UsageError(f"{out} cannot be written: {above} is not a folder.", hint="Choose another --out.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{out} cannot be written: permission denied for {above}.", hint="Choose another --out.")


@contextmanager
def placed(out: Path, *, folder: bool) -> Iterator[Path]:
    """Yield a path beside `out` to write a file or a folder to, and move what is there into place at the end.

    If the block fails, nothing of it remains, nor of the folders made for it. What a killed export left beside `out` is
    removed by the next one to the same place. The name of the path cannot be guessed, and nobody else can write there.
    """
    target = Path(os.path.abspath(out))
    made = _make_folders(target.parent)
    done = False
    try:
        work = target.with_name(f"{_begin(target)}{secrets.token_hex(8)}")
        work.mkdir(mode=0o700)
        lock = _lock(work)
        assert lock is not None  # nobody else knows it
        try:
            _clear_others(target, work)
            yield work / "new"
            _move(work / "new", target, folder)
            done = True
        finally:
            shutil.rmtree(work, ignore_errors=True)
            os.close(lock)
    finally:
        for path in [] if done else made:
            with suppress(OSError):  # something may have been put there
                path.rmdir()


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not os.listdir(path)


def _make_folders(path: Path) -> list[Path]:
    """Make a folder and its parents; return the new ones, the innermost first."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
    return missing


def _lock(work: Path) -> int | None:
    """Return an open lock, which is released if the process is killed; None if somebody holds it."""
    lock = os.open(work / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    except BlockingIOError:
        os.close(lock)
        return None


def _begin(target: Path) -> str:
    """Return how the names of folders begin in which exports to a target are written.

    It is not the target's own name with a prefix: that may already be as long as a name can be.
    """
    return f"{TEMPORARY}{digest(os.fsencode(target.name))[:16]}-"


def _clear_others(target: Path, own: Path | None = None) -> None:
    """Remove what killed exports to the same place left; raise an error if one is still under way.

    own: the folder of the caller. Folders that somebody else has made, and links, are left alone, whatever they are
    called.
    """
    for path in target.parent.glob(f"{_begin(target)}*"):
        with suppress(OSError):  # it may be gone by now
            found = path.lstat()
            if path == own or not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            lock = _lock(path)
            if lock is None:
                raise RunError(
                    f"Another process is exporting to {target}.", hint="Wait for it, or choose another --out."
                )
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _move(new: Path, target: Path, folder: bool) -> None:
    """Move the complete result into place, unless something has been put there meanwhile."""
    if folder:
        os.sync()  # once for all files: one by one would take as long as writing them
        os.rename(new, target)  # replaces an empty folder and nothing else
    else:
        with new.open("rb") as file:
            os.fsync(file.fileno())
        try:
            os.link(new, target)  # unlike a rename, it fails if the target exists
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            os.rename(new, target)
    with suppress(OSError):  # the target is complete
        sync_folder(target.parent)
