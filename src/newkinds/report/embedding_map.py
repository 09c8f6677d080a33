"""The map: t-SNE of the features, two coordinates a picture, the same for the same seed.

Its cost is bounded: t-SNE is run on a sample at most, the other pictures are placed at their nearest neighbours in the
sample, and where too many are close together, only some of them are shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator, key, one_thread
from newkinds.stopping import signals_waiting

SAMPLE = 5_000  # pictures for t-SNE, about 20 s on one core
MAX_POINTS = 20_000  # on the page
CELLS = 128  # the map is divided into 128 x 128 cells, to find where points are dense
NEIGHBOURS = 5  # that place a picture outside the sample
CLOSE = 0.05  # of the map's side: neighbours farther than this from the nearest do not count
WIDE = 50  # features wider than this go through PCA first, as t-SNE's authors do
PERPLEXITY = 30.0
EXAGGERATED, ITERATIONS = 150, 300  # openTSNE's 250 + 500 take nearly twice as long for 2 % less divergence
# From a good initialisation, fewer iterations are enough: how many, with what exaggeration and momentum.
FOLLOWING = ((50, 4.0, 0.5), (100, 1.0, 0.8))
FEWEST = 4  # points that t-SNE needs: perplexity 1 takes 3 neighbours


@dataclass(frozen=True)
class EmbeddingMap:
    """The map: `items` (M,) are row numbers, ascending; `places` (M, 2) float64 in [0, 1], aspect kept.

    sampled: how many pictures t-SNE was run on; the others are placed at their nearest neighbours among them.
    first: (M,) whether a point is one of them.
    """

    items: NDArray[np.int64]
    places: NDArray[np.float64]
    sampled: int
    first: NDArray[np.bool_]


def make_map(
    features: NDArray[np.float32],
    kinds: NDArray[np.int64],
    seed: int,
    *,
    limit: int = MAX_POINTS,
    sample: int = SAMPLE,
    progress: Progress = QUIET,
) -> EmbeddingMap:
    """Lay out (N, c) features of pictures in kinds (N,): t-SNE of `sample` of them at most, `limit` points at most."""
    chosen = thin(kinds, seed, sample)
    with one_thread():
        points = _prepared(features, chosen, seed)
        places = _fit_square(_layout(points[chosen], seed, progress))
        everywhere = places if len(chosen) == len(features) else _beside(points, chosen, places)
    first = np.zeros(len(features), dtype=bool)
    first[chosen] = True
    items = thin_places(everywhere, first, seed, limit)
    return EmbeddingMap(items, everywhere[items], len(chosen), first[items])


def thin_places(places: NDArray[np.float64], first: NDArray[np.bool_], seed: int, limit: int) -> NDArray[np.int64]:
    """Return at most `limit` row numbers, ascending: all where points (N, 2) are sparse, some where they are dense.

    Every cell of a grid may show the same number of points; those of `first` (N,) come before the others there.
    """
    n = len(places)
    if n <= limit:
        return np.arange(n, dtype=np.int64)
    cell = np.minimum((places * CELLS).astype(np.int64), CELLS - 1) @ np.array([1, CELLS])
    order = generator(seed, "report/density").permutation(n)
    order = order[np.argsort(~first[order], kind="stable")]
    by_cell = order[np.argsort(cell[order], kind="stable")]
    starts = np.searchsorted(cell[by_cell], np.arange(CELLS**2))
    rank = np.empty(n, dtype=np.int64)
    rank[by_cell] = np.arange(n) - starts[cell[by_cell]]
    return np.sort(order[np.argsort(rank[order], kind="stable")][:limit])


def thin(kinds: NDArray[np.int64], seed: int, limit: int) -> NDArray[np.int64]:
    """Return at most `limit` row numbers, ascending: drawn at random, but small kinds keep enough to be visible.

    Half of them are shared out evenly among the kinds, the others are drawn from the rest.
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


def _prepared(features: NDArray[np.float32], chosen: NDArray[np.int64], seed: int) -> NDArray[np.float32]:
    """Return the features (N, at most WIDE), centred and scaled so that they can be squared."""
    middle = features[chosen].astype(np.float64).mean(axis=0)
    spread = max((float(np.abs(some - middle).max()) for some in _chunks(features)), default=0.0)
    if spread == 0.0:
        return np.zeros((len(features), 0), dtype=np.float32)
    turn = np.eye(features.shape[1])
    if features.shape[1] > WIDE and len(chosen) > WIDE:
        from sklearn.decomposition import PCA

        pca = PCA(WIDE, svd_solver="randomized", random_state=key(seed, "report/map") % 2**32)
        turn = pca.fit((features[chosen] - middle) / spread).components_.T
    # Huge or tiny features must not overflow or vanish when squared; in chunks, as float64 takes much memory.
    return np.concatenate([((some - middle) / spread @ turn).astype(np.float32) for some in _chunks(features)])


