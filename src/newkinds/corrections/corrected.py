"""The answer that follows what people said."""

from __future__ import annotations

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
    gone = {kind for kind, status in state.status.items() if status == "rejected"}
    target = {kind: NONE if state.current(kind) in gone else state.current(kind) for kind in state.kinds}
    columns = _columns([target[kind] for kind in answer.columns], [target[kind] for kind in state.sizes])
    place = {column: number for number, column in enumerate(columns)}
    numbers = np.zeros((len(answer), len(columns)), dtype=np.float32)
    for column, given in zip(answer.columns, answer.probabilities.T, strict=True):
        numbers[:, place[target[column]]] += given
    np.minimum(numbers, 1, out=numbers)
    own = np.array([place.get(target[kind], 0) for kind in state.kinds], dtype=np.int64)[state.kind]
    _let_win(numbers, own, state.confirmed)
    return replace(answer, columns=columns, probabilities=numbers, source={**answer.source, "corrected": True})


def _columns(given: list[str], held: list[str]) -> tuple[str, ...]:
    """Return the kinds that remain and those that hold pictures: new ones by number, known ones, and none."""
    kinds = dict.fromkeys(given + held)
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
