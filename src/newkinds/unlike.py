"""None of these: how unlike a picture is to the members of every kind, known or new.

A picture is compared with references, up to 100 pictures of each kind: how far the nearest are, also beside how far
references of one kind are from one another there, and how much farther the nearest other kinds are. What those numbers
mean is learnt from the heap itself. A new kind that is taken away leaves pictures that are of no kind: neither f nor
what the known kinds taught has seen it. Each picture beside all others is a member. A logistic regression tells the two
apart, and the members say how unlike a picture may be before it is called none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.assignment import Assignment
from newkinds.clustering.neighbours import directions_float32
from newkinds.memory import row_blocks
from newkinds.randomness import generator
from newkinds.regression import Regression

Features = NDArray[np.float32]
Signals = NDArray[np.float64]

NAMES = ("nearest", "nearest, local", "local", "margin", "of its kind")
EACH = 100  # references of a kind, at most
VALUES = 16_000_000  # of all references, at most, or there are fewer of each kind
FEWEST_EACH = 5
FEW = 3  # nearest pictures over which distances are averaged
OTHERS = 5  # nearest other kinds, for the margin
TAUGHT = 5000  # pictures of the heap, and known ones, that teach what a member is, at most
FAR = 2.0  # the largest distance of directions: of pictures that are left out
LEAST = 1e-3  # the distance of pictures that are equal
SPREAD = 0.05  # added to the standard deviation of a kind's scale
BEGIN = (0.0, 0.5, 0.5, 0.5, -0.5, 0.5)  # all signals alike, by their sign: near kinds are far, others are no farther
STRENGTH = 5.0  # observations that the beginning counts as, for each coefficient
LEVELS = 1001
SURE = 1e-12
PREFIX = "unlike."  # of the tensors in a file


@dataclass(frozen=True, eq=False)
class References:
    """Pictures of every kind, sorted by kind.

    features: directions, float32 (R, d), of float16 precision. kinds: the column of each, int64 (R,). scale: the log
    mean distance of each to the nearest others of its kind, float64 (R,).
    """

    features: Features
    kinds: NDArray[np.int64]
    scale: Signals

    @classmethod
    def of(cls, features: Features, kinds: NDArray[np.int64]) -> References:
        """Return references with their scale; those of a kind with a single picture have the mean of all others."""
        scale = np.full(len(features), np.nan)
        for kind in np.unique(kinds):
            rows = np.flatnonzero(kinds == kind)
            if len(rows) > 1:
                apart = _distances(features[rows], features[rows])
                np.fill_diagonal(apart, FAR)
                near = np.sort(apart, axis=1)[:, : min(FEW, len(rows) - 1)]
                scale[rows] = np.log(near.mean(axis=1))
        known = scale[np.isfinite(scale)]
        return cls(features, kinds, np.where(np.isfinite(scale), scale, known.mean() if len(known) else 0.0))

    def signals(self, features: Features, own: NDArray[np.int64] | None = None, apart: bool = False) -> Signals:
        """Return what tells members from others, float64 (N, 5), a column for each of NAMES.

        features: float (N, d). own: which reference each picture is, -1 if none: it is left out; or, with `apart`, the
        kind of each, of which all references are left out.
        """
        turned = directions_float32(features)
        found = np.zeros((len(turned), len(NAMES)))
        for rows in row_blocks(len(turned), 2 * len(self.kinds)):
            found[rows] = self._signals(turned[rows], None if own is None else own[rows], apart)
        return found

    def _signals(self, turned: Features, own: NDArray[np.int64] | None, apart: bool) -> Signals:
        far = _distances(turned, self.features)
        if own is not None and apart:
            far[own[:, None] == self.kinds] = FAR
        elif own is not None:
            rows = np.flatnonzero(own >= 0)
            far[rows, own[rows]] = FAR
        few = min(FEW, far.shape[1])
        items = np.argpartition(far, few - 1, axis=1)[:, :few]
        near = np.take_along_axis(far, items, axis=1)
        first = np.take_along_axis(items, near.argmin(axis=1)[:, None], axis=1)[:, 0]
        nearest, mean = np.log(near.min(axis=1)), np.log(near.mean(axis=1))
        starts = np.flatnonzero(np.r_[True, np.diff(self.kinds) != 0])
        by_kind = np.minimum.reduceat(far, starts, axis=1)
        kind, by_kind = by_kind.argmin(axis=1), np.sort(by_kind, axis=1)[:, : OTHERS + 1]
        others = by_kind[:, 1:].mean(axis=1) if by_kind.shape[1] > 1 else by_kind[:, 0]
        scales = np.split(self.scale, starts[1:])
        usual, spread = (np.array([f(scale) for scale in scales]) for f in (np.mean, np.std))
        of_kind = (mean - usual[kind]) / (spread[kind] + SPREAD)
        local = mean - self.scale[items].mean(axis=1)
        margin = np.log(others / by_kind[:, 0])
        return np.stack([nearest, nearest - self.scale[first], local, margin, of_kind], axis=1)


@dataclass(frozen=True, eq=False)
class Unlike:
    """What tells pictures that are of none of the kinds.

    levels: how unlike members are, in log-odds, sorted, float64 (Q,): so many quantiles from 0 to 1.
    """

    references: References
    regression: Regression
    levels: Signals

    def __call__(self, features: Features) -> Signals:
        """Return how unlike pictures are to all kinds, in log-odds, float64 (N,). features: under the final f, (N, d).

        They should be none of the references.
        """
        return _log_odds(self.regression, self.references.signals(features))

    def rejected(self, unlike: Signals, rate: float) -> NDArray[np.bool_]:
        """Return which pictures are none of these, where a share `rate` of true members may be called that."""
        return unlike > np.quantile(self.levels, 1 - rate) if rate > 0 else np.zeros(len(unlike), dtype=bool)

    def apply(self, found: Assignment, unlike: Signals, rate: float) -> Assignment:
        """Return an answer in which pictures that are unlike all kinds are "none"; the others stay as they are.

        The probability of none is at least one half, and the larger the fewer members are as unlike; it is not
        calibrated.
        """
        members = 1 - np.searchsorted(self.levels, unlike) / len(self.levels)  # the share that is as unlike
        share = rate / np.maximum(rate + np.minimum(members, rate), SURE)
        return found.rejecting(self.rejected(unlike, rate), share)

    def to_tensors(self) -> dict[str, Tensor]:
        """Return all of it as tensors for the model's file, references in half precision."""
        values = {
            "references": torch.from_numpy(self.references.features).half(),
            "kinds": torch.from_numpy(self.references.kinds),
            "levels": torch.from_numpy(self.levels),
            **{name: torch.from_numpy(value) for name, value in vars(self.regression).items()},
        }
        return {PREFIX + name: value.contiguous() for name, value in values.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Unlike | None:
        """Take back what `to_tensors` gave; None where a file has none of it."""
        if PREFIX + "references" not in tensors:
            return None
        features = tensors[PREFIX + "references"].float().numpy()
        references = References.of(features, tensors[PREFIX + "kinds"].numpy())
        regression = Regression(*(tensors[PREFIX + name].numpy() for name in ("centre", "scale", "coefficients")))
        return cls(references, regression, tensors[PREFIX + "levels"].numpy())


def learn(
    known: Features,
    known_kinds: NDArray[np.int64],
    heap: Features,
    kinds: NDArray[np.int64],
    new: int,
    seed: int,
) -> tuple[Unlike, Signals] | None:
    """Return what tells pictures that are of no kind, and how unlike those of the heap are, float64 (N,).

    known, heap: features under the final f, float (L, d) and (N, d). known_kinds, kinds: their columns, int64 (L,) and
    (N,): the new kinds are the first `new`. None where there are not two kinds. f must not have been trained on any of
    these pictures: they would be more alike than others of their kinds, and others be taken for none.
    """
    features, columns = np.concatenate([known, heap]), np.concatenate([known_kinds, kinds])
    if len(np.unique(columns)) < 2:
        return None
    chosen = _drawn(columns, features.shape[1], seed)
    turned = directions_float32(features[chosen]).astype(np.float16).astype(np.float32)
    references = References.of(turned, columns[chosen])
    own = np.full(len(features), -1, dtype=np.int64)
    own[chosen] = np.arange(len(chosen))
    seen = references.signals(heap, own[len(known) :])
    random = generator(seed, "what is a member")
    some = random.permutation(len(heap))[:TAUGHT]
    is_new = some[kinds[some] < new]
    strangers = references.signals(heap[is_new], kinds[is_new], apart=True) if new > 1 else seen[:0]
    regression = _taught(seen[some], strangers)
    unlike = _log_odds(regression, seen)
    rows = random.permutation(len(known))[:TAUGHT]
    members = np.concatenate([unlike, _log_odds(regression, references.signals(known[rows], own[rows]))])
    return Unlike(references, regression, np.quantile(members, np.linspace(0, 1, LEVELS))), unlike


def _drawn(columns: NDArray[np.int64], width: int, seed: int) -> NDArray[np.int64]:
    """Return which pictures are references: some of each kind, sorted by kind."""
    present = np.unique(columns)
    each = int(np.clip(VALUES // (width * len(present)), FEWEST_EACH, EACH))
    order = generator(seed, "references").permutation(len(columns))
    order = order[np.argsort(columns[order], kind="stable")]
    starts = np.searchsorted(columns[order], present)
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    chosen: NDArray[np.int64] = order[place < each]
    return chosen


def _taught(members: Signals, strangers: Signals) -> Regression:
    """Return a regression that tells strangers from members, both of which count for as much."""
    x = np.concatenate([strangers, members])
    begin = Regression(x.mean(axis=0), np.maximum(x.std(axis=0), LEAST), np.array(BEGIN))
    if not len(strangers):
        return begin
    yes = np.arange(len(x)) < len(strangers)
    weights = len(x) / 2 / np.where(yes, len(strangers), len(members))
    return begin.moved(x, yes, weights, STRENGTH)


def _log_odds(regression: Regression, signals: Signals) -> Signals:
    p = np.clip(regression(signals), SURE, 1 - SURE)
    found: Signals = np.log(p) - np.log1p(-p)
    return found


def _distances(some: Features, others: Features) -> Signals:
    """Return distances of directions, float64 (n, m) in [LEAST, FAR]."""
    found: Signals = np.sqrt(np.clip(2 - 2 * (some @ others.T).astype(np.float64), LEAST**2, FAR**2))
    return found
