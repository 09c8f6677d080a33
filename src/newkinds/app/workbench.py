"""The workbench: a run, its journal and its pictures, and everything that can be asked about them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock, RLock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.app import orders, questions, splitting, suggestions
from newkinds.app.again import Again
from newkinds.app.pictures import Pictures
from newkinds.app.points import Looks, Points, looks, points_of
from newkinds.app.standing import standing
from newkinds.assignment import sort_of
from newkinds.clustering.neighbours import nearest_by_direction
from newkinds.corrections import CorrectionError, Redo, Undo, corrected, in_words, parse_action
from newkinds.corrections.state import number_of
from newkinds.progress import QUIET, Progress
from newkinds.report.embedding_map import make_map
from newkinds.runs import RunFolder, names
from newkinds.runs.growth import read_growth, since
from newkinds.runs.journal import Journal, Line

CLOSED = ("rejected", "merged", "gone")  # kinds that pictures are not put into
COVER = 8  # pictures of a kind in the overview
MAP_POINTS = 60_000  # on the map: what one index of its painter can tell apart
VIEWS = 16  # orders that are kept
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Moment:
    """The state at a line of the journal, as arrays that nothing changes any more.

    kinds: every kind that was spoken of; kind: an index of it for each picture, int32 (N,). status: of each, "open",
    "accepted", "rejected"; of a merged one "merged", and "gone" of one that was undone. called: what a person called
    it, or its known name.
    """

    version: int
    kinds: tuple[str, ...]
    kind: NDArray[np.int32]
    said: NDArray[np.bool_]
    confirmed: NDArray[np.bool_]
    status: tuple[str, ...]
    called: tuple[str, ...]
    looks: Looks

    @cached_property
    def index(self) -> dict[str, int]:
        """Where each kind is in `kinds`."""
        return {kind: number for number, kind in enumerate(self.kinds)}

    @cached_property
    def for_suggestions(self) -> suggestions.Kinds:
        """What suggestions are made from."""
        known = np.array([sort_of(kind) == "known" for kind in self.kinds])
        closed = np.array([status in CLOSED for status in self.status])
        return suggestions.Kinds(self.kind, self.confirmed, known, closed | np.array([k == "none" for k in self.kinds]))

    @cached_property
    def for_questions(self) -> tuple[str, ...]:
        """The status of kinds as the queue takes it: known kinds need no check, and "none" is no kind."""
        sorts = [sort_of(kind) for kind in self.kinds]
        return tuple(
            "rejected" if sort == "none" or status in CLOSED else "accepted" if sort == "known" else
            ("" if status == "open" else status)
            for sort, status in zip(sorts, self.status, strict=True)
        )  # fmt: skip


class Slow:
    """Something that takes a while to compute: made in the background, once, and asked for in between."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._thread: Thread | None = None
        self._lock = Lock()
        self._found: Any = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin, if that was not done before."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, daemon=True)
                self._thread.start()

    def get(self, seconds: float | None = 0.0) -> Any:
        """Return it, or None if it is not there within some seconds; None: as long as it takes."""
        self.start()
        assert self._thread is not None
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        return self._found

    @property
    def is_there(self) -> bool:
        """Whether it is done."""
        return self._found is not None

    def _run(self) -> None:
        try:
            self._found = self._make()
        except BaseException as error:
            self._error = error


