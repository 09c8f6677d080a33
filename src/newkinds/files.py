"""Files that are either whole or not there: written beside, synced, and moved into place."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

TEMPORARY = ".tmp-"


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one, whole."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Delete what an interrupted write left in a folder and below it."""
    for leftover in folder.rglob(f"{TEMPORARY}*"):
        if leftover.is_file():
            leftover.unlink(missing_ok=True)


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()
