"""The lock of a run folder: whoever writes to it holds it, one process at a time."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from newkinds.errors import RunError
from newkinds.files import open_plain
from newkinds.runs import names

PATIENCE = 10.0  # seconds that short commands wait for one another
_PAUSE = 0.02


class FolderLock:
    """A lock on a folder, which the system releases if the process is killed."""

    def __init__(self, folder: Path, *, wait: float = 0.0) -> None:
        """Take the lock, or raise a RunError after waiting for it. wait: seconds."""
        self._held: int | None = None
        until = time.monotonic() + wait
        descriptor = open_plain(folder / names.LOCK, os.O_RDWR | os.O_CREAT)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._held = descriptor
                return
            except OSError:
                if time.monotonic() >= until:
                    os.close(descriptor)
                    raise RunError(
                        f"Another process is working in {folder}.",
                        hint="Wait for it, or choose another folder with --out.",
                    ) from None
            time.sleep(_PAUSE)

    def release(self) -> None:
        """Let go of the folder; a second time does nothing."""
        if self._held is not None:
            os.close(self._held)
            self._held = None
