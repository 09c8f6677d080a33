"""The command line. Each command wraps the Python function of the same name.

The modules here import what is slow to import (torch, numpy, the pipeline) inside the commands: so help is instant.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

# Importing them registers their commands, in this order.
from newkinds.cli import discovery, opening, correcting, measuring, bench, naming, caching  # isort: skip # noqa: F401
from newkinds.cli.base import app, out
from newkinds.cli.streams import close_streams, prepare_streams
from newkinds.cli.unexpected import report_unexpected
from newkinds.errors import NewkindsError
from newkinds.memory import explained, keep_freed_memory, stay_within_limits
from newkinds.stopping import STOPPED, Stopped, handle_signals, leave_at_signals, line


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    try:
        handle_signals()
        prepare_streams()
        stay_within_limits()
        keep_freed_memory()
        out.quiet = os.environ.get("RANK", "0") != "0"  # of the processes that torchrun starts, only the first prints
        code = _run()
    except Stopped as stopped:  # before the command began, or while an error was being told
        code = _say(STOPPED, line(), 128 + stopped.number)
    leave_at_signals()
    raise SystemExit(close_streams(code))


def _run() -> int:
    """Run the command and return the exit code; what went wrong is said on standard error."""
    try:
        with explained():
            app(prog_name="newkinds")
    except SystemExit as end:  # how typer ends, with or without an error in what was typed
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except NewkindsError as error:
        return _say(f"Error: {error.message}", error.hint, error.exit_code)
    except Stopped as stopped:
        return _say(STOPPED, line(), 128 + stopped.number)
    except OSError as error:
        return _say(f"Error: {_told(error)}", f"Fix that and run the same command again: {line()}", 1)
    except Exception as error:
        return _say(*report_unexpected(error))
    return 0


def _told(error: OSError) -> str:
    """Return an error of the system in words, with the file that it is about."""
    if error.strerror is None or error.filename is None:
        return str(error)
    return f"{error.filename}: {error.strerror}."


def _say(message: str, hint: str, code: int) -> int:
    for text in (message, hint):
        if text:
            with suppress(OSError):  # nobody may be listening
                print(text, file=sys.stderr)
    return code
