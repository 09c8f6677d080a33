"""What was said in order: the state that it makes, what can be undone and redone, and whether more can be said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from newkinds.assignment import NONE, Assignment, new_kind, sort_of
from newkinds.corrections.actions import (
    FRESH,
    Accept,
    Action,
    Again,
    Batch,
    Confirm,
    CorrectionError,
    Merge,
    Move,
    Name,
    Redo,
    Reject,
    Reopen,
    Said,
    Single,
    Split,
    Undo,
    flat,
    kinds_in,
)
from newkinds.corrections.carried import Carried
from newkinds.corrections.state import Change, State, number_of

_SHOWN = 3


class _Fresh:
    """The kinds that one request makes. made: which, "new:12" and so on."""

    def __init__(self, number: int) -> None:
        self.made: list[str] = []
        self._number = number
        self._called: dict[str, str] = {}

    def get(self, label: str, *, make: bool) -> str:
        """Return the kind that a label stands for: "fresh" alone is made each time, or the one made last."""
        if label not in self._called or (label == FRESH and make):
            if not make:
                raise CorrectionError(f"{label!r} is not there yet.", hint="Move pictures to it first.")
            self.made.append(new_kind(self._number + len(self.made)))
            self._called[label] = self.made[-1]
        return self._called[label]


@dataclass(frozen=True)
class Done:
    """An action that holds. line: where the journal has it. change: what undoes it."""

    line: int
    action: Action
    change: Change


class History:
    """An answer and all that was said about it, line by line.

    state: what holds now. done: the actions that hold, the last one last. undone: those that can be done again, the
    next one last; something new that is said forgets them. next_number: of the next fresh kind, which no kind has had,
    not even in what was undone.
    """

    def __init__(self, answer: Assignment, known: Sequence[str] = (), carried: Carried | None = None) -> None:
        self.state = State(answer, known, carried)
        self.done: list[Done] = []
        self.undone: list[tuple[int, Action]] = []
        self.next_number = 0 if carried is None else carried.next_number
        self._count(answer.columns)

    def take(self, line: int, said: Said) -> None:
        """Change the state by a line of the journal, which `resolved` has checked when it was written."""
        if isinstance(said, Again):
            return
        if isinstance(said, Undo):
            last = self._last(said)
            self.state.undo(last.change)
            self.done.pop()
            self.undone.append((last.line, last.action))
        elif isinstance(said, Redo):
            number, action = self._next(said)
            self.undone.pop()
            self.done.append(Done(number, action, self.state.apply(action)))
        else:
            self._count(kinds_in(said))
            self.undone.clear()
            self.done.append(Done(line, said, self.state.apply(said)))

    def resolved(self, said: Said) -> Said:
        """Return what was said as the journal writes it, or raise a CorrectionError; the state stays as it is.

        Fresh kinds have their numbers in it, and kinds that were merged are those that they are now.
        """
        if isinstance(said, Undo):
            self._last(said)
            return said
        if isinstance(said, Redo):
            self._next(said)
            return said
        if isinstance(said, Again):
            return said
        fresh = _Fresh(self.next_number)
        changes: list[Change] = []
        singles: list[Single] = []
        try:
            for one in flat(said):
                singles.append(self._resolved(one, fresh))
                changes.append(self.state.apply(singles[-1]))
        finally:
            for change in reversed(changes):
                self.state.undo(change)
        return said.model_copy(update={"actions": tuple(singles)}) if isinstance(said, Batch) else singles[0]

    def _count(self, kinds: Iterable[str]) -> None:
        numbers = (number_of(kind) for kind in kinds)
        self.next_number = max([self.next_number, *(number + 1 for number in numbers if number is not None)])

    def _last(self, said: Undo) -> Done:
        if not self.done:
            raise CorrectionError("There is nothing to undo.", hint="Everything that was said is undone.")
        if self.done[-1].line != said.line:
            raise CorrectionError(
                f"Line {said.line} is not the last that holds: that is line {self.done[-1].line}.",
                hint="Look at what was said since, and undo that first.",
            )
        return self.done[-1]

    def _next(self, said: Redo) -> tuple[int, Action]:
        if not self.undone:
            raise CorrectionError("There is nothing to do again.", hint="Nothing was undone since the last action.")
        if self.undone[-1][0] != said.line:
            raise CorrectionError(
                f"Line {said.line} is not the next to be done again: that is line {self.undone[-1][0]}.",
                hint="Look at what was said since, and redo that first.",
            )
        return self.undone[-1]

    def _resolved(self, one: Single, fresh: _Fresh) -> Single:
        """Return an action with the kinds that it speaks of as they are now, after checking all of it."""
        if isinstance(one, Name):
            kind = self._kind(one.kind, fresh)
            if sort_of(kind) != "new":
                raise CorrectionError(
                    f"{kind!r} cannot be named: known kinds are called as they were given.",
                    hint="Name a new kind; to say that it is a known one, merge the two.",
                )
            return one.model_copy(update={"kind": kind})
        if isinstance(one, Merge):
            return self._merge(one, fresh)
        if isinstance(one, Split):
            return self._split(one, fresh)
        if isinstance(one, Move):
            self._check_pictures(one.pictures)
            return one.model_copy(update={"to": self._open(self._kind(one.to, fresh, make=True))})
        if isinstance(one, Confirm):
            kind = self._open(self._kind(one.kind, fresh))
            self._check_pictures(one.pictures, kind)
            return one.model_copy(update={"kind": kind})
        return self._judged(one, fresh)

    def _judged(self, one: Accept | Reject | Reopen, fresh: _Fresh) -> Single:
        kinds = tuple(dict.fromkeys(self._kind(kind, fresh) for kind in one.kinds))
        wrong = [kind for kind in kinds if sort_of(kind) != "new"]
        if wrong:
            raise CorrectionError(
                f"{wrong[0]!r} cannot be accepted or rejected: only new kinds can.",
                hint="Move pictures that are in it by mistake somewhere else.",
            )
        return one.model_copy(update={"kinds": kinds})

    def _merge(self, one: Merge, fresh: _Fresh) -> Merge:
        kinds = tuple(dict.fromkeys(self._open(self._kind(kind, fresh)) for kind in one.kinds))
        if len(kinds) < 2:
            raise CorrectionError(f"These are one kind already: {kinds[0]}.", hint="Name two or more kinds.")
        known = [kind for kind in kinds if sort_of(kind) == "known"]
        if NONE in kinds or len(known) > 1:
            what = "'none' is no kind" if NONE in kinds else f"{' and '.join(known[:2])} are known to be two"
            raise CorrectionError(
                f"{', '.join(kinds[:5])} cannot be merged: {what}.", hint="Move the pictures instead."
            )
        return one.model_copy(update={"kinds": kinds})

    def _split(self, one: Split, fresh: _Fresh) -> Split:
        kind = self._open(self._kind(one.kind, fresh))
        if kind == NONE:
            raise CorrectionError("'none' is no kind that could be split.", hint="Move the pictures to a fresh kind.")
        parts, seen = [], set[str]()
        for number, part in enumerate(one.parts):
            self._check_pictures(part.pictures, kind)
            if twice := seen.intersection(part.pictures):
                raise CorrectionError(f"{min(twice)!r} is in two parts.", hint="Put each picture into one.")
            seen.update(part.pictures)
            # Parts that are called "fresh" alone are all different.
            to = self._kind(f"{FRESH}:part {number}" if part.to == FRESH else part.to, fresh, make=True)
            if to != kind and to not in fresh.made:
                raise CorrectionError(
                    f"A part of {kind} cannot be {to}, which exists.", hint="Move the pictures there instead."
                )
            parts.append(part.model_copy(update={"to": to}))
        return one.model_copy(update={"kind": kind, "parts": tuple(parts)})

    def _kind(self, kind: str, fresh: _Fresh, *, make: bool = False) -> str:
        """Return which kind is meant. fresh: those of this request. make: whether it may be made here."""
        if kind.partition(":")[0] == FRESH:
            return fresh.get(kind, make=make)
        if not self.state.exists(kind):
            raise CorrectionError(
                f"There is no kind {kind!r}.", hint=f"Say {FRESH!r} for one that does not exist yet, or one that does."
            )
        return self.state.current(kind)

    def _open(self, kind: str) -> str:
        if self.state.status.get(kind) == "rejected":
            raise CorrectionError(f"{kind} was rejected.", hint="Reopen or accept it first.")
        return kind

    def _check_pictures(self, pictures: Sequence[str], kind: str | None = None) -> None:
        """Raise an error if some pictures do not exist, or are not of a kind."""
        missing = [name for name in pictures if name not in self.state.rows]
        if missing:
            raise CorrectionError(
                f"{_some(missing)} not among the {len(self.state)} pictures of the run.",
                hint="Write names as they stand in kinds.csv.",
            )
        if kind is not None:
            own = self.state.rows_of(kind)
            here = np.isin(np.fromiter((self.state.rows[name] for name in pictures), np.int64, len(pictures)), own)
            others = [pictures[number] for number in np.flatnonzero(~here).tolist()]
            if others:
                raise CorrectionError(
                    f"{_some(others)} not of {kind}, but of {self.state.kind_of(others[0])}.",
                    hint="Look again: somebody may have moved them.",
                )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{shown}{more} {'is' if len(names) == 1 else 'are'}"
