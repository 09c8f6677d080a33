"""Progress display: bars in a terminal, an updated line in a notebook, plain lines, or nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichBars

from newkinds.errors import unknown_name

MODES = ("auto", "bars", "notebook", "plain", "quiet", "silent")
PLAIN_SECONDS = 10.0  # between two plain lines about the same task
NOTEBOOK_SECONDS = 0.5  # between two updates of a line in a notebook: each is a message to the browser


class _Console(Console):
    """A console that nobody need listen to: rich ends the process where a pipe is closed."""

    def on_broken_pipe(self) -> None:
        """Go on."""


class Step:
    """One task in progress; `advance` it as work gets done."""

    def __init__(self, owner: Progress, title: str, total: int, done: int = 0) -> None:
        self._owner = owner
        self.title = title
        self.total = total
        self.done = self._before = done
        self.note = ""
        self._started = self._last = time.monotonic()
        self.task: TaskID | None = None
        self.display: Any = None  # IPython's handle of the line in a notebook

    def advance(self, amount: int = 1, note: str | None = None) -> None:
        """Say that `amount` more units are done; `note` is a short text shown after the bar."""
        self.done += amount
        if note is not None:
            self.note = note
        self._owner._shown(self)

    def due(self, now: float, seconds: float) -> bool:
        """Return whether the line was last shown at least that long ago; if so, count it as shown now."""
        if now - self._last < seconds:
            return False
        self._last = now
        return True

    def line(self, now: float) -> str:
        """Return the status as text: the count, the time left and the note."""
        parts = [f"{self.title} {self.done}/{self.total}"]
        if self._before < self.done < self.total:
            left = (now - self._started) / (self.done - self._before) * (self.total - self.done)
            parts.append(f"{_clock(left)} left")
        return ", ".join([*parts, self.note] if self.note else parts)


class Progress:
    """Where the stages report what they do.

    mode: "bars" for a terminal, "notebook", "plain" lines, "quiet" (warnings only), "silent", or "auto": one of the
    first three, depending on where it runs.
    """

    def __init__(self, mode: str = "auto", stream: TextIO | None = None) -> None:
        if mode not in MODES:
            raise unknown_name("progress mode", mode, MODES)
        if mode == "auto":
            mode = _suited(stream)
        # Without a stream, each line goes to the current sys.stderr: QUIET outlives replacements of it.
        # Notebooks show standard error as if something had failed.
        self._console = _Console(
            file=stream,
            stderr=mode != "notebook",
            force_jupyter=False,
            highlight=False,
            emoji=False,
            soft_wrap=True,
        )
        self.mode = mode
        self._bars: RichBars | None = None

    def say(self, text: str) -> None:
        """Print a line, unless quiet."""
        if self.mode not in ("quiet", "silent"):
            self._print(text)

    def warn(self, text: str) -> None:
        """Print a warning, quiet or not, unless silent."""
        if self.mode != "silent":
            self._print(f"Warning: {text}")

    def _print(self, text: str) -> None:
        """Print a line as far as it can be: that nobody listens any more, as behind a closed pipe, ends no run."""
        with suppress(OSError):
            self._console.print(_encodable(text, self._console.encoding), markup=False)

    @contextmanager
    def step(self, title: str, total: int, done: int = 0) -> Iterator[Step]:
        """Show a task of `total` units until the block ends; `done` of them were done in an earlier run."""
        step = Step(self, title, total, done)
        if self.mode == "notebook":
            with _displayed(step):
                yield step
            return
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
                redirect_stdout=sys.stdout.isatty(),  # piped output must not end up among the bars
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
            return
        now = time.monotonic()
        if step.display is not None:
            if step.due(now, NOTEBOOK_SECONDS):
                step.display.update(_text(step.line(now)), raw=True)
        elif self.mode == "plain" and step.done < step.total and step.due(now, PLAIN_SECONDS):
            self.say(step.line(now))


class Warnings(Progress):
    """Collects warnings, for somebody else to print, and shows nothing."""

    def __init__(self) -> None:
        super().__init__("silent")
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.texts.append(text)


def automatic(progress: Progress | None) -> Progress:
    """Return the progress display of a public function: the one given, otherwise one that suits the environment.

    None means bars in a terminal, a line in a notebook, and warnings only where nobody watches, as in a pipe or a
    test. Of the processes that torchrun starts, only the first one prints.
    """
    if progress is not None:
        return progress
    if os.environ.get("RANK", "0") != "0":
        return Progress("silent")
    mode = _suited(None)
    return QUIET if mode == "plain" else Progress(mode)


def _suited(stream: TextIO | None) -> str:
    """Return the mode that suits this process; stream: where its lines go, None for standard error."""
    if stream is None and _in_notebook():
        return "notebook"
    try:
        on_terminal = (stream or sys.stderr).isatty()
    except (AttributeError, ValueError):  # a program without a standard error, or one that closed it
        on_terminal = False
    can_move = os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    return "bars" if on_terminal and can_move else "plain"


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook; IPython in a terminal has none."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


@contextmanager
def _displayed(step: Step) -> Iterator[None]:
    """Show a step as a line of a notebook's output, without ipywidgets, which rich's bars need there."""
    from IPython.display import display  # a notebook has it

    step.display = display(_text(step.line(time.monotonic())), raw=True, display_id=True)
    try:
        yield
    finally:
        step.display.update(_text(step.line(time.monotonic())), raw=True)


def _encodable(text: str, encoding: str) -> str:
    """Return a text with what an encoding does not have written as \\xNN."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _text(line: str) -> dict[str, str]:
    return {"text/plain": line}


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


QUIET = Progress("quiet")
