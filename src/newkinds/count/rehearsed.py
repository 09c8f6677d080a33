"""How many new kinds there are, from rehearsals: known kinds that were hidden, clustered as the heap is.

f and transfer have seen neither the hidden kinds nor the heap, so both are alike. Features are averaged over
neighbours and joined by Ward's linkage. The height at which as many clusters are left as kinds were hidden is carried
over to the heap: the clusters that are left there are the estimate.

That height depends on how many pictures a kind has. So it is found for several ratios r of the size of the heap's kinds
to that of the hidden ones, the larger of the two thinned out to the size of the other. Of all numbers K, those are
likely whose ratio r = pictures / (K x size of a hidden kind) gives that same K again. Where kinds overlap, many do. So
a second curve is asked that does not depend on sizes: how far pictures are from the centre of their cluster, with K
clusters of features as they are. It is less exact, and tells which sizes are possible.

How exactly either must fit is what rehearsals tell: each hidden set is counted by the others. What is known beforehand
is that new kinds are probably about as large as known ones, all the more if those are equally large
(`count.size_spread`), and possibly not at all. The rest is Bayes' rule over K, which gives the estimate and its
interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from newkinds.clustering import kmeans
from newkinds.clustering.neighbours import directions_float32
from newkinds.count.linkage import Array, distances_from_centres, level_of, levels, log_heights, log_number
from newkinds.count.result import Count, Point
from newkinds.equations import clustering_accuracy
from newkinds.errors import DataError
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds.settings import Count as CountSettings

MOST = 3000  # pictures in one linkage, which takes their square of memory: 36 MB
RATIOS = 2.0 ** np.arange(-2, 2.5, 0.5)  # of the size of the heap's kinds to that of hidden ones
NEIGHBOURS = 10  # over which features are averaged, at most half a kind
FOLDS = 3  # that known kinds are hidden in, one after the other
SPLITS = 8  # at least so many halvings of hidden kinds, over all rehearsals, each half counted by the other
# Found on draws for tuning: what heaps differ by that rehearsals cannot see.
LEAST_ERROR = 0.06  # of log K: what rehearsals that happen to be right are not believed beyond
MORE_ERROR = 0.05  # of log K by the distances from centres, beside what rehearsals show
LESS_SURE = 1.5  # times the error of rehearsals by heights: heaps differ by more, and heights hardly change with K
ALIKE = 0.15  # by which share new kinds may be larger or smaller than known ones that are all equally large
OTHERWISE, ANY_SIZE = 0.5, 0.7  # how probably they are of quite another size, and of how far, in log
RESIZED = 0.1  # of log K, for each factor of e between sizes: what comparing thinned kinds adds to the error
HOPELESS = 0.5  # of log K: rehearsals that are wrong by more than this say nothing
BETTER = 0.1  # of the way from chance to all right: hidden kinds that are sorted no better than this are not told apart
VAGUE = 3.0  # times its lower end: an interval as wide as that tells nothing


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
    return answer(gather(rehearsals, seed=seed, progress=progress), settings)


def gather(rehearsals: Sequence[Rehearsal], *, seed: int = 0, progress: Progress = QUIET) -> Evidence:
    """Return what speaks for each number of kinds."""
    _check(rehearsals)
    sizes = [np.unique(one.labels, return_counts=True)[1] for one in rehearsals]
    size = float(np.mean([some.mean() for some in sizes]))
    work = _Linkages(rehearsals, size, seed)
    with progress.step("Counting new kinds", len(RATIOS) + 2) as step:
        errors = _errors(work.of_hidden, rehearsals, seed)[:, 0]
        step.advance()
        by_centres = np.array([work.carried_by_centres(number) for number in range(len(rehearsals))])
        errors_by_centres = _errors(work.centres_of_hidden, rehearsals, seed)
        step.advance()
        by_ratio = []
        for ratio in RATIOS:
            by_ratio.append([work.carried(number, ratio) for number in range(len(rehearsals))])
            step.advance()
    return Evidence(
        by_ratio=np.array(by_ratio),
        errors=errors,
        by_centres=float(by_centres.mean()),
        errors_by_centres=errors_by_centres,
        hidden=len(np.unique(np.concatenate([one.labels for one in rehearsals]))),
        known_sizes=rehearsals[0].heap_size / size,
        unequal=float(np.mean([some.std() / some.mean() for some in sizes])),
        told_apart=_told_apart(rehearsals, seed),
    )


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
            "Counting needs several draws of at least 2 hidden kinds each, or one of at least 4; there "
            f"are {len(rehearsals)} draws, and the smallest has {fewest}.",
            hint="Give more known kinds, or give the number of new ones with --kinds.",
        )
    if min(len(one.heap) for one in rehearsals) < 4:
        raise DataError("Counting needs at least 4 unsorted pictures.", hint="Give the number of kinds with --kinds.")


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
        """Return the levels of a rehearsal's hidden kinds, or of some of them, and their number."""
        rows = self._rows(number, self.share * min(1.0, ratio), only)
        one = self.rehearsals[number]
        return levels(log_heights(one.hidden[rows], self.neighbours(ratio))), len(np.unique(one.labels[rows]))

    def centres_of_hidden(self, number: int, *, only: NDArray[np.int64] | None = None) -> tuple[Array, int]:
        """Return the distances from centres of a rehearsal's hidden kinds, or of some of them, and their number."""
        rows = self._rows(number, self.share, only)
        one = self.rehearsals[number]
        return distances_from_centres(log_heights(one.hidden[rows], 1)), len(np.unique(one.labels[rows]))

    def _rows(self, number: int, share: float, only: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return a share of the pictures of a rehearsal's hidden kinds, or of some of them."""
        labels = self.rehearsals[number].labels
        rows = np.arange(len(labels)) if only is None else np.flatnonzero(np.isin(labels, only))
        return rows[_thinned(labels[rows], share, self.seed, number)]

    def of_heap(self, number: int, ratio: float, neighbours: int) -> Array:
        """Return the log heights of the heap under a rehearsal's transfer, thinned out for this ratio."""
        one = self.rehearsals[number]
        heap, share = one.heap, self.share * min(1.0, 1 / ratio) * one.heap_size / len(one.heap)
        key = (id(heap), share, neighbours)
        if key not in self._heaps:
            rows = _thinned(np.zeros(len(heap), np.int64), share, self.seed, number)
            self._heaps[key] = log_heights(heap[rows], neighbours)
        return self._heaps[key]

    def carried(self, number: int, ratio: float) -> float:
        """Return log K of the heap by the height of a rehearsal's hidden kinds, if sizes have this ratio."""
        hidden, kinds = self.of_hidden(number, ratio)
        return log_number(levels(self.of_heap(number, ratio, self.neighbours(ratio))), level_of(hidden, kinds))

    def carried_by_centres(self, number: int) -> float:
        """Return log K of the heap by the distances from centres of a rehearsal's hidden kinds, of whatever size."""
        hidden, kinds = self.centres_of_hidden(number)
        return log_number(distances_from_centres(self.of_heap(number, 1.0, 1)), level_of(hidden, kinds))


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


def _errors(of_hidden: Callable[..., tuple[Array, int]], rehearsals: Sequence[Rehearsal], seed: int) -> Array:
    """Return log(estimate / truth) of hidden kinds, of each rehearsal by the others, then of each half by the other.

    of_hidden: the curve of a rehearsal's kinds, or of `only` some of them, and their number. Float64 (m, 3): beside
    each error, the numbers of kinds that the level is from and that it was carried over to.
    """
    whole = [of_hidden(number) for number in range(len(rehearsals))]
    found = np.array([level_of(curve, kinds) for curve, kinds in whole])
    errors = []
    if len(rehearsals) > 1:
        for number, (curve, kinds) in enumerate(whole):
            rest = np.concatenate([one.labels for place, one in enumerate(rehearsals) if place != number])
            error = log_number(curve, float(np.delete(found, number).mean())) - math.log(kinds)
            errors.append((error, len(np.unique(rest)), kinds))
    for split in range(max(SPLITS, len(rehearsals))):
        number = split % len(rehearsals)
        present = np.unique(rehearsals[number].labels)
        if len(present) < 4:
            continue
        order = generator(seed, "halves of hidden kinds", split).permutation(present)
        halves = [of_hidden(number, only=half) for half in (order[::2], order[1::2])]
        for (mine, kinds), (other, others) in (halves, halves[::-1]):
            errors.append((log_number(mine, level_of(other, others)) - math.log(kinds), others, kinds))
    return np.array(errors)


def _root_mean_square(errors: Array) -> float:
    return float(np.sqrt(np.square(errors).mean()))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks for a number of kinds.

    by_ratio: log K carried over by heights, (ratios, rehearsals), and the errors of that, (m,). by_centres: log K by
    the distances from centres, and its errors as `_errors` returns them, (m, 3). hidden: how many kinds were, in any
    rehearsal. known_sizes: the heap's pictures by the size of a hidden kind. unequal: the standard deviation of hidden
    kinds' sizes by their mean. told_apart: how far k-means with their number sorts hidden kinds, from 0, by chance, to
    1, all right.
    """

    by_ratio: Array
    errors: Array
    by_centres: float
    errors_by_centres: Array
    hidden: int
    known_sizes: float
    unequal: float
    told_apart: float

    @property
    def error(self) -> float:
        """The root mean square of the errors, at least LEAST_ERROR."""
        return max(_root_mean_square(self.errors), LEAST_ERROR)

    def log_ratio(self, log_k: Array) -> Array:
        """Return the logarithm of how many times as large as hidden kinds the new ones are, if there are K."""
        ratio: Array = math.log(self.known_sizes) - log_k
        return ratio

    def carried(self, log_k: Array) -> Array:
        """Return log K by heights, if sizes are those that K makes."""
        return np.asarray(np.interp(self.log_ratio(log_k), np.log(RATIOS), self.by_ratio.mean(axis=1)))

    def error_by_centres(self, log_k: Array) -> Array:
        """Return the error of log K by the distances from centres, if there are K.

        Kinds are looser or tighter, and a mean over few of them is chance: the error is less where more were hidden,
        and where the heap has more. By how much, halves of hidden kinds tell; whole rehearsals tell what is between
        groups of kinds, beside that.
        """
        squared, fewness = np.square(self.errors_by_centres[:, 0]), (1 / self.errors_by_centres[:, 1:]).sum(axis=1)
        draws = self.by_ratio.shape[1]
        whole = draws if draws > 1 else 0
        part = slice(whole, None) if len(squared) > whole else slice(None)
        each = float(np.mean(squared[part] / fewness[part]))
        between = max(0.0, float(np.mean(squared[:whole] - each * fewness[:whole]))) if whole else 0.0
        return np.asarray(np.sqrt(each * (1 / self.hidden + np.exp(-log_k)) + between + MORE_ERROR**2))

    def probabilities(self, log_k: Array, settings: CountSettings) -> Array:
        """Return how probable each number is, by Bayes' rule: float64 like log_k, of sum 1."""
        draws, tail = self.by_ratio.shape[1], (1 - settings.confidence) / 2
        # Few rehearsals know their own error badly: as wide as Student's distribution is.
        degrees = max(3, draws - 1 + len(self.errors) // 4)
        expected = max(LESS_SURE * _root_mean_square(self.errors), LEAST_ERROR)
        wide = expected * float(student.ppf(1 - tail, degrees) / student.ppf(1 - tail, 10**6))
        error = np.hypot(wide, RESIZED * self.log_ratio(log_k))
        misfit = np.square((self.carried(log_k) - log_k) / error) + 2 * np.log(error)
        by_centres = self.error_by_centres(log_k)
        misfit += np.square((self.by_centres - log_k) / by_centres) + 2 * np.log(by_centres)
        chance = np.exp(-(misfit - misfit.min()) / 2 - log_k) * self._of_sizes(log_k, settings.size_spread)
        return np.asarray(chance / chance.sum())

    def _of_sizes(self, log_k: Array, most: float) -> Array:
        """Return how probable sizes are beforehand: about those of hidden kinds, or anything."""
        near = max(min(self.unequal, most), min(ALIKE, most))
        ratio = self.log_ratio(log_k)
        parts = [np.exp(-np.square(ratio / wide) / 2) / wide for wide in (near, max(ANY_SIZE, most))]
        return np.asarray((1 - OTHERWISE) * parts[0] + OTHERWISE * parts[1])


def answer(evidence: Evidence, settings: CountSettings) -> Count:
    """Return the median of what the evidence says, its interval, and whether that can be told at all."""
    numbers = np.arange(1, settings.max_kinds + 1)
    log_k = np.log(numbers)
    chance = evidence.probabilities(log_k, settings)
    k = int(numbers[np.searchsorted(np.cumsum(chance), 0.5)])
    low, high = interval(chance, k, settings.confidence)
    ratio = evidence.known_sizes / k
    unsure = _cannot_tell(low, high, evidence, ratio, settings)
    each = tuple(int(x) for x in np.rint(np.exp(evidence.by_ratio[len(RATIOS) // 2])))
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
            for n, p, c in zip(numbers, chance, evidence.carried(log_k), strict=True)
        ),
        index_error=0.0,
        remarks=(),
        estimator="rehearsed",
        error=evidence.error,
        size_ratio=ratio,
        cannot_tell=unsure,
    )


def interval(chance: Array, k: int, confidence: float) -> tuple[int, int]:
    """Return the least and the largest number of an interval around k that holds the true one about so probably.

    chance: of the numbers 1, 2, ..., of sum 1. Tails are equal as far as whole numbers allow. These hold more than they
    are asked for, among small numbers much more: so ends are left out as long as that comes nearer to what is asked.
    """
    total, tail = np.cumsum(chance), (1 - confidence) / 2
    low, high = (1 + int(np.searchsorted(total, share)) for share in (tail, 1 - tail))
    high = min(high, len(chance))
    inside = float(chance[low - 1 : high].sum())
    while low < high:
        ends = {number: float(chance[number - 1]) for number in (low, high) if number != k}
        end = min(ends, key=lambda number: ends[number])
        if abs(inside - ends[end] - confidence) >= abs(inside - confidence):
            break
        inside -= ends[end]
        low, high = (low + 1, high) if end == low else (low, high - 1)
    return low, high


def _told_apart(rehearsals: Sequence[Rehearsal], seed: int) -> float:
    """Return how far k-means with their number sorts hidden kinds, from 0, by chance, to 1, all right."""
    found = []
    for number, one in enumerate(rehearsals):
        rows = _thinned(one.labels, min(1.0, MOST / len(one.labels)), seed, number)
        truth = one.labels[rows]
        labels = kmeans(directions_float32(one.hidden[rows]), one.kinds, seed=seed, restarts=3).labels
        chance = clustering_accuracy(generator(seed, "chance of the count", number).permutation(labels), truth)
        found.append((clustering_accuracy(labels, truth) - chance) / max(1 - chance, 1e-6))
    return float(np.mean(found))


def _cannot_tell(low: int, high: int, evidence: Evidence, ratio: float, settings: CountSettings) -> str | None:
    """Return why the number cannot be told, or None where it can."""
    if evidence.told_apart < BETTER:
        return (
            "known kinds that were hidden were sorted hardly better than by chance, so the features do "
            "not separate kinds"
        )
    if evidence.error > HOPELESS:
        return (
            "the number of hidden known kinds was estimated wrongly by a factor of "
            f"{math.exp(evidence.error):.1f} on average, so the features do not separate kinds"
        )
    if high >= settings.max_kinds:
        return f"the range reaches the largest number that was tried, count.max_kinds = {settings.max_kinds}"
    if not RATIOS[0] < ratio < RATIOS[-1]:
        return (
            f"the new kinds seem to have {ratio:.2g} times as many pictures each as the known ones, "
            "which is the limit of what can be compared"
        )
    if high > VAGUE * low:
        return f"any number from {low} to {high} fits the unsorted pictures"
    return None
