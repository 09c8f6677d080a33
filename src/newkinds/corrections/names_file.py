"""Names files: what people call kinds, as the page of a run saves it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from newkinds.errors import DataError
from newkinds.files import read_plain

MOST_BYTES = 10_000_000

_EXPECTED = 'A names file is JSON: {"newkinds": "names", "run": "shop", "names": {"0": "circle", "3": "star"}}.'


@dataclass(frozen=True)
class NamesFile:
    """The names in a file, by the number of the kind, as they were typed; run: the title of the run, if it is said."""

    names: Mapping[str, str]
    run: str | None


def is_names_file(path: Path) -> bool:
    """Return whether a file is one of names, by its content; what cannot be read is none."""
    try:
        content = json.loads(read_plain(path, MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("newkinds") == "names"


def read_names_file(path: Path) -> NamesFile:
    """Return what a names file says, or raise a DataError."""
    content = _read(path)
    names = content.get("names") if isinstance(content, dict) and content.get("newkinds") == "names" else None
    if not isinstance(names, dict) or not isinstance(content.get("run", ""), str):
        raise DataError(f"{path} is not a names file.", hint=_EXPECTED)
    wrong = [kind for kind, name in names.items() if not isinstance(name, str)]
    if wrong:
        what = f"{path} should have a text as the name of kind {wrong[0]!r}, not {names[wrong[0]]!r:.60}."
        raise DataError(what, hint=_EXPECTED)
    return NamesFile(names, content.get("run"))


def _read(path: Path) -> Any:
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise DataError(f"The names file {path} {what}.", hint="Give the file that the run's page saved.")
    try:
        return json.loads(read_plain(path, MOST_BYTES).decode("utf-8-sig"), object_pairs_hook=_no_repeats)
    except OSError as error:
        hint = "Give the file that the run's page saved."
        raise DataError(f"The names file {path} cannot be read: {error.strerror}.", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a names file: {error}.", hint=_EXPECTED) from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{twice!r} stands in it twice")
    return table
