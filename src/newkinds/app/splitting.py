"""Splitting a kind: into a number of parts, or around pictures that are picked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from newkinds.app.points import Points
from newkinds.clustering import kmeans
from newkinds.errors import UsageError

MOST_PARTS = 50
RESTARTS = 5
MANY = 4000  # pictures that centres are found from; the others join the nearest
Rows = NDArray[np.int64]


def in_parts(members: Rows, points: Points, parts: int) -> list[Rows]:
    """Return rows (n,) in a number of parts of pictures that look alike, the largest first; each holds some."""
    if not 2 <= parts <= MOST_PARTS:
        raise UsageError(
            f"A kind cannot be split in {parts}.", hint=f"Give a number from 2 to {MOST_PARTS}, or split it again."
        )
    if len(members) < parts:
        raise UsageError(
            f"A kind of {len(members)} pictures cannot be split in {parts}.", hint="Give a smaller number."
        )
    here = points[members]
    step = max(1, len(members) // MANY)
    found = kmeans(here[::step], parts, seed=0, restarts=RESTARTS)
    squares = np.square(found.centres).sum(axis=1) - 2 * here @ found.centres.T.astype(np.float32)
    return _parted(members, squares.argmin(axis=1))


def around(members: Rows, points: Points, seeds: Sequence[int]) -> list[Rows]:
    """Return rows (n,) in as many parts as there are seeds, each the pictures most like one; the largest first."""
    if len(set(seeds)) < 2 or not np.isin(seeds, members).all():
        raise UsageError("Two or more different pictures of the kind are needed.", hint="Pick one of each part.")
    nearest = (points[members] @ points[list(seeds)].T).argmax(axis=1)
    for number, seed in enumerate(seeds):
        nearest[members == seed] = number
    return _parted(members, nearest)


def _parted(members: Rows, part: NDArray[np.int64]) -> list[Rows]:
    found = [members[part == number] for number in np.unique(part)]
    return sorted(found, key=lambda rows: (-len(rows), int(rows[0])))
