"""Novelty: how probably each picture of a heap is of a new kind, and how many pictures are of known ones.

A picture of a known kind is as near to labelled pictures as to others of the heap; one of a new kind has its likes in
the heap alone. So distances to the nearest labelled pictures are compared with those to the nearest in the heap, and
with those that labelled pictures of one kind have among themselves; the same, averaged over the pictures most like it,
since pictures of one kind are new or known together.

What those numbers mean is learnt where the truth is known: known kinds that are hidden are what new kinds look like,
and labelled pictures that are held out are what known ones look like. A logistic regression begins from what was found
on other data sets. It is learnt as if half of the pictures were new. Features are not quite those of a rehearsal, whose
transfer saw fewer kinds and pictures: some known pictures are held out from the transfer of the real heap, too, and say
where known ones are beside it. The share of the heap is then estimated by adjusted counts: of pictures below a level of
the regression, beside the shares of known and of new pictures below it in rehearsals; the median over many levels is
taken (the "median sweep" of quantification). The probabilities follow that share. Few pictures of either sort are seen
at the ends of the scale: those that are surely known, or surely new, are so rare in heaps of the other sort alone that
a small share of them is no chance, however uncertain the count is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from newkinds.clustering.neighbours import most_similar
from newkinds.known_at_most import known_at_most
from newkinds.regression import Regression

Features = NDArray[np.float32]

NAMES = ("contrast, near", "contrast", "contrast of its likes", "remoteness", "remoteness of its likes")
FEW, MANY = 3, 10  # nearest pictures over which distances are averaged
WORTH = 100.0  # observations that the new, or the known, pictures of a rehearsal count as
ALONE = 0.25  # of that for heaps of one sort
STRENGTH = 20.0  # observations that the beginning counts as, for each coefficient
USUAL_ERROR = 0.1  # of the share of known pictures, on other data sets
UNTAUGHT_ERROR = 0.3  # of the share where nothing is rehearsed: what photographs differ by, by other photographs
SWEPT = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # levels of the regression at which is counted
APART = 0.25  # by which the shares of known and of new pictures below a level differ, or it tells nothing
SURE = 1e-4  # probabilities nearer to 0 or 1 than this are not believed
RATIOS = (0.05, 0.3, 1.0)  # of known pictures in the heap to labelled ones, before their number is estimated
REACHED = 1.5  # times the largest of these: of so many known pictures, rehearsals are still like the heap
MOST_NEW = 4.0  # of new pictures in the heap to labelled ones, in rehearsals
FEWEST = 20  # pictures of either sort in a rehearsal
SAMPLES = 6  # rehearsals that one draw gives, where the heap has so few pictures that several can be had
SURELY = 0.05  # probability of either sort below which a picture is surely of the other one, if both were as many
ALIGNED = 20.0  # held-out pictures from which on most of what they differ by from rehearsed ones is believed
AGAIN = 2  # times that it is estimated, each with rehearsals brought to the last
COVERED = 1.28  # standard errors to either side, for four times in five
LEAST = 1e-6  # the distance of pictures that are equal
STRANGE = 0.05  # of held-out pictures that are as remote as new ones are meant to be
LEVELS = (STRANGE, 0.25, 0.5, 0.75)  # of held-out pictures, at which known ones are counted
CLEAN = 0.1  # of the heap: what the counts may differ by, and what has to be new


@dataclass(frozen=True, eq=False)
class Novelty:
    """How new a heap is.

    probability: that each picture is of a new kind, float32 (N,). known: the share of pictures that are probably of
    known kinds; low, high: a range that is meant to hold the true one four times in five. pure: the largest share that
    heaps of hidden kinds alone seemed to have. draws: how many rehearsals taught it, and scale: what they taught.
    held_out: of how many known pictures that were held out it was read off instead. surely_known, surely_new: the
    shares of pictures that surely are, beyond the largest that heaps of the other sort alone had.
    """

    probability: NDArray[np.float32]
    known: float
    low: float
    high: float
    pure: float
    draws: int
    scale: Scale
    held_out: int = 0
    surely_known: float = 0.0
    surely_new: float = 0.0

    @property
    def tells(self) -> bool:
        """Whether new pictures are told from known ones at all: in rehearsals, hidden kinds looked newer."""
        return self.scale.apart >= APART


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """A rehearsal: signals of pictures, float64 (n, 5), and whether they are of hidden kinds, bool (n,).

    As a heap of both; and signals of the same hidden pictures, and of the same known ones, as heaps of their own.
    """

    signals: NDArray[np.float64]
    is_new: NDArray[np.bool_]
    new_alone: NDArray[np.float64]
    known_alone: NDArray[np.float64]


def signals(labelled: Features, labels: NDArray[np.int64], heap: Features) -> NDArray[np.float64]:
    """Return what tells new from known pictures of a heap, float64 (N, 5), a column for each of NAMES.

    labelled, heap: features of labelled and unsorted pictures, float (L, d) and (N, d), under one f and transfer.
    labels: of the former, int64 (L,).
    """
    return _signals(labelled, _within_kinds(labelled, labels), heap)


def _signals(
    labelled: Features, own: NDArray[np.float64], heap: Features, others: Features | None = None
) -> NDArray[np.float64]:
    """Return the same, where it is known how far labelled pictures are from others of their kind, (L,).

    others: further pictures, (M, d), whose signals come after those of the heap, (N + M, 5): each as if it were one
    more picture of the heap.
    """
    to_labelled, far = most_similar(heap if others is None else np.concatenate([heap, others]), labelled, MANY)
    likes, apart = most_similar(heap, None, MANY)
    if not apart.shape[1]:  # a heap of one picture
        likes, apart = np.zeros((len(heap), 1), np.int64), far[: len(heap), :1]
    if others is not None:
        theirs, from_them = most_similar(others, heap, likes.shape[1])
        likes, apart = np.concatenate([likes, theirs]), np.concatenate([apart, from_them])
    near = _log_mean(far, FEW) - _log_mean(apart, FEW)
    contrast = _log_mean(far, MANY) - _log_mean(apart, MANY)
    remote = _remote(to_labelled, far, own)
    columns = (near, contrast, contrast[likes].mean(axis=1), remote, remote[likes].mean(axis=1))
    return np.stack(columns, axis=1)


def _log_mean(distances: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    means: NDArray[np.float64] = np.log(np.maximum(distances[:, :number].mean(axis=1), LEAST))
    return means


def _within_kinds(labelled: Features, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the log mean distance of each labelled picture to the nearest others of its kind, float64 (L,).

    Of a kind with a single picture, it is the mean of all others.
    """
    found = np.full(len(labelled), np.nan)
    for kind in np.unique(labels):
        rows = np.flatnonzero(labels == kind)
        if len(rows) > 1:
            found[rows] = _log_mean(most_similar(labelled[rows], None, FEW)[1], FEW)
    known = found[np.isfinite(found)]
    return np.where(np.isfinite(found), found, known.mean() if len(known) else 0.0)


