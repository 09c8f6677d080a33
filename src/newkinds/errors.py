"""Exceptions, which say the value, the limit and the way out.

Every error that a user can cause is a `NewkindsError`. Its text is one or two sentences on what is wrong, its `hint`
is the way out: the command line prints the hint as the last line and leaves with `exit_code`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral


class NewkindsError(Exception):
    """The base of all errors that newkinds raises on purpose."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class DataError(NewkindsError):
    """The pictures, arrays or weights given cannot be used."""


class NumericsError(NewkindsError):
    """A loss, a feature or a weight is not finite."""


class OutOfMemoryError(NewkindsError):
    """A device has too little memory for the computation."""


class RunError(NewkindsError):
    """The run folder cannot be written, is in use, or belongs to another run."""


class HopelessError(NewkindsError):
    """Rehearsals say that the pictures would not be sorted any better than by chance."""


class UsageError(NewkindsError, ValueError):
    """A value that the user asked for does not exist or is out of range."""

    exit_code = 2


def check_whole(name: str, value: object, least: int, hint: str) -> None:
    """Raise a UsageError unless a value is a whole number, and not less than `least`."""
    if type(value) is bool or not isinstance(value, Integral):
        raise UsageError(f"{name}={value!r:.60} should be a whole number.", hint=hint)
    if int(value) < least:
        raise UsageError(f"{name}={value} should be at least {least}.", hint=hint)


def unknown_name(what: str, name: str, valid: Iterable[str]) -> UsageError:
    """Return the error for a name that is not one of `valid`: it lists them all and suggests the nearest."""
    valid = sorted(valid)
    close = get_close_matches(str(name), valid, n=1)
    meant = f"Did you mean {close[0]!r}? " if close else ""
    return UsageError(f"Unknown {what} {name!r}.", hint=f"{meant}Valid: {', '.join(valid)}.")


def told(error: Exception) -> str:
    """Return what somebody else's error says, on one line: its class and the first of its words."""
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text[:300]}"
