"""Atomic writes: a file is written beside its target, synced, and moved into place."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".tmp-newkinds-"  # prefix of files that are being written


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that is moved into place when the block ends; after an error nothing of it is left.

    A crash at any moment leaves the old file or the new one, whole. The temporary name cannot be guessed, and nothing
    that is there already is written to.
    """
    beside = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    sync_folder(path.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one, whole."""
    with replacing(path) as stream:
        stream.write(data)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a loss of power, where the system lets a folder be opened."""
    with suppress(OSError):
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


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, read in parts, in hex."""
    hashed = hashlib.sha256()
    with open(path, "rb") as stream:
        while part := stream.read(1 << 20):
            hashed.update(part)
    return hashed.hexdigest()
