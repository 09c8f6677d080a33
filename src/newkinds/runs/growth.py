"""What a run that goes on from another one took over from it: grown.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment, sort_of
from newkinds.corrections.carried import Carried
from newkinds.runs import names
from newkinds.runs.folder import RunFolder

SHOWN = 8  # kinds that are named in a sentence


@dataclass(frozen=True, eq=False)
class Growth:
    """How a run goes on from another one.

    week: its number; the run that began has 1. run: the folder that it goes on from, line: the last line of its journal
    that counts. weeks: in which week each picture of the heap came, int64 (N,); those of earlier weeks come first.
    carried: what people said of them. was: the known kinds that were found in some week, and their numbers then,
    {"washer": "new:3"}. accepted: those that are known since the last week, and of how many pictures. confirmed:
    pictures that people have put into known kinds in the last week, which are known pictures now. left_out: pictures
    that were given again and are there already.
    """

    week: int
    run: str
    line: int
    weeks: NDArray[np.int64]
    carried: Carried
    was: Mapping[str, str]
    accepted: Mapping[str, int]
    confirmed: int = 0
    left_out: int = 0

    @property
    def is_new(self) -> NDArray[np.bool_]:
        """Which pictures of the heap came this week, bool (N,)."""
        return np.asarray(self.weeks == self.week)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            **{key: getattr(self, key) for key in ("week", "run", "line", "confirmed", "left_out")},
            "weeks": self.weeks.tolist(),
            "carried": self.carried.to_dict(),
            "was": dict(self.was),
            "accepted": dict(self.accepted),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Growth:
        """Take back what `to_dict` gave."""
        read = {"weeks": np.array(values["weeks"], dtype=np.int64), "carried": Carried.from_dict(values["carried"])}
        return cls(**{**values, **read})


def read_growth(run: RunFolder) -> Growth | None:
    """Return how a run goes on from another one, None if it does not."""
    if not run.lists(names.GROWN):
        return None
    with run.understood(names.GROWN):
        found, pictures = Growth.from_dict(run.get_json(names.GROWN)), run.data["unsorted"]["pictures"]
        if len(found.weeks) != pictures:
            raise ValueError(f"it is about {len(found.weeks)} pictures, and there are {pictures}")
        return found


@dataclass(frozen=True)
class Since:
    """What is new since the last week.

    week: the number of this one. came, earlier: how many pictures of the heap came this week, and before. accepted:
    kinds that are known since the last week, and of how many pictures. known, open, fresh: this week's pictures in
    known kinds, in new kinds that were there last week, and in new kinds that were not, by kind. none: in no kind.
    found: the new kinds that were not there, with all their pictures. gone: kinds of which nobody had spoken that were
    there last week, and whose pictures are elsewhere now. called: the names of kinds. left_out: pictures that were
    given again.
    """

    week: int
    came: int
    earlier: int
    accepted: Mapping[str, int]
    known: Mapping[str, int]
    open: Mapping[str, int]
    fresh: Mapping[str, int]
    none: int
    found: Mapping[str, int]
    gone: tuple[str, ...]
    called: Mapping[str, str]
    left_out: int = 0

    def in_words(self) -> list[str]:
        """Return all that as sentences."""
        before = f", {self.earlier:,} from before" if self.earlier else ""
        said = [f"Week {self.week}: {_pictures(self.came)} came{before}."]
        parts = [f"{sum(self.known.values()):,} in {_kinds(len(self.known), 'known')}"] if self.known else []
        if self.open:
            parts.append(f"{sum(self.open.values()):,} in {_kinds(len(self.open), 'open')} of last time")
        if self.fresh:
            parts.append(f"{sum(self.fresh.values()):,} in {_kinds(len(self.fresh), 'new')} that were not there")
        parts += [f"{self.none:,} in none of these"] if self.none else []
        said.append(f"Of those that came: {', '.join(parts)}.")
        if self.accepted:
            said.append(f"Known since last time: {self._listed(self.accepted)}.")
        if self.found:
            said.append(f"New since last time: {self._listed(self.found)}.")
        grown = {kind: number for kind, number in self.open.items() if number}
        if grown:
            said.append(f"Open kinds that grew: {self._listed(grown, '+')}.")
        if self.gone:
            gone = ", ".join(self.called.get(kind, kind) for kind in self.gone)
            said.append(f"No kinds any more, their pictures are elsewhere: {gone}.")
        return said

    def _listed(self, kinds: Mapping[str, int], sign: str = "") -> str:
        order = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
        named = [f"{self.called.get(kind, kind)} ({sign}{kinds[kind]:,})" for kind in order[:SHOWN]]
        return ", ".join(named) + (f" and {len(order) - SHOWN} more" if len(order) > SHOWN else "")


def since(growth: Growth, answer: Assignment, called: Mapping[str, str]) -> Since:
    """Return what is new since the last week in an answer as it is now. called: the names of kinds."""
    is_new, carried = growth.is_new, growth.carried
    there = {*carried.kinds, *carried.held}
    sizes = answer.sizes.tolist()
    counts = np.bincount(answer.labels[is_new], minlength=len(answer.columns)).tolist()
    came = {column: count for column, count in zip(answer.columns, counts, strict=True) if count}
    new = {
        column: size for column, size in zip(answer.columns, sizes, strict=True) if size and sort_of(column) == "new"
    }
    return Since(
        week=growth.week,
        came=int(is_new.sum()),
        earlier=int((~is_new).sum()),
        accepted=dict(growth.accepted),
        known={kind: number for kind, number in came.items() if sort_of(kind) == "known"},
        open={kind: came.get(kind, 0) for kind in new if kind in there},
        fresh={kind: came[kind] for kind in new if kind not in there and kind in came},
        none=sum(number for kind, number in came.items() if sort_of(kind) == "none"),
        found={kind: size for kind, size in new.items() if kind not in there},
        gone=tuple(sorted({kind for kind in carried.kinds if sort_of(kind) == "new"} - set(new) - set(carried.held))),
        called=dict(called),
        left_out=growth.left_out,
    )


def _pictures(number: int) -> str:
    return f"{number:,} picture{'' if number == 1 else 's'}"


def _kinds(number: int, what: str) -> str:
    return f"{number:,} {what} kind{'' if number == 1 else 's'}"