class Workbench:
    """All that the page asks for. Methods may be called from several threads."""

    def __init__(self, run: RunFolder, pictures: Pictures, progress: Progress = QUIET) -> None:
        self.run = run
        self.pictures = pictures
        self.progress = progress
        self.title = run.path.resolve().name
        self.known: list[str] = sorted(run.get_json(names.KNOWN))
        self.journal = Journal.open(run, progress)
        self._growth = read_growth(run)
        self.mark = str(run.data["unsorted"]["fingerprint"])[:12]
        self.refused: dict[str, set[int]] = {}  # pictures that were passed over for a kind, while this is open
        self.again = Again(run.path)
        self._lock = RLock()
        self._moment: Moment | None = None
        self._views: OrderedDict[tuple[Any, ...], Rows] = OrderedDict()
        seed = run.settings.seed
        self._points = Slow(lambda: points_of(run))
        self._near = Slow(lambda: nearest_by_direction(self.points, suggestions.NEAREST + 1))
        self._points.start()
        self._map = Slow(lambda: make_map(self.points, self.journal.answer.labels, seed, limit=MAP_POINTS))

    @property
    def points(self) -> Points:
        """Where pictures lie, float32 (N, d): waits for them."""
        found: Points = self._points.get(None)
        return found

    def near(self, seconds: float | None = 0.0) -> Rows | None:
        """Return the nearest pictures of each, int64 (N, n), None if they are not there in time."""
        found: Rows | None = self._near.get(seconds)
        return found

    def now(self) -> Moment:
        """Return the state as the journal has it, with what others have said since."""
        with self._lock:
            self.journal.refresh()
            if self._moment is None or self._moment.version != self.journal.last:
                self._moment = self._taken()
            return self._moment

    def _taken(self) -> Moment:
        state = self.journal.state
        kinds = tuple(state.kinds)
        status = tuple(
            "merged" if k in state.merged else state.status.get(k, "open") if state.exists(k) else "gone" for k in kinds
        )
        kind, confirmed = state.kind.copy(), state.confirmed.copy()
        called = tuple(state.name_of(k) for k in kinds)
        found = looks(self.points, kind, len(kinds), confirmed)
        return Moment(self.journal.last, kinds, kind, state.said.copy(), confirmed, status, called, found)

    def overview(self) -> dict[str, Any]:
        """Return the kinds with some pictures of each, what can be undone and redone, and the progress."""
        with self._lock:
            now = self.now()
            history, state = self.journal.history, self.journal.state
            undo = (history.done[-1].line, history.done[-1].action) if history.done else None
            redo = history.undone[-1] if history.undone else None
            told = {kind: state.name_of(kind) for kind in state.called}
            come = standing(self.journal.answer, state)
            said = not state.is_untouched
        covers = orders.by_kind(now.kind, now.looks.own, len(now.kinds), COVER)
        sizes = np.bincount(now.kind, minlength=len(now.kinds)).tolist()
        sure = np.bincount(now.kind, weights=now.confirmed, minlength=len(now.kinds)).astype(int).tolist()
        listed = [
            {
                "kind": kind,
                "called": now.called[number],
                "status": now.status[number],
                "size": sizes[number],
                "confirmed": sure[number],
                "cover": covers[number].tolist(),
            }
            for number, kind in enumerate(now.kinds)
            if now.status[number] not in ("merged", "gone") and (sizes[number] or now.status[number] != "open")
        ]
        return {
            "version": now.version,
            "title": self.title,
            "mark": self.mark,
            "pictures": self.pictures.are_there,
            "kinds": listed,
            "known": self.known,
            "undo": None if undo is None else {"line": undo[0], "words": in_words(undo[1], told)},
            "redo": None if redo is None else {"line": redo[0], "words": in_words(redo[1], told)},
            "progress": come,
            "remarks": list(self.journal.remarks),
            "spoken": said,
            "since": self.since(),
            "again": self.again.told(),
        }

    def since(self) -> list[str]:
        """Return what is new since the last week as sentences, nothing where the run began by itself."""
        if self._growth is None:
            return []
        with self._lock:
            state, machine = self.journal.state, self.journal.answer
            there = {*state.kinds, *self._growth.carried.kinds}
            called = {kind: state.name_of(kind) or f"Kind {number_of(kind)}" for kind in there}
            return since(self._growth, corrected(machine, state), called).in_words()

    def ordered(self, kind: str, order: str, to: int | None = None) -> tuple[Moment, Rows]:
        """Return the rows of a kind, or of all pictures ("all"), in one of ORDERS. to: the picture of "similar"."""
        now = self.now()
        key = (now.version, kind, order, to)
        with self._lock:
            if key in self._views:
                return now, self._views[key]
        members = np.arange(len(now.kind)) if kind == "all" else self._members(now, kind)
        if order == "similar":
            if to is None or not 0 <= to < len(now.kind):
                raise CorrectionError("Similar to which picture?", hint="Give the row of one with to=.")
            rows = orders.similar(members, self.points, to)
        elif order == "doubtful":
            rows = orders.doubtful(members, now.looks, now.confirmed)
        elif order == "typical":
            rows = orders.typical(members, now.looks)
        else:
            raise CorrectionError(f"There is no order {order!r}.", hint=f"Take one of {', '.join(orders.ORDERS)}.")
        with self._lock:
            self._views[key] = rows
            while len(self._views) > VIEWS:
                self._views.popitem(last=False)
        return now, rows

    def _members(self, now: Moment, kind: str) -> Rows:
        return np.flatnonzero(now.kind == self._index(now, kind))

    def _index(self, now: Moment, kind: str) -> int:
        """Return the index of a kind as it is now; raise an error if there is none that holds pictures."""
        with self._lock:
            current = self.journal.state.current(kind)
            exists = self.journal.state.exists(current)
        if current in now.index:
            return now.index[current]
        if exists:
            return len(now.kinds)  # of which there are no pictures
        raise CorrectionError(f"There is no kind {kind!r}.", hint="Look at the kinds again: it may have been undone.")

    def parts(self, kind: str, number: int | None, seeds: Sequence[int]) -> tuple[Moment, list[Rows]]:
        """Return the pictures of a kind in parts: a number of them, or around pictures."""
        now = self.now()
        members = self._members(now, kind)
        if seeds:
            return now, splitting.around(members, self.points, seeds)
        return now, splitting.in_parts(members, self.points, number or 2)

    def asked(self, now: Moment) -> questions.Asked:
        """Return what questions are made from."""
        with self._lock:
            refused = {now.index[kind]: set(rows) for kind, rows in self.refused.items() if kind in now.index}
        return questions.Asked(self.points, now.kind, now.confirmed, now.for_questions, now.looks, refused)

    def queue(self, passed: Collection[str]) -> tuple[Moment, list[questions.Question]]:
        """Return what is worth asking, the best first. passed: keys of questions to leave out."""
        now = self.now()
        return now, questions.questions(self.asked(now), passed)

    def grow(self, kind: str) -> tuple[Moment, Rows]:
        """Return a page of undecided pictures that are likely of a kind."""
        now = self.now()
        number = self._index(now, kind)
        return now, questions.page_of(self.asked(now), number) if number < len(now.kinds) else np.zeros(0, np.int64)

    def refuse(self, kind: str, rows: Sequence[int]) -> None:
        """Do not offer pictures for a kind again, for as long as this is open."""
        with self._lock:
            kind = self.journal.state.current(kind)
            self.refused.setdefault(kind, set()).update(row for row in rows if 0 <= row < len(self.pictures.names))

    def map(self) -> tuple[Rows, NDArray[np.float64]] | None:
        """Return the pictures on the map and their places (M, 2) in [0, 1]; None while it is still made."""
        found = self._map.get()
        return None if found is None else (found.items, found.places)

    def say(self, said: Any, base: int | None = None) -> list[Line]:
        """Write what a request says into the journal, and return its lines when they are on the disk.

        Pictures may be given as "rows".
        """
        with self._lock:
            action = parse_action(_with_names(said, self.pictures.names))
            return self.journal.say(action, base=base)

    def undo(self, line: int) -> list[Line]:
        """Take back what stands at a line, which must be the last that holds."""
        with self._lock:
            return self.journal.say(Undo(line=line))

    def redo(self, line: int) -> list[Line]:
        """Do again what stands at a line, which must be the last that was undone."""
        with self._lock:
            return self.journal.say(Redo(line=line))


def _with_names(said: Any, called: Sequence[str]) -> Any:
    """Return what was said with the names of pictures instead of their rows, wherever "rows" stand."""
    if isinstance(said, list):
        return [_with_names(one, called) for one in said]
    if not isinstance(said, dict):
        return said
    found = {key: _with_names(value, called) for key, value in said.items() if key != "rows"}
    if "rows" in said:
        rows = said["rows"]
        if "pictures" in said:
            raise CorrectionError("Pictures are given both as rows and by their names.", hint="Give one of the two.")
        if not isinstance(rows, list) or not all(type(row) is int and 0 <= row < len(called) for row in rows):
            raise CorrectionError("rows should be numbers of pictures.", hint=f"From 0 to {len(called) - 1}.")
        found["pictures"] = [called[row] for row in rows]
    return found
