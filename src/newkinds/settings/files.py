"""Reading settings from nested values and TOML, with errors that say what is wrong and what is valid."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from newkinds.errors import UsageError
from newkinds.files import read_plain
from newkinds.settings.base import Section
from newkinds.settings.names import ALL_HINT, unknown_settings

MOST_BYTES = 10_000_000  # of a file of settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

S = TypeVar("S", bound=Section)


def merge(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values with dotted keys replaced."""
    merged: dict[str, Any] = {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
    for dotted, value in changes.items():
        *sections, last = dotted.split(".")
        inner = merged
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise UsageError(f"Unknown setting {dotted!r}: {section!r} is not a section.", hint=ALL_HINT)
        inner[last] = value
    return merged


def checked(model: type[S], values: Mapping[str, Any]) -> S:
    """Return nested values as a section, or an error that names each bad key, its value and what is valid."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"Bad settings: {'; '.join(_complaints(error, model))}.", hint=ALL_HINT) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the nested values of TOML; raise a TOMLDecodeError, which is a ValueError, if it is not that."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("too deeply nested") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the nested values of a TOML file."""
    try:
        return parse_toml(read_plain(path, MOST_BYTES).decode())
    except OSError as error:
        raise UsageError(
            f"The settings file {path} cannot be read: {error.strerror}.", hint="Check the path."
        ) from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise UsageError(
            f"The settings file {path} is not TOML: {error}.", hint="`newkinds settings` shows what one looks like."
        ) from None


def parse_value(text: str) -> Any:
    """Return a value written as in TOML; anything that is not TOML is taken as text, so that quotes may be omitted."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


_MEMBER = re.compile(r"(constrained-)?(int|float|bool|str)|literal\[.*\]")


def _complaints(error: ValidationError, settings: type[Section]) -> list[str]:
    complaints: dict[str, str] = {}
    for problem in error.errors():
        # A union reports one problem for each of its members, and appends the member to the key: one line is enough.
        path = [str(part) for part in problem["loc"]]
        if _MEMBER.fullmatch(path[-1]) and problem["type"] != "extra_forbidden":
            path.pop()
        key = ".".join(path)
        if problem["type"] == "extra_forbidden":
            complaints |= unknown_settings(settings, key, problem["input"])
        elif key not in complaints:
            text = problem["msg"].removeprefix("Value error, ")
            complaints[key] = f"{key} = {problem['input']!r}: {text}"
        elif problem["type"] == "literal_error":
            complaints[key] += f", or {problem['ctx']['expected']}"
    return [text.rstrip(".") for text in complaints.values()]
