"""How far a person has come: what is confirmed, what that says about the rest, and what the machine got right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment
from newkinds.corrections import State

FEWEST = 20  # confirmed pictures from which a share is told


def standing(answer: Assignment, state: State) -> dict[str, Any]:
    """Return progress in numbers.

    pictures, confirmed, left: how many. judged: of the confirmed ones, those of which the machine had not been told
    before, in earlier weeks; agreed: how many of these are in the kind that it had put them into (or what became of
    it). right: the share of all pictures that is probably right now, None where that cannot be told: confirmed ones
    are, and of the others as many as their calibrated probabilities say or, without those, as many as the machine got
    right among the confirmed.
    """
    confirmed = state.confirmed
    looked_at = int(confirmed.sum())
    agreed = _agrees(answer, state)
    right: float | None = None
    if looked_at == len(state):
        right = 1.0
    elif answer.calibrated:
        sure = answer.probability[~confirmed & agreed].astype(np.float64).sum()
        said = (state.said & ~confirmed & ~agreed).sum()  # put there by a split: a person said so, without a close look
        right = float((looked_at + sure + said) / len(state))
    elif looked_at >= FEWEST:
        right = float((looked_at + (len(state) - looked_at) * agreed[confirmed].mean()) / len(state))
    return {
        "pictures": len(state),
        "confirmed": looked_at,
        "left": len(state) - looked_at,
        "judged": int((confirmed & ~state.told).sum()),
        "agreed": int(agreed[confirmed & ~state.told].sum()),
        "right": right,
    }


def _agrees(answer: Assignment, state: State) -> NDArray[np.bool_]:
    """Return whether each picture is in the kind that the machine's has become, bool (N,)."""
    place = {kind: number for number, kind in enumerate(state.kinds)}
    became = np.array([place.get(state.current(kind), -1) for kind in answer.columns], dtype=np.int64)
    return np.asarray(became[answer.labels] == state.kind)
