"""The map: t-SNE of the features, two coordinates a picture, the same for the same seed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator, key, one_thread

MAX_POINTS = 5_000  # about 20 s on one core; above it, the map is of a sample
WIDE = 50  # features wider than this go through PCA first, as t-SNE's authors do
PERPLEXITY = 30.0
EXAGGERATED, ITERATIONS = 150, 300  # openTSNE's 250 + 500 take nearly twice as long for 2 % less divergence
FEWEST = 4  # t-SNE needs a neighbourhood: perplexity 1 takes 3 neighbours


@dataclass(frozen=True)
class EmbeddingMap:
    """Where the pictures lie: `items` (M,) are row numbers, rising; `places` (M, 2) float64 in [0, 1], aspect kept."""

    items: NDArray[np.int64]
    places: NDArray[np.float64]


def make_map(
    features: NDArray[np.float32],
    kinds: NDArray[np.int64],
    seed: int,
    *,
    limit: int = MAX_POINTS,
    progress: Progress = QUIET,
) -> EmbeddingMap:
    """Lay out (N, c) features of pictures in kinds (N,); where N is above `limit`, those of a sample."""
    items = thin(kinds, seed, limit)
    with one_thread():
        return EmbeddingMap(items, _fit_square(_layout(features[items], seed, progress)))


def thin(kinds: NDArray[np.int64], seed: int, limit: int) -> NDArray[np.int64]:
    """Return at most `limit` row numbers, rising: drawn at random, but small kinds keep enough to be seen.

    Half of the places are shared out evenly over the kinds, the others are drawn from all that is left.
    """
    n = len(kinds)
    if n <= limit:
        return np.arange(n, dtype=np.int64)
    order = generator(seed, "report/thin").permutation(n)
    fair = limit // (2 * len(np.unique(kinds)))
    rank = np.empty(n, dtype=np.int64)
    for kind in np.unique(kinds):
        mine = order[kinds[order] == kind]
        rank[mine] = np.arange(len(mine))
    preferred = np.argsort(rank[order] >= fair, kind="stable")
    return np.sort(order[preferred][:limit])


def _layout(features: NDArray[np.float32], seed: int, progress: Progress) -> NDArray[np.float64]:
    points = features.astype(np.float64)
    points -= points.mean(axis=0)
    spread = np.abs(points).max() if points.size else 0.0
    if len(points) < FEWEST or spread == 0.0:
        return _ring(len(points))
    points /= spread  # huge or tiny features must not overflow when squared
    state = key(seed, "report/map") % 2**32
    if points.shape[1] > WIDE and len(points) > WIDE:
        from sklearn.decomposition import PCA

        points = PCA(WIDE, svd_solver="randomized", random_state=state).fit_transform(points)
    return _tsne(points, state, progress)


def _tsne(points: NDArray[np.float64], state: int, progress: Progress) -> NDArray[np.float64]:
    from openTSNE import TSNE  # imported late: it takes two seconds

    every = 50
    with progress.step("Map", EXAGGERATED + ITERATIONS) as step, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of its own PCA, where fewer than two directions vary

        def advance(iteration: int, divergence: float, embedding: object) -> None:
            step.advance(every)

        tsne = TSNE(
            perplexity=min(PERPLEXITY, (len(points) - 1) / 3),
            early_exaggeration_iter=EXAGGERATED,
            n_iter=ITERATIONS,
            initialization="pca" if points.shape[1] > 1 else "random",
            neighbors="exact",
            negative_gradient_method="bh",
            callbacks=advance,
            callbacks_every_iters=every,
            n_jobs=1,
            random_state=state,
        )
        places = np.asarray(tsne.fit(points), dtype=np.float64)
    return places if np.isfinite(places).all() else _ring(len(points))


def _ring(n: int) -> NDArray[np.float64]:
    """Place n points where there is no structure to show: evenly on a circle."""
    angles = 2 * np.pi * np.arange(n) / max(n, 1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * (n > 1)


def _fit_square(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move points into [0, 1] x [0, 1], the longer side filled, the shorter one centred."""
    low, high = places.min(axis=0), places.max(axis=0)
    side = float((high - low).max())
    if side == 0.0:
        return np.full_like(places, 0.5)
    return np.asarray(0.5 + (places - (low + high) / 2) / side, dtype=np.float64)
