"""What can be seen of how surely pictures were sorted, without labels: the same of a rehearsal and of the real heap.

Of each picture, and on average over its kind:

- neighbours: the share of the pictures most like it that are in the same kind;
- stability: how often k-means, begun elsewhere, puts it into the same kind;
- border: how far it is from the centre of its kind, beside how far from the next one: 1 is halfway between them.

And of its kind: how far its size is above or below the mean, since kinds that were thrown together or cut in two are.
The method's own probabilities are not among them: their scale depends on the method, its settings and the features.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.clustering import kmeans
from newkinds.clustering.neighbours import directions_float32, nearest_by_direction
from newkinds.equations import matching
from newkinds.memory import row_blocks
from newkinds.randomness import one_thread

EACH = ("neighbours", "stability", "border")
NAMES = (*EACH, *(f"kind's {name}" for name in EACH), "kind too large", "kind too small")
NEIGHBOURS = 10  # the pictures that are most like one
RUNS = 5  # of k-means
LEAST = 1e-6  # the distance of pictures that are equal
BEYOND = 2.0  # a border beyond this is not told from others


class Unsorted:
    """Pictures before they are sorted, features float (N, d): what is the same however they are then sorted.

    Nearest pictures and runs of k-means are found when they are first needed, once for all who sort these features.
    """

    def __init__(self, features: NDArray[Any], *, seed: int = 0) -> None:
        self.turned = directions_float32(features)
        self._seed = seed
        self._runs: dict[int, list[NDArray[np.int64]]] = {}

    @cached_property
    def near(self) -> NDArray[np.int64]:
        """The pictures most like each, itself left out, int64 (N, at most NEIGHBOURS)."""
        return nearest_by_direction(self.turned, NEIGHBOURS + 1)[:, 1:]

    def clustered(self, kinds: int) -> list[NDArray[np.int64]]:
        """Return the labels of RUNS of k-means, each begun elsewhere."""
        if kinds not in self._runs:
            seeds = range(self._seed, self._seed + RUNS)
            self._runs[kinds] = [kmeans(self.turned, kinds, seed=one, restarts=1).labels for one in seeds]
        return self._runs[kinds]


def signals(labels: NDArray[np.int64], features: NDArray[Any] | Unsorted, *, seed: int = 0) -> NDArray[np.float64]:
    """Return the signals of pictures that were sorted, float64 (N, 8), a column for each of NAMES.

    labels: the kind of each, int64 (N,). features: float (N, d), which the sorting began from.
    """
    pictures = features if isinstance(features, Unsorted) else Unsorted(features, seed=seed)
    near = pictures.near
    like = (labels[near] == labels[:, None]).mean(axis=1) if near.shape[1] else np.ones(len(labels))
    each = np.stack([like, _stability(pictures, labels), _border(pictures.turned, labels)], axis=1)
    sizes = np.bincount(labels)
    of_kinds = np.stack([np.bincount(labels, column) for column in each.T], axis=1) / np.maximum(sizes, 1)[:, None]
    larger = np.log(np.maximum(sizes, 1) * np.count_nonzero(sizes) / len(labels))
    unusual = np.stack([np.maximum(larger, 0), np.maximum(-larger, 0)], axis=1)
    return np.concatenate([each, of_kinds[labels], unusual[labels]], axis=1)


def _stability(pictures: Unsorted, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of runs of k-means that agree about each picture, their clusters matched with the kinds."""
    kinds = len(np.unique(labels))
    agree = np.zeros(len(labels))
    for found in pictures.clustered(kinds):
        stands_for = matching(found, labels)
        named = np.full(kinds, -1, dtype=np.int64)
        named[list(stands_for)] = list(stands_for.values())
        agree += named[found] == labels
    return agree / RUNS


def _border(turned: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how far pictures (N, d), of length 1, are from their kind's mean direction, beside the next kind's."""
    kinds, own = np.unique(labels, return_inverse=True)
    found = np.zeros(len(labels))
    if len(kinds) < 2:
        return found
    means = directions_float32(np.stack([turned[own == kind].sum(axis=0) for kind in range(len(kinds))]))
    with one_thread():
        for rows in row_blocks(len(turned), len(kinds)):
            away = 1 - turned[rows] @ means.T
            place = np.arange(len(away)), own[rows]
            mine = away[place]
            away[place] = np.inf
            found[rows] = np.clip(mine / np.maximum(away.min(axis=1), LEAST), 0, BEYOND)
    return found
