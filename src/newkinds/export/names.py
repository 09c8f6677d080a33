"""Names of kinds: from a names file, for tables, and as folders."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from newkinds.assignment import Assignment
from newkinds.corrections.corrected import in_order, united
from newkinds.corrections.imports import kind_title
from newkinds.corrections.names_file import read_names_file
from newkinds.corrections.state import remains
from newkinds.errors import UsageError
from newkinds.progress import Progress
from newkinds.report.text import visible

LONGEST = 255  # bytes of a file's name, on nearly all systems

_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f/\\<>:"|?*]')  # on Windows; a slash on all systems
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?", re.IGNORECASE | re.DOTALL)
_HIDDEN = ("thumbs.db", "desktop.ini", "__macosx", "@eadir")  # folders of these names are skipped, see images/scan.py


def read_names(
    path: Path | None, columns: Sequence[str], said: Mapping[str, str], title: str, progress: Progress
) -> dict[str, str]:
    """Return the names that kinds were given: in a names file, and in the run's journal where that has none.

    columns: the run's kinds; a names file has the numbers of new ones. said: what the journal has. title: the run's; a
    file that was made for another one causes a warning.
    """
    given = {} if path is None else _given(path, title, progress)
    keys = {column.removeprefix("new:"): column for column in columns if column.startswith("new:")}
    unknown = sorted(set(given) - keys.keys())
    if unknown:
        some = ", ".join(repr(visible(kind)) for kind in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise UsageError(
            f"{path} names kinds that the run does not have: {some}.",
            hint=f"Its kinds are {_in_short(list(keys))}: use the names file of this run's page.",
        )
    known = {column: column.partition(":")[2] for column in columns if column.startswith("known:")}
    said = {kind: said[kind] for kind in columns if kind in said}
    return {**said, **known, **{keys[key]: name for key, name in given.items()}}


def unite_namesakes(
    found: Assignment, given: Mapping[str, str], progress: Progress
) -> tuple[Assignment, tuple[str, ...]]:
    """Return the answer with kinds of one name as one kind, after saying so, and what each kind is called.

    given: the names that kinds were given; others are called "kind-3", and no given name may be one of these.
    """
    same: dict[str, list[str]] = {}
    for column in in_order(given):
        same.setdefault(given[column], []).append(column)
    target = {column: column for column in found.columns}
    for name, kinds in same.items():
        if len(kinds) > 1:
            kept = remains(kinds)
            target |= dict.fromkeys(kinds, kept)
            every = "both" if len(kinds) == 2 else "all"
            progress.warn(f"{' and '.join(kinds)} are {every} called {name!r}: they are exported as one kind, {kept}.")
    if any(column != kept for column, kept in target.items()):
        found = united(found, target)
    called = tuple(kind_title(column, given) for column in found.columns)
    _refuse_twins(found.columns, called, called, "have the same name")
    return found, called


def folder_names(columns: Sequence[str], called: Sequence[str], progress: Progress) -> tuple[str, ...]:
    """Return a folder name for each kind: a single path component, valid and distinct on any system."""
    folders = tuple(map(safe_component, called))
    for column, name, folder in zip(columns, called, folders, strict=True):
        kind = column.removeprefix("new:")
        length = len(folder.encode())
        if length > LONGEST:
            raise UsageError(
                f"The name of kind {kind} has {length} bytes, a folder's may have {LONGEST}: {name[:40]!r}...",
                hint="Shorten it in the names file.",
            )
        if name != folder:
            progress.warn(f"The folder of kind {kind}, {name!r}, is called {folder!r}: a folder cannot be called that.")
    _refuse_twins(columns, folders, tuple(map(fold, folders)), "would share the folder")
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
    found = read_names_file(path)
    if found.run is not None and found.run != title:
        progress.warn(f"{path} has the names of the run {visible(found.run)!r}, this is {title!r}.")
    clean = {kind: visible(unicodedata.normalize("NFC", name).strip()) for kind, name in found.names.items()}
    return {kind: name for kind, name in clean.items() if name}


def _in_short(numbers: Sequence[str]) -> str:
    whole = [str(number) for number in range(len(numbers))]
    return f"0 to {len(numbers) - 1}" if list(numbers) == whole else ", ".join(numbers[:20])


def _refuse_twins(columns: Sequence[str], names: Sequence[str], keys: Sequence[str], what: str) -> None:
    first: dict[str, int] = {}
    for kind, key in enumerate(keys):
        other = first.setdefault(key, kind)
        if other != kind:
            pair = " and ".join(columns[one].removeprefix("new:") for one in (other, kind))
            raise UsageError(
                f"The kinds {pair} {what} {names[kind]!r}.", hint="Give each a name of its own in the names file."
            )
