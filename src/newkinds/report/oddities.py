"""Pictures worth a look: doubtful ones, duplicates, and outliers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.report.data import ReportData
from newkinds.report.kinds import DOUBTFUL

SHOWN = 24  # pictures of each type
GROUPS = 12  # of equal pictures
IN_GROUP = 8
NEAR = 4.0  # levels of 255 by which near pictures differ, on average, at most
FAR = 2.0  # times the typical distance from the mean of its kind: beyond that, a picture is an outlier
GRID = 8  # near-duplicates are compared on 8 x 8 means of areas


@dataclass(frozen=True)
class Group:
    """Duplicates or near-duplicates; `kinds`: how many kinds they are in."""

    items: tuple[int, ...]
    size: int
    kinds: int


@dataclass(frozen=True)
class Oddities:
    """Pictures worth a look, most remarkable first.

    doubtful: those that are probably wrong, or where that cannot be told, the last in the method's order. same, near:
    groups of pictures; n_same, n_near: how many groups there are in total, of how many pictures. unlike: outliers and
    their distance in units of the typical one; n_unlike: how many there are among the `looked_at`; beside_known:
    whether the known kinds were considered, too.
    """

    doubtful: tuple[int, ...]
    same: tuple[Group, ...]
    n_same: tuple[int, int]
    near: tuple[Group, ...]
    n_near: tuple[int, int]
    unlike: tuple[tuple[int, float], ...]
    n_unlike: int
    looked_at: int
    beside_known: bool

    @property
    def items(self) -> list[int]:
        """All pictures that are shown."""
        groups = [item for group in (*self.same, *self.near) for item in group.items]
        return [*self.doubtful, *groups, *(item for item, _ in self.unlike)]


def find_oddities(data: ReportData) -> Oddities:
    """Find the pictures that are worth a look."""
    own = data.own_probability
    rising = np.argsort(own, kind="stable")[:SHOWN]
    below = DOUBTFUL if data.calibrated else own.max()  # where they are only ordered, all but the surest may be shown
    same: list[list[int]] = []
    near: list[list[int]] = []
    if data.pixels is not None:
        same, near = _repeated(data.pixels)
    unlike, looked_at = _unlike(data)
    return Oddities(
        doubtful=tuple(int(i) for i in rising if own[i] < below),
        same=tuple(_group(data, items) for items in _remarkable(data, same)),
        n_same=(len(same), sum(len(items) for items in same)),
        near=tuple(_group(data, items) for items in _remarkable(data, near)),
        n_near=(len(near), sum(len(items) for items in near)),
        unlike=tuple(unlike[:SHOWN]),
        n_unlike=len(unlike),
        looked_at=looked_at,
        beside_known=data.nearest_known is not None,
    )


def _repeated(pixels: NDArray[np.uint8]) -> tuple[list[list[int]], list[list[int]]]:
    """Return groups of row numbers with equal pixels, and groups of nearly equal pictures that are not equal.

    Near-duplicates have the same pattern of light and dark between neighbouring areas, and about the same mean: one
    pass finds them, without comparing every pair. It misses a few of them.
    """
    exact: dict[bytes, list[int]] = {}
    for item in range(len(pixels)):
        exact.setdefault(hashlib.blake2b(np.ascontiguousarray(pixels[item]).data, digest_size=16).digest(), []).append(
            item
        )
    firsts = [items[0] for items in exact.values()]
    alike: dict[bytes, list[tuple[int, NDArray[np.float32]]]] = {}
    down, across = _edges(pixels.shape[2]), _edges(pixels.shape[3])
    at_once = max(1, 2**24 // pixels[0].size)
    for start in range(0, len(firsts), at_once):
        some = firsts[start : start + at_once]
        small = _areas(pixels[some], down, across)
        patterns = np.packbits((np.diff(small, axis=3) > 0).reshape(len(some), -1), axis=1)
        levels = np.rint(small.mean(axis=(2, 3)) / NEAR).astype(np.uint8)
        for item, values, pattern, level in zip(some, small, patterns, levels, strict=True):
            group = alike.setdefault(pattern.tobytes() + level.tobytes(), [])
            if not group or np.abs(values - group[0][1]).mean() <= NEAR:
                group.append((item, values))
    same = [items for items in exact.values() if len(items) > 1]
    return same, [[item for item, _ in group] for group in alike.values() if len(group) > 1]


def _edges(size: int) -> NDArray[np.int64]:
    parts = min(GRID, size)
    return np.arange(parts) * size // parts


def _areas(pixels: NDArray[np.uint8], down: NDArray[np.int64], across: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the mean of each area of pictures (n, C, H, W) that starts at these rows and columns."""
    sums = np.add.reduceat(np.add.reduceat(pixels.astype(np.float32), down, axis=2), across, axis=3)
    heights, widths = np.diff([*down, pixels.shape[2]]), np.diff([*across, pixels.shape[3]])
    return np.asarray(sums / (heights[:, None] * widths), dtype=np.float32)


def _remarkable(data: ReportData, groups: list[list[int]]) -> list[list[int]]:
    """Return the groups to show: first those in several kinds, then the largest."""
    return sorted(groups, key=lambda items: (-len(set(data.labels[items].tolist())), -len(items), items[0]))[:GROUPS]


def _group(data: ReportData, items: list[int]) -> Group:
    kinds = data.labels[items]
    _, one_of_each = np.unique(kinds, return_index=True)  # so that all kinds are visible
    order = dict.fromkeys([*one_of_each.tolist(), *range(len(items))])
    return Group(tuple(items[i] for i in list(order)[:IN_GROUP]), len(items), len(one_of_each))


def _unlike(data: ReportData) -> tuple[list[tuple[int, float]], int]:
    """Return pictures farther than FAR times the typical distance from every mean, the farthest first, of how many.

    If the run has a model, these are the means of known and new kinds of its features; otherwise those of the new kinds
    of the map's features.
    """
    near = data.nearest_known
    away = _own_distances(data) if near is None else np.minimum(near.known_distances, near.new_distances)
    found = np.flatnonzero(away > FAR)
    found = found[np.argsort(-away[found], kind="stable")]
    return [(int(i), float(away[i])) for i in found], len(away)


def _own_distances(data: ReportData) -> NDArray[np.float64]:
    """Return pictures' distances to the nearest mean of a kind, in units of the typical distance to the own one."""
    points = data.features
    scale = np.float64(max(float(np.abs(points).max(initial=0.0)), 1e-300))  # squares must neither overflow nor vanish
    sizes = np.bincount(data.labels, minlength=data.n_kinds)
    middles = np.zeros((data.n_kinds, points.shape[1]))
    np.add.at(middles, data.labels, points / scale)
    middles = middles[sizes > 0] / sizes[sizes > 0, None]
    place = np.cumsum(sizes > 0) - 1  # of a kind among those that are not empty
    own, least = np.empty(len(points)), np.empty(len(points))
    for start in range(0, len(points), 4_096):  # in chunks: as float64, all at once would fill the memory
        rows = slice(start, start + 4_096)
        squares = np.stack([np.square(points[rows] / scale - middle).sum(axis=1) for middle in middles], axis=1)
        least[rows] = squares.min(axis=1)
        own[rows] = squares[np.arange(len(squares)), place[data.labels[rows]]]
    usual = float(np.sqrt(own.mean()))
    return np.asarray(np.sqrt(least) / usual if usual > 1e-12 else np.zeros(len(points)), dtype=np.float64)
