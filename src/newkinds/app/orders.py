"""The orders in which the pictures of a kind are shown."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from newkinds.app.points import Looks, Points

Order = Literal["typical", "doubtful", "similar"]
ORDERS: tuple[str, ...] = get_args(Order)
Rows = NDArray[np.int64]


def typical(members: Rows, found: Looks) -> Rows:
    """Return rows (n,) with those first that look most like their kind."""
    return members[np.argsort(-found.own[members], kind="stable")]


def doubtful(members: Rows, found: Looks, confirmed: NDArray[np.bool_]) -> Rows:
    """Return rows (n,) with those first that look more like another kind; those that a person confirmed are last."""
    return members[np.lexsort((found.margin[members], confirmed[members]))]


def similar(members: Rows, points: Points, row: int) -> Rows:
    """Return rows (n,) with those first that are most like a picture, itself before all."""
    alike = points[members] @ points[row]
    alike[members == row] = np.inf
    return members[np.argsort(-alike, kind="stable")]


def by_kind(kind: NDArray[np.int32], value: NDArray[np.float32], kinds: int, most: int) -> list[Rows]:
    """Return the rows of the `most` largest values of each kind, the largest first, for kinds 0, 1, ..."""
    order = np.lexsort((-value, kind))
    starts = np.searchsorted(kind[order], np.arange(kinds + 1))
    return [order[start : min(end, start + most)] for start, end in pairwise(starts.tolist())]
