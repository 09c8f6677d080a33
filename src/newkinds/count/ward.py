"""The number of new kinds by one tree of merges (Choi et al. 2024), cut where labelled pictures are sorted best.

Ward's tree gives all numbers of clusters: it is cut from as many as there are known kinds upwards, and the cut with the
best accuracy on labelled pictures is kept. The scan ends when so many cuts in a row were no better.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from newkinds.count.result import Count, Point, counted_once
from newkinds.equations import clustering_accuracy
from newkinds.randomness import generator

MOST = 5000  # labelled and unsorted pictures in the tree, which takes the memory of their square; of more, a sample
PATIENCE = 50  # cuts without a gain


def count_by_ward(
    probes: NDArray[np.float32],
    labels: NDArray[np.int64],
    unsorted: NDArray[np.float32],
    largest: int,
    seed: int,
) -> Count:
    """Return the estimate by Ward's tree of labelled and unsorted pictures, (P, d) and (M, d).

    labels: int64 (P,). largest: the most new kinds that are tried. Of more than 5,000 pictures, a random sample of that
    size is taken, which a remark says.
    """
    whole, classes = len(probes) + len(unsorted), int(labels.max()) + 1
    drawn = np.sort(generator(seed, "sample for the tree").permutation(whole)[:MOST])
    truth = labels[drawn[drawn < len(probes)]]
    points = np.concatenate([probes, unsorted])[drawn]
    tree = linkage(points.astype(np.float64), "ward")
    curve: list[Point] = []
    best = 0
    for k in range(min(largest, len(points) - classes) + 1):
        found = fcluster(tree, classes + k, "maxclust")[: len(truth)]
        accuracy = clustering_accuracy(found.astype(np.int64), truth) if len(truth) else 0.0
        curve.append(Point(k, accuracy, 0.0, math.nan, math.nan, float(k)))
        if accuracy > curve[best].accuracy:
            best = k
        if k - best >= PATIENCE:
            break
    remarks = []
    if whole > MOST:
        remarks.append(
            f"The tree was built from {MOST:,} of the {whole:,} labelled and unsorted pictures, drawn at random."
        )
    return counted_once(best, tuple(curve), "ward", *remarks)
