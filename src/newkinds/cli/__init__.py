"""The command line. Each command wraps the Python function of the same name.

The modules here import what is slow to import (torch, numpy, the pipeline) inside the commands: so help is instant, and
the signal handlers are installed before anything slow is imported.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from types import FrameType
from typing import NoReturn

# Importing them registers their commands, in this order.
from newkinds.cli import discovery, opening, correcting, measuring, bench, naming, caching  # isort: skip # noqa: F401
from newkinds.cli.base import app, out
from newkinds.errors import NewkindsError
from newkinds.memory import keep_freed_memory


class Stopped(BaseException):
    """A signal asked the process to stop. Not an Exception, so that no handler swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    keep_freed_memory()
    out.quiet = os.environ.get("RANK", "0") != "0"  # of the processes that torchrun starts, only the first one prints
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
