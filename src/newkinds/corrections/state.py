"""The state that actions make of an answer: the kind of every picture, who said so, and what is known of the kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import NONE, Assignment, known_kind, sort_of
from newkinds.corrections.actions import (
    Accept,
    Action,
    Confirm,
    CorrectionError,
    Merge,
    Move,
    Name,
    Reject,
    Reopen,
    Split,
    flat,
)

if TYPE_CHECKING:
    from newkinds.corrections.carried import Carried

Status = Literal["accepted", "rejected"]
Rows = NDArray[np.int64]


@dataclass
class Change:
    """What an action changed, as it was before: enough to undo it."""

    pictures: list[tuple[Rows, NDArray[np.int32], NDArray[np.bool_], NDArray[np.bool_]]] = field(default_factory=list)
    facts: list[tuple[dict[str, Any], str, Any]] = field(default_factory=list)


class State:
    """An answer, and what people said about it.

    names: of the N pictures. kinds: every kind that was ever spoken of; `kind` has an index of it for each picture,
    int32 (N,). said: whether a person said of which kind a picture is, bool (N,); what is not said is the machine's.
    confirmed: whether a person looked at the picture itself, by confirming or moving it, bool (N,). called: names of
    kinds. status: "accepted" or "rejected" kinds. merged: the kinds that are others now, and which. told: the pictures
    that people had confirmed before the machine answered, in earlier weeks, bool (N,).
    """

    def __init__(self, answer: Assignment, known: Sequence[str] = (), carried: Carried | None = None) -> None:
        """Begin with an answer. known: the names of the known kinds, which need no column in it.

        carried: what people said in earlier weeks, which the answer follows already.
        """
        self.names = answer.names
        self.kinds: list[str] = list(answer.columns)
        self.rows: Mapping[str, int] = {name: row for row, name in enumerate(answer.names)}
        self.kind: NDArray[np.int32] = answer.labels.astype(np.int32)
        self.said = np.zeros(len(answer), dtype=np.bool_)
        self.confirmed = np.zeros(len(answer), dtype=np.bool_)
        self.called: dict[str, str] = {}
        self.status: dict[str, Status] = {}
        self.merged: dict[str, str] = {}
        self.made: dict[str, bool] = {}  # kinds that an action made
        self._given = {*answer.columns, *map(known_kind, known), NONE}
        self._index = {kind: number for number, kind in enumerate(self.kinds)}
        if carried is not None:
            self.said = carried.over(len(answer), carried.said)
            self.confirmed = carried.over(len(answer), carried.confirmed)
            self.called |= carried.called
            self.status |= dict.fromkeys(carried.accepted, "accepted")
        self.told = self.confirmed.copy()
        self._start = self._facts()

    def __len__(self) -> int:
        return len(self.names)

    def exists(self, kind: str) -> bool:
        """Return whether the answer has a kind, or an action has made it; a merged one is another one's, and exists."""
        return kind in self._given or kind in self.made

    def current(self, kind: str) -> str:
        """Return the kind that one is now: the one that it was merged into, and so on, or itself."""
        while kind in self.merged:
            kind = self.merged[kind]
        return kind

    def kind_of(self, picture: str) -> str:
        """Return the kind of a picture."""
        return self.kinds[int(self.kind[self.rows[picture]])]

    def rows_of(self, kind: str) -> Rows:
        """Return the rows of the pictures of a kind, int64 (n,), ascending."""
        number = self._index.get(kind)
        return np.flatnonzero(self.kind == number) if number is not None else np.zeros(0, dtype=np.int64)

    def name_of(self, kind: str) -> str:
        """Return what a kind is called: its name, that of a known kind, or "" of one that has none yet."""
        return kind.partition(":")[2] if sort_of(kind) == "known" else self.called.get(kind, "")

    @property
    def sizes(self) -> dict[str, int]:
        """How many pictures each kind holds, without kinds that hold none."""
        counts = np.bincount(self.kind, minlength=len(self.kinds)).tolist()
        return {kind: count for kind, count in zip(self.kinds, counts, strict=True) if count}

    @property
    def is_untouched(self) -> bool:
        """Whether nothing that was said about this answer holds: it is the machine's."""
        return not self.made and self._facts() == self._start

    def _facts(self) -> list[Any]:
        """Return all that actions change, as plain values."""
        arrays = [array.tobytes() for array in (self.kind, self.said, self.confirmed)]
        return [*arrays, dict(self.called), dict(self.status), dict(self.merged)]

    @property
    def namesakes(self) -> dict[str, list[str]]:
        """The names that several kinds have, and which: they are one, if a person says so."""
        found: dict[str, list[str]] = {}
        for kind in (*self.called, *(one for one in self._given if sort_of(one) == "known")):
            if kind not in self.merged:
                found.setdefault(self.name_of(kind), []).append(kind)
        return {name: sorted(kinds) for name, kinds in found.items() if len(kinds) > 1}

    def apply(self, action: Action) -> Change:
        """Change the state by an action, and return what undoes it.

        Never fails on kinds: where the machine has answered anew since, a kind may be gone, and is then made.
        """
        change = Change()
        for one in flat(action):
            if isinstance(one, Name):
                self._note(change, self.called, one.kind, one.name or None)
            elif isinstance(one, Merge):
                self._merge(change, one.kinds)
            elif isinstance(one, Split):
                for part in one.parts:
                    self._put(change, self._rows(part.pictures), part.to, confirmed=None)
            elif isinstance(one, Move):
                self._put(change, self._rows(one.pictures), one.to, confirmed=True)
            elif isinstance(one, Confirm):
                self._put(change, self._rows(one.pictures), self.current(one.kind), confirmed=True)
            else:
                status = {Accept: "accepted", Reject: "rejected", Reopen: None}[type(one)]
                for kind in one.kinds:
                    self._note(change, self.status, kind, status)
        return change

    def undo(self, change: Change) -> None:
        """Take back the last change."""
        for rows, kind, said, confirmed in reversed(change.pictures):
            self.kind[rows], self.said[rows], self.confirmed[rows] = kind, said, confirmed
        for facts, key, before in reversed(change.facts):
            if before is None:
                facts.pop(key, None)
            else:
                facts[key] = before

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> list[Any]:
        kinds = [self.kinds[number] for number in self.kind.tolist()]
        facts = [self.called, self.status, self.merged, self.made]
        return [self.names, kinds, self.said.tolist(), self.confirmed.tolist(), facts]

    def _rows(self, pictures: Sequence[str]) -> Rows:
        others = [name for name in pictures if name not in self.rows]
        if others:
            raise CorrectionError(
                f"It is about {others[0]!r:.100}, which is none of the {len(self.rows):,} pictures.",
                hint="Name pictures as kinds.csv does.",
            )
        return np.fromiter((self.rows[name] for name in pictures), np.int64, len(pictures))

    def _number(self, change: Change, kind: str) -> int:
        """Return the index of a kind, which is made if it is not there."""
        if not self.exists(kind):
            self._note(change, self.made, kind, True)
        if kind not in self._index:
            self._index[kind] = len(self.kinds)
            self.kinds.append(kind)
        return self._index[kind]

    def _note(self, change: Change, facts: dict[str, Any], key: str, value: Any) -> None:
        """Set a fact, or delete it if the value is None."""
        before = facts.get(key)
        if before != value:
            change.facts.append((facts, key, before))
            if value is None:
                del facts[key]
            else:
                facts[key] = value

    def _put(self, change: Change, rows: Rows, kind: str, *, confirmed: bool | None, said: bool = True) -> None:
        """Put pictures into a kind. confirmed: None leaves that as it is; said: whether a person spoke of them."""
        change.pictures.append((rows, self.kind[rows], self.said[rows], self.confirmed[rows]))
        self.kind[rows] = self._number(change, kind)
        if said:
            self.said[rows] = True
        if confirmed is not None:
            self.confirmed[rows] = confirmed

    def _merge(self, change: Change, kinds: Sequence[str]) -> None:
        target = remains(kinds)
        names = [self.called[kind] for kind in sorted(kinds, key=_by_number) if kind in self.called]
        if sort_of(target) == "new" and target not in self.called and names:
            self._note(change, self.called, target, names[0])
        if any(self.status.get(kind) == "accepted" for kind in kinds):
            self._note(change, self.status, target, "accepted")
        for kind in kinds:
            if kind != target:
                self._put(change, self.rows_of(kind), target, confirmed=None, said=False)
                self._note(change, self.merged, kind, target)


def remains(kinds: Sequence[str]) -> str:
    """Return which of several kinds remains when they are merged: a known one, or that with the lowest number."""
    return min(kinds, key=_by_number)


def number_of(kind: str) -> int | None:
    """Return the number of a new kind, None of others."""
    return int(kind.partition(":")[2]) if kind.startswith("new:") else None


def _by_number(kind: str) -> tuple[int, str]:
    number = number_of(kind)
    return (-1 if number is None else number, kind)
