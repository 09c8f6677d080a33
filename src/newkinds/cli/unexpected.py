"""Errors that nobody foresaw: said in a line, with the details in a file for whoever mends them."""

from __future__ import annotations

import tempfile
import traceback

from newkinds.errors import told
from newkinds.stopping import line
from newkinds.version import __version__

UNEXPECTED = 70  # the exit code: EX_SOFTWARE of sysexits.h


def report_unexpected(error: Exception) -> tuple[str, str, int]:
    """Return what to say about an error that is a mistake in newkinds, the way out, and the exit code."""
    details = f"newkinds {__version__}\n{line()}\n\n{''.join(traceback.format_exception(error))}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="newkinds-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(details)
        where = f"the details are in {file.name}"
    except OSError:
        where = f"the details:\n{details}"
    return (
        f"Error: newkinds failed unexpectedly ({told(error)}).",
        f"What was done so far is kept. This is a bug in newkinds; please report it: {where}",
        UNEXPECTED,
    )
