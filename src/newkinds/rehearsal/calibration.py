"""What a probability means: how often pictures that were sorted as surely as this one were right, in rehearsals.

A logistic regression from what can be seen of a picture (`signals`), and of the heap as a whole, to whether it is
right. It begins from what was found on other data sets, and rehearsals move it: with many hidden kinds they decide,
with few it stays nearer to where it began, and with none it is there. Pictures of one kind are right or wrong together,
so a kind counts as a few observations, however many pictures it has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.regression import Regression
from newkinds.rehearsal.signals import NAMES

EACH_KIND = 5.0  # observations that the pictures of a kind count as, at most
STRENGTH = 100.0  # observations that the beginning counts as, for each coefficient and for the intercept
OF_HEAP = NAMES.index("stability")  # the signal whose mean over all pictures tells how hard a heap is
BINS, IN_A_BIN = 10, 30  # of the reliability diagram at most, and pictures in each at least
LEAST, MOST = 0.01, 0.99  # probabilities are never shown beyond
EXTREME = 1e-3  # what a method says nearer to 0 or 1 counts as this near


@dataclass(frozen=True, eq=False)
class Observed:
    """The pictures of a heap whose truth is known. x: signals, float64 (n, 8). yes: bool (n,). kinds: (n,)."""

    x: NDArray[np.float64]
    yes: NDArray[np.bool_]
    kinds: NDArray[np.int64]

    @property
    def weights(self) -> NDArray[np.float64]:
        """For how much of an observation each picture counts, float64 (n,)."""
        sizes = np.bincount(self.kinds)
        weights: NDArray[np.float64] = np.minimum(1.0, EACH_KIND / sizes[self.kinds])
        return weights


class Calibration(Regression):
    """From signals (n, 8), and the mean of one of them over the heap, to how often such pictures are right."""

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each picture of a heap with these signals (N, 8), float64 (N,)."""
        return np.clip(super().__call__(with_heap(x)), LEAST, MOST)

    def after(self, observed: Sequence[Observed], strength: float = STRENGTH) -> Calibration:
        """Return the regression after rehearsals, which begins from this one. strength: of the beginning."""
        if not observed:
            return self
        x = np.concatenate([with_heap(one.x) for one in observed])
        yes = np.concatenate([one.yes for one in observed])
        weights = np.concatenate([one.weights for one in observed])
        return self.moved(x, yes, weights, strength, freedom=1.0)


def with_heap(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the signals of a heap's pictures (N, 8) with what is the same for all of them, float64 (N, 9)."""
    return np.concatenate([x, np.full((len(x), 1), x[:, OF_HEAP].mean() if len(x) else 0.0)], axis=1)


@cache
def beginning(of: str) -> Calibration:
    """Return what was found on other data sets about being "right", or of the kind's majority ("pure")."""
    kept = json.loads(resources.files("newkinds.rehearsal").joinpath("beginning.json").read_text(encoding="utf-8"))
    return Calibration.from_dict(kept[of])


def carried_over(
    said: NDArray[np.floating[Any]], own: NDArray[np.float64], labels: NDArray[np.int64], kinds: int
) -> NDArray[np.float32]:
    """Return what the heap tells about other pictures of its kinds, of which no signals are there: float32 (K, 2).

    said, own: of the heap's pictures, what the method says of their kind and how probably it is right, (N,) each.
    labels: their kinds. In log-odds, own = a + b x said: the columns are a, of each kind, and b, of all, at least 0.
    """
    x, y = (_log_odds(np.asarray(values, dtype=np.float64)) for values in (said, own))
    sizes = np.bincount(labels, minlength=kinds)
    mean_x, mean_y = (np.bincount(labels, values, minlength=kinds) / np.maximum(sizes, 1) for values in (x, y))
    apart = x - mean_x[labels]
    slope = max(0.0, float(apart @ (y - mean_y[labels]) / max(float(apart @ apart), 1e-12)))
    offsets = np.where(sizes > 0, mean_y - slope * mean_x, y.mean() - slope * x.mean())
    return np.stack([offsets, np.full(kinds, slope)], axis=1).astype(np.float32)


def of_other_pictures(p: Tensor, table: Tensor) -> Tensor:
    """Return probabilities (N, K) of pictures of which the method says p (N, K), by what `carried_over` returned.

    In torch, so that an exported network does the same.
    """
    said, label = p.max(dim=1, keepdim=True)
    line = table[label[:, 0]]
    offset, slope = line[:, :1], line[:, 1:]
    right = torch.sigmoid(offset + slope * torch.logit(said, eps=EXTREME)).clamp(LEAST, MOST)
    return with_own(p, label, right)


def with_own(p: Tensor, label: Tensor, own: Tensor) -> Tensor:
    """Return probabilities (N, K) in which each picture's kind, label int64 (N, 1), has the probability own (N, 1).

    What remains is divided among the other kinds as p (N, K) divides it. None of them gets more than the own one: what
    is left over may be of no kind here.
    """
    mine = torch.arange(p.shape[1], device=p.device) == label
    others = torch.where(mine, torch.zeros_like(p), p)
    others = others * (1 - own) / others.sum(dim=1, keepdim=True).clamp_min(1e-30)
    return torch.where(mine, own, torch.minimum(others, 0.999 * own))


def _log_odds(p: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = np.clip(p, EXTREME, 1 - EXTREME)
    odds: NDArray[np.float64] = np.log(inside / (1 - inside))
    return odds


@dataclass(frozen=True)
class Bin:
    """Pictures of about one probability: how many, the mean probability, and the share that was right."""

    pictures: int
    said: float
    right: float


def reliability(said: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[Bin, ...]:
    """Return bins of equally many pictures, by rising probability: fewer than ten where pictures are few."""
    bins = max(1, min(BINS, len(said) // IN_A_BIN))
    order = np.argsort(said, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return tuple(Bin(len(part), float(said[part].mean()), float(right[part].mean())) for part in parts)


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error: the mean difference between what is said and what is right."""
    pictures = sum(one.pictures for one in bins)
    return sum(one.pictures * abs(one.said - one.right) for one in bins) / pictures
