"""The command line. Each command is the Python function of the same name with its words around it.

The modules here import what takes long (torch, numpy, the pipeline) inside the commands: help comes at once, and by the
time that the rest is imported, the handlers of signals are in place.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from types import FrameType
from typing import NoReturn

# They add their commands, in this order.
from newkinds.cli import discovery, measuring, bench, naming  # isort: skip # noqa: F401
from newkinds.cli.base import app, out
from newkinds.errors import NewkindsError
from newkinds.memory import keep_freed_memory


class Stopped(BaseException):
    """A signal asked for the end. Not an Exception: nothing on the way may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    keep_freed_memory()
    out.quiet = os.environ.get("RANK", "0") != "0"  # of the processes that torchrun starts, the first one speaks
    try:
        app(prog_name="newkinds")
    except NewkindsError as error:
        _fail(f"Error: {error.message}", error.hint, error.exit_code)
    except Stopped as stopped:
        _fail("Stopped; what is done is kept. To continue, type the same line again:", _line(), 128 + stopped.number)
    except OSError as error:
        _fail(f"Error: {error}", "Mend that and type the same line again: " + _line(), 1)
    raise SystemExit(0)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def _line() -> str:
    return shlex.join(["newkinds", *sys.argv[1:]])


def _fail(message: str, hint: str, code: int) -> NoReturn:
    for line in (message, hint):
        if line:
            print(line, file=sys.stderr)
    raise SystemExit(code)
