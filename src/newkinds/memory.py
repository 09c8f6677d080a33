"""Memory of this process: how the allocator keeps it, how much was used at most, and work in blocks that bound it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in glibc's malloc.h
_MOST = 2**31 - 1
AT_ONCE = 2**20  # numbers of a block of rows


def keep_freed_memory() -> None:
    """Make the C library keep freed memory for the next batch. Irreversible, so only for our own process.

    By default glibc returns blocks as large as a layer's activations to the system at once, and every training step has
    them mapped and zeroed again, which costs a tenth of its time or more on a CPU. Other systems and C libraries are
    left alone, and so is an allocator that the user has chosen or tuned.
    """
    if sys.platform != "linux" or any(name.startswith(("MALLOC_", "LD_PRELOAD")) for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_TRIM_THRESHOLD, _MOST)
    mallopt(_MMAP_THRESHOLD, _MOST)


class PeakMemory:
    """The peak memory of this process from now on, where the system reports it (Linux)."""

    def __init__(self) -> None:
        self.known = True
        try:
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        except OSError:
            self.known = False

    def megabytes(self) -> float | None:
        """Return it, or None where it is not known."""
        if not self.known:
            return None
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of the rows of an array (rows, width): blocks of about a million numbers, at least one row each.

    So a copy in float64 is never one of all features.
    """
    step = max(1, AT_ONCE // max(1, width))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))
