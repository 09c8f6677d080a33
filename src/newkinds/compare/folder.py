"""The folder of a comparison: what was asked for, who may write to it, and what each run in it cost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from newkinds.errors import RunError
from newkinds.files import read_plain, sealed, unsealed, write_atomic
from newkinds.memory import PeakMemory
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names
from newkinds.runs.claim import check_writable
from newkinds.runs.lock import FolderLock

ASKED, TABLE, COST = "compare.json", "table.json", names.COST
F = "f"  # the folder of the network that all methods share


@contextmanager
def claimed(folder: Path, asked: dict[str, Any], parts: Sequence[str], progress: Progress) -> Iterator[bool]:
    """Make the folder, or refuse one that holds something else, and keep others from writing to it.

    parts: the names of the folders in it. Yields whether compare.json, if it was there, was what had been written:
    otherwise nothing is known about the runs, and each is looked at as `discover` does.
    """
    check_writable(folder)
    file = folder / ASKED
    there = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    ours = ASKED in there or there <= {names.LOCK} or any((folder / part / names.ABOUT).is_file() for part in parts)
    if not ours:
        raise RunError(f"{folder} is not empty, and no comparison.", hint="Give another folder to --out.")
    linked = [part for part in (*parts, names.REPORT) if (folder / part).is_symlink()]
    if linked:
        raise RunError(f"{folder / linked[0]} is a link. Nothing is written through links.", hint="Remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        before = _read_asked(file)
        if before is None and there - {names.LOCK}:
            progress.warn(f"{file} was damaged or missing, and is written again; every run is looked at.")
        # Methods and seeds may be added. An earlier version did not record the weights.
        there_before = before or {}
        differing = [key for key in ("settings", "weights") if there_before.get(key, asked[key]) != asked[key]]
        if differing and any(folder.glob(f"*/{names.ABOUT}")):  # otherwise nothing was begun
            raise RunError(
                f"{folder} holds a comparison with other {differing[0]}.",
                hint=f"Give another folder to --out, or the same {differing[0]}.",
            )
        write_atomic(file, sealed(asked))
        yield before is not None
    finally:
        lock.release()


def _read_asked(file: Path) -> dict[str, Any] | None:
    """Return what compare.json says, None if it is not there or damaged."""
    try:
        found = unsealed(read_plain(file))
    except (OSError, ValueError):
        return None
    return found if isinstance(found.get("settings"), dict) else None


@contextmanager
def measured(folder: Path) -> Iterator[None]:
    """Record in a run folder what making it cost; the time only if that was not interrupted."""
    begun, started, peak = folder.exists(), time.monotonic(), PeakMemory()
    yield
    with RunFolder.open(folder, writing=True) as run:
        if not run.has(COST):
            cost = {"seconds": None if begun else time.monotonic() - started, "megabytes": peak.megabytes()}
            run.put(COST, (json.dumps(cost) + "\n").encode())
