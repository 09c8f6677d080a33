"""Names of kinds: from a names file, for tables, and as folders."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from newkinds.errors import DataError, UsageError
from newkinds.progress import Progress
from newkinds.report.text import visible

LONGEST = 255  # bytes of a file's name, on nearly all systems
MOST_BYTES = 10_000_000  # of a names file

_EXPECTED = 'A names file is JSON: {"newkinds": "names", "run": "shop", "names": {"0": "circle", "3": "star"}}.'
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f/\\<>:"|?*]')  # on Windows; a slash on all systems
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?", re.IGNORECASE | re.DOTALL)
_HIDDEN = ("thumbs.db", "desktop.ini", "__macosx", "@eadir")  # folders of these names are skipped, see images/scan.py


def read_names(path: Path | None, kinds: int, title: str, progress: Progress) -> tuple[str, ...]:
    """Return the name of each kind: from a names file, otherwise "kind-0" and so on.

    kinds: how many the run has. title: the run's; a file that was made for another one causes a warning.
    """
    given = {} if path is None else _given(path, title, progress)
    unknown = sorted(set(given) - {str(kind) for kind in range(kinds)})
    if unknown:
        some = ", ".join(repr(visible(kind)) for kind in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise UsageError(
            f"{path} names kinds that the run does not have: {some}.",
            hint=f"Its kinds are 0 to {kinds - 1}: use the names file of this run's page.",
        )
    called = tuple(given.get(str(kind)) or f"kind-{kind}" for kind in range(kinds))
    _refuse_twins(called, called, "have the same name")
    return called


def folder_names(called: Sequence[str], progress: Progress) -> tuple[str, ...]:
    """Return a folder name for each kind: a single path component, valid and distinct on any system."""
    folders = tuple(map(safe_component, called))
    for kind, (name, folder) in enumerate(zip(called, folders, strict=True)):
        length = len(folder.encode())
        if length > LONGEST:
            raise UsageError(
                f"The name of kind {kind} has {length} bytes, a folder's may have {LONGEST}: {name[:40]!r}...",
                hint="Shorten it in the names file.",
            )
        if name != folder:
            progress.warn(f"The folder of kind {kind}, {name!r}, is called {folder!r}: a folder cannot be called that.")
    _refuse_twins(folders, tuple(map(fold, folders)), "would share the folder")
    return folders


def safe_component(name: str) -> str:
    """Return a name that is a valid, visible path component on Linux, macOS and Windows; mostly the name itself."""
    name = _FORBIDDEN.sub("_", visible(name)).rstrip(". ")
    if name.startswith("."):
        name = f"_{name[1:]}"
    return f"_{name}" if not name or _RESERVED.fullmatch(name) or name.lower() in _HIDDEN else name


def fold(name: str) -> str:
    """Return a key that is equal for names that some file systems treat as equal."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _given(path: Path, title: str, progress: Progress) -> dict[str, str]:
    """Return the names in a names file by kind, without those that are blank."""
    content = _read(path)
    names = content.get("names") if isinstance(content, dict) and content.get("newkinds") == "names" else None
    if not isinstance(names, dict) or not isinstance(content.get("run", ""), str):
        raise DataError(f"{path} is not a names file.", hint=_EXPECTED)
    wrong = [kind for kind, name in names.items() if not isinstance(name, str)]
    if wrong:
        what = f"{path} should have a text as the name of kind {visible(wrong[0])!r}, not {names[wrong[0]]!r:.60}."
        raise DataError(what, hint=_EXPECTED)
    run = content.get("run", title)
    if run != title:
        progress.warn(f"{path} has the names of the run {visible(run)!r}, this is {title!r}.")
    clean = {kind: visible(unicodedata.normalize("NFC", name).strip()) for kind, name in names.items()}
    return {kind: name for kind, name in clean.items() if name}


def _read(path: Path) -> Any:
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise DataError(f"The names file {path} {what}.", hint="Give the file that the run's page saved.")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, {MOST_BYTES:,} are allowed")
        return json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=_no_repeats)
    except OSError as error:
        hint = "Look at its permissions."
        raise DataError(f"The names file {path} cannot be read: {error.strerror}.", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a names file: {error}.", hint=_EXPECTED) from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{visible(twice)!r} stands in it twice")
    return table


def _refuse_twins(names: Sequence[str], keys: Sequence[str], what: str) -> None:
    first: dict[str, int] = {}
    for kind, key in enumerate(keys):
        other = first.setdefault(key, kind)
        if other != kind:
            raise UsageError(
                f"The kinds {other} and {kind} {what} {names[kind]!r}.",
                hint="Give each a name of its own in the names file.",
            )
