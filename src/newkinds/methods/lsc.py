"""Landmark spectral clustering (Chen and Cai 2011): spectral clustering without a matrix of all pairs.

A few landmarks represent all points. Point i has weights on its r nearest landmarks only,

    z_ij = exp(-d_ij^2 / (2 sigma^2)) / sum over its r nearest landmarks,    sigma = the mean distance to a landmark,

so that the rows of Z (N, M) sum to 1. Two points are as alike as their landmarks are: the affinity is W = Z D^-1 Z^T
with D = diag(Z^T 1), and its rows sum to 1 as well. W itself is never made: its eigenvectors are the left singular
vectors of Z D^-1/2, which is thin and sparse.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from pydantic import Field

from newkinds.clustering import kmeans
from newkinds.clustering.lloyd import floats
from newkinds.methods.base import Method, Problem, Solution
from newkinds.randomness import generator, key, one_thread
from newkinds.settings import Section
from newkinds.settings.base import ClusteredOn, Restarts

LANDMARK_ITERATIONS = 5  # of the k-means that finds landmarks; the published number
BLOCK = 2**21  # distances held at a time
NOTHING = 1e-10  # eigenvalues of W, and lengths of rows, below this are rounding errors


class Lsc(Section):
    """Landmark spectral clustering (method lsc)."""

    on: ClusteredOn = "features"
    landmarks: int = Field(
        1000,
        ge=2,
        description="How many landmarks stand for all pictures, at most half as many as there are pictures. More are "
        "more exact and take longer. Published with 1,000.",
    )
    choose: Literal["kmeans", "random"] = Field(
        "kmeans",
        description="How landmarks are found: centres of a short k-means, or pictures drawn at random, which is faster "
        "and less exact.",
    )
    nearest: int = Field(
        5, ge=2, description="How many of its nearest landmarks each picture is described by. Published with 5."
    )
    restarts: Restarts = Field(
        10,
        description="How often the k-means on the eigenvectors begins anew; the best outcome is kept. Published with "
        "10.",
    )


def lsc_method(problem: Problem) -> Solution:
    """Cluster the unsorted pictures by the eigenvectors of their affinity; there is no model for other pictures."""
    chosen = problem.settings.section(Lsc)
    labels, embedding = lsc(problem.points(chosen.on), problem.kinds, chosen, problem.settings.seed)
    return Solution(problem.certain(labels), embedding.astype(np.float32))


def lsc(points: NDArray[Any], kinds: int, settings: Lsc, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cluster points (N, d) into `kinds`; returns the labels (N,) and the embedding (N, kinds) that k-means ran on."""
    points = floats(points).numpy()
    number = how_many_landmarks(len(points), kinds, settings.landmarks)
    landmarks = choose_landmarks(points, number, settings.choose, seed)
    embedding = spectral_embedding(landmark_weights(points, landmarks, settings.nearest), kinds)
    return kmeans(embedding, kinds, seed=seed, restarts=settings.restarts).labels, embedding


def how_many_landmarks(n_samples: int, kinds: int, most: int) -> int:
    """Return the number of landmarks: at most half of the points, but more than kinds, if there are enough points."""
    return min(n_samples, max(kinds + 1, min(most, n_samples // 2)))


def choose_landmarks(points: NDArray[Any], number: int, choose: str, seed: int) -> NDArray[np.float64]:
    """Return landmarks (M, d): points drawn at random, or centres of a few iterations of k-means.

    M is less than `number` where points are equal, as no two landmarks are.
    """
    if choose == "random":
        drawn = points[generator(seed, "landmarks").choice(len(points), number, replace=False)]
    else:
        drawn = kmeans(
            points, number, seed=key(seed, "landmarks"), restarts=1, max_iterations=LANDMARK_ITERATIONS
        ).centres
    return np.unique(drawn.astype(np.float64), axis=0)


def landmark_weights(points: NDArray[Any], landmarks: NDArray[np.float64], nearest: int) -> scipy.sparse.csr_matrix:
    """Return Z (N, M), sparse: the weights of the `nearest` landmarks of each point, which sum to 1."""
    n_samples, nearest = len(points), min(nearest, len(landmarks))
    columns = np.empty((n_samples, nearest), dtype=np.int64)
    squares = np.empty((n_samples, nearest))
    total, step = 0.0, max(1, BLOCK // len(landmarks))
    with one_thread():
        middle = landmarks.mean(axis=0)  # small norms: little cancels
        marks = landmarks - middle
        norms = np.square(marks).sum(axis=1)
        for start in range(0, n_samples, step):
            rows = slice(start, start + step)
            x = points[rows].astype(np.float64) - middle
            every = np.maximum(np.square(x).sum(axis=1)[:, None] + norms - 2 * x @ marks.T, 0)
            columns[rows] = np.argpartition(every, nearest - 1, axis=1)[:, :nearest]
            squares[rows] = np.take_along_axis(every, columns[rows], axis=1)
            total += float(np.sqrt(every, out=every).sum())
    sigma = total / (n_samples * len(landmarks))
    weights = np.exp(-squares / (2 * sigma**2)) if sigma > 0 else np.ones_like(squares)
    weights /= weights.sum(axis=1, keepdims=True)
    ends = np.arange(0, weights.size + 1, nearest)
    return scipy.sparse.csr_matrix((weights.ravel(), columns.ravel(), ends), shape=(n_samples, len(landmarks)))


def spectral_embedding(weights: scipy.sparse.csr_matrix, width: int) -> NDArray[np.float64]:
    """Return rows of length 1 (N, width) made of the eigenvectors of W = Z D^-1 Z^T with the largest eigenvalues.

    The first of all, which is the same for every point and has the eigenvalue 1, is left out. Others may have the
    eigenvalue 1 too, when the points fall apart: so it is taken out of the matrix rather than off the list. Where W has
    fewer than `width` eigenvectors with a value, columns are 0.

    With B = Z D^-1/2: if B^T B g = lambda g, a matrix (M, M), then B g / sqrt(lambda) is the eigenvector of W = B B^T.
    """
    n_samples, n_landmarks = weights.shape
    embedding = np.zeros((n_samples, width))
    sums = np.asarray(weights.sum(axis=0)).ravel()
    roots = np.sqrt(sums)
    scaled = weights @ scipy.sparse.diags(np.divide(1, roots, out=np.zeros_like(roots), where=sums > 0))
    top = min(width, n_landmarks)
    with one_thread():
        small = (scaled.T @ scaled).toarray() - np.outer(roots, roots) / n_samples
        values, vectors = scipy.linalg.eigh(small, subset_by_index=[n_landmarks - top, n_landmarks - 1])
        kept = np.flatnonzero(values > NOTHING)[::-1]  # the largest first
        embedding[:, : len(kept)] = scaled @ (vectors[:, kept] / np.sqrt(values[kept]))
    lengths: NDArray[np.float64] = np.linalg.norm(embedding, axis=1, keepdims=True)
    return embedding / np.where(lengths > NOTHING, lengths, 1)


METHODS = (
    Method(
        "lsc",
        "landmark spectral clustering (Chen and Cai 2011)",
        lsc_method,
        {"lsc": Lsc},
        takes_features=lambda settings: settings.section(Lsc).on == "features",
    ),
)
