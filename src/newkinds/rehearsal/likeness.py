"""Whether a heap is of the same sort as the known kinds: how like known pictures its own are, beside hidden kinds'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from newkinds.clustering.neighbours import directions_float32
from newkinds.memory import row_blocks
from newkinds.randomness import generator

MOST = 2000  # pictures on either side that are compared, at most
FAR = 3.0  # standard deviations of rehearsals below their mean, from which on a heap is far from the known kinds
LEAST = 0.02  # what the standard deviation counts as at least, since few rehearsals may happen to agree


def likeness(features: NDArray[np.float32], known: NDArray[np.float32], *, seed: int = 0) -> float:
    """Return the mean cosine of pictures, float32 (n, d), with the known picture (m, d) most like each, in [-1, 1]."""
    mine, others = (
        directions_float32(rows[np.sort(generator(seed, "likeness", side).permutation(len(rows))[:MOST])])
        for side, rows in enumerate((features, known))
    )
    best = [(mine[rows] @ others.T).max(axis=1) for rows in row_blocks(len(mine), len(others))]
    return float(np.concatenate(best).mean())


def far_in_words(heap: float, rehearsed: Sequence[float]) -> str:
    """Return a warning if a heap is far less like the known kinds than hidden kinds were in rehearsals, else ""."""
    if len(rehearsed) < 2:
        return ""
    spread = max(float(np.std(rehearsed, ddof=1)), LEAST)
    if heap >= float(np.mean(rehearsed)) - FAR * spread:
        return ""
    low, high = min(rehearsed), max(rehearsed)
    return (
        "The unsorted pictures are unlike anything known: their similarity to the most similar known "
        f"picture is {heap:.2f} on average, against {low:.2f} to {high:.2f} for your own kinds when they "
        "were hidden. What rehearsals say may not hold for such pictures. Known kinds of the same sort "
        "would help."
    )
