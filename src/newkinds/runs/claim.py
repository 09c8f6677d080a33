"""Which folder a run may be made or continued in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newkinds import assignment
from newkinds.errors import RunError, UsageError
from newkinds.files import is_temporary
from newkinds.runs import names


def check_writable(path: Path) -> None:
    """Raise an error if a run folder cannot be made at `path`; make nothing."""
    ancestor = path
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise _unwritable(path, f"{ancestor} is not a folder")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise _unwritable(path, f"permission denied for {ancestor}")


def make_folder(path: Path) -> None:
    """Make the folder of a run if it is missing; refuse one that holds something else, before anything is touched."""
    check_writable(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None
    there = {entry.name for entry in path.iterdir()}
    begun = {names.LOCK, names.SETTINGS, *filter(is_temporary, there)}
    # A run takes its lock first: a settings.toml alone is the user's own file.
    if there and names.ABOUT not in there and (names.LOCK not in there or there - begun):
        raise RunError(f"{path} is not empty and is not a run folder.", hint="Choose another folder with --out.")


def check_table(path: Path) -> None:
    """Raise an error unless a table of kinds can be written to a path: over an older one at most, and none of a run."""
    assignment.check_table(path)
    if path.exists() and (path.parent / names.ABOUT).exists():
        raise UsageError(f"{path} is a file of a run, and is left as it is.", hint="Choose another place for it.")


def check_same(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Refuse to continue the run at `path` if its settings and data are not those asked for now, both nested."""
    there, now = flat(theirs), flat(ours)
    differing = [
        f"{key} ({there.get(key)!r} there, {now.get(key)!r} now)"
        for key in sorted(there | now)
        if there.get(key) != now.get(key)
    ]
    if differing:
        raise UsageError(
            f"{path} holds a run made with other data or settings: {', '.join(differing)}.",
            hint="Choose another folder with --out, or ask for the same as before.",
        )


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values under dotted keys."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result


def _unwritable(path: Path, why: str) -> RunError:
    return RunError(f"The run folder {path} cannot be written: {why}.", hint="Choose another with --out.")
