"""Signals that ask the process to stop, from its first import to its last line: no traceback, nothing half-written.

The first one raises `Stopped`, so that what is open is closed. Where no exception may be raised, which is while modules
are imported (they catch what they do not know) and where Python would only print it, and at the second signal, the
process leaves at once: a run survives that at any moment.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from newkinds.files import abandon

STOPPED = "Stopped. What was done so far is kept. To continue, run the same command again:"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal asked the process to stop. Not an Exception, so that no handler swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def handle_signals() -> None:
    """Stop at SIGINT and SIGTERM as this module's text says."""
    for number in _SIGNALS:
        signal.signal(number, _stop)
    sys.unraisablehook = _unraisable


def leave_at_signals() -> None:
    """From now on leave at once: the work is done or given up, and the interpreter is on its way out."""
    for number in _SIGNALS:
        signal.signal(number, leave)


@contextmanager
def signals_waiting() -> Iterator[Callable[[], None]]:
    """Let a signal wait until the block ends, or until what is yielded is called: an exception from a handler would
    crash what runs inside, such as the constructors of openTSNE. At a second one, the command line leaves at once.
    """
    if threading.current_thread() is not threading.main_thread():  # no signal comes here
        yield lambda: None
        return
    handlers = {int(number): signal.getsignal(number) for number in _SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler is not None}  # None is not Python's
    came: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if came and before[number] is _stop:
            leave(number)
        came.append(number)

    def let_through() -> None:
        if came:
            restore()
            signal.raise_signal(came.pop())

    def restore() -> None:
        while before:  # once: a handler that was let through may have put others in their place
            signal.signal(*before.popitem())

    try:
        for number in before:
            signal.signal(number, wait)
        yield let_through
    finally:
        restore()
        let_through()


def line() -> str:
    """Return what was typed, for it to be typed again."""
    return shlex.join(["newkinds", *sys.argv[1:]])


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    leave_at_signals()
    if _is_importing(frame):
        leave(number, frame)
    raise Stopped(number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def leave(number: int, frame: FrameType | None = None) -> NoReturn:
    """Delete what is half-written, say how to continue, and end the process at once."""
    abandon()
    with suppress(Exception):
        show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # bars hide it
        os.write(2, f"{show_cursor}{STOPPED}\n{line()}\n".encode("ascii", "backslashreplace"))
    os._exit(128 + number)


def _unraisable(told: Any) -> None:
    """Take notice of a signal that came where Python lets no exception through."""
    if isinstance(told.exc_value, Stopped):
        leave(told.exc_value.number)
    sys.__unraisablehook__(told)
