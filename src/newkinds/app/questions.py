"""The queue: what is worth asking next.

Large clear kinds first: one look at their most typical pictures settles many. Then an accepted kind is grown by the
undecided pictures nearest to what was said of it, a page at a time, until a page is wrong. Then pictures between two
kinds. (Active category discovery asks in that order, too: typical pictures in the first rounds, borders later.)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from newkinds.app.likely import CANDIDATES, examples, likely
from newkinds.app.points import Looks, Points

PAGE = 40  # pictures of a question
FEWEST = 3  # pictures between two kinds that are worth a question
Sort = Literal["check", "grow", "border"]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Question:
    """Something to ask: are these pictures of a kind? kind, other: indices; other is of a border, -1 elsewhere.

    rows: the pictures, those first of which it is surest. worth: how much the answer settles, in pictures.
    """

    sort: Sort
    kind: int
    other: int
    rows: Rows
    worth: float

    @property
    def key(self) -> str:
        """What the question is called, by which it can be passed over."""
        return f"{self.sort}-{self.kind}-{self.other}"


@dataclass(frozen=True, eq=False)
class Asked:
    """What questions are made from.

    kind: of each picture, int32 (N,). confirmed: bool (N,). status: of each index of a kind, "" if it is open,
    "accepted", "rejected"; known kinds are "accepted", and "none" is "rejected". refused: pictures that a person has
    passed over for a kind, by its index.
    """

    points: Points
    kind: NDArray[np.int32]
    confirmed: NDArray[np.bool_]
    status: tuple[str, ...]
    found: Looks
    refused: dict[int, set[int]]


def questions(asked: Asked, passed: Collection[str] = ()) -> list[Question]:
    """Return what to ask, what is worth most first. passed: keys of questions to leave out."""
    for ask in (_checks, _growths, _borders):
        found = [one for one in ask(asked) if one.key not in passed]
        if found:
            return sorted(found, key=lambda one: (-one.worth, one.kind))
    return []


def page_of(asked: Asked, kind: int) -> Rows:
    """Return the undecided pictures nearest to what was said of a kind, a page of them, likeliest first.

    Undecided are those that nobody has looked at, in whatever kind they are but for accepted others' own.
    """
    shown = examples(asked.kind, asked.confirmed)
    if not (asked.kind[shown] == kind).any():  # nothing was said of it yet: its own pictures, most typical first
        members = np.flatnonzero((asked.kind == kind) & ~asked.confirmed)
        return _without(members[np.argsort(-asked.found.own[members], kind="stable")], asked, kind)[:PAGE]
    undecided = np.flatnonzero(~asked.confirmed)
    alike = asked.points[undecided] @ asked.found.centres[kind]
    if len(undecided) > CANDIDATES:
        undecided = undecided[np.argpartition(-alike, CANDIDATES)[:CANDIDATES]]
    found = likely(undecided, asked.points, asked.kind, shown)
    rows = found.rows[found.kind == kind]
    return _without(rows[np.argsort(-found.margin[found.kind == kind], kind="stable")], asked, kind)[:PAGE]


def _without(rows: Rows, asked: Asked, kind: int) -> Rows:
    refused = asked.refused.get(kind)
    return rows if not refused else rows[~np.isin(rows, np.fromiter(refused, np.int64, len(refused)))]


def _checks(asked: Asked) -> list[Question]:
    """Ask whether the typical pictures of open kinds are of one kind; worth: how many there are, times how clear."""
    made = []
    margin = asked.found.margin
    for kind, status in enumerate(asked.status):
        if status:
            continue
        members = np.flatnonzero((asked.kind == kind) & ~asked.confirmed)
        rows = _without(members[np.argsort(-asked.found.own[members], kind="stable")], asked, kind)[:PAGE]
        if len(rows):
            clear = float(np.clip(margin[members].mean(), 0.01, 1))
            made.append(Question("check", kind, -1, rows, len(members) * clear))
    return made


def _growths(asked: Asked) -> list[Question]:
    """Ask for more pictures of accepted kinds; worth: how many there may be."""
    made = []
    for kind, status in enumerate(asked.status):
        if status == "accepted" and ((asked.kind == kind) & asked.confirmed).any():
            rows = page_of(asked, kind)
            if len(rows):
                made.append(Question("grow", kind, -1, rows, float(len(rows))))
    return made


def _borders(asked: Asked) -> list[Question]:
    """Ask about undecided pictures between two kinds; worth: how many there are."""
    undecided = np.flatnonzero(~asked.confirmed)
    following = asked.found.next[undecided]
    undecided, following = undecided[following >= 0], following[following >= 0]
    order = np.argsort(asked.found.margin[undecided], kind="stable")[:CANDIDATES]
    groups: dict[tuple[int, int], list[int]] = {}
    for row, other in zip(undecided[order].tolist(), following[order].tolist(), strict=True):
        own = int(asked.kind[row])
        if asked.status[own] != "rejected" and asked.status[other] != "rejected":
            groups.setdefault((own, other), []).append(row)
    return [
        Question("border", own, other, np.array(rows[:PAGE], dtype=np.int64), float(len(rows)))
        for (own, other), rows in groups.items()
        if len(rows) >= FEWEST
    ]