def _chunks(features: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """Yield the features some rows at a time; nothing if they have no columns."""
    if features.size:
        for start in range(0, len(features), 8_192):
            yield features[start : start + 8_192]


def _beside(points: NDArray[np.float32], chosen: NDArray[np.int64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places (N, 2) of all points: those of the chosen ones, and for the others the mean of their nearest.

    Only neighbours that are close together on the map count: otherwise points would end up between two groups.
    """
    known = points[chosen]
    norms = np.square(known).sum(axis=1)
    everywhere = np.empty((len(points), 2))
    nearest = min(NEIGHBOURS, len(chosen))
    for start in range(0, len(points), 2_048):
        some = points[start : start + 2_048]
        squares = norms - 2 * some @ known.T  # without the point's own norm, which is the same for all
        near = np.argpartition(squares, nearest - 1, axis=1)[:, :nearest]
        distance = np.take_along_axis(squares, near, axis=1) + np.square(some).sum(axis=1, keepdims=True)
        weight = 1 / np.maximum(distance.astype(np.float64), 1e-12)
        best = places[near[np.arange(len(near)), weight.argmax(axis=1)]]
        weight *= np.square(places[near] - best[:, None]).sum(axis=2) <= CLOSE**2
        mean = (places[near] * weight[:, :, None]).sum(axis=1) / weight.sum(axis=1, keepdims=True)
        everywhere[start : start + 2_048] = mean
    everywhere[chosen] = places
    return everywhere


def _layout(points: NDArray[np.float32], seed: int, progress: Progress) -> NDArray[np.float64]:
    if len(points) < FEWEST or points.shape[1] == 0 or not np.abs(points).max() > 0:
        return _ring(len(points))
    return _tsne(points.astype(np.float64), key(seed, "report/map") % 2**32, progress)


def follow(points: NDArray[np.float32], places: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return t-SNE of other features (N, c) of the points, starting from their places (N, 2) in [0, 1]."""
    points = _prepared(points, np.arange(len(points)), seed)
    if len(points) < FEWEST or points.shape[1] == 0:
        return places
    start = (places - 0.5) * 2 * np.sqrt(len(points))  # about as wide as t-SNE makes it
    with one_thread():
        return _fit_square(_tsne_from(start, points.astype(np.float64), key(seed, "report/follow") % 2**32))


def _tsne(points: NDArray[np.float64], state: int, progress: Progress) -> NDArray[np.float64]:
    from openTSNE import TSNE  # imported late: it takes two seconds

    every = 50
    steps = progress.step("Map", EXAGGERATED + ITERATIONS)
    with steps as step, signals_waiting() as let_signals_through, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of its own PCA, where fewer than two directions vary

        def advance(iteration: int, divergence: float, embedding: object) -> None:
            step.advance(every)
            let_signals_through()

        tsne = TSNE(
            perplexity=_perplexity(points),
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


def _tsne_from(start: NDArray[np.float64], points: NDArray[np.float64], state: int) -> NDArray[np.float64]:
    from openTSNE import TSNEEmbedding
    from openTSNE.affinity import PerplexityBasedNN

    with signals_waiting() as let_signals_through, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        near = PerplexityBasedNN(points, _perplexity(points), method="exact", n_jobs=1, random_state=state)
        embedding = TSNEEmbedding(start, near, negative_gradient_method="bh", n_jobs=1, random_state=state)
        for iterations, exaggeration, momentum in FOLLOWING:
            let_signals_through()
            embedding = embedding.optimize(iterations, exaggeration=exaggeration, momentum=momentum)
    places = np.asarray(embedding, dtype=np.float64)
    return places if np.isfinite(places).all() else start


def _perplexity(points: NDArray[np.float64]) -> float:
    return min(PERPLEXITY, (len(points) - 1) / 3)


def _ring(n: int) -> NDArray[np.float64]:
    """Return n points evenly on a circle, for when there is no structure to show."""
    angles = 2 * np.pi * np.arange(n) / max(n, 1)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * (n > 1)


def _fit_square(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale points into [0, 1] x [0, 1]: the longer side fills it, the shorter one is centred."""
    low, high = places.min(axis=0), places.max(axis=0)
    side = float((high - low).max())
    if side == 0.0:
        return np.full_like(places, 0.5)
    return np.asarray(0.5 + (places - (low + high) / 2) / side, dtype=np.float64)
