"""The other estimate of the number of new kinds: that of generalized category discovery."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from newkinds.clustering import kmeans
from newkinds.count.algorithm2 import remaining
from newkinds.count.result import Count, Point, counted_once
from newkinds.equations import clustering_accuracy
from newkinds.settings import Count as CountSettings


def count_by_labelled(
    probes: NDArray[np.float32],
    labels: NDArray[np.int64],
    unsorted: NDArray[np.float32],
    largest: int,
    settings: CountSettings,
    seed: int,
) -> Count:
    """Return the estimate of generalized category discovery: plain k-means on all, K by the labelled pictures' ACC.

    The K that maximises that accuracy is found by Brent's method, between 0 and `largest` new kinds.
    """
    points, classes = np.concatenate([probes, unsorted]), int(labels.max()) + 1
    tried: dict[int, Point] = {}

    def loss(k: float) -> float:
        number = round(k)
        if number not in tried:
            found = kmeans(points, classes + number, seed=seed, restarts=settings.restarts).labels
            new = np.arange(len(labels), len(points))
            left = remaining(found, new, new[:0], 0, settings)
            accuracy = clustering_accuracy(found[: len(labels)], labels)
            tried[number] = Point(number, accuracy, 0.0, math.nan, math.nan, float(left))
        return -tried[number].accuracy

    minimize_scalar(loss, bounds=(0, largest), method="bounded", options={"xatol": 0.5})
    curve = tuple(tried[k] for k in sorted(tried))
    best = max(curve, key=lambda point: (point.accuracy, point.k)).k
    return counted_once(best, curve, "labelled")
