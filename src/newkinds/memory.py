"""Memory of this process: how the allocator keeps it, how much was used, is free and is missing, and work in blocks."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from newkinds.errors import OutOfMemoryError

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in glibc's malloc.h
_MOST = 2**31 - 1
AT_ONCE = 2**20  # numbers of a block of rows
LIBRARIES = 1_300_000_000  # bytes of address space that torch, scipy and the others take: 1.05 GB, and room to work
RESIDENT = 450_000_000  # bytes of memory that they take: 0.43 GB

# How libraries word it that have no exception class for it: torch on MPS, the CPU and XLA, C++, the dynamic linker.
_SHORTAGE = (
    "out of memory",
    "allocate memory",
    "resource_exhausted",
    "bad_alloc",
    "unable to allocate",
    "failed to map segment",
    "not enough memory",
    "can't start new thread",
)
_ELSEWHERE = ("outofmemoryerror", "mps", "cuda", "resource_exhausted")  # the memory of a GPU, not the machine's
_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
_SCARCE = 4_000_000_000  # bytes that are free, below which freed memory goes back to the system at once
_RESERVE = 1 / 20  # of what a control group leaves: for the kernel's own, and files that are being written
_STACK = 2**23  # bytes that a thread's stack has at most, usually
_ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd")  # their drivers map more than there is


def keep_freed_memory() -> None:
    """Make the C library keep freed memory for the next batch. Irreversible, so only for our own process.

    By default glibc returns blocks as large as a layer's activations to the system at once, and every training step has
    them mapped and zeroed again, which costs a tenth of its time or more on a CPU. Other systems and C libraries are
    left alone, and so is an allocator that the user has chosen or tuned. Where memory is scarce, none is kept.
    """
    found = free_memory()
    if found is not None and found[0] < _SCARCE:
        return
    if sys.platform != "linux" or any(name.startswith(("MALLOC_", "LD_PRELOAD")) for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_TRIM_THRESHOLD, _MOST)
    mallopt(_MMAP_THRESHOLD, _MOST)


def stay_within_limits() -> None:
    """Ask that this process have no more than its control group and the machine do, once its libraries are loaded.

    A process that takes more than its control group allows is killed by the kernel without a word. One that meets a
    limit of its own (RLIMIT_DATA) is told so, and can say it. Only for our own process, and not where there is a GPU.
    """
    _Own.is_limited = sys.platform == "linux" and not any(map(os.path.exists, _ACCELERATORS))


class _Own:
    is_limited = False


def limit_data() -> None:
    """Set the limit that `stay_within_limits` asked for: what is in use now, and what is free."""
    most = [left for left in (_within_cgroup(), _total()) if left is not None]
    if not _Own.is_limited or resource is None or not most:
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    lower = min(most) if hard == resource.RLIM_INFINITY else min(*most, hard)
    with suppress(OSError, ValueError):  # some sandboxes refuse
        resource.setrlimit(resource.RLIMIT_DATA, (lower, hard))


def _within_cgroup() -> int | None:
    left, used = _cgroup()[0], _kilobytes(Path("/proc/self/status"), "VmData:")
    if left is None or used is None:
        return None
    stack = min(_limit("RLIMIT_STACK") or 0, _STACK)  # of each thread: counted whole, used hardly
    return used + int(left * (1 - _RESERVE)) + stack * len(os.sched_getaffinity(0))


def _total() -> int | None:
    parts = [_kilobytes(Path("/proc/meminfo"), key) for key in ("MemTotal:", "SwapTotal:")]
    return None if parts[0] is None else sum(part or 0 for part in parts)


def is_shortage(error: BaseException) -> bool:
    """Return whether an error says that there is not enough memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return not isinstance(error, OutOfMemoryError)
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError | ImportError) and any(words in str(error).lower() for words in _SHORTAGE)


@contextmanager
def explained(what: str = "this", *settings: str) -> Iterator[None]:
    """Turn an error of memory into one that says what needed it, what is free, and which settings to lower."""
    try:
        yield
    except Exception as error:
        if not is_shortage(error):
            raise
        told = " ".join(str(error).split("\n")[0].split()).rstrip(".")
        needed = f": {told[:300]}" if told else ""
        elsewhere = any(words in f"{type(error).__name__} {told}".lower() for words in _ELSEWHERE)
        left = "" if elsewhere else _left()
        raise OutOfMemoryError(
            f"There is not enough memory for {what}{needed}.{left}", hint=way_out(*settings)
        ) from error


