"""k-means, plain and constrained, with all restarts in one batched product.

In the constrained form some points are *anchors*: they are forced to their class's cluster, everything else is free
(Algorithm 2 of the paper, line 6). Plain k-means is the case without anchors.

Everything runs in float64 on one thread, so that a result depends on the data and the seed only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.errors import UsageError
from newkinds.randomness import generator, one_thread

_CHUNK = 2**22  # distances held at a time


@dataclass(frozen=True)
class Clustering:
    """A result of k-means.

    centres: float64 (K, d); labels: int64 (N,); inertia: the sum of squared distances to the own centre.
    """

    centres: NDArray[np.float64]
    labels: NDArray[np.int64]
    inertia: float

    def mass(self) -> NDArray[np.int64]:
        """Return how many points each cluster holds, int64 (K,)."""
        return np.bincount(self.labels, minlength=len(self.centres))


def kmeans(
    points: NDArray[Any],
    n_clusters: int,
    *,
    seed: int,
    anchors: NDArray[np.int64] | None = None,
    restarts: int = 10,
    max_iterations: int = 100,
    tolerance: float = 1e-4,
) -> Clustering:
    """Cluster points (N, d) into `n_clusters` by k-means++ and Lloyd's iterations; the best of `restarts` is returned.

    anchors: int64 (N,), the class 0..L-1 of each anchor and -1 for free points. Class c keeps cluster c.
    tolerance: a restart ends when its centres move less than this share of the points' mean variance.
    """
    anchors = np.full(len(points), -1, dtype=np.int64) if anchors is None else np.asarray(anchors, dtype=np.int64)
    _check(points, n_clusters, anchors, restarts)
    with one_thread():
        work = _Lloyd(torch.as_tensor(points, dtype=torch.float64), torch.from_numpy(anchors), n_clusters)
        centres = work.seeds(restarts, generator(seed, "k-means", n_clusters))
        return work.run(centres, max_iterations, tolerance)


def nearest(points: NDArray[Any], centres: NDArray[Any]) -> NDArray[np.int64]:
    """Return the nearest centre of each point, int64 (N,)."""
    free = torch.full((len(points),), -1, dtype=torch.int64)
    with one_thread():
        work = _Lloyd(torch.as_tensor(points, dtype=torch.float64), free, len(centres))
        labels, _ = work.assign((torch.as_tensor(centres, dtype=torch.float64) - work.offset)[None])
    nearest_centres: NDArray[np.int64] = labels[0].numpy()
    return nearest_centres


def _check(points: NDArray[Any], n_clusters: int, anchors: NDArray[np.int64], restarts: int) -> None:
    n_samples, classes = len(points), int(anchors.max(initial=-1)) + 1
    if not 1 <= n_clusters <= n_samples:
        raise UsageError(
            f"n_clusters={n_clusters} should be between 1 and n_samples={n_samples}.",
            hint="Ask for fewer clusters, or give more points.",
        )
    if classes > n_clusters:
        raise UsageError(
            f"n_clusters={n_clusters} should be at least the number of anchor classes, {classes}.",
            hint="Ask for more clusters.",
        )
    present = np.bincount(anchors[anchors >= 0], minlength=classes)
    if (present == 0).any():
        raise UsageError(
            f"The anchor classes should be numbered 0 to {classes - 1}; class {int(np.argmin(present))} has no point.",
            hint="Renumber the classes.",
        )
    if restarts < 1:
        raise UsageError(f"restarts={restarts} should be at least 1.", hint="Use 10, the customary number.")


class _Lloyd:
    """Points, their cached norms and anchors, and the steps of k-means over (R, K, d) centres of R restarts."""

    def __init__(self, points: Tensor, anchors: Tensor, n_clusters: int) -> None:
        self.offset = points.mean(dim=0)  # centred, so that norms are small beside distances and little cancels
        self.points = points - self.offset
        self.anchors = anchors
        self.fixed = torch.nonzero(anchors >= 0)[:, 0]
        self.n_clusters = n_clusters
        self.norms = self.points.square().sum(dim=1)

    def distances(self, rows: slice, centres: Tensor) -> Tensor:
        """Return squared distances (rows, M) of some points to centres (M, d)."""
        product = self.points[rows] @ centres.T
        distance = product.mul_(-2).add_(self.norms[rows, None]).add_(centres.square().sum(dim=1))
        return distance.clamp_(min=0)

    def chunks(self, width: int) -> list[slice]:
        """Cut the points so that `width` distances of each fit in the memory allowed."""
        step = max(1, _CHUNK // width)
        return [slice(start, start + step) for start in range(0, len(self.points), step)]

    def seeds(self, restarts: int, random: np.random.Generator) -> Tensor:
        """Return starting centres (R, K, d): the anchors' class means, then greedy k-means++ among the free points."""
        classes = int(self.anchors.max().item()) + 1 if len(self.fixed) else 0
        centres = self.points.new_empty(restarts, self.n_clusters, self.points.shape[1])
        free = (self.anchors < 0).to(self.points.dtype)
        closest = self.points.new_full((len(self.points), restarts), math.inf)
        for c in range(classes):
            centres[:, c] = self.points[self.anchors == c].mean(dim=0)
            closest = torch.minimum(closest, self.distances(slice(None), centres[:1, c]))
        trials = 2 + int(math.log(self.n_clusters))
        for c in range(classes, self.n_clusters):
            weights = free[:, None].expand(-1, restarts) if c == 0 else closest * free[:, None]
            chosen = _draw(weights, free, trials if c else 1, random)  # (R, trials)
            candidates = self.distances(slice(None), self.points[chosen.flatten()]).view(len(self.points), restarts, -1)
            candidates = torch.minimum(candidates, closest[:, :, None])
            best = candidates.sum(dim=0).argmin(dim=1)  # (R,)
            which = torch.arange(restarts)
            centres[:, c] = self.points[chosen[which, best]]
            closest = candidates[:, which, best]
        return centres

    def assign(self, centres: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cluster of each point (R, N) and its squared distance (R, N); anchors stay with their class."""
        restarts, clusters, width = centres.shape
        labels = torch.empty(restarts, len(self.points), dtype=torch.int64)
        distance = self.points.new_empty(restarts, len(self.points))
        for rows in self.chunks(restarts * clusters):
            table = self.distances(rows, centres.reshape(-1, width)).view(-1, restarts, clusters)
            least, which = table.min(dim=2)
            fixed = self.anchors[rows]
            held = torch.nonzero(fixed >= 0)[:, 0]
            if len(held):
                which[held] = fixed[held, None]
                least[held] = table[held, :, fixed[held]]
            labels[:, rows], distance[:, rows] = which.T, least.T
        return labels, distance

    def update(self, labels: Tensor, distance: Tensor) -> Tensor:
        """Return the means of the clusters (R, K, d); an empty cluster moves to the point farthest from its centre."""
        restarts, width = len(labels), self.points.shape[1]
        centres = self.points.new_zeros(restarts, self.n_clusters, width)
        for r in range(restarts):
            mass = torch.bincount(labels[r], minlength=self.n_clusters)
            centres[r].index_add_(0, labels[r], self.points)
            centres[r] /= mass.clamp(min=1)[:, None]
            empty = torch.nonzero(mass == 0)[:, 0]
            if len(empty):
                free = torch.where(self.anchors < 0, distance[r], -math.inf)
                centres[r, empty] = self.points[free.topk(len(empty)).indices]
        return centres

    def run(self, centres: Tensor, max_iterations: int, tolerance: float) -> Clustering:
        """Iterate every restart until it settles, and return the best."""
        limit = tolerance * self.points.var(dim=0, correction=0).mean()
        moving = torch.ones(len(centres), dtype=torch.bool)
        for _ in range(max_iterations):
            labels, distance = self.assign(centres[moving])
            moved = self.update(labels, distance)
            shift = (moved - centres[moving]).square().sum(dim=(1, 2))
            centres[moving] = moved
            moving[moving.clone()] = shift > limit
            if not moving.any():
                break
        labels, distance = self.assign(centres)
        inertia = distance.sum(dim=1)
        best = int(inertia.argmin())
        return Clustering(
            centres=(centres[best] + self.offset).numpy(),
            labels=labels[best].numpy(),
            inertia=float(inertia[best]),
        )


def _draw(weights: Tensor, free: Tensor, trials: int, random: np.random.Generator) -> Tensor:
    """Draw points (R, trials) with probability proportional to weights (N, R); uniformly where all weights are zero."""
    weights = torch.where(weights.sum(dim=0) > 0, weights, free[:, None])
    cumulative = weights.cumsum(dim=0)
    total = cumulative[-1]
    targets = torch.from_numpy(random.random((weights.shape[1], trials))) * total[:, None]
    drawn = torch.searchsorted(cumulative.T.contiguous(), targets, right=True)
    # Rounding may carry a target past the last point that has any weight.
    last = (weights > 0).to(torch.int64).mul(torch.arange(1, len(weights) + 1)[:, None]).amax(dim=0) - 1
    return torch.minimum(drawn, last[:, None])
