"""Validity indices: how well clusters are separated, without labels, for many clusterings of the same points at once.

The silhouette (Eq. 8) and Dunn's index depend on distances between points, which do not change with the clustering: one
pass over them serves all clusterings, and only a part of them is held at a time. Davies-Bouldin's and
Calinski-Harabasz's depend on distances to centres. All four are defined here so that higher is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score
from torch import Tensor

from newkinds.clustering.lloyd import floats
from newkinds.clustering.threads import Threads
from newkinds.distances import Distances
from newkinds.equations import silhouette_terms
from newkinds.errors import unknown_name
from newkinds.randomness import generator

_BLOCK = 2**21  # distances held at a time by each thread
_TABLES = 2**24  # entries of membership tables held at a time: beyond it, distances are computed again

Labellings = Sequence[NDArray[np.int64]]
Members = list[tuple[Tensor, Tensor, Tensor]]
Index = Callable[[Tensor, Labellings, Threads], NDArray[np.float64]]  # values and their errors (M, 2)


@dataclass(frozen=True)
class Validity:
    """The index of each of several clusterings, float64 (M,), and its standard error where points were sampled.

    NaN where the index is undefined: for a single cluster, and if every point is its own cluster.
    """

    values: NDArray[np.float64]
    errors: NDArray[np.float64]


def validity(
    name: str, points: NDArray[Any], labellings: Sequence[NDArray[np.int64]], *, most: int = 10_000, seed: int = 0
) -> Validity:
    """Return the index called `name` of each labelling (N,) of the points (N, d).

    most: if there are more points, a random sample of this size is used.
    """
    if name not in INDICES:
        raise unknown_name("index", name, INDICES)
    whole = len(points)
    if whole > most:
        drawn = np.sort(generator(seed, "sample for the index").choice(whole, most, replace=False))
        points, labellings = points[drawn], [labels[drawn] for labels in labellings]
    values, errors = np.full(len(labellings), math.nan), np.full(len(labellings), math.nan)
    dense = [np.unique(labels, return_inverse=True)[1] for labels in labellings]
    defined = [i for i, labels in enumerate(dense) if 0 < labels.max(initial=0) < len(labels) - 1]
    if defined:
        with Threads() as threads:
            found = INDICES[name](floats(points), [dense[i] for i in defined], threads)
        values[defined], errors[defined] = found.T
    if whole <= most:
        errors[defined] = 0
    return Validity(values, errors)


def _silhouettes(points: Tensor, labellings: Labellings, threads: Threads) -> NDArray[np.float64]:
    """Return the mean of (b - a) / max(a, b) over the points, and its standard error, of each labelling (M, 2)."""
    between = Distances(points)
    found = []
    for group in _groups(labellings, _TABLES // len(points)):
        members = [_members(labels, points.dtype) for labels in group]

        def look(rows: slice, members: Members = members) -> Tensor:
            distances = between.to(rows, _BLOCK).T
            return torch.stack([_moments(distances, of, sizes, own[rows]) for of, sizes, own in members])

        found.append(torch.stack(threads.map(look, _pieces(len(points)))).sum(dim=0))
    moments = torch.cat(found).numpy()
    mean = moments[:, 0] / len(points)
    spread = np.sqrt(np.maximum(moments[:, 1] / len(points) - mean**2, 0))
    return np.stack([mean, spread / math.sqrt(len(points))], axis=1)


def _groups(labellings: Labellings, clusters: int) -> list[Labellings]:
    """Return the labellings in groups of at most `clusters` clusters in total, at least one labelling each."""
    groups: list[list[NDArray[np.int64]]] = []
    room = 0
    for labels in labellings:
        room -= int(labels.max()) + 1
        if not groups or room < 0:
            groups.append([])
            room = clusters - int(labels.max()) - 1
        groups[-1].append(labels)
    return list(groups)


def _members(labels: NDArray[np.int64], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return cluster membership as ones (N, K), the sizes (K,) and the labels (N,)."""
    own = torch.from_numpy(labels)
    sizes = torch.bincount(own)
    table = torch.zeros(len(own), len(sizes), dtype=dtype)
    return table.scatter_(1, own[:, None], 1), sizes.to(dtype), own


def _moments(distances: Tensor, members: Tensor, sizes: Tensor, mine: Tensor) -> Tensor:
    """Return the sum of the silhouettes of n points and that of their squares, float64 (2,)."""
    values = silhouette_terms(distances @ members, mine, sizes).double()
    return torch.stack([values.sum(), values.square().sum()])


def _dunn(points: Tensor, labellings: Labellings, threads: Threads) -> NDArray[np.float64]:
    """Return the least distance between two clusters over the largest within one, of each labelling (M, 2)."""
    between = Distances(points)
    labels = torch.from_numpy(np.stack(labellings))

    def look(rows: slice) -> Tensor:
        distances = between.to(rows, _BLOCK).T
        found = []
        for own in labels:
            same = own[rows, None] == own
            least = torch.where(same, math.inf, distances).amin()
            found.append(torch.stack([least, -torch.where(same, distances, 0).amax()]))
        return torch.stack(found)

    apart, within = torch.stack(threads.map(look, _pieces(len(points)))).amin(dim=0).double().numpy().T
    return np.stack([apart / np.maximum(-within, 1e-300), np.full(len(apart), math.nan)], axis=1)


def _each(score: Callable[[NDArray[Any], NDArray[np.int64]], float], sign: float) -> Index:
    """Return an index from scikit-learn's score of one labelling."""

    def index(points: Tensor, labellings: Labellings, threads: Threads) -> NDArray[np.float64]:
        x = points.numpy()
        return np.array(threads.map(lambda labels: [sign * score(x, labels), math.nan], labellings))

    return index


INDICES: dict[str, Index] = {
    "silhouette": _silhouettes,
    "dunn": _dunn,
    "davies-bouldin": _each(davies_bouldin_score, -1.0),  # of which lower is better
    "calinski-harabasz": _each(calinski_harabasz_score, 1.0),
}


def _pieces(n: int) -> list[slice]:
    step = max(1, _BLOCK // n)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
