"""Sorting again by what people said: confirmed pictures as labelled ones, and kinds as they are now; kept numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from newkinds.assignment import NONE, Assignment, new_kind, sort_of
from newkinds.clustering.neighbours import directions_float32
from newkinds.corrections.corrected import corrected, current_column
from newkinds.corrections.state import State
from newkinds.errors import DataError

WEIGHT = 10.0  # of a picture that a person spoke of, in the mean of its kind; others have 1
SHARP = 20.0  # what a cosine is multiplied by before it is a score
SHARED = 0.5  # of the smaller of two kinds: sharing as many pictures, they are one that persists


@dataclass(frozen=True)
class Said:
    """What pictures are sorted by: the kinds now, in order of columns; the kind of each picture, and of which it was
    said by a person, int64 and bool (N,). parts: int64 (N,), of pictures of a kind that was merged, the kind of the
    machine's that they came from: each has a mean of its own. line: the last one of the journal that counts.
    """

    columns: tuple[str, ...]
    labels: NDArray[np.int64]
    pinned: NDArray[np.bool_]
    parts: NDArray[np.int64]
    line: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        pinned = np.flatnonzero(self.pinned).tolist()
        values = {"columns": list(self.columns), "labels": self.labels.tolist(), "parts": self.parts.tolist()}
        return {**values, "pinned": pinned, "line": self.line}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Said:
        """Take back what `to_dict` gave."""
        labels, parts = (np.array(values[key], dtype=np.int64) for key in ("labels", "parts"))
        pinned = np.zeros(len(labels), dtype=np.bool_)
        pinned[values["pinned"]] = True
        return cls(tuple(values["columns"]), labels, pinned, parts, int(values["line"]))


def what_was_said(answer: Assignment, state: State, line: int) -> Said:
    """Return what people said about an answer, up to a line of the journal."""
    now = corrected(answer, state)
    became = np.array([now.columns.index(current_column(state, column)) for column in answer.columns], dtype=np.int64)
    stayed = became[answer.labels] == now.labels
    return Said(now.columns, now.labels, state.said.copy(), np.where(stayed, 1 + answer.labels, 0), line)


def sorted_anew(names: Sequence[str], said: Said, features: NDArray[Any], source: Mapping[str, Any]) -> Assignment:
    """Return the pictures sorted by the means of the kinds, in which those that people spoke of weigh the most.

    features: float (N, d), which the sorting began from; their directions count. A picture that a person spoke of stays
    where it was put, and so does one that is none. Probabilities are scores of the cosines to the means.
    """
    if not len(names) == len(said.labels) == len(features):
        raise DataError(
            f"What was said is about {len(said.labels)} pictures, and there are {len(names)}.",
            hint="Sort them again: newkinds discover ... --again",
        )
    turned = directions_float32(features).astype(np.float64)
    weights = np.where(said.pinned, WEIGHT, 1.0)
    kinds = len(said.columns)
    scores = np.full((len(names), kinds), -np.inf)
    for kind in range(kinds):
        for mean in _means(turned, weights, said, kind):
            scores[:, kind] = np.maximum(scores[:, kind], SHARP * (turned @ mean))
    sizes = np.bincount(said.labels, minlength=kinds)
    nobody = np.array([column == NONE for column in said.columns]) | (sizes == 0)
    scores[:, nobody] = -np.inf
    stays = said.pinned | nobody[said.labels]
    scores[stays] = np.where(np.arange(kinds) == said.labels[stays, None], 0, -np.inf)
    scores -= scores.max(axis=1, keepdims=True)
    numbers = np.exp(scores)
    numbers /= numbers.sum(axis=1, keepdims=True)
    return Assignment(tuple(names), said.columns, numbers.astype(np.float32), {**source, "again": said.line})


def _means(
    turned: NDArray[np.float64], weights: NDArray[np.float64], said: Said, kind: int
) -> list[NDArray[np.float64]]:
    """Return the direction of a kind's mean; of one that was merged, those of its parts.

    Pictures that people moved into it belong to its largest part.
    """
    inside = said.labels == kind
    parts, counts = np.unique(said.parts[inside & (said.parts > 0)], return_counts=True)
    largest = parts[counts.argmax()] if len(parts) else 0
    of = np.where(said.parts == 0, largest, said.parts)
    means = [weights[inside & (of == part)] @ turned[inside & (of == part)] for part in np.unique(of[inside])]
    return [mean / max(float(np.linalg.norm(mean)), 1e-12) for mean in means]


def numbers_kept(found: Assignment, before: Sequence[str], next_number: int) -> tuple[str, ...]:
    """Return what the columns of an answer are called if kinds that persist have the numbers that they had.

    before: the kind that each picture had, such as "new:3", (N,); any text that is no new kind says nothing. A kind
    persists if its pictures are those of an old one, matched one to one so that as many pictures as possible stay, and
    SHARED of the smaller of the two are shared. Others get numbers from `next_number` on, which no kind ever had.
    """
    old = sorted({kind for kind in before if sort_of(kind) == "new"})
    new = found.of_sort("new").tolist()
    was = np.array([old.index(kind) if sort_of(kind) == "new" else -1 for kind in before], dtype=np.int64)
    shared = np.zeros((len(new), len(old)), dtype=np.int64)
    for row, number in enumerate(new):
        there = was[(found.labels == number) & (was >= 0)]
        shared[row] = np.bincount(there, minlength=len(old))
    sizes = found.sizes
    smaller = np.minimum(sizes[new][:, None], np.bincount(was[was >= 0], minlength=len(old))[None, :])
    kept: dict[int, str] = {}
    for row, place in zip(*linear_sum_assignment(shared, maximize=True), strict=True):
        if shared[row, place] > 0 and shared[row, place] >= SHARED * smaller[row, place]:
            kept[new[row]] = old[place]
    for number in sorted((n for n in new if n not in kept), key=lambda n: (sizes[n] == 0, n)):
        kept[number], next_number = new_kind(next_number), next_number + 1
    return tuple(kept.get(number, column) for number, column in enumerate(found.columns))


def renumbered(found: Assignment, before: Sequence[str], next_number: int) -> Assignment:
    """Return an answer in which kinds that persist have the numbers that they had; see `numbers_kept`."""
    columns = numbers_kept(found, before, next_number)
    order = sorted(range(len(columns)), key=lambda number: _place(columns[number], number))
    return Assignment(
        found.names, tuple(columns[number] for number in order), found.probabilities[:, order], dict(found.source)
    )


def _place(column: str, number: int) -> tuple[int, int]:
    """Return what to sort columns by: new kinds by number, then the others as they are."""
    return (0, int(column.partition(":")[2])) if sort_of(column) == "new" else (1, number)
