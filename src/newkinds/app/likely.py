"""Which kind an undecided picture is likely of, by the pictures that a person has looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.app.points import Points

NEAREST = 2  # looked-at pictures of a kind that say how alike a picture is to it
EXAMPLES = 400  # of a kind, at most: the latest rows of more say nothing new, and cost time
CANDIDATES = 4_000  # pictures that are looked at in one go
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Likely:
    """What undecided pictures are likely of.

    rows: which pictures, int64 (n,). kind: the likeliest, int32 (n,), an index; next: the second, -1 where there is
    none. margin: by how much the first is more alike than the second, float32 (n,).
    """

    rows: Rows
    kind: NDArray[np.int32]
    next: NDArray[np.int32]
    margin: NDArray[np.float32]


def examples(kind: NDArray[np.int32], confirmed: NDArray[np.bool_]) -> Rows:
    """Return the rows of looked-at pictures, at most EXAMPLES of a kind, ascending."""
    rows = np.flatnonzero(confirmed)
    order = rows[np.argsort(kind[rows], kind="stable")]
    starts = np.searchsorted(kind[order], np.unique(kind[order]))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    return np.sort(order[rank < EXAMPLES])


def likely(rows: Rows, points: Points, kind: NDArray[np.int32], shown: Rows) -> Likely:
    """Return what pictures at `rows` (n,) are likely of. kind: of each picture, (N,); shown: rows of `examples`."""
    kinds = np.unique(kind[shown])
    alike = np.full((len(rows), max(2, len(kinds))), -1, dtype=np.float32)
    if len(kinds):
        similar = points[rows] @ points[shown].T
        for number, one in enumerate(kinds.tolist()):
            mine = similar[:, kind[shown] == one]
            top = min(NEAREST, mine.shape[1])
            alike[:, number] = np.partition(mine, -top, axis=1)[:, -top:].mean(axis=1)
    order = np.argsort(-alike, axis=1, kind="stable")[:, :2]
    here = np.arange(len(rows))
    padded = np.concatenate([kinds, np.full(2, -1)]).astype(np.int32)
    first, second = padded[order[:, 0]], padded[order[:, 1]]
    margin = alike[here, order[:, 0]] - alike[here, order[:, 1]]
    return Likely(rows, first, second, np.asarray(margin, dtype=np.float32))
