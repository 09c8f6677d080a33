"""k-means, plain and constrained, for one number of clusters or a sweep over many.

In the constrained form, some points are *anchors*: they are forced into their class's cluster, all others are free
(Algorithm 2 of the paper, line 6). Plain k-means is the case without anchors.

Products are in the points' own precision, sums in float64. A result depends on the data and the seed only, not on the
number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.clustering.lloyd import PIECE, Points, Restart, floats
from newkinds.clustering.threads import Threads
from newkinds.errors import UsageError
from newkinds.randomness import generator

MEMORY = 2**28  # bytes of distances that restarts may keep from one number of clusters to the next


@dataclass(frozen=True)
class Clustering:
    """A result of k-means.

    centres: float64 (K, d); labels: int64 (N,); inertia: the sum of squared distances to the own centre; iterations:
    how many it took.
    """

    centres: NDArray[np.float64]
    labels: NDArray[np.int64]
    inertia: float
    iterations: int = 0

    def mass(self) -> NDArray[np.int64]:
        """Return how many points each cluster holds, int64 (K,)."""
        return np.bincount(self.labels, minlength=len(self.centres))


def kmeans(
    points: NDArray[Any] | Tensor,
    n_clusters: int,
    *,
    seed: int,
    anchors: NDArray[np.int64] | None = None,
    restarts: int = 10,
    max_iterations: int = 100,
    tolerance: float = 1e-4,
    overseed: float = 1.0,
    start: NDArray[Any] | None = None,
) -> Clustering:
    """Cluster points (N, d) into `n_clusters` by k-means++ and Lloyd's iterations; the best of `restarts` is returned.

    anchors: int64 (N,), the class 0..L-1 of each anchor and -1 for free points. Class c keeps cluster c.
    tolerance: a restart ends when its centres move less than this share of the points' mean variance.
    overseed: a restart begins with this many times as many clusters, and once they have converged, those that cost
    least to merge are merged: 1.5 finds far better clusters than 1, which is plain k-means. start: initial centres
    (K, d), instead of restarts from seeds.
    """
    x, held = _checked(points, n_clusters, n_clusters, anchors, restarts)
    most = min(max(n_clusters, math.ceil(overseed * n_clusters)), len(x))
    begin = None if start is None else _start(start, n_clusters, x)

    def run(number: int) -> Restart:
        restart = Restart(data, most, threads)
        if begin is not None:
            restart.start(begin)
        else:
            restart.seed(most - restart.k, generator(seed, "k-means", number))
            if most > n_clusters:
                restart.settle(max_iterations, tolerance)
                restart.shrink(most - n_clusters)
        restart.settle(max_iterations, tolerance)
        restart.forget()
        return restart

    with Threads() as threads:
        data = Points(x, held, seeds=0 if begin is not None else restarts * most)
        return _best(threads.map(run, range(restarts if begin is None else 1)))


def kmeans_sweep(
    points: NDArray[Any] | Tensor,
    n_clusters: Sequence[int],
    *,
    seed: int,
    anchors: NDArray[np.int64] | None = None,
    restarts: int = 10,
    max_iterations: int = 100,
    tolerance: float = 1e-4,
) -> Iterator[Clustering]:
    """Cluster points (N, d) into each of several numbers of clusters, from the largest down; yields the best of each.

    Every restart is seeded with the largest number and converges. Then the number is reduced: clusters merge at the
    least cost (or, except in the first restart, at a low one) and converge again, which takes few iterations and mostly
    ends lower than new seeds do. The rest is as in `kmeans`.
    """
    counts = sorted(set(n_clusters), reverse=True)
    if not counts:
        return
    x, held = _checked(points, counts[-1], counts[0], anchors, restarts)
    hold = restarts * len(x) * counts[0] * x.element_size() <= MEMORY
    running: list[Restart] = []

    def go_on(number: int, k: int) -> None:
        restart = running[number]
        if k == counts[0]:
            restart.seed(k - restart.k, generator(seed, "k-means", number))
        else:
            restart.shrink(restart.k - k, generator(seed, "merging", number, k) if number else None)
        restart.settle(max_iterations, tolerance)
        if not hold:
            restart.forget()

    threads = Threads()
    for k in counts:
        with threads:  # not across the yield: there torch's threads belong to the caller
            if not running:
                data = Points(x, held, seeds=restarts * counts[0])
                running.extend(Restart(data, counts[0], threads) for _ in range(restarts))
            threads.map(partial(go_on, k=k), range(restarts))
            found = _best(running)
        yield found


def nearest(points: NDArray[Any], centres: NDArray[Any]) -> NDArray[np.int64]:
    """Return the nearest centre of each point, int64 (N,)."""
    x = floats(points)
    with Threads() as threads:
        data = Points(x, torch.full((len(x),), -1, dtype=torch.int64, device=x.device))
        moved = (_start(centres, len(centres), x) - data.offset).to(x)
        rows = torch.split(data.everyone, PIECE)
        found = torch.cat(threads.map(lambda some: data.distances(some, moved).argmin(dim=1), rows))
    return np.asarray(found.cpu())


def _best(restarts: Sequence[Restart]) -> Clustering:
    inertia = [restart.inertia() for restart in restarts]
    return _result(restarts[int(np.argmin(inertia))])


def _result(restart: Restart) -> Clustering:
    return Clustering(
        centres=(restart.centres[: restart.k] + restart.points.offset).cpu().numpy(),
        labels=restart.labels.cpu().numpy().copy(),
        inertia=restart.inertia(),
        iterations=restart.iterations,
    )


def _checked(
    points: NDArray[Any] | Tensor, fewest: int, most: int, anchors: NDArray[np.int64] | None, restarts: int
) -> tuple[Tensor, Tensor]:
    """Return the points and their anchors, or refuse."""
    x = floats(points)
    held = np.full(len(x), -1, dtype=np.int64) if anchors is None else np.asarray(anchors, dtype=np.int64)
    n_samples, classes = len(x), int(held.max(initial=-1)) + 1
    if held.shape != (n_samples,):
        raise UsageError(
            f"anchors of shape {held.shape} do not go with {n_samples} points.", hint="Give a class or -1 for each."
        )
    if not 1 <= fewest <= most <= n_samples:
        asked = fewest if fewest < 1 else most
        raise UsageError(
            f"n_clusters={asked} should be between 1 and n_samples={n_samples}.",
            hint="Ask for fewer clusters, or give more points.",
        )
    if classes > fewest:
        raise UsageError(
            f"n_clusters={fewest} should be at least the number of anchor classes, {classes}.",
            hint="Ask for more clusters.",
        )
    present = np.bincount(held[held >= 0], minlength=classes)
    if (present == 0).any():
        raise UsageError(
            f"The anchor classes should be numbered 0 to {classes - 1}; class {int(np.argmin(present))} has no point.",
            hint="Renumber the classes.",
        )
    if restarts < 1:
        raise UsageError(f"restarts={restarts} should be at least 1.", hint="Use 10, the customary number.")
    return x, torch.tensor(held, device=x.device)


def _start(centres: NDArray[Any], n_clusters: int, x: Tensor) -> Tensor:
    """Return initial centres (n_clusters, d) for points x, or refuse them."""
    if np.shape(centres) != (n_clusters, x.shape[1]):
        raise UsageError(
            f"Centres of shape {np.shape(centres)} do not go with {n_clusters} clusters of points {tuple(x.shape)}.",
            hint=f"Give centres of shape {(n_clusters, x.shape[1])}.",
        )
    return floats(centres).double().to(x.device)
