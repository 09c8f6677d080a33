"""Novelty: how probably each picture of a heap is of a new kind, and how many pictures are of known ones.

A picture of a known kind is as near to labelled pictures as to others of the heap; one of a new kind has its likes in
the heap alone. So distances to the nearest labelled pictures are compared with those to the nearest in the heap, and
with those that labelled pictures of one kind have among themselves; the same, averaged over the pictures most like it,
since pictures of one kind are new or known together.

What those numbers mean is learnt where the truth is known: known kinds that are hidden are what new kinds look like,
and labelled pictures that are held out are what known ones look like. A logistic regression begins from what was found
on other data sets. It is learnt as if half of the pictures were new; the share of the heap is then estimated from the
heap itself, by expectation maximisation over the prior (Saerens et al. 2002), and the probabilities follow it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from newkinds.clustering.neighbours import most_similar
from newkinds.regression import Regression

Features = NDArray[np.float32]

NAMES = ("contrast, near", "contrast", "contrast of its likes", "remoteness", "remoteness of its likes")
FEW, MANY = 3, 10  # nearest pictures over which distances are averaged
WORTH = 100.0  # observations that the new, or the known, pictures of a rehearsal count as
ALONE = 0.25  # of that for heaps of one sort
STRENGTH = 20.0  # observations that the beginning counts as, for each coefficient
USUAL_ERROR = 0.1  # of the share of known pictures, on other data sets
SURE = 1e-4  # probabilities nearer to 0 or 1 than this are not believed
ROUNDS = 500  # of expectation maximisation, at most
LEAST = 1e-6  # the distance of pictures that are equal


@dataclass(frozen=True, eq=False)
class Novelty:
    """How new a heap is.

    probability: that each picture is of a new kind, float32 (N,). known: the share of pictures that are probably of
    known kinds; low, high: a range that is meant to hold the true one four times in five. pure: the largest share that
    heaps of hidden kinds alone seemed to have, and spoilt: the largest share of new pictures that heaps of known kinds
    alone seemed to have. draws: how many rehearsals taught it.
    """

    probability: NDArray[np.float32]
    known: float
    low: float
    high: float
    pure: float
    spoilt: float
    draws: int


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
    to_labelled, far = most_similar(heap, labelled, MANY)
    likes, apart = most_similar(heap, None, MANY)
    if not apart.shape[1]:  # a heap of one picture
        likes, apart = np.zeros((len(heap), 1), np.int64), far[:, :1]
    own = _within_kinds(labelled, labels)
    near = _log_mean(far, FEW) - _log_mean(apart, FEW)
    contrast = _log_mean(far, MANY) - _log_mean(apart, MANY)
    remote = _log_mean(far, FEW) - own[to_labelled[:, :FEW]].mean(axis=1)
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


def rehearse(labelled: Features, labels: NDArray[np.int64], hidden: Features, held_out: Features) -> Rehearsed:
    """Return what is seen of hidden kinds and of held-out pictures of known ones, as a heap beside labelled ones.

    labelled, hidden, held_out: float (L, d), (n, d) and (m, d), under an f and a transfer that have seen neither hidden
    nor held-out pictures. labels: of the first, int64 (L,).
    """
    both = np.concatenate([hidden, held_out])
    return Rehearsed(
        signals(labelled, labels, both),
        np.arange(len(both)) < len(hidden),
        signals(labelled, labels, hidden),
        signals(labelled, labels, held_out),
    )


def judge(seen: NDArray[np.float64], rehearsed: Sequence[Rehearsed]) -> Novelty:
    """Return how new pictures with these signals (N, 5) are, by what rehearsals taught."""
    regression = taught(rehearsed)
    known, probability = shared_out(regression(seen))
    errors = [*_missed(rehearsed), USUAL_ERROR]
    pure = [shared_out(regression(one.new_alone))[0] for one in rehearsed]
    spoilt = [1 - shared_out(regression(one.known_alone))[0] for one in rehearsed]
    wide = 1.28 * float(np.sqrt(np.mean(np.square(errors))))
    return Novelty(
        probability.astype(np.float32),
        known,
        max(0.0, known - wide),
        min(1.0, known + wide),
        max(pure, default=0.0),
        max(spoilt, default=0.0),
        len(rehearsed),
    )


def taught(rehearsed: Sequence[Rehearsed]) -> Regression:
    """Return the regression after rehearsals."""
    if not rehearsed:
        return beginning()
    x, yes, weights = (np.concatenate(part) for part in zip(*map(observations, rehearsed), strict=True))
    return beginning().moved(x, yes, weights, STRENGTH)


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


def shared_out(probability: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the share of known pictures, and the probabilities (N,) of being new that go with it.

    probability: of being new if half of the pictures were.
    """
    inside = np.clip(probability, SURE, 1 - SURE)
    odds = inside / (1 - inside)
    share = 0.5
    for _ in range(ROUNDS):
        after = odds * share / (odds * share + 1 - share)
        moved = float(after.mean())
        if abs(moved - share) < 1e-6:
            break
        share = moved
    return 1 - share, after


def _missed(rehearsed: Sequence[Rehearsed]) -> list[float]:
    """Return by how much the share of known pictures in each rehearsal is missed by what the others teach."""
    found = []
    for number, one in enumerate(rehearsed):
        others = [*rehearsed[:number], *rehearsed[number + 1 :]]
        found.append(shared_out(taught(others)(one.signals))[0] - float((~one.is_new).mean()))
    return found


@cache
def beginning() -> Regression:
    """Return what was found on other data sets."""
    kept = json.loads(resources.files("newkinds").joinpath("novelty.json").read_text(encoding="utf-8"))
    return Regression.from_dict(kept)
