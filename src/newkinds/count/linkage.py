"""Ward's linkage as curves over the number of clusters, by which a number of kinds is carried over between sets."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage

from newkinds.clustering.neighbours import directions, neighbours_averaged
from newkinds.randomness import one_thread

Array = NDArray[np.float64]

BLOCK = 256  # rows of one product
AROUND = 0.1  # the level for K clusters is that of a line through K (1 - AROUND) to K (1 + AROUND)
BOTTOM = 1e-6  # the least height, of pictures that are equal


def log_heights(features: NDArray[np.float32], neighbours: int) -> Array:
    """Return the logarithms of the heights at which Ward's linkage joins pictures (n, d), highest first: (n - 1,)."""
    with one_thread():
        points = directions(neighbours_averaged(features, neighbours))
        n = len(points)
        condensed = np.empty(n * (n - 1) // 2)
        first = 0
        for start in range(0, n - 1, BLOCK):
            products = points[start : start + BLOCK] @ points[start:].T
            for row in range(min(BLOCK, n - 1 - start)):
                last = first + n - 1 - start - row
                condensed[first:last] = products[row, row + 1 :]
                first = last
        np.sqrt(np.maximum(2 - 2 * condensed, 0), out=condensed)  # all are of length 1
        heights = linkage(condensed, "ward")[::-1, 2]
    logs: Array = np.log(np.maximum(heights, BOTTOM))
    return logs


def levels(heights: Array) -> Array:
    """Return a log height at which 1, 2, ... clusters are left, between those at which their number changes."""
    above = heights[0] + (heights[0] - heights[1]) / 2
    between: Array = np.concatenate([[above], (heights[:-1] + heights[1:]) / 2])
    return between


def distances_from_centres(heights: Array) -> Array:
    """Return the log mean squared distance from the centre of its cluster, with 1, 2, ... clusters: never rising.

    Ward's linkage joins clusters at a height of which half the square is what joining adds to the squared distances.
    Of n pictures in K clusters, n - K are free to differ from their centre, whatever the clusters' sizes.
    """
    n = len(heights) + 1
    inside = np.cumsum(np.square(np.exp(heights))[::-1])[::-1] / 2
    found: Array = np.minimum.accumulate(np.log(np.maximum(inside / (n - np.arange(1, n)), BOTTOM**2)))
    return found


def level_of(curve: Array, kinds: int) -> float:
    """Return the level of a curve over 1, 2, ... clusters at so many, smoothed by a line over log K around it."""
    first, last = max(1, math.floor(kinds * (1 - AROUND)) - 1), math.ceil(kinds * (1 + AROUND)) + 1
    numbers = np.arange(first, min(last, len(curve)) + 1)
    if len(numbers) < 3:
        return float(curve[min(kinds, len(curve)) - 1])
    slope, offset = np.polyfit(np.log(numbers), curve[numbers - 1], 1)
    return float(slope * math.log(kinds) + offset)


def log_number(curve: Array, level: float) -> float:
    """Return the logarithm of how many clusters a curve has this level at, a fraction between whole numbers."""
    return float(np.interp(-level, -curve, np.log(np.arange(1, len(curve) + 1))))
