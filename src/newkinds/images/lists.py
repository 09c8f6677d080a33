"""Lists of picture files, with or without kinds: a CSV or Parquet file, paths given in Python, or a run's own list."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path, PurePath
from typing import Any

from newkinds.errors import DataError, UsageError
from newkinds.images.imageset import printable
from newkinds.images.tables import read_table

Kind = str | int
_Entry = tuple[str, str, Kind | None]  # its place, such as "row 7", the path as written, and the kind

SHOWN = 5  # rows named in an error message
SUFFIX = ".list.json"  # of the lists that `newkinds grow` keeps in a run folder


@dataclass(frozen=True)
class Listing:
    """A list of picture files, in the order of the list.

    source: the path of the list as it was given, or "120 paths". root: the folder that relative paths start at.
    names: N unique names, the paths as written, with forward slashes. paths: the N files. rows: where each is named,
    such as "row 7". kinds: the kind of each by name, "" where it is not known; None where the list has no kinds.
    """

    source: str
    root: Path
    names: tuple[str, ...]
    paths: tuple[Path, ...]
    rows: tuple[str, ...]
    kinds: Mapping[str, Kind] | None

    def check_there(self, there: Sequence[bool]) -> None:
        """Raise a DataError that names the rows whose files are missing. there: (N,), whether each file exists."""
        missing = [item for item, is_there in enumerate(there) if not is_there]
        if missing:
            files = _some(f"{self.rows[item]} ({self.names[item]})" for item in missing)
            what = "1 file does" if len(missing) == 1 else f"{len(missing)} files do"
            raise DataError(
                f"In {self.source}, {what} not exist: {files}.",
                hint=f"Relative paths start at {self.root.absolute()}. Mend the paths, or leave those rows out.",
            )


def is_list(path: Path) -> bool:
    """Return whether a path is a run's own list of pictures, judging by its suffix."""
    return path.name.endswith(SUFFIX) and not path.is_dir()


def list_to_json(names: Sequence[str], paths: Sequence[Path], kinds: Sequence[str] | None) -> bytes:
    """Return a list whose pictures have names of their own, as a run keeps it. kinds: "" where not known."""
    told = kinds or [""] * len(names)
    rows = [
        {"name": name, "path": os.fspath(path), **({"kind": kind} if kind else {})}
        for name, path, kind in zip(names, paths, told, strict=True)
    ]
    return (json.dumps({"pictures": rows}, indent=1, sort_keys=True) + "\n").encode()


