"""The journal of a run: what people said about its answer, a line of JSON each, only appended to.

Each line has its number, the time, what was said, and its hash, into which that of the line before goes. The first line
says which pictures it is about. A line is on the disk before anybody is told that it is saved. The journal has a lock
of its own, held for as long as a line is written: several windows and commands may speak at once, even while a long
stage of the run holds the folder's.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import repeat
from pathlib import Path
from typing import Any

from newkinds.assignment import Assignment
from newkinds.corrections import Again, CorrectionError, History, Redo, State, Undo
from newkinds.corrections.actions import Said, parse_line
from newkinds.corrections.carried import Carried
from newkinds.errors import RunError
from newkinds.files import open_plain, sync_folder
from newkinds.progress import QUIET, Progress
from newkinds.runs import names
from newkinds.runs.chain import BrokenJournalError, links, sealed_line
from newkinds.runs.folder import RunFolder
from newkinds.runs.growth import read_growth
from newkinds.runs.results import read_assignment
from newkinds.version import __version__

LAYOUT = 1  # of the lines


class StaleError(CorrectionError):
    """Somebody else has said something since. last: the number of the last line now."""

    def __init__(self, message: str, *, hint: str, last: int) -> None:
        super().__init__(message, hint=hint)
        self.last = last


@dataclass(frozen=True)
class Line:
    """A line of the journal. number: from 1. time: UTC, such as "2026-01-31T08:00:00.000Z"."""

    number: int
    time: str
    said: Said

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"line": self.number, "time": self.time, "said": self.said.model_dump(mode="json")}


class Journal:
    """The journal of a run, replayed over its answer.

    answer: the machine's. history: the state now, and what can be undone and redone. lines: all that was said. remarks:
    what was wrong with the file, in words.
    """

    def __init__(
        self,
        path: Path,
        pictures: str,
        answer: Assignment,
        known: Sequence[str] = (),
        carried: Carried | None = None,
    ) -> None:
        """Take a file that need not be there yet. pictures: the fingerprint of the run's; known: its known kinds.

        carried: what people said in earlier weeks.
        """
        self.path = path
        self.answer = answer
        self.history = History(answer, known, carried)
        self.lines: list[Line] = []
        self.remarks: list[str] = []
        self._pictures = pictures
        self._known = tuple(known)
        self._carried = carried
        self._offset = 0  # where the last line ends
        self._hash = ""  # of the last line
        self._torn = b""  # what was noticed behind it
        self._is_read = False
        self._answer_now: Callable[[], Assignment] | None = None  # reads what the machine says by now

    @classmethod
    def open(cls, run: RunFolder, progress: Progress = QUIET) -> Journal:
        """Return the journal of a run that has sorted its pictures, empty if nothing was said; write nothing."""
        journal = cls._of(run)
        journal.refresh()
        if (said := max(run.said, run.followed(names.KINDS))) > journal.last:
            raise BrokenJournalError(
                f"{journal.path} has {journal.last} lines, and the run has gone by {said}: the others are gone.",
                hint="Put a copy of it back; or go on without them: newkinds journal RUN --mend",
            )
        for remark in journal.remarks:
            progress.warn(remark)
        return journal

    @classmethod
    def mended(cls, run: RunFolder) -> Journal:
        """Return the journal of a run after a line of it that is broken, with all that follow, was put aside."""
        journal = cls._of(run)
        with suppress(FileNotFoundError):
            journal.mend()
        return journal

    @classmethod
    def _of(cls, run: RunFolder) -> Journal:
        known: list[str] = run.get_json(names.KNOWN)
        growth = read_growth(run)
        carried = None if growth is None else growth.carried
        pictures: str = run.data["unsorted"]["fingerprint"]
        journal = cls(run.path / names.JOURNAL, pictures, read_assignment(run), known, carried)
        journal._answer_now = lambda: read_assignment(RunFolder.open(run.path))
        return journal

    @property
    def state(self) -> State:
        """What holds now."""
        return self.history.state

    @property
    def last(self) -> int:
        """The number of the last line, 0 if nothing was said."""
        return len(self.lines)

    def refresh(self) -> list[Line]:
        """Read what others have said since, and return it."""
        try:
            with self._locked(os.O_RDONLY, fcntl.LOCK_SH) as descriptor:
                return self._read(descriptor, mend=False)
        except FileNotFoundError:
            if self._offset:
                raise self._broken(1, "it is gone") from None
            self._is_read = True
            return []

    def say(self, *said: Said, base: int | None = None) -> list[Line]:
        """Write what is said, all of it or nothing, and return its lines when they are on the disk.

        Raises a CorrectionError if it cannot be done in the state as it is now. base: the number of the last line that
        the speaker has seen; where there are others by now, a StaleError.
        """
        return self._write(list(said), base)

    def undo(self, times: int = 1, *, base: int | None = None) -> list[Line]:
        """Take back the last actions that hold, as many as `times`; base and errors as in `say`."""
        return self._write(repeat(Undo, times), base)

    def redo(self, times: int = 1, *, base: int | None = None) -> list[Line]:
        """Do again what was undone last, as many as `times`; base and errors as in `say`."""
        return self._write(repeat(Redo, times), base)

    def mend(self) -> int:
        """Put a line that is broken, with all that follow, aside, and return how many remain before it."""
        with self._locked(os.O_RDWR, fcntl.LOCK_EX) as descriptor:
            try:
                self._read(descriptor, mend=True)
            except BrokenJournalError as error:
                if not error.line:
                    raise
                self._put_aside(descriptor, f"broken at line {error.line}")
        return self.last

    def _write(self, said: Iterable[Said | type[Undo] | type[Redo]], base: int | None) -> list[Line]:
        with self._locked(os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as descriptor:
            self._read(descriptor, mend=True)
            if base is not None and base != self.last:
                more = self.last - base
                told = f"{more} more {'line' if more == 1 else 'lines'} by now" if more > 0 else f"no line {base}"
                raise StaleError(
                    f"The journal has {told}.",
                    hint="Look at what was said, and say it again.",
                    last=self.last,
                )
            lines: list[Line] = []
            try:
                for one in said:
                    resolved = self.history.resolved(self._of_now(one))
                    line = Line(self.last + len(lines) + 1, _now(), resolved)
                    lines.append(line)
                    self.history.take(line.number, resolved)
                self._append(descriptor, lines)
            except BaseException:
                if lines:
                    self._replay()
                raise
            self.lines += lines
            return lines

    def at(self, line: int) -> History:
        """Return the history of the first lines, up to `line`, as said about the answer as it is now."""
        history = History(self.answer, self._known, self._carried)
        for one in self.lines[:line]:
            history.take(one.number, one.said)
        return history

    def _of_now(self, said: Said | type[Undo] | type[Redo]) -> Said:
        """Return an undo or a redo of what is next in turn, or what was said."""
        if said is Undo:
            return Undo(line=self.history.done[-1].line if self.history.done else 1)
        if said is Redo:
            return Redo(line=self.history.undone[-1][0] if self.history.undone else 1)
        assert not isinstance(said, type)
        return said

    def _take_answer(self) -> None:
        """Go by what the machine says by now, after it has sorted the pictures again while this was open."""
        if self._answer_now is not None:
            self.answer = self._answer_now()
            self._replay()

    def _replay(self) -> None:
        """Make the state anew from the lines that are written."""
        self.history = self.at(self.last)

    @contextmanager
    def _locked(self, flags: int, how: int) -> Iterator[int]:
        """Open the file and hold its lock."""
        try:
            descriptor = open_plain(self.path, flags)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not flags & os.O_CREAT:
                raise  # nothing was said yet
            hint = "Look whether the run folder is there, and at its permissions."
            raise RunError(f"{self.path} cannot be opened: {error.strerror or error}.", hint=hint) from error
        try:
            fcntl.flock(descriptor, how)
            yield descriptor
        finally:
            os.close(descriptor)

    def _append(self, descriptor: int, lines: Sequence[Line]) -> None:
        """Write lines behind the others, and wait until they are on the disk."""
        begun, mark, parts = self._offset > 0, self._hash, []
        entries = [line.to_dict() for line in lines]
        for values in entries if begun or not lines else [self._first(), *entries]:
            part, mark = sealed_line(values, mark)
            parts.append(part)
        data = b"".join(parts)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], self._offset + written)
            os.fsync(descriptor)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(descriptor, self._offset)
            hint = "Nothing of it was said. Make room, or mend that, and say it again."
            raise RunError(f"{self.path} cannot be written: {error.strerror or error}.", hint=hint) from error
        if not begun:
            sync_folder(self.path.parent)
        self._offset, self._hash = self._offset + len(data), mark

    def _read(self, descriptor: int, *, mend: bool) -> list[Line]:
        """Take the lines behind those that were read. mend: whether what is torn may be put aside."""
        size = os.fstat(descriptor).st_size
        if size < self._offset:
            raise self._broken(self.last, "it is shorter than it was")
        data = os.pread(descriptor, size - self._offset, self._offset)
        found: list[Line] = []
        try:
            for link in links(data, self._hash, self._offset):
                if not self._offset:
                    self._check_first(link.values)
                else:
                    found.append(self._line(link.values))
                    self.history.take(found[-1].number, found[-1].said)
                    self.lines.append(found[-1])
                self._offset, self._hash = link.end, link.hash
        except (ValueError, CorrectionError) as error:
            raise self._broken(self.last + 1, str(error)) from None
        if self._is_read and any(isinstance(line.said, Again) for line in found):
            self._take_answer()
        self._is_read = True
        torn = data[len(data) - (size - self._offset) :]
        if torn and torn != self._torn:
            self._torn = torn
            kept = f"is kept in {names.JOURNAL_ASIDE}" if mend else "is left out"
            self.remarks.append(
                f"The last line of {self.path} was not written to its end, when nobody had been told that it was "
                f"saved: it {kept}."
            )
        if torn and mend:
            self._put_aside(descriptor, "torn")
        return found

    def _line(self, values: dict[str, Any]) -> Line:
        number, time = values.get("line"), values.get("time")
        if number != self.last + 1 or not isinstance(time, str):
            raise ValueError(f"it says that it is line {number}")
        return Line(number, time, parse_line(values.get("said")))

    def _put_aside(self, descriptor: int, why: str) -> None:
        """Cut off what follows the last line that holds, after it was copied to another file."""
        rest = os.pread(descriptor, os.fstat(descriptor).st_size - self._offset, self._offset)
        entry = {"time": _now(), "why": why, "after": self.last, "text": rest.decode("utf-8", "backslashreplace")}
        aside = self.path.with_name(names.JOURNAL_ASIDE)
        with open(open_plain(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as stream:
            stream.write(f"{json.dumps(entry)}\n".encode())
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(aside.parent)
        os.ftruncate(descriptor, self._offset)
        os.fsync(descriptor)
        self._torn = b""

    def _first(self) -> dict[str, Any]:
        """Return the line that binds the journal to the run's pictures."""
        about = {"layout": LAYOUT, "version": __version__, "pictures": self._pictures, "count": len(self.answer)}
        return {"line": 0, "time": _now(), "begin": about}

    def _check_first(self, values: dict[str, Any]) -> None:
        about = values.get("begin")
        if not isinstance(about, dict):
            raise ValueError("it does not begin a journal")
        if about.get("layout") != LAYOUT:
            raise BrokenJournalError(
                f"{self.path} has layout {about.get('layout')}; this is newkinds {__version__}, which reads {LAYOUT}.",
                hint="Use the version that wrote it.",
            )
        if about.get("pictures") != self._pictures:
            raise BrokenJournalError(
                f"{self.path} is not about the pictures of this run, but about {about.get('count')} others.",
                hint="Move it back to the run that it belongs to; without it, the run is as the machine sorted it.",
            )

    def _broken(self, line: int, why: str) -> BrokenJournalError:
        return BrokenJournalError(
            f"{self.path} is not what was written: line {line}: {why}.",
            hint=f"Put a copy of it back; or keep the {self.last} lines before with `newkinds journal RUN --mend`: "
            f"that puts the rest into {names.JOURNAL_ASIDE}.",
            line=line,
        )


def _now() -> str:
    return f"{datetime.now(timezone.utc).isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"