@dataclass(frozen=True, eq=False)
class Draw:
    """Known kinds that are hidden, and known pictures that are held out, under an f and a transfer that saw neither.

    labelled, hidden, held_out: features, float (L, d), (n, d) and (m, d). labels, kinds: of the first and of the
    second, int64 (L,) and (n,). The rows of each are in random order, so that the first ones are a sample.
    """

    labelled: Features
    labels: NDArray[np.int64]
    hidden: Features
    kinds: NDArray[np.int64]
    held_out: Features
    _own: dict[int, NDArray[np.float64]] = field(default_factory=dict)  # distances within kinds, by labelled pictures

    def at(self, known: float, new: float) -> list[Rehearsed]:
        """Return what is seen of heaps that have so many pictures of known and of new kinds for each labelled one.

        The denser labelled pictures lie beside those of the heap, the nearer they are. Where few pictures are wanted,
        there are several heaps. How large the kinds of the real one are is not known, so theirs differ: some have
        pictures of all hidden kinds, some of a half or a quarter of these.
        """
        kept = max(1, int(min(len(self.labelled), len(self.held_out) / known, len(self.hidden) / new)))
        out, hidden = (max(FEWEST, round(ratio * kept)) for ratio in (known, new))
        samples = max(1, min(SAMPLES, len(self.hidden) // hidden, len(self.held_out) // out))
        return [
            self._seen(kept, self._hidden(hidden, sample), self.held_out[sample * out : (sample + 1) * out])
            for sample in range(samples)
        ]

    def _hidden(self, pictures: int, sample: int) -> Features:
        """Return so many pictures of hidden kinds, which are others in each sample."""
        kinds = np.roll(np.unique(self.kinds), -sample)
        rows = np.flatnonzero(np.isin(self.kinds, kinds[: -(-len(kinds) // 2 ** (sample % 3))]))
        if len(rows) < pictures:
            rows = np.arange(len(self.hidden))
        return self.hidden[np.roll(rows, -sample * pictures)[:pictures]]

    def _seen(self, kept: int, hidden: Features, held_out: Features) -> Rehearsed:
        labelled, own = self.labelled[:kept], self._within(kept)
        both = np.concatenate([hidden, held_out])
        return Rehearsed(
            _signals(labelled, own, both),
            np.arange(len(both)) < len(hidden),
            _signals(labelled, own, hidden),
            _signals(labelled, own, held_out),
        )

    def _within(self, kept: int) -> NDArray[np.float64]:
        if kept not in self._own:
            self._own[kept] = _within_kinds(self.labelled[:kept], self.labels[:kept])
        return self._own[kept]


def judge(
    labelled: Features,
    labels: NDArray[np.int64],
    heap: Features,
    draws: Sequence[Draw],
    held_out: Features | None = None,
) -> Novelty:
    """Return how new the pictures of a heap are, by what rehearsals teach.

    labelled, labels, heap: as in `signals`. How many known pictures the heap has beside the labelled ones changes what
    is seen of them: rehearsals are brought to the number that was estimated, and it is estimated again. held_out: known
    pictures that the transfer has not seen, (m, d), if there are any.
    """
    every = _signals(labelled, _within_kinds(labelled, labels), heap, held_out)
    seen, known = every[: len(heap)], every[len(heap) :]
    heaps = len(heap) / len(labelled)
    at = cache(_at)  # some are asked for again

    def judged(*ratios: float) -> Novelty:
        rehearsed = [one for draw in draws for ratio in ratios for one in at(draw, ratio, heaps - ratio)]
        alike = max(ratios) <= REACHED * RATIOS[-1] and heaps - max(ratios) <= MOST_NEW
        return _judged(_aligned(seen, known, rehearsed, alike), rehearsed)

    found = judged(*RATIOS)
    for _ in range(AGAIN if draws else 0):
        found = judged(found.known * heaps)
    if draws and found.known * heaps > RATIOS[0]:
        # Of a heap of new kinds alone, all pictures are new: a few of them among known ones show less of each other.
        found = replace(found, pure=min(found.pure, judged(RATIOS[0]).pure))
    return found


def _aligned(
    seen: NDArray[np.float64], known: NDArray[np.float64], rehearsed: Sequence[Rehearsed], alike: bool
) -> NDArray[np.float64]:
    """Return signals of a heap (N, 5), moved by what held-out known pictures beside it (m, 5) differ by from rehearsed.

    Known pictures then are on average where they are in rehearsals. Of few held-out pictures less is believed. alike:
    whether rehearsals could be made like the heap; if not, contrasts differ by that, and only remoteness is moved.
    """
    if not rehearsed or not len(known):
        return seen
    usual = np.mean([one.signals[~one.is_new].mean(axis=0) for one in rehearsed], axis=0)
    by = (known.mean(axis=0) - usual) * len(known) / (len(known) + ALIGNED)
    return seen - np.where([alike or "remoteness" in name for name in NAMES], by, 0)


def by_held_out(labelled: Features, labels: NDArray[np.int64], held_out: Features, heap: Features) -> Novelty | None:
    """Return how new a heap is beside held-out known pictures (m, d) alone, where no known kind can be hidden.

    Known pictures of the heap are as remote from labelled ones as held-out ones are. So their number can be read off
    those that are nearer than half of the latter (as Storey counts true null hypotheses), and off those that are nearer
    than nearly all: either is too many where new pictures are that near, so the smaller one is taken. Nobody can
    promise that new pictures ever are more remote: a network may not tell them from known ones at all. So there is an
    answer only where the heap clearly falls into two parts: the same share at several levels. Otherwise None.
    """
    own = _within_kinds(labelled, labels)
    seen = _signals(labelled, own, heap)
    usual = np.sort(_remote(*most_similar(held_out, labelled, FEW), own))
    remote = seen[:, NAMES.index("remoteness")]
    nearer = 1 - np.searchsorted(usual, remote) / len(usual)  # the share of held-out pictures that are as remote
    shares = np.array([float((nearer > level).mean()) / (1 - level) for level in LEVELS])
    known = float(min(shares[LEVELS.index(0.5)], shares[0]))
    chance = COVERED * known / np.sqrt(len(usual))
    few = shares[1] < CLEAN  # then the heap is new, whatever the most remote of held-out pictures would say
    if known > 1 - CLEAN or (np.ptp(shares) > CLEAN + 2 * chance and not few):
        return None
    scale = beginning()
    wide = float(np.hypot(COVERED * USUAL_ERROR, chance))
    return Novelty(
        _with_mean(scale.regression(seen), 1 - known).astype(np.float32),
        known,
        max(0.0, known - wide),
        min(1.0, known + wide),
        pure=0.0,
        draws=0,
        scale=scale,
        held_out=len(held_out),
    )


def untold(labelled: Features, labels: NDArray[np.int64], heap: Features, held_out: Features | None = None) -> Novelty:
    """Return a novelty by which pictures are only in order, where nothing tells how many are new: it may be any number.

    Features that were trained are unlike those of other data sets, so what was found there is no share here. held_out:
    known pictures that f has not learnt, (m, d), if there are any: they tell how many can be known at most. Hardly any
    is an answer; a larger number stands in for the true one if the user says that some are known.
    """
    scale = beginning()
    most = 0.5 if held_out is None else known_at_most(held_out, heap)
    p = _with_mean(scale.regression(signals(labelled, labels, heap)), 1 - min(most, 1 - CLEAN))
    high = most if most <= CLEAN else 1.0
    return Novelty(p.astype(np.float32), most, low=0.0, high=high, pure=0.0, draws=0, scale=scale)


def _remote(nearest: NDArray[np.int64], far: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far pictures are from the nearest labelled ones, beside what these are from others of their kinds.

    nearest, far: labelled pictures and their distances, nearest first, (N, k). own: as in `_signals`.
    """
    remote: NDArray[np.float64] = _log_mean(far, FEW) - own[nearest[:, :FEW]].mean(axis=1)
    return remote


def _with_mean(probability: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    """Return probabilities (N,), all moved by one factor of their odds, so that their mean is about this."""
    inside = np.clip(probability, SURE, 1 - SURE)
    odds = np.log(inside / (1 - inside))
    wanted = float(np.clip(mean, SURE, 1 - SURE))
    moved: NDArray[np.float64] = expit(odds + brentq(lambda by: float(expit(odds + by).mean()) - wanted, -40, 40))
    return moved


def _at(draw: Draw, known: float, new: float) -> list[Rehearsed]:
    """Return rehearsals at these ratios of known and of new pictures to labelled ones, or the nearest it can have."""
    least = FEWEST / len(draw.labelled)
    within = np.clip([known, new], least, [max(least, RATIOS[-1]), max(least, MOST_NEW)])
    return draw.at(float(within[0]), float(within[1]))


def _judged(seen: NDArray[np.float64], rehearsed: Sequence[Rehearsed]) -> Novelty:
    """Return how new pictures with these signals (N, 5) are."""
    scale = taught(rehearsed)
    by_others = [taught([*rehearsed[:i], *rehearsed[i + 1 :]]) for i in range(len(rehearsed))]
    pairs = list(zip(by_others, rehearsed, strict=True))
    errors = [other.known(one.signals) - float((~one.is_new).mean()) for other, one in pairs]
    wide = COVERED * float(np.sqrt(np.mean(np.square([*errors, USUAL_ERROR if errors else UNTAUGHT_ERROR]))))
    p = scale.regression(seen)
    by_chance = [
        (_surely(other.regression(one.new_alone))[0], _surely(other.regression(one.known_alone))[1])
        for other, one in pairs
    ]
    beyond = np.maximum(0, np.array(_surely(p)) - np.max(by_chance, axis=0)) if by_chance else np.zeros(2)
    least, most = float(beyond[0]), 1 - float(beyond[1])
    known = float(np.clip(scale.known(seen), least, most))
    low, high = (max(least, known - wide), min(most, known + wide)) if scale.apart >= APART else (0.0, 1.0)
    return Novelty(
        shifted(p, 1 - known).astype(np.float32),
        known,
        low,
        high,
        max((other.known(one.new_alone) for other, one in pairs), default=0.0),
        len(rehearsed),
        scale,
        surely_known=least,
        surely_new=1 - most,
    )


def _surely(probability: NDArray[np.float64]) -> tuple[float, float]:
    """Return the shares of pictures that are surely known and surely new, by probabilities (N,) of being new."""
    return float((probability < SURELY).mean()), float((probability > 1 - SURELY).mean())


@dataclass(frozen=True, eq=False)
class Scale:
    """What rehearsals taught: a regression, and the shares of known and of new pictures below each level of SWEPT."""

    regression: Regression
    of_known: tuple[float, ...]
    of_new: tuple[float, ...]

    def __call__(self, seen: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how probably each picture with these signals (N, 5) is new, if they are all of a heap."""
        return shifted(self.regression(seen), 1 - self.known(seen))

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers by name."""
        below = {"of_known": list(self.of_known), "of_new": list(self.of_new)}
        return {"regression": self.regression.to_dict(), **below}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Scale:
        """Take back what `to_dict` gave."""
        regression = Regression.from_dict(values["regression"])
        of_known, of_new = (tuple(map(float, values[name])) for name in ("of_known", "of_new"))
        if not len(of_known) == len(of_new) == len(SWEPT):
            raise ValueError(f"there are {len(of_known)} and {len(of_new)} levels, not {len(SWEPT)}")
        return cls(regression, of_known, of_new)

    @property
    def apart(self) -> float:
        """By how much more known than new pictures are below the level that tells them best, at most 1."""
        return float(np.max(np.array(self.of_known) - np.array(self.of_new)))

    def known(self, seen: NDArray[np.float64]) -> float:
        """Return the share of known pictures among those with these signals (N, 5).

        Below a level there are as many as of known and of new pictures, mixed by their shares (an adjusted count).
        """
        known, new, found = np.array(self.of_known), np.array(self.of_new), below(self.regression(seen))
        apart = known - new
        telling = apart >= min(APART, apart.max())
        shares = (found - new)[telling] / np.maximum(apart[telling], LEAST)
        return float(np.median(np.clip(shares, 0, 1)))


def taught(rehearsed: Sequence[Rehearsed]) -> Scale:
    """Return what rehearsals teach, beginning from what was found on other data sets."""
    begin = beginning()
    if not rehearsed:
        return begin
    x, yes, weights = (np.concatenate(part) for part in zip(*map(observations, rehearsed), strict=True))
    regression = begin.regression.moved(x, yes, weights, STRENGTH)
    return counted(regression, rehearsed)


def counted(regression: Regression, rehearsed: Sequence[Rehearsed]) -> Scale:
    """Return a regression with the mean shares of known and of new pictures of rehearsals below each level of it."""
    said = [(regression(one.signals), one.is_new) for one in rehearsed]
    of_known, of_new = (np.mean([below(p[is_new == new]) for p, is_new in said], axis=0) for new in (False, True))
    return Scale(regression, tuple(of_known.tolist()), tuple(of_new.tolist()))


def below(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of probabilities (N,) below each level of SWEPT."""
    found: NDArray[np.float64] = (probability[:, None] < np.array(SWEPT)).mean(axis=0)
    return found


def observations(one: Rehearsed) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Return signals, whether pictures are new, and weights, with which new and known ones count for as much in all.

    Heaps of one sort are among them, so that what is learnt does not depend on how a heap is mixed.
    """
    x = np.concatenate([one.signals, one.new_alone, one.known_alone])
    new, known = int(one.is_new.sum()), int((~one.is_new).sum())
    yes = np.concatenate([one.is_new, np.ones(new, bool), np.zeros(known, bool)])
    shares = np.repeat([1 - ALONE, ALONE], [len(one.is_new), new + known])
    weights = WORTH * shares / np.where(yes, max(1, new), max(1, known))
    return x, yes, weights


def shifted(probability: NDArray[np.float64], new: float) -> NDArray[np.float64]:
    """Return probabilities (N,) of being new where that is the share of new pictures, instead of half of them."""
    inside = np.clip(probability, SURE, 1 - SURE)
    odds = inside / (1 - inside) * np.clip(new, SURE, 1 - SURE) / np.clip(1 - new, SURE, 1 - SURE)
    found: NDArray[np.float64] = odds / (1 + odds)
    return found


@cache
def beginning() -> Scale:
    """Return what was found on other data sets."""
    kept = json.loads(resources.files("newkinds").joinpath("novelty-beginning.json").read_text(encoding="utf-8"))
    return Scale.from_dict(kept)