def list_from_json(path: Path, *, labelled: bool = False) -> Listing:
    """Read a list that `list_to_json` wrote. labelled: every picture needs a kind, as in `list_from_table`."""
    entries: list[_Entry] = []
    names: list[str] = []
    try:
        for number, one in enumerate(json.loads(path.read_bytes())["pictures"]):
            texts = (one["name"], one["path"], one.get("kind", ""))
            if not all(isinstance(text, str) and "\0" not in text for text in texts) or not texts[0]:
                raise ValueError(f"picture {number} should have a name and a path")
            names.append(printable(texts[0]))
            entries.append((f"picture {number}", texts[1], texts[2] or None))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path} is no list of pictures ({error}).", hint="Take the run folder as it was made."
        ) from None
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}).", hint="Take the run folder as it was made."
        ) from None
    twice = next((name for name, number in Counter(names).items() if number > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two pictures called {twice!r}.", hint="Take the run folder as it was made.")
    return _listing(str(path), path.parent, entries, labelled, names)


def relocated(listing: Listing, place: Path) -> Listing:
    """Return a list in which files that are not where they were are looked for below a folder, by how their paths end.

    The longest end that is there counts: of /a/b/c.jpg, first PLACE/a/b/c.jpg, then PLACE/b/c.jpg, PLACE/c.jpg.
    """
    return replace(listing, paths=tuple(path if path.exists() else _moved(path, place) for path in listing.paths))


def _moved(path: Path, place: Path) -> Path:
    parts = PurePath(os.path.abspath(path)).parts[1:]
    ends = (place.joinpath(*parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end.is_file()), path)


def list_from_table(path: Path, *, labelled: bool = False) -> Listing:
    """Read a CSV or Parquet file with the column `path` and, for kinds, `label` or `kind`; see `read_table`.

    Relative paths start at the table's own folder. labelled: every row needs a label; otherwise labels are kept for
    scores, and rows may lack them.
    """
    entries = [(f"row {row.number}", row.path, row.label) for row in read_table(path, labelled=labelled)]
    return _listing(str(path), path.parent, entries, labelled)


def list_from_paths(paths: Sequence[Any], kinds: Sequence[Kind] | None = None, *, labelled: bool = False) -> Listing:
    """Return a list of paths, str or os.PathLike, with their kinds, if given."""
    known = [None] * len(paths) if kinds is None else kinds
    entries = [
        (f"item {item}", _as_text(path, f"item {item}"), kind)
        for item, (path, kind) in enumerate(zip(paths, known, strict=True))
    ]
    return _listing(_called(entries), Path(), entries, labelled)


def list_from_mapping(paths: Mapping[Any, Sequence[Any]], *, labelled: bool = False) -> Listing:
    """Return a list of paths from a mapping of kinds to paths. The kinds are all str, or all int from 0 on."""
    entries: list[_Entry] = []
    whole = all(isinstance(kind, Integral) and not isinstance(kind, bool) and int(kind) >= 0 for kind in paths)
    if not whole and not all(isinstance(kind, str) and kind for kind in paths):
        raise UsageError(
            f"The mapping has the kinds {_some(map(repr, paths))}; all should be strings, or whole numbers from 0 on.",
            hint='Give a mapping such as {"bolt": ["1.png", "2.png"]}.',
        )
    for kind, some in paths.items():
        if isinstance(some, str | os.PathLike) or not isinstance(some, Sequence):
            raise UsageError(
                f"The mapping has a {type(some).__name__} for the kind {kind!r}; a sequence of paths is needed.",
                hint='Give a mapping such as {"bolt": ["1.png", "2.png"]}, or the folder that has one folder a kind.',
            )
        for item, path in enumerate(some):
            where = f"item {item} of {kind!r}"
            entries.append((where, _as_text(path, where), int(kind) if whole else kind))
    return _listing(_called(entries), Path(), entries, labelled)


def _as_text(path: Any, where: str) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UsageError(
            f"In the paths, {where} is of type {type(path).__name__}; str or Path is needed.",
            hint="Give either paths or arrays, not both.",
        )
    return text


def _called(entries: Sequence[_Entry]) -> str:
    return f"{len(entries)} path{'' if len(entries) == 1 else 's'}"


def _listing(
    source: str, root: Path, entries: Sequence[_Entry], labelled: bool, called: Sequence[str] | None = None
) -> Listing:
    """Check the entries of a list, all but the files themselves. called: the names, where they are not the paths."""
    if not entries:
        raise DataError(f"There is no picture in {source}.", hint="Add the paths of the pictures.")
    empty = [where for where, path, _ in entries if not path]
    if empty:
        raise DataError(
            f"In {source}, there is no path in {_some(empty)}.", hint="Add the paths, or leave those rows out."
        )
    names = tuple(called or (printable(PurePath(path).as_posix()) for _, path, _ in entries))
    rows = tuple(where for where, _, _ in entries)
    _check_unique(source, root, names, entries)
    kinds: Mapping[str, Kind] | None = None
    unknown = [item for item, (_, _, kind) in enumerate(entries) if kind is None]
    if labelled and unknown:
        shown = _some(f"{rows[item]} ({names[item]})" for item in unknown)
        raise DataError(
            f"In {source}, {len(unknown)} of {len(entries)} pictures have no label: {shown}.",
            hint="Every known picture needs a kind: a label in its row; in Python, {kind: paths} or (paths, labels).",
        )
    if not unknown:
        kinds = {name: kind for name, (_, _, kind) in zip(names, entries, strict=True) if kind is not None}
    elif len(unknown) < len(entries):
        kinds = {name: "" if kind is None else str(kind) for name, (_, _, kind) in zip(names, entries, strict=True)}
    return Listing(source, root, names, tuple(root / path for _, path, _ in entries), rows, kinds)


def _check_unique(source: str, root: Path, names: Sequence[str], entries: Sequence[_Entry]) -> None:
    """Raise a DataError where two rows name the same file, or different files whose names print alike."""
    first: dict[str, int] = {}
    base = os.path.abspath(root)
    for item, (name, (where, path, _)) in enumerate(zip(names, entries, strict=True)):
        for key in (name, os.path.normpath(os.path.join(base, path))):
            before = first.setdefault(key, item)
            if before != item:
                raise DataError(
                    f"In {source}, {names[before]} stands in {entries[before][0]} and again in {where}.",
                    hint="Leave one of the two out.",
                )


def _some(things: Iterable[str]) -> str:
    """Return the first few of some things for an error message, and how many more there are."""
    every = list(things)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
