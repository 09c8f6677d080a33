"""How many new kinds there are, from rehearsals: known kinds that were hidden, clustered as the heap is.

f and transfer have seen neither the hidden kinds nor the heap, so both are alike. Features are averaged over
neighbours and joined by Ward's linkage. The height at which as many clusters are left as kinds were hidden is carried
over to the heap: the clusters that are left there are the estimate.

That height depends on how many pictures a kind has. So it is found for several ratios r of the size of the heap's kinds
to that of the hidden ones, the larger of the two thinned out to the size of the other. Of all numbers K, those are
likely whose ratio r = pictures / (K x size of a hidden kind) gives that same K again. How exactly it must is what
rehearsals tell: each hidden set is counted by the height of the others. That kinds are about equally large
(`count.size_spread`) is known beforehand; the rest is Bayes' rule over K, which gives the estimate and its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.stats import t as student

from newkinds.clustering.neighbours import directions, neighbours_averaged
from newkinds.count.result import Count, Point
from newkinds.errors import DataError
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator, one_thread
from newkinds.settings import Count as CountSettings

Array = NDArray[np.float64]

MOST = 3000  # pictures in one linkage, which takes their square of memory: 36 MB
BLOCK = 256  # rows of one product
RATIOS = 2.0 ** np.arange(-2, 2.5, 0.5)  # of the size of the heap's kinds to that of hidden ones
NEIGHBOURS = 10  # over which features are averaged, at most half a kind
FOLDS = 3  # that known kinds are hidden in, one after the other
AROUND = 0.1  # the height for K clusters is that of a line through K (1 - AROUND) to K (1 + AROUND)
SPLITS = 8  # at least so many halvings of hidden kinds, over all rehearsals, each half counted by the other
LEAST_ERROR = 0.03  # of log K: what a few rehearsals that happen to be right are not believed beyond
HOPELESS = 0.5  # of log K: rehearsals that are wrong by more than this say nothing
EMPTY = 0.85  # of the spread of sizes: an answer as uncertain as that rests on the size of the known kinds alone
BOTTOM = 1e-6  # the least height, of pictures that are equal


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Features of hidden known kinds, float (n, d), with labels int64 (n,), and of the heap, float (N, d).

    Both under one f and transfer that has seen neither. Several rehearsals may share one array for the heap. pictures:
    how many the heap has, if `heap` is a random sample of them; 0 if it is all.
    """

    hidden: NDArray[np.float32]
    labels: NDArray[np.int64]
    heap: NDArray[np.float32]
    pictures: int = 0

    @property
    def heap_size(self) -> int:
        """How many pictures the heap has, sampled or not."""
        return max(self.pictures, len(self.heap))

    @property
    def kinds(self) -> int:
        """How many kinds are hidden."""
        return len(np.unique(self.labels))


def count_rehearsed(
    rehearsals: Sequence[Rehearsal], settings: CountSettings, *, seed: int = 0, progress: Progress = QUIET
) -> Count:
    """Estimate the number of kinds in the heap, with an interval, from rehearsals: several draws of hidden kinds.

    One is enough if it hides at least four kinds: then its halves rehearse each other. Where the rehearsals fail or the
    answer lies at the edge of what was tried, `cannot_tell` of the result says so.
    """
    _check(rehearsals)
    size = float(np.mean([len(one.labels) / one.kinds for one in rehearsals]))
    work = _Linkages(rehearsals, size, seed)
    with progress.step("Counting new kinds", len(RATIOS) + 1) as step:
        errors = _errors(work, rehearsals, seed)
        step.advance()
        by_ratio = []
        for ratio in RATIOS:
            by_ratio.append([work.carried(number, ratio) for number in range(len(rehearsals))])
            step.advance()
    return _answer(np.array(by_ratio), errors, rehearsals[0].heap_size / size, len(rehearsals), settings)


