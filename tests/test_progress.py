"""Bars on a terminal, a line in a notebook, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io
import os
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from newkinds import progress as module
from newkinds.cli.streams import prepare_streams
from newkinds.errors import UsageError
from newkinds.progress import QUIET, Progress, automatic


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        """Return what was written, without the control sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


class Clock:
    """Time that stands still unless told."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing in the environment say what kind of terminal this is."""
    for name in ("RANK", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_plain_lines_come_every_ten_seconds_with_the_time_left(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("plain", stream).step("Learning", 10) as step:
        clock.now += 9
        step.advance()
        assert stream.getvalue() == ""  # not yet due
        clock.now += 11
        step.advance(note="loss 0.5")  # 2 done in 20 seconds: 8 more take 80
        clock.now += 1
        step.advance()
        clock.now += 9
        step.advance(2, note="loss 0.4")  # 5 done in 30 seconds: 5 more take 30
    assert stream.getvalue() == "Learning 2/10, 1:20 left, loss 0.5\nLearning 5/10, 0:30 left, loss 0.4\n"


def test_plain_line_of_hours_and_without_a_note(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("plain", stream).step("Learning", 100) as step:
        clock.now += 3600
        step.advance()
    assert stream.getvalue() == "Learning 1/100, 99:00:00 left\n"


def test_plain_mode_does_not_announce_the_end_of_a_task(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("plain", stream).step("Learning", 2) as step:
        clock.now += 60
        step.advance(2)
    assert stream.getvalue() == ""


def test_the_time_left_leaves_out_what_was_done_before(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("plain", stream).step("Learning", 100, done=50) as step:
        clock.now += 10
        step.advance(0, note="continued")  # nothing to go by yet
        clock.now += 10
        step.advance(10)  # 10 in 20 seconds: the other 40 take 80
    assert stream.getvalue() == "Learning 50/100, continued\nLearning 60/100, 1:20 left, continued\n"


def test_say_and_warn() -> None:
    stream = io.StringIO()
    progress = Progress("plain", stream)
    progress.say("Read 3 of [/photos] :cat: [bold]4[/bold] " + "x" * 200)
    progress.warn("skipped [red]a.png[/red]")
    assert stream.getvalue() == (
        "Read 3 of [/photos] :cat: [bold]4[/bold] " + "x" * 200 + "\nWarning: skipped [red]a.png[/red]\n"
    )


def test_quiet_shows_warnings_only(clock: Clock) -> None:
    stream = io.StringIO()
    progress = Progress("quiet", stream)
    progress.say("hello")
    with progress.step("Learning", 10) as step:
        clock.now += 60
        step.advance()
    assert step.done == 1
    assert stream.getvalue() == ""
    progress.warn("careful")
    assert stream.getvalue() == "Warning: careful\n"


def test_quiet_follows_a_replaced_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        QUIET.warn("careful")
        assert stream.getvalue() == "Warning: careful\n"


def test_auto_chooses_by_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Progress(stream=Terminal()).mode == "bars"
    assert Progress(stream=io.StringIO()).mode == "plain"
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert Progress().mode == "bars"
    monkeypatch.setenv("TERM", "dumb")  # a terminal that cannot move its cursor
    assert Progress().mode == "plain"


def test_unknown_mode() -> None:
    with pytest.raises(UsageError, match=r"Unknown progress mode 'bar'\. Did you mean 'bars'"):
        Progress("bar")


def test_bars_show_title_count_and_note() -> None:
    terminal = Terminal()
    progress = Progress("bars", terminal)
    with progress.step("Learning [/known] :cat:", 3) as step:
        step.advance(1, note="loss [0.5]")
        progress.say("half way")
        step.advance(2)
    shown = terminal.text()
    assert "half way\n" in shown
    last = [line for line in shown.splitlines() if "Learning" in line][-1]
    assert last.startswith("Learning [/known] :cat: ")
    assert "3/3" in last
    assert "loss [0.5]" in last
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1  # the cursor is back


def test_bars_begin_with_what_was_done_before() -> None:
    terminal = Terminal()
    with Progress("bars", terminal).step("Learning", 10, done=4):
        pass
    assert "4/10" in terminal.text()


def test_bars_within_bars_and_one_after_the_other() -> None:
    terminal = Terminal()
    progress = Progress("bars", terminal)
    with progress.step("Outer", 2) as outer:
        with progress.step("Inner", 5) as inner:
            inner.advance(5)
        outer.advance(2)
    with progress.step("Next", 1) as following:
        following.advance()
    shown = terminal.text()
    assert "Inner" in shown
    assert re.search(r"Outer .*2/2", shown)
    assert re.search(r"Next .*1/1", shown)


def test_an_error_puts_the_terminal_back(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()

    def fail() -> None:
        with Progress("bars", terminal).step("Learning", 3) as step:
            step.advance()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert terminal.getvalue().endswith("\x1b[?25h")
    print("a result")
    assert capsys.readouterr().out == "a result\n"


def test_what_is_printed_beside_the_bars_still_reaches_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    with Progress("bars", terminal).step("Learning", 3):
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.text()


def test_bars_asked_for_without_a_terminal_write_no_control_sequences() -> None:
    stream = io.StringIO()
    with Progress("bars", stream).step("Learning", 3) as step:
        step.advance(3)
    assert "\x1b" not in stream.getvalue()
    assert "3/3" in stream.getvalue()


class Notebook:
    """What a notebook's output shows: one text for each display, as it was updated last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kernel: object) -> None:
        self.shown: list[str] = []
        self.updates = 0
        ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
        ipython.get_ipython = lambda: SimpleNamespace(kernel=kernel)  # type: ignore[attr-defined]
        display.display = self.display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.shown.append(data["text/plain"])
        place = len(self.shown) - 1

        def update(data: dict[str, str], *, raw: bool) -> None:
            assert raw
            self.shown[place] = data["text/plain"]
            self.updates += 1

        return SimpleNamespace(update=update)


def test_a_notebook_shows_a_line_for_each_task_and_keeps_it_up_to_date(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = Notebook(monkeypatch, kernel=object())
    progress = automatic(None)
    progress.say("[bold] photos")
    with progress.step("Learning", 1000) as outer:
        assert notebook.shown == ["Learning 0/1000"]
        clock.now += 10
        outer.advance(500, note="loss 0.5")
        assert notebook.shown == ["Learning 500/1000, 0:10 left, loss 0.5"]
        for _ in range(500):  # all at once: no message to the browser for each
            outer.advance()
        assert notebook.updates == 1
        with progress.step("Checking", 2) as inner:
            inner.advance(2)
    assert notebook.shown == ["Learning 1000/1000, loss 0.5", "Checking 2/2"]
    progress.warn("careful")
    printed = capsys.readouterr()
    assert printed.out == "[bold] photos\nWarning: careful\n"
    assert not printed.err


def test_a_task_that_fails_in_a_notebook_shows_how_far_it_came(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    notebook = Notebook(monkeypatch, kernel=object())

    def fail() -> None:
        with Progress().step("Learning", 10) as step:
            step.advance(3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert notebook.shown == ["Learning 3/10, 0:00 left"]


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    Notebook(monkeypatch, kernel=None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert automatic(None).mode == "bars"


def test_a_stream_that_is_named_is_used_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Notebook(monkeypatch, kernel=object())
    stream = io.StringIO()
    progress = Progress(stream=stream)
    assert progress.mode == "plain"
    progress.say("hello")
    assert stream.getvalue() == "hello\n"


def test_python_functions_show_bars_in_a_terminal_and_nothing_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = Progress("plain")
    assert automatic(mine) is mine
    for stream, mode in ((Terminal(), "bars"), (io.StringIO(), "quiet"), (None, "quiet")):
        monkeypatch.setattr(sys, "stderr", stream)
        assert automatic(None).mode == mode
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert automatic(None).mode == "quiet"


def test_of_several_processes_the_first_one_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("RANK", "0")
    assert automatic(None).mode == "bars"
    monkeypatch.setenv("RANK", "1")
    assert automatic(None).mode == "silent"


@pytest.mark.parametrize(("asked", "kept"), [("0", None), ("7", None), ("80", "80"), ("wide", "wide")])
def test_a_width_into_which_nothing_fits_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, asked: str, kept: str | None
) -> None:
    monkeypatch.setenv("COLUMNS", asked)
    prepare_streams()
    assert os.environ.get("COLUMNS") == kept
