"""Semi-supervised k-means: labelled pictures stay in their kinds' clusters, unsorted ones may join any or new ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from newkinds.clustering import kmeans
from newkinds.methods.base import Problem

Rows = NDArray[np.float32]


def semi_supervised_centres(problem: Problem, unsorted: Rows, known: Rows, restarts: int) -> NDArray[np.float64]:
    """Return a centre for each of the problem's columns, float64 (C, d), by k-means on rows (N, d) and (L, d).

    Known kinds begin at their means, new ones at unsorted pictures drawn by k-means++. In a heap of new kinds alone,
    the known kinds' centres are left out of the result; their pictures hold them apart.
    """
    assert problem.known.labels is not None
    classes = len(problem.known.classes)
    anchors = np.concatenate([problem.known.labels, np.full(len(unsorted), -1, dtype=np.int64)])
    points = np.concatenate([known, unsorted])
    found = kmeans(points, classes + problem.kinds, seed=problem.settings.seed, anchors=anchors, restarts=restarts)
    new, old = found.centres[classes:], found.centres[:classes]
    return new if problem.novelty is None else np.concatenate([new, old])