def hidden_draws(kinds: int, draws: int, seed: int) -> list[NDArray[np.int64]]:
    """Return which known kinds are hidden in each of several draws: a third of them, each kind once in three draws."""
    size = max(2, kinds // FOLDS)
    found = []
    for draw in range(draws):
        order = generator(seed, "hidden kinds of the count", draw // FOLDS).permutation(kinds)
        first = draw % FOLDS * size
        found.append(np.sort(order[first : first + size]))
    return found


def can_rehearse(rehearsals: Sequence[Rehearsal]) -> bool:
    """Return whether there are enough hidden kinds: two in each of several draws, or four in one."""
    fewest = min((one.kinds for one in rehearsals), default=0)
    return fewest >= (2 if len(rehearsals) > 1 else 4)


def _check(rehearsals: Sequence[Rehearsal]) -> None:
    if not can_rehearse(rehearsals):
        fewest = min((one.kinds for one in rehearsals), default=0)
        raise DataError(
            "Counting needs several draws of at least 2 hidden kinds, or one of at least 4; there are "
            f"{len(rehearsals)} draws, the smallest of {fewest}.",
            hint="Give more known kinds, or say the number of new ones with --kinds.",
        )
    if min(len(one.heap) for one in rehearsals) < 4:
        raise DataError("Counting needs at least 4 unsorted pictures.", hint="Say the number of kinds with --kinds.")


class _Linkages:
    """Linkages of hidden kinds and heaps, thinned out to kinds of one size, each made once.

    size: the mean number of pictures of a hidden kind.
    """

    def __init__(self, rehearsals: Sequence[Rehearsal], size: float, seed: int) -> None:
        self.rehearsals = rehearsals
        self.size = size
        self.seed = seed
        # Where there are too many pictures for a linkage, both sides are thinned alike.
        most = max(max(one.heap_size, len(one.hidden)) for one in rehearsals)
        self.share = min(1.0, MOST / most)
        self._heaps: dict[tuple[int, float, int], Array] = {}

    def neighbours(self, ratio: float) -> int:
        """Return over how many neighbours features are averaged: at most half of a kind."""
        return int(np.clip(round(self.size * self.share * min(1.0, ratio) / 2), 1, NEIGHBOURS))

    def of_hidden(self, number: int, ratio: float = 1.0, only: NDArray[np.int64] | None = None) -> tuple[Array, int]:
        """Return the log heights of a rehearsal's hidden kinds, or of some of them, and their number."""
        one = self.rehearsals[number]
        rows = np.arange(len(one.labels)) if only is None else np.flatnonzero(np.isin(one.labels, only))
        rows = rows[_thinned(one.labels[rows], self.share * min(1.0, ratio), self.seed, number)]
        return log_heights(one.hidden[rows], self.neighbours(ratio)), len(np.unique(one.labels[rows]))

    def of_heap(self, number: int, ratio: float) -> Array:
        """Return the log heights of the heap under a rehearsal's transfer."""
        one = self.rehearsals[number]
        heap, share = one.heap, self.share * min(1.0, 1 / ratio) * one.heap_size / len(one.heap)
        key = (id(heap), share, self.neighbours(ratio))
        if key not in self._heaps:
            rows = _thinned(np.zeros(len(heap), np.int64), share, self.seed, number)
            self._heaps[key] = log_heights(heap[rows], key[2])
        return self._heaps[key]

    def carried(self, number: int, ratio: float) -> float:
        """Return log K of the heap by the height of a rehearsal's hidden kinds, if sizes have this ratio."""
        hidden, kinds = self.of_hidden(number, ratio)
        return log_number(self.of_heap(number, ratio), log_height(hidden, kinds))


def _thinned(labels: NDArray[np.int64], share: float, seed: int, number: int) -> NDArray[np.int64]:
    """Return the rows of a random share of the pictures of each kind, at least two of each, in order."""
    if share >= 1:
        return np.arange(len(labels))
    order = generator(seed, "thinned pictures", number).permutation(len(labels))
    kept = []
    for kind in np.unique(labels):
        mine = order[labels[order] == kind]
        kept.append(mine[: max(2, round(share * len(mine)))])
    return np.sort(np.concatenate(kept))


def log_heights(features: NDArray[np.float32], neighbours: int) -> Array:
    """Return the logarithms of the heights at which Ward's linkage joins pictures (n, d), highest first: (n - 1,)."""
    with one_thread():
        points = directions(neighbours_averaged(features, neighbours))
        n = len(points)
        condensed = np.empty(n * (n - 1) // 2)
        first = 0
        for start in range(0, n - 1, BLOCK):
            products = points[start : start + BLOCK] @ points[start:].T
            for row in range(min(BLOCK, n - 1 - start)):
                last = first + n - 1 - start - row
                condensed[first:last] = products[row, row + 1 :]
                first = last
        np.sqrt(np.maximum(2 - 2 * condensed, 0), out=condensed)  # all are of length 1
        heights = linkage(condensed, "ward")[::-1, 2]
    logs: Array = np.log(np.maximum(heights, BOTTOM))
    return logs


def _levels(heights: Array) -> Array:
    """Return a log height at which 1, 2, ... clusters are left, between those at which their number changes."""
    above = heights[0] + (heights[0] - heights[1]) / 2
    between: Array = np.concatenate([[above], (heights[:-1] + heights[1:]) / 2])
    return between


def log_height(heights: Array, kinds: int) -> float:
    """Return the log height at which so many clusters are left, smoothed by a line over log K around it."""
    levels = _levels(heights)
    first, last = max(1, math.floor(kinds * (1 - AROUND)) - 1), math.ceil(kinds * (1 + AROUND)) + 1
    numbers = np.arange(first, min(last, len(levels)) + 1)
    if len(numbers) < 3:
        return float(levels[min(kinds, len(levels)) - 1])
    slope, offset = np.polyfit(np.log(numbers), levels[numbers - 1], 1)
    return float(slope * math.log(kinds) + offset)


def log_number(heights: Array, level: float) -> float:
    """Return the logarithm of how many clusters are left at a log height, a fraction between whole numbers."""
    levels = _levels(heights)
    return float(np.interp(-level, -levels, np.log(np.arange(1, len(levels) + 1))))


def _errors(work: _Linkages, rehearsals: Sequence[Rehearsal], seed: int) -> Array:
    """Return log(estimate / truth) of hidden kinds: of each rehearsal by the others, of each half by the other."""
    whole = [work.of_hidden(number) for number in range(len(rehearsals))]
    levels = np.array([log_height(heights, kinds) for heights, kinds in whole])
    errors = []
    if len(rehearsals) > 1:
        for number, (heights, kinds) in enumerate(whole):
            errors.append(log_number(heights, float(np.delete(levels, number).mean())) - math.log(kinds))
    for split in range(max(SPLITS, len(rehearsals))):
        number = split % len(rehearsals)
        present = np.unique(rehearsals[number].labels)
        if len(present) < 4:
            continue
        order = generator(seed, "halves of hidden kinds", split).permutation(present)
        halves = [work.of_hidden(number, only=half) for half in (order[::2], order[1::2])]
        for (mine, kinds), (other, others) in (halves, halves[::-1]):
            errors.append(log_number(mine, log_height(other, others)) - math.log(kinds))
    return np.array(errors)


def _answer(by_ratio: Array, errors: Array, known_sizes: float, draws: int, settings: CountSettings) -> Count:
    """Apply Bayes' rule to all K: by_ratio (ratios, rehearsals) are log K carried over, known_sizes = N / size."""
    tail = (1 - settings.confidence) / 2
    error = max(float(np.sqrt(np.square(errors).mean())), LEAST_ERROR)
    # Few rehearsals know their own error badly: as wide as Student's distribution is.
    degrees = max(3, draws - 1 + len(errors) // 4)
    wide = error * float(student.ppf(1 - tail, degrees) / student.ppf(1 - tail, 10**6))
    numbers = np.arange(1, settings.max_kinds + 1)
    log_k = np.log(numbers)
    log_ratio = math.log(known_sizes) - log_k
    carried = np.interp(log_ratio, np.log(RATIOS), by_ratio.mean(axis=1))
    misfit = np.square((carried - log_k) / wide) + np.square(log_ratio / settings.size_spread)
    chance = np.exp(-(misfit - misfit.min()) / 2) / numbers
    chance /= chance.sum()
    total = np.cumsum(chance)
    low, k, high = (int(numbers[np.searchsorted(total, share)]) for share in (tail, 0.5, 1 - tail))
    spread = math.sqrt(float((chance * np.square(log_k - (chance * log_k).sum())).sum()))
    unsure = _cannot_tell(k, high, error, spread, known_sizes, settings)
    each = tuple(int(x) for x in np.rint(np.exp(by_ratio[len(RATIOS) // 2])))
    return Count(
        k=k,
        low=low,
        high=high,
        confidence=math.nan if unsure else settings.confidence,
        k_accuracy=k,
        k_index=k,
        k_mean=k,
        answers=each,
        curve=tuple(
            Point(int(n), math.nan, 0.0, float(p), 0.0, float(np.exp(c)))
            for n, p, c in zip(numbers, chance, carried, strict=True)
        ),
        index_error=0.0,
        remarks=(),
        estimator="rehearsed",
        error=error,
        size_ratio=known_sizes / k,
        cannot_tell=unsure,
    )


def _cannot_tell(
    k: int, high: int, error: float, spread: float, known_sizes: float, settings: CountSettings
) -> str | None:
    """Return why the number cannot be told, or None where it can."""
    if error > HOPELESS:
        return (
            f"on hidden known kinds, the number was wrong by a factor of {math.exp(error):.1f} on average: the "
            "features do not tell kinds apart"
        )
    if high >= settings.max_kinds:
        return f"the interval reaches the largest number tried, count.max_kinds = {settings.max_kinds}"
    if not RATIOS[0] < known_sizes / k < RATIOS[-1]:
        return (
            f"the new kinds seem to have {known_sizes / k:.2g} times as many pictures as the known ones, the edge of "
            "what can be compared"
        )
    if spread > EMPTY * settings.size_spread:
        return "any number fits the unsorted pictures: only the size of the known kinds speaks for this one"
    return None
