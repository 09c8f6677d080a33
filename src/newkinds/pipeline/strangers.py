"""Pictures of the heap that are of none of the kinds, known or new: who they are, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment
from newkinds.pipeline.frozen import Features, Views
from newkinds.pipeline.heap import Parts, hidden_kinds
from newkinds.progress import Progress
from newkinds.settings import CoreSettings
from newkinds.transfer import Transfer
from newkinds.unlike import OfHeap, Unlike, learn, probability_of_none

ALL_UNLIKE = (
    "Most pictures in the heap are unlike one another and unlike all known kinds, so the kinds that were "
    "found may mean nothing."
)

Told = tuple[Unlike, OfHeap]


def unlike_in_heap(
    known: Views,
    labels: NDArray[np.int64],
    heap: Features,
    found: Assignment,
    transfer: Transfer,
    settings: CoreSettings,
    parts: Sequence[Parts],
) -> Told | None:
    """Return what tells pictures that are of no kind, and how unlike those of the heap are to the kinds they are in.

    known, labels: features of the known pictures that f has not learnt from, and int64 (L,). heap: f's of the heap's
    pictures as they are, float32 (N, d). parts: of the known pictures, in which some are hidden. Pictures are compared
    as `predict` sees them, in one view. None where there are not two kinds.
    """
    new = len(found.of_sort("new"))
    hidden = hidden_kinds(known, labels, parts)
    return learn(transfer(known.rows[0]), new + labels, transfer(heap), found.labels, new, settings.seed, hidden)


def with_remark(found: Assignment, told: Told | None, progress: Progress) -> Assignment:
    """Return an answer that says, as the terminal does, if all pictures of the heap are unlike anything."""
    if told is None or not told[1].all_are:
        return found
    progress.warn(ALL_UNLIKE)
    return replace(found, source={**found.source, "remark": ALL_UNLIKE})


def called_none(told: Told | None, settings: CoreSettings) -> NDArray[np.float64] | None:
    """Return the probability of none of the pictures that clearly are, 0 of all others, float64 (N,).

    None where no picture is, as in the paper's setting, in which every picture is of a new kind.
    """
    if told is None or settings.heap == "new" or not settings.none:
        return None
    of_heap = told[1]
    clearly = of_heap.clearly_none(settings.none)
    if not clearly.any():
        return None
    return np.where(clearly, probability_of_none(of_heap.members(), settings.none), 0.0)


def with_none(found: Assignment, none: NDArray[np.float64] | None) -> Assignment:
    """Return an answer with a column "none" for the pictures that are, (N,) as `called_none` returns it."""
    return found if none is None else found.rejecting(none > 0, none)


def references_of(told: Told, none: NDArray[np.float64] | None) -> Unlike:
    """Return what `predict` tells strangers by: without the pictures that are none of the kinds themselves."""
    unlike, of_heap = told
    if none is None:
        return unlike
    gone = of_heap.reference[(none > 0) & (of_heap.reference >= 0)]
    return unlike.without(np.isin(np.arange(len(unlike.references.kinds)), gone))
