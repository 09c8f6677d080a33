"""What a person might want to say next, found at once from who is whose neighbour: nothing is trained.

Everything here is computed from the nearest pictures of each picture, which are found once, and from the kinds as they
are now: so a correction changes what is suggested in the same moment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.app.points import SURE, Points
from newkinds.memory import row_blocks

NEAREST = 10  # neighbours of each picture
CLOSE = 5  # of them, those that say whether kinds should merge
LOOKS = 1.0  # how much likeness to a kind's centre counts beside the neighbours
MERGE = 0.25  # share of two kinds' pictures that must have the other kind among their nearest
EQUAL = 0.985  # how alike two pictures are that count as the same one
MOST = 40  # suggestions of each sort
PAGE = 100  # pictures that are offered at a time
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds at one moment.

    kind: of each picture, int32 (N,), an index below `count`. confirmed: whether a person looked at it, bool (N,).
    known: which indices are known kinds, bool (count,). closed: which take no part: "none" and rejected ones.
    """

    kind: NDArray[np.int32]
    confirmed: NDArray[np.bool_]
    known: NDArray[np.bool_]
    closed: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """How many indices there are."""
        return len(self.known)


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Undecided pictures that may be of another kind than the one that they are in, by that kind, alike ones together.

    targets: the index of the kind that each is likely of, int64 (n,). gain: by how much more its neighbours speak for
    that one than for its own, float32 (n,): below 0, they speak for its own.
    """

    rows: Rows
    targets: NDArray[np.int64]
    gain: NDArray[np.float32]


@dataclass(frozen=True)
class Alike:
    """Two kinds that look like one. shares: of the first's and the second's pictures that have the other very near."""

    first: int
    second: int
    shares: tuple[float, float]


def votes(near: Rows, now: Kinds) -> NDArray[np.float32]:
    """Return how much of each picture's neighbours (N, n) each kind has, float32 (N, count), rows summing to 1.

    Neighbours that a person has looked at count SURE times; those in closed kinds do not.
    """
    n = len(near)
    others = near[:, 1:] if near.shape[1] > 1 else near[:, :0]  # the first is the picture itself, or its equal
    weight = np.where(now.confirmed, SURE, 1).astype(np.float64)
    weight[now.closed[now.kind]] = 0
    place = np.arange(n)[:, None] * now.count + now.kind[others]
    found = np.bincount(place.ravel(), weights=weight[others].ravel(), minlength=n * now.count)
    found = found.reshape(n, now.count).astype(np.float32)
    total = found.sum(axis=1, keepdims=True)
    return np.asarray(found / np.where(total > 0, total, 1), dtype=np.float32)


def elsewhere(
    near: Rows,
    points: Points,
    centres: Points,
    now: Kinds,
    refused: Mapping[int, Collection[int]] | None = None,
) -> Elsewhere:
    """Return a page of the pictures that are likeliest of another kind, by their neighbours and the kinds' centres.

    Pages can be asked for until nothing is left: those that a person moves are decided, and those that he does not are
    refused. refused: pictures that were passed over for a kind, by its index: they are not offered for it again.
    """
    found = votes(near, now)
    for block in row_blocks(len(points), now.count):
        found[block] += LOOKS * (points[block] @ centres.T)
    rows = np.arange(len(found))
    own = found[rows, now.kind].copy()
    found[rows, now.kind] = -np.inf
    found[:, now.closed] = -np.inf
    for kind, some in (refused or {}).items():
        found[np.fromiter(some, np.int64, len(some)), kind] = -np.inf
    best = found.argmax(axis=1)
    gain = np.where(now.confirmed, -np.inf, found[rows, best] - own)
    page = np.argsort(-gain, kind="stable")[:PAGE]
    page = page[np.isfinite(gain[page])]
    page = page[np.lexsort((-gain[page], best[page]))]
    targets = np.unique(best[page])
    page = np.concatenate([page[:0], *(chained(page[best[page] == kind], points) for kind in targets)])
    return Elsewhere(page, best[page], gain[page].astype(np.float32))


def chained(rows: Rows, points: Points) -> Rows:
    """Return pictures in such an order that each is followed by the one most like it: what is right or wrong together
    is picked together. The first stays the first.
    """
    similar = points[rows] @ points[rows].T
    order, left = [0], np.ones(len(rows), dtype=np.bool_)
    left[0] = False
    while left.any():
        order.append(int(np.where(left, similar[order[-1]], -np.inf).argmax()))
        left[order[-1]] = False
    return rows[order]


def alike(near: Rows, now: Kinds) -> list[Alike]:
    """Return pairs of kinds that are each other's neighbours, of which at most one is known, the likeliest first."""
    theirs = np.sort(now.kind[near[:, 1 : CLOSE + 1]].astype(np.int64), axis=1)
    is_first = np.ones(theirs.shape, dtype=np.bool_)
    is_first[:, 1:] = np.diff(theirs, axis=1) != 0  # a kind counts once a picture
    pairs = (now.kind[:, None].astype(np.int64) * now.count + theirs)[is_first]
    meets = np.bincount(pairs, minlength=now.count**2)
    sizes = np.bincount(now.kind, minlength=now.count)
    share = meets.reshape(now.count, now.count) / np.maximum(sizes, 1)[:, None]
    found = []
    for first in range(now.count):
        for second in range(first + 1, now.count):
            if now.closed[first] or now.closed[second] or (now.known[first] and now.known[second]):
                continue
            there, back = float(share[first, second]), float(share[second, first])
            if max(there, back) >= MERGE and min(there, back) > MERGE / 4:
                found.append(Alike(first, second, (there, back)))
    found.sort(key=lambda one: (-one.shares[0] - one.shares[1], one.first, one.second))
    return found[:MOST]


def repeated(near: Rows, points: Points, now: Kinds) -> list[Rows]:
    """Return groups of pictures that look the same, those in several kinds first, then the largest."""
    if near.shape[1] < 2:
        return []
    leader = np.arange(len(near))
    for column in range(1, min(near.shape[1], 4)):
        same = np.einsum("nd,nd->n", points, points[near[:, column]]) >= EQUAL
        for row in np.flatnonzero(same).tolist():
            a, b = _first(leader, row), _first(leader, int(near[row, column]))
            leader[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for row in np.flatnonzero(leader != np.arange(len(leader))).tolist():
        first = _first(leader, row)
        groups.setdefault(first, [first]).append(row)
    found = [np.array(rows, dtype=np.int64) for rows in groups.values()]
    found = [rows for rows in found if not now.confirmed[rows].all()]
    found.sort(key=lambda rows: (-len(np.unique(now.kind[rows])), -len(rows), int(rows[0])))
    return found[:MOST]


def _first(leader: NDArray[np.int64], row: int) -> int:
    """Return the first picture of the group that one is in."""
    while leader[row] != row:
        leader[row] = leader[leader[row]]
        row = int(leader[row])
    return row
