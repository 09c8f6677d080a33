"""Environment variables: numbers, and values for a while."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from newkinds.errors import UsageError


def number_from(name: str, default: float, least: float = 0.0, of: str = "") -> float:
    """Return the number, finite and >= `least`, that a variable is set to; `default` if it is not set, or empty.

    of: what it is a number of, for errors.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= least):
        raise UsageError(
            f"{name} = {text[:60]!r} is not a number{f' of {of}' if of else ''}, {least:g} or more.",
            hint=f"It is an environment variable: set it to one, or take it away: unset {name}",
        )
    return number


def whole_number_from(name: str, default: int, least: int = 0) -> int:
    """Return the whole number that a variable is set to, as `number_from`."""
    number = number_from(name, default, least)
    if number != int(number):
        raise UsageError(
            f"{name} = {number!r} is not a whole number.",
            hint=f"It is an environment variable: set it to one, or take it away: unset {name}",
        )
    return int(number)


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for the duration of the context."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
