"""Weeks of made-up embeddings, for tests of `newkinds grow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import newkinds as nk
from newkinds.progress import Progress

QUIET = Progress("silent")
KNOWN, KINDS, WIDE = 8, 20, 16
OPTIONS: dict[str, Any] = {"rehearsals": 0, "cache": False, "progress": QUIET}
FEW = {"discover": {"warmup_epochs": 1, "epochs": 2}, "count": {"max_kinds": 8, "rehearsals": 2}}


def write_week(folder: Path, number: int, kinds: dict[int, int]) -> Path:
    """Write a heap with so many embeddings of each kind, around the same centres whatever the week; return its file."""
    centres = np.random.default_rng(7).normal(size=(KINDS, WIDE))
    labels = np.repeat(list(kinds), list(kinds.values()))
    points = centres[labels] + 0.25 * np.random.default_rng(number).normal(size=(len(labels), WIDE))
    file = folder / f"week-{number}.npz"
    names = [f"{number}-{row}" for row in range(len(labels))]
    truth = [f"kind {label:02d}" for label in labels]
    np.savez(file, embeddings=points.astype(np.float32), labels=truth, names=names)
    return file


def first_week(folder: Path, kinds: dict[int, int] | None = None, new: int = 4, **options: Any) -> Path:
    """Make the first run, of 8 known kinds and a heap, and return its folder."""
    known = write_week(folder, 0, dict.fromkeys(range(KNOWN), 20))
    heap = write_week(folder, 1, kinds or {**dict.fromkeys(range(4), 6), **dict.fromkeys(range(8, 12), 15)})
    given = {**OPTIONS, "settings": FEW, "page": False, **options}
    nk.discover(known, heap, out=folder / "run-1", kinds=new, heap="mixed", **given)
    return folder / "run-1"


def true_kind(run: Path, kind: str) -> str:
    """Return the true kind that most pictures of a kind are of."""
    found, truth = nk.load(run), truths(run)
    own = [truth[name] for name, one in zip(found.names, found.kinds.tolist(), strict=True) if one == kind]
    return max(set(own), key=own.count)


def truths(run: Path) -> dict[str, str]:
    """Return the true kind of each picture of a run's heap, by its name; weeks are written beside the runs."""
    found: dict[str, str] = {}
    for file in sorted(run.parent.glob("week-*.npz")):
        with np.load(file) as arrays:
            found |= dict(zip(arrays["names"].tolist(), arrays["labels"].tolist(), strict=True))
    return found


def of_kind(run: Path, kind: str) -> list[str]:
    """Return the names of the pictures of a kind."""
    found = nk.load(run)
    return [name for name, one in zip(found.names, found.kinds.tolist(), strict=True) if one == kind]


def say(run: Path, *said: dict[str, Any]) -> None:
    """Write into the journal of a run."""
    for one in said:
        nk.journal(run, say=one, progress=QUIET)


def grow(run: Path, heap: Path, out: Path, **options: Any) -> nk.Discovery:
    """Go on from a run without a page, and without an estimate of how many kinds are new."""
    return nk.grow(run, heap, out=out, **{**OPTIONS, "kinds": 4, "page": False, **options})
