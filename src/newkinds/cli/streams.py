"""Standard output and standard error, whatever is at their other end: an old terminal, a closed pipe, nothing."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

NARROWEST = 20  # characters in a line, or the width that is asked for is not believed


def prepare_streams() -> None:
    """Make both streams take any text, what their encoding lacks as \\xNN, and take it even where they are closed.

    A width that COLUMNS asks for and into which nothing would fit is forgotten.
    """
    wide = os.environ.get("COLUMNS", "")
    if wide.isdecimal() and int(wide) < NARROWEST:
        del os.environ["COLUMNS"]
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  for the rest of the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def close_streams(code: int) -> int:
    """Write what is still to be written and return the exit code: another one if that fails, as on a full disk."""
    why = _flushed(sys.stdout)
    if why is not None:
        code = code or 1
        if why.errno != errno.EPIPE:
            with suppress(OSError):
                print(f"Error: cannot write to standard output: {why.strerror}.", file=sys.stderr)
    _flushed(sys.stderr)
    return code


def _flushed(stream: TextIO) -> OSError | None:
    """Write what a stream holds; return the error if that fails."""
    try:
        stream.flush()
    except OSError as error:
        _discard(stream)
        return error
    return None


def _discard(stream: TextIO) -> None:
    """Let what a stream holds, and writes again when the interpreter ends, go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
