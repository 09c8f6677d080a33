"""None of these: how unlike a picture is to the members of every kind, known or new.

A picture is compared with references, up to 100 pictures of each kind: how far the nearest are, also beside how far
references of one kind are from one another there, and how much farther the nearest other kinds are. What those numbers
mean is learnt where the truth is known: known kinds that are hidden from the transfer are strangers if they are taken
away, and members if they are not. Where there are too few known kinds for that, the new kinds of the run are taken away
instead. A logistic regression tells the two apart, and the members of the run say how unlike a picture may be.

Pictures that come together are looked at together: those that are nearer to one another than to any reference are of
one kind, or of none, together, so each is as unlike as they are on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.assignment import Assignment
from newkinds.clustering.neighbours import directions_float32, most_similar
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
TOGETHER = 5  # most similar of the pictures that come together, over which they are averaged, at most
AS_NEAR = 1.1  # times the distance of the nearest reference: others that are as near are of one kind, or none, together
BESIDE = 0.5  # how much each of them counts, beside the picture itself
BATCH = 4  # one in so many members of the run comes together with others, to see how unlike they are on average
CAREFUL = 0.8  # of the rate that is to be held: pictures that come later differ a little more
CLEARLY = 0.5  # in a heap, so many of those that are called none may be members, at most
ALL_UNLIKE = 0.95  # of members are less unlike than half of a heap in which hardly a picture has its like


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
class Hidden:
    """Known kinds under a transfer that some of them are hidden from.

    labelled, hidden, held_out: features of pictures that it was learnt from, of hidden kinds, and of other pictures of
    the former kinds, float (L, d), (n, d) and (m, d). labels, hidden_labels: kinds of the first two, int64, none of
    them in common.
    """

    labelled: Features
    labels: NDArray[np.int64]
    hidden: Features
    hidden_labels: NDArray[np.int64]
    held_out: Features

    def signals(self, seed: int) -> tuple[Signals, Signals]:
        """Return what is seen of members, and of strangers: hidden kinds that are taken away."""
        features = np.concatenate([self.labelled, self.hidden])
        references, own = _references(features, np.concatenate([self.labels, self.hidden_labels]), seed)
        some = generator(seed, "hidden pictures").permutation(len(self.hidden))[:TAUGHT]
        members = references.signals(self.hidden[some], own[len(self.labelled) + some])
        out = references.signals(self.held_out[:TAUGHT])
        strangers = references.signals(self.hidden[some], self.hidden_labels[some], apart=True)
        return np.concatenate([members, out]), strangers


@dataclass(frozen=True, eq=False)
class Unlike:
    """What tells pictures that are of none of the kinds.

    levels: how unlike members are, in log-odds, float64 (TOGETHER + 1, Q): so many quantiles from 0 to 1, of pictures
    alone and averaged with 1, 2, ... others.
    """

    references: References
    regression: Regression
    levels: Signals

    def __call__(self, features: Features) -> Signals:
        """Return the share of members that are as unlike as each of some pictures, float64 (N,) in [0, 1].

        features: under the final f, (N, d), of pictures that come together. They should be none of the references.
        """
        seen = self.references.signals(features)
        alone, nearest = _log_odds(self.regression, seen), np.exp(seen[:, 0])
        items, apart = most_similar(features, None, TOGETHER)
        near = apart <= AS_NEAR * nearest[:, None]
        others = near.sum(axis=1)
        averaged = (alone + BESIDE * (alone[items] * near).sum(axis=1)) / (1 + BESIDE * others)
        return _as_unlike(self.levels, averaged, others)

    def one_by_one(self, features: Features) -> Signals:
        """Return the same of pictures each of which comes alone."""
        alone = _log_odds(self.regression, self.references.signals(features))
        return _as_unlike(self.levels, alone, np.zeros(len(alone), dtype=np.int64))

    def apply(self, found: Assignment, members: Signals, rate: float) -> Assignment:
        """Return an answer in which pictures that are unlike all kinds are "none"; the others stay as they are.

        members: the share of members that are as unlike, (N,). rate: the share of true members that may be called none.
        """
        return found.rejecting(rejected(members, rate), probability_of_none(members, rate))

    def without(self, left_out: NDArray[np.bool_]) -> Unlike:
        """Return the same without some of the references, bool (R,)."""
        kept = ~left_out
        references = References.of(self.references.features[kept], self.references.kinds[kept])
        return Unlike(references, self.regression, self.levels)

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
    def from_tensors(cls, tensors: Mapping[str, Tensor], width: int) -> Unlike | None:
        """Take back what `to_tensors` gave; None where a file has none of it.

        width: of the features of the file's f. Raises a ValueError if it is not what this version wrote.
        """
        if PREFIX + "references" not in tensors:
            return None
        _check_tensors(tensors, width)
        features = tensors[PREFIX + "references"].float().numpy()
        references = References.of(features, tensors[PREFIX + "kinds"].numpy())
        regression = Regression(*(tensors[PREFIX + name].numpy() for name in ("centre", "scale", "coefficients")))
        return cls(references, regression, tensors[PREFIX + "levels"].numpy())


def _check_tensors(tensors: Mapping[str, Tensor], width: int) -> None:
    """Raise a ValueError if what a file has is not of the shapes that belong together, or not finite."""
    signals, number = len(NAMES), len(tensors[PREFIX + "references"])
    shapes = {
        "references": (number, width),
        "kinds": (number,),
        "centre": (signals,),
        "scale": (signals,),
        "coefficients": (signals + 1,),
        "levels": (TOGETHER + 1, LEVELS),
    }
    for name, shape in shapes.items():
        found = tensors.get(PREFIX + name)
        if found is None or tuple(found.shape) != shape or not number or not found.isfinite().all():
            raise ValueError(f"{PREFIX}{name} should be {' x '.join(map(str, shape))} finite numbers")
    if tensors[PREFIX + "kinds"].dtype != torch.int64 or not (tensors[PREFIX + "scale"] > 0).all():
        raise ValueError(f"{PREFIX}kinds should be whole numbers, and {PREFIX}scale above 0")


def rejected(members: Signals, rate: float) -> NDArray[np.bool_]:
    """Return which pictures are none of these, bool (N,), where a share `rate` of true members may be called that."""
    return members < CAREFUL * rate


def probability_of_none(members: Signals, rate: float) -> Signals:
    """Return the probability of none where a picture is rejected: at least one half, and not calibrated."""
    found: Signals = rate / np.maximum(rate + np.minimum(members, rate), SURE)
    return found


@dataclass(frozen=True, eq=False)
class OfHeap:
    """What `learn` found of a heap's own pictures.

    unlike: how unlike each is to the others of its kind, in log-odds, float64 (N,). usual: how unlike members are where
    the truth is known, float64 (n,), sorted; empty where it is not. reference: which reference each picture is, -1 if
    none, int64 (N,).
    """

    unlike: Signals
    usual: Signals
    reference: NDArray[np.int64]

    @property
    def all_are(self) -> bool:
        """Whether most pictures of the heap are as unlike to one another as hardly any members are."""
        if not len(self.usual):
            return False
        return float(np.median(self.unlike)) > float(np.quantile(self.usual, ALL_UNLIKE))

    def members(self) -> Signals:
        """Return the share of members that are as unlike as each picture beside what is usual in this heap, (N,)."""
        moved = self.unlike - np.median(self.unlike) + np.median(self.usual)
        more = len(self.usual) - np.searchsorted(self.usual, moved)
        found: Signals = (1 + more) / (1 + len(self.usual))
        return found

    def clearly_none(self, rate: float) -> NDArray[np.bool_]:
        """Return which pictures are clearly none of the kinds of their heap, bool (N,).

        They are as unlike as at most a share `rate` of members; and there are more of them than so unlike members would
        be, so that at most CLEARLY of them are expected to be members (Benjamini and Hochberg 1995). A heap without
        strangers has none.
        """
        if not len(self.usual) or not rate:
            return np.zeros(len(self.unlike), dtype=bool)
        p = self.members()
        order = np.argsort(p, kind="stable")
        allowed = np.flatnonzero(p[order] <= CLEARLY * np.arange(1, len(p) + 1) / len(p))
        found = np.zeros(len(p), dtype=bool)
        found[order[: allowed.max() + 1 if len(allowed) else 0]] = True
        return found & (p <= rate)


def learn(
    known: Features,
    known_kinds: NDArray[np.int64],
    heap: Features,
    kinds: NDArray[np.int64],
    new: int,
    seed: int,
    hidden: Sequence[Hidden] = (),
) -> tuple[Unlike, OfHeap] | None:
    """Return what tells pictures that are of no kind, and how unlike those of the heap are.

    known, heap: features under the final f, float (L, d) and (N, d). known_kinds, kinds: their columns, int64 (L,) and
    (N,): the new kinds are the first `new`. hidden: known kinds that were hidden, which teach what strangers look like.
    None where there are not two kinds. f must not have been trained on any of these pictures: they would be more alike
    than others of their kinds, and others be taken for none.
    """
    features, columns = np.concatenate([known, heap]), np.concatenate([known_kinds, kinds])
    if len(np.unique(columns)) < 2:
        return None
    references, own = _references(features, columns, seed)
    seen = references.signals(heap, own[len(known) :])
    random = generator(seed, "what is a member")
    taught = [one.signals(seed) for one in hidden]
    if taught:
        members, strangers = (np.concatenate(part) for part in zip(*taught, strict=True))
    else:
        some = random.permutation(len(heap))[:TAUGHT]
        is_new = some[kinds[some] < new]
        members = seen[some]
        strangers = references.signals(heap[is_new], kinds[is_new], apart=True) if new > 1 else seen[:0]
    regression = _taught(members, strangers)
    rows = random.permutation(len(known))[:TAUGHT]
    of_heap = _log_odds(regression, seen)
    of_known = _log_odds(regression, references.signals(known[rows], own[rows]))
    levels = _levels(np.concatenate([of_heap, of_known]), np.concatenate([heap, known[rows]]), random)
    usual = np.sort(_log_odds(regression, members)) if taught else np.zeros(0)
    return Unlike(references, regression, levels), OfHeap(of_heap, usual, own[len(known) :])


def _references(features: Features, columns: NDArray[np.int64], seed: int) -> tuple[References, NDArray[np.int64]]:
    """Return references of every kind, and which of them each picture is, -1 if none, int64 (N,)."""
    chosen = _drawn(columns, features.shape[1], seed)
    turned = directions_float32(features[chosen]).astype(np.float16).astype(np.float32)
    own = np.full(len(features), -1, dtype=np.int64)
    own[chosen] = np.arange(len(chosen))
    return References.of(turned, columns[chosen]), own


def _levels(unlike: Signals, features: Features, random: np.random.Generator) -> Signals:
    """Return quantiles of how unlike members are, alone and averaged with those most similar among some of them."""
    some = random.permutation(len(unlike))[: max(TOGETHER + 1, len(unlike) // BATCH)]
    items = most_similar(features[some], None, TOGETHER)[0]
    found, total = [unlike], unlike[some]
    for number in range(1, TOGETHER + 1):
        if number <= items.shape[1]:
            total = total + BESIDE * unlike[some][items[:, number - 1]]
            found.append(total / (1 + BESIDE * number))
        else:
            found.append(found[-1])
    return np.stack([np.quantile(of, np.linspace(0, 1, LEVELS)) for of in found])


def _as_unlike(levels: Signals, unlike: Signals, others: NDArray[np.int64]) -> Signals:
    """Return the share of members that are as unlike, float64 (N,), by the levels for so many others (N,)."""
    below = np.empty(len(unlike))
    for number in np.unique(others).tolist():
        rows = others == number
        below[rows] = np.searchsorted(levels[number], unlike[rows])
    found: Signals = 1 - below / levels.shape[1]
    return found


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
