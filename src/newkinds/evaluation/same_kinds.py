"""Known kinds that are the same: their pictures lie among one another as if they were of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.clustering.neighbours import most_similar

NEIGHBOURS = 10  # the known pictures that are most like one
FEWEST = 4  # pictures of a kind, from which it can be told
MIXED = 0.75  # of the neighbours in the other kind that there would be, were the two one kind
OWN = 0.5  # of all neighbours in either of the two, or neither is told apart from anything
SHOWN = 3  # pairs that are named

Pairs = tuple[tuple[str, str], ...]


def same_kinds(features: NDArray[Any], labels: NDArray[np.int64], classes: Sequence[str]) -> Pairs:
    """Return pairs of known kinds that cannot be told from one another, the worst first.

    features: of known pictures that f and whatever lies behind it has not learnt to tell apart by these labels, float
    (L, d). labels: int64 (L,), numbers of `classes`. Of two kinds that are one, pictures have their neighbours in
    either as often as their sizes say.
    """
    sizes = np.bincount(labels, minlength=len(classes))
    near = most_similar(features, None, NEIGHBOURS)[0]
    table = np.zeros((len(classes), len(classes)))
    np.add.at(table, (np.repeat(labels, near.shape[1]), labels[near].ravel()), 1)
    found = []
    for i, j in zip(*np.nonzero(np.triu(table, 1) * np.triu(table.T, 1)), strict=True):
        if min(sizes[i], sizes[j]) < FEWEST:
            continue
        inside = table[[i, j]][:, [i, j]]
        expected = np.array([sizes[j], sizes[i]]) / (sizes[i] + sizes[j] - 1)
        mixed = float((np.array([inside[0, 1], inside[1, 0]]) / inside.sum(axis=1) / expected).min())
        if mixed >= MIXED and inside.sum() >= OWN * table[[i, j]].sum():
            found.append((mixed, classes[i], classes[j]))
    return tuple((one, other) for _, one, other in sorted(found, key=lambda pair: (-pair[0], pair[1:])))


def in_words(pairs: Sequence[Sequence[str]]) -> str:
    """Return which known kinds are the same, and what to do about it; "" where none are."""
    if not pairs:
        return ""
    told = [f"{one!r} and {other!r}" for one, other in pairs[:SHOWN]]
    more = f", and {len(pairs) - SHOWN} more pairs" if len(pairs) > SHOWN else ""
    return (
        f"Some known kinds look the same: {'; '.join(told)}{more}. Their pictures are mixed together as "
        "if they were one kind, so pictures in the heap may go to either. If they are one kind, give "
        "them as one."
    )