def way_out(*settings: str) -> str:
    """Return what takes less memory. settings: those of what was being done, before those that always help."""
    lower = ", ".join((*settings, "images.size or network_size"))
    return (
        f"Lower {lower}, name a narrower --network, such as one whose name ends in -half or -slim, or give fewer "
        "pictures at once."
    )


def check_room(needed: int, what: str, hint: str) -> None:
    """Raise an OutOfMemoryError if `needed` bytes are more than this process can have, before it is killed for it."""
    found = free_memory()
    if found is not None and needed > found[0]:
        raise OutOfMemoryError(f"{what} takes {in_words(needed)} of memory or more.{_left()}", hint=hint)


def check_libraries() -> None:
    """Raise an OutOfMemoryError if the libraries cannot even be loaded: some crash then, or are killed."""
    most = _limit("RLIMIT_AS")
    if most is not None and most < LIBRARIES:
        raise OutOfMemoryError(
            f"newkinds and its libraries need {in_words(LIBRARIES)} of address space; "
            f"ulimit -v allows {in_words(most)}.",
            hint=f"Raise it: ulimit -v {3 * LIBRARIES // 1024}, or ulimit -v unlimited",
        )
    if "torch" not in sys.modules:
        check_room(RESIDENT, "newkinds with its libraries", "Allow it 1 GB or more.")


def free_memory() -> tuple[int, str] | None:
    """Return how many bytes this process can still have, and what limits it; None where the system does not say."""
    found = [(left, why) for left, why in (_machine(), _cgroup(), _address_space()) if left is not None]
    return min(found, default=None)


def in_words(size: int) -> str:
    """Return a number of bytes as people write it."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _left() -> str:
    try:
        found = free_memory()
    except MemoryError:
        return " Nothing is free."
    return "" if found is None else f" {in_words(max(0, found[0]))} are free{found[1]}."


def _machine() -> tuple[int | None, str]:
    return _kilobytes(Path("/proc/meminfo"), "MemAvailable:"), ""


def _address_space() -> tuple[int | None, str]:
    most, used = _limit("RLIMIT_AS"), _kilobytes(Path("/proc/self/status"), "VmSize:")
    return None if most is None or used is None else most - used, " (ulimit -v)"


def _limit(name: str) -> int | None:
    if resource is None:
        return None
    most = resource.getrlimit(getattr(resource, name))[0]
    return None if most == resource.RLIM_INFINITY else most


def _kilobytes(file: Path, key: str) -> int | None:
    with suppress(OSError, ValueError, IndexError, StopIteration):
        return next(int(text.split()[1]) for text in file.read_text().splitlines() if text.startswith(key)) * 1024
    return None


def _cgroup() -> tuple[int | None, str]:
    """Return what the control groups of this process leave it, in the layouts of version 2 and version 1."""
    left = []
    for number, controllers, place in _memberships():
        if number == "0":
            roots, names = (_CGROUPS, _CGROUPS / "unified"), ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            roots = (_CGROUPS / "memory", _CGROUPS)
        else:
            continue
        for root in roots:
            folder = root / place.lstrip("/")
            folders = [folder, *folder.parents] if folder.is_dir() else [root]  # in a container, only the root is seen
            left += [_left_in(one, *names) for one in folders if one == root or root in one.parents]
    return min((one for one in left if one is not None), default=None), " (the limit of its control group)"


def _memberships() -> list[list[str]]:
    with suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        return [parts for parts in (text.split(":", 2) for text in lines) if len(parts) == 3]
    return []


def _left_in(folder: Path, limit: str, usage: str, cached: str) -> int | None:
    """Return what a control group leaves: files that are only cached count as free."""
    with suppress(OSError, ValueError):
        most = int((folder / limit).read_text())  # "max" is no number, and no limit
        if most < _UNLIMITED:
            pages = [text.split() for text in (folder / "memory.stat").read_text().splitlines()]
            spare = sum(int(value) for key, value in pages if key == cached)
            return most - int((folder / usage).read_text()) + spare
    return None


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
