"""The trivial method for mixed heaps: the nearest known kind if it is near enough; what is left is clustered.

How near is enough is learnt from the labelled pictures: each is compared with the mean of its own kind's others, and
the threshold is such that a given share of them would be rejected. Where f was trained on labelled pictures, only those
that were held out are compared: the others are nearer to their kinds than pictures of the heap can be. What is rejected
goes to new kinds by k-means. Directions are compared: features at length 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import Self

from newkinds.clustering import kmeans
from newkinds.clustering.neighbours import directions_float32
from newkinds.features import apply, model_outputs
from newkinds.methods.base import Method, Problem, Solution
from newkinds.networks import Head, Model
from newkinds.parallel.processes import from_writer
from newkinds.settings import Section
from newkinds.settings.base import Restarts


class NearestKnown(Section):
    """The nearest known kind with a threshold, the rest by k-means (method nearest-known)."""

    rejected: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="The share of labelled pictures that would be taken for new ones, each compared with the others of "
        "its kind. Raise it where too many pictures are called known.",
    )
    restarts: Restarts = 20
    scale: float = Field(
        25.0, gt=0, description="How much surer a nearer kind makes: the factor on cosines in probabilities."
    )


class NearestKnownHead(Head):
    """Features brought to length 1, the nearest of the new kinds' centres, and known kinds above a threshold.

    Logits are s (cosine - threshold) for known kinds, and for new ones -s times by how much the squared distance is
    above that of the nearest: the best new kind has 0, and a known kind is the most probable where it is above the
    threshold.
    """

    name = "nearest-known"

    def __init__(self, feature_dim: int, kinds: int, new: int, scale: float, threshold: float) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.zeros(kinds, feature_dim))
        self.new, self.scale, self.threshold = new, scale, threshold

    @property
    def kinds(self) -> int:
        """How many kinds there are."""
        return len(self.centres)

    def embed(self, features: Tensor) -> Tensor:
        """Return directions (B, d)."""
        return F.normalize(features, dim=1)

    def log_p(self, embedding: Tensor) -> Tensor:
        """Return the logarithm of the softmax."""
        cosines = embedding @ self.centres.T
        nearness = 2 * cosines[:, : self.new] - self.centres[: self.new].square().sum(dim=1)
        new = nearness - nearness.amax(dim=1, keepdim=True)
        return torch.log_softmax(self.scale * torch.cat([new, cosines[:, self.new :] - self.threshold], dim=1), dim=1)

    def about(self) -> dict[str, Any]:
        """Return how many kinds there are, how many are new, the scale and the threshold."""
        return {"kinds": self.kinds, "new": self.new, "scale": self.scale, "threshold": self.threshold}

    @classmethod
    def build(cls, feature_dim: int, about: Mapping[str, Any]) -> Self:
        """Return one with centres at zero."""
        return cls(
            feature_dim, int(about["kinds"]), int(about["new"]), float(about["scale"]), float(about["threshold"])
        )


def leave_one_out(known: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how like each labelled picture is to the mean of its own kind's others: cosines, float64 (L,).

    known: directions (L, d). NaN where a kind has no other picture, or their mean no direction.
    """
    number = np.bincount(labels)[labels]
    sums = np.zeros((int(labels.max()) + 1, known.shape[1]))
    np.add.at(sums, labels, known.astype(np.float64))
    others = sums[labels] - known
    length = np.linalg.norm(others, axis=1)
    found = np.full(len(known), np.nan)
    fine = (number > 1) & (length > 0)
    found[fine] = (others[fine] * known[fine]).sum(axis=1) / length[fine]
    return found


def threshold(
    known: NDArray[np.float32],
    labels: NDArray[np.int64],
    rejected: float,
    not_learnt: NDArray[np.int64] | None = None,
) -> float:
    """Return the cosine below which a share `rejected` of the labelled pictures lie; -1 if none can be compared.

    known: directions (L, d). not_learnt: the pictures to judge by, if not all: as many of each kind as all would be,
    int64 (m,).
    """
    rows = np.arange(len(known)) if not_learnt is None else not_learnt
    likeness = leave_one_out(known, labels)[rows]
    rows, likeness = rows[np.isfinite(likeness)], likeness[np.isfinite(likeness)]
    if not len(rows):
        return -1.0
    if not_learnt is None:
        return float(np.quantile(likeness, rejected))
    weights = (np.bincount(labels) / np.maximum(1, np.bincount(labels[rows], minlength=labels.max() + 1)))[labels[rows]]
    order = np.argsort(likeness, kind="stable")
    below = np.cumsum(weights[order]) / weights.sum()
    return float(likeness[order][min(len(order) - 1, int(np.searchsorted(below, rejected, side="right")))])


def nearest_known(problem: Problem) -> Solution:
    """Name pictures that are near a known kind and cluster the others; in a heap of new kinds alone, cluster all."""
    problem.check_kinds()
    scale = problem.settings.section(NearestKnown).scale
    known = None if problem.novelty is None else directions_float32(apply(problem.network, problem.known))
    centres, enough = from_writer(lambda: _centres(problem, known))
    head = NearestKnownHead(centres.shape[1], len(centres), problem.kinds, scale, enough)
    with torch.no_grad():
        head.centres.copy_(torch.from_numpy(centres))
    model = Model(problem.network, head).eval()
    said = model_outputs(model, problem.unsorted)
    return Solution(problem.assign(np.exp(said.log_p)), said.embedding, model=model, features=said.features)


def _centres(problem: Problem, known: NDArray[np.float32] | None) -> tuple[NDArray[np.float32], float]:
    """Return a centre for each of the problem's columns, float32 (C, d), and the threshold on cosines.

    known: directions of the labelled pictures, (L, d); None in a heap of new kinds alone.
    """
    chosen, seed = problem.settings.section(NearestKnown), problem.settings.seed
    turned = directions_float32(problem.features)
    if known is None:
        found = kmeans(turned, problem.kinds, seed=seed, restarts=chosen.restarts)
        return found.centres.astype(np.float32), 1.0
    labels = problem.known.labels
    assert labels is not None
    means = np.stack([known[labels == kind].mean(axis=0) for kind in range(len(problem.known.classes))])
    means = directions_float32(means)
    enough = threshold(known, labels, chosen.rejected, problem.not_learnt)
    nearest = (turned @ means.T).max(axis=1)
    # At least as many of the least known as there are new kinds.
    left = np.argsort(nearest, kind="stable")[: max(problem.kinds, int((nearest < enough).sum()))]
    found = kmeans(turned[np.sort(left)], problem.kinds, seed=seed, restarts=chosen.restarts)
    return np.concatenate([found.centres, means]).astype(np.float32), enough


METHODS = (
    Method(
        "nearest-known",
        "the nearest known kind if it is near enough, k-means for the rest",
        nearest_known,
        {"nearest_known": NearestKnown},
        takes_known=True,
        heads=(NearestKnownHead,),
    ),
)
