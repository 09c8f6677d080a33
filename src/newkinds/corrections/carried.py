"""What people had said in earlier weeks about the pictures that a grown run took over, and what their kinds were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import NONE, Assignment
from newkinds.corrections.again import numbers_kept
from newkinds.corrections.corrected import in_order


@dataclass(frozen=True, eq=False)
class Carried:
    """The first E pictures of a heap, which come from earlier weeks.

    kinds: what each was last time, "new:3" or "none". said: whether a person said so; confirmed: whether a person
    looked at the picture itself; bool (E,). held: the open kinds that people spoke of, which stay what they are, in
    order of their numbers. called: names of open kinds. accepted: those that are accepted, and too small to be known
    kinds yet. next_number: of the next kind, which no kind of any week has had.
    """

    kinds: tuple[str, ...]
    said: NDArray[np.bool_]
    confirmed: NDArray[np.bool_]
    held: tuple[str, ...]
    called: Mapping[str, str]
    accepted: tuple[str, ...]
    next_number: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "kinds": list(self.kinds),
            "said": np.flatnonzero(self.said).tolist(),
            "confirmed": np.flatnonzero(self.confirmed).tolist(),
            "held": list(self.held),
            "called": dict(self.called),
            "accepted": list(self.accepted),
            "next_number": self.next_number,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Carried:
        """Take back what `to_dict` gave."""
        marks = {key: np.zeros(len(values["kinds"]), dtype=np.bool_) for key in ("said", "confirmed")}
        for key, mark in marks.items():
            mark[values[key]] = True
        kinds, held, accepted = (tuple(values[key]) for key in ("kinds", "held", "accepted"))
        called, next_number = dict(values["called"]), int(values["next_number"])
        return cls(kinds, marks["said"], marks["confirmed"], held, called, accepted, next_number)

    def over(self, pictures: int, marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return marks of the earlier pictures (E,) as marks of all pictures of a heap, bool (N,)."""
        found = np.zeros(pictures, dtype=np.bool_)
        found[: len(marks)] = marks
        return found

    def members(self, kind: str) -> NDArray[np.int64]:
        """Return which of the earlier pictures were of a kind, int64 (n,)."""
        return np.flatnonzero(np.array(self.kinds, dtype=object) == kind)

    @property
    def undecided(self) -> NDArray[np.bool_]:
        """Which of the earlier pictures are of no kind that people spoke of, and were not spoken of, bool (E,)."""
        held = np.isin(np.array(self.kinds, dtype=str), self.held) if self.kinds else np.zeros(0, dtype=np.bool_)
        return ~self.said & ~held

    def numbered(self, found: Assignment, taught: Mapping[str, str]) -> tuple[Assignment, tuple[str, ...]]:
        """Return an answer with the kinds of earlier weeks as they were, and what its columns were, in their order.

        taught: the columns that stand for kinds that people spoke of, and which, {"known:new:3": "new:3"}. New kinds
        that persist are matched by their pictures; others get numbers that no kind has had. What a person said of a
        picture holds.
        """
        before = [kind if free else NONE for kind, free in zip(self.kinds, self.undecided, strict=True)]
        before += [NONE] * (len(found) - len(before))
        head = tuple(taught.get(column, column) for column in numbers_kept(found, before, self.next_number))
        said = {kind for kind, yes in zip(self.kinds, self.said, strict=True) if yes}
        columns = in_order([*head, *self.held, *sorted(said)])
        numbers = np.zeros((len(found), len(columns)), dtype=np.float32)
        numbers[:, [columns.index(column) for column in head]] = found.probabilities
        return self.pinned(replace(found, columns=columns, probabilities=numbers)), head

    def pinned(self, answer: Assignment) -> Assignment:
        """Return an answer in which pictures that people had spoken of are where they were put, for certain."""
        rows = np.flatnonzero(self.said)
        numbers = answer.probabilities.copy()
        numbers[rows] = 0
        numbers[rows, [answer.columns.index(self.kinds[row]) for row in rows.tolist()]] = 1
        return replace(answer, probabilities=numbers)
