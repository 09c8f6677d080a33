"""How many pictures of a heap can be of known kinds at most, by known ones that f has not learnt from.

Learning from positive and unlabelled pictures: held-out pictures are known for sure, those of the heap may be either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from newkinds.randomness import generator
from newkinds.regression import Regression

TOP = (0.1, 0.2, 0.3, 0.5, 0.7)  # of held-out pictures, where they are densest beside the heap
MOST_COMPARED = 10_000  # pictures of the heap beside held-out ones; of more, so many are drawn
FOLDS, RIDGE = 5, 0.1  # of the comparison; the strength beside all of its pictures
ENOUGH = 20  # held-out pictures in a place, to tell by
COVERED = 1.28  # standard errors that chance may be, for nine times in ten
NO_SPREAD = 1e-6  # what a feature that is the same for all pictures counts as varying by


def known_at_most(held_out: NDArray[np.float32], heap: NDArray[np.float32]) -> float:
    """Return how large the share of known pictures in a heap (N, d) can be, beside held-out ones (m, d) of those kinds.

    A regression tells held-out pictures from the heap, each by one that has not seen it. Where it puts a share of the
    former, the heap has at least that share of its known ones, so that there cannot be more of these than so many
    pictures there allow: the smallest such number over several places (learning from positive and unlabelled pictures).
    """
    some = generator(0, "heap beside held-out pictures").permutation(len(heap))[:MOST_COMPARED]
    x = np.concatenate([held_out, heap[np.sort(some)]]).astype(np.float64)
    is_known = np.arange(len(x)) < len(held_out)
    fold = generator(0, "folds of held-out pictures and a heap").permutation(len(x)) % FOLDS
    nothing = Regression(x.mean(axis=0), np.maximum(x.std(axis=0), NO_SPREAD), np.zeros(x.shape[1] + 1))
    found = np.empty(len(x))
    for number in range(FOLDS):
        taught, asked = fold != number, fold == number
        weights = 0.5 / np.where(is_known, is_known[taught].sum(), (~is_known[taught]).sum())
        found[asked] = nothing.moved(x[taught], is_known[taught], weights[taught], RIDGE)(x[asked])
    most = [1.0]
    for level in TOP:
        place = np.quantile(found[is_known], 1 - level)
        known, there = (float((found[rows] >= place).sum()) for rows in (is_known, ~is_known))
        if known >= ENOUGH:
            chance = COVERED * (np.sqrt(there + 1) + there / np.sqrt(known))
            most.append(float((there + chance) / len(some) / (known / len(held_out))))
    return min(most)
