"""What a person sees while waiting: bars with the time left on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichBars

from newkinds.errors import unknown_name

MODES = ("auto", "bars", "plain", "quiet", "silent")
PLAIN_SECONDS = 10.0  # between two plain lines about the same task


class Step:
    """One task under way; `advance` it as work gets done."""

    def __init__(self, owner: Progress, title: str, total: int, done: int = 0) -> None:
        self._owner = owner
        self.title = title
        self.total = total
        self.done = self._before = done
        self.note = ""
        self._started = self._last = time.monotonic()
        self.task: TaskID | None = None

    def advance(self, amount: int = 1, note: str | None = None) -> None:
        """Say that `amount` more units are done; `note` is a short text shown behind the bar."""
        self.done += amount
        if note is not None:
            self.note = note
        self._owner._shown(self)

    def line(self, now: float) -> str | None:
        """Return the plain line that is due now, if one is."""
        if now - self._last < PLAIN_SECONDS or self.done >= self.total:
            return None
        self._last = now
        parts = [f"{self.title} {self.done}/{self.total}"]
        if self.done > self._before:
            left = (now - self._started) / (self.done - self._before) * (self.total - self.done)
            parts.append(f"{_clock(left)} left")
        return ", ".join([*parts, self.note] if self.note else parts)


class Progress:
    """Where the stages say what they do.

    mode: "auto" (bars on a terminal, plain lines elsewhere), "bars", "plain", "quiet" (warnings only) or "silent".
    """

    def __init__(self, mode: str = "auto", stream: TextIO | None = None) -> None:
        if mode not in MODES:
            raise unknown_name("progress mode", mode, MODES)
        # Without a stream, each line goes to what sys.stderr is at that moment: QUIET outlives replacements of it.
        self._console = Console(file=stream, stderr=True, highlight=False, emoji=False, soft_wrap=True)
        if mode == "auto":
            on_terminal = (stream or sys.stderr).isatty() and not self._console.is_dumb_terminal
            mode = "bars" if on_terminal else "plain"
        self.mode = mode
        self._bars: RichBars | None = None

    def say(self, text: str) -> None:
        """Print a line, unless quiet."""
        if self.mode not in ("quiet", "silent"):
            self._console.print(text, markup=False)

    def warn(self, text: str) -> None:
        """Print a warning, quiet or not, unless silent."""
        if self.mode != "silent":
            self._console.print(f"Warning: {text}", markup=False)

    @contextmanager
    def step(self, title: str, total: int, done: int = 0) -> Iterator[Step]:
        """Show a task of `total` units until the block ends; `done` of them were done before, in no time of ours."""
        step = Step(self, title, total, done)
        if self.mode != "bars":
            yield step
            return
        outermost = self._bars is None
        if self._bars is None:
            self._bars = RichBars(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                TextColumn("{task.fields[note]}", markup=False),
                console=self._console,
                transient=False,
                redirect_stdout=sys.stdout.isatty(),  # what is piped on must not end up among the bars
            )
            self._bars.start()
        step.task = self._bars.add_task(title, total=total, completed=done, note="")
        try:
            yield step
        finally:
            if outermost:
                self._bars.stop()
                self._bars = None

    def _shown(self, step: Step) -> None:
        if self._bars is not None and step.task is not None:
            self._bars.update(step.task, completed=step.done, note=step.note)
        elif self.mode == "plain" and (line := step.line(time.monotonic())):
            self.say(line)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


QUIET = Progress("quiet")
