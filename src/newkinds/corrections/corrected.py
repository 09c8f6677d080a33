"""The answer that follows what people said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import NONE, Assignment, sort_of
from newkinds.corrections.state import State, number_of


def corrected(answer: Assignment, state: State) -> Assignment:
    """Return an answer after what was said about it; the same one if nothing that was said holds.

    Its columns are the kinds that remain, with the numbers that they have: those of the answer, without the ones that
    were merged, and those that were made; pictures of rejected kinds are "none". A confirmed picture has probability 1.
    Others keep the probability that the machine gave to their own kind, wherever they are now: merged kinds have the
    sum of theirs.
    """
    if state.is_untouched:
        return answer
    target = {kind: current_column(state, kind) for kind in state.kinds}
    columns = in_order(target[kind] for kind in (*answer.columns, *state.sizes))
    place = {column: number for number, column in enumerate(columns)}
    numbers = np.zeros((len(answer), len(columns)), dtype=np.float32)
    for column, given in zip(answer.columns, answer.probabilities.T, strict=True):
        numbers[:, place[target[column]]] += given
    np.minimum(numbers, 1, out=numbers)
    own = np.array([place.get(target[kind], 0) for kind in state.kinds], dtype=np.int64)[state.kind]
    _let_win(numbers, own, state.confirmed)
    return replace(answer, columns=columns, probabilities=numbers, source={**answer.source, "corrected": True})


def united(found: Assignment, target: Mapping[str, str]) -> Assignment:
    """Return an answer in which several kinds are one. target: which kind each column is."""
    columns = in_order(target[column] for column in found.columns)
    place = np.array([columns.index(target[column]) for column in found.columns], dtype=np.int64)
    numbers = np.zeros((len(found), len(columns)), dtype=np.float32)
    for number, given in zip(place, found.probabilities.T, strict=True):
        numbers[:, number] += given
    np.minimum(numbers, 1, out=numbers)
    _let_win(numbers, place[found.labels], np.zeros(len(found), dtype=np.bool_))
    return replace(found, columns=columns, probabilities=numbers)


def of_other_pictures(found: Assignment, state: State) -> Assignment:
    """Return the answer for other pictures, by the machine's kinds, in the kinds as they are now.

    Merged kinds have the sum of theirs, and rejected ones are "none". Kinds that were made since have no probability.
    """
    target = [current_column(state, column) for column in found.columns]
    columns = in_order(target)
    numbers = np.zeros((len(found), len(columns)), dtype=np.float32)
    for column, given in zip(target, found.probabilities.T, strict=True):
        numbers[:, columns.index(column)] += given
    return replace(found, columns=columns, probabilities=np.minimum(numbers, 1))


def current_column(state: State, kind: str) -> str:
    """Return the column that stands for a kind now: what it was merged into, or "none" if that was rejected."""
    kind = state.current(kind)
    return NONE if state.status.get(kind) == "rejected" else kind


def in_order(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return kinds in the order of an answer's columns, each once: new ones by number, known ones, and none."""
    kinds = dict.fromkeys(kinds)
    new = sorted((kind for kind in kinds if sort_of(kind) == "new"), key=lambda kind: number_of(kind) or 0)
    known = [kind for kind in kinds if sort_of(kind) == "known"]
    return (*new, *known, *([NONE] if NONE in kinds else []))


def _let_win(numbers: NDArray[np.float32], own: NDArray[np.int64], confirmed: NDArray[np.bool_]) -> None:
    """Make each picture's own kind (N,) its most probable one, in place (N, C)."""
    numbers[confirmed] = 0
    numbers[confirmed, own[confirmed]] = 1
    moved = np.flatnonzero(numbers.argmax(axis=1) != own)
    best = numbers[moved].argmax(axis=1)
    largest = numbers[moved, best]
    numbers[moved, best] = numbers[moved, own[moved]]
    numbers[moved, own[moved]] = largest
    level = np.flatnonzero(numbers.argmax(axis=1) != own)  # another kind is as probable, and comes first
    if len(level):
        top = np.maximum(numbers[level, own[level]], np.finfo(np.float32).tiny)
        numbers[level] = np.minimum(numbers[level], np.nextafter(top, np.float32(0))[:, None])
        numbers[level, own[level]] = top
