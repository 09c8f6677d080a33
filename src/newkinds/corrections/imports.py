"""Corrections made elsewhere: a table of paths and kinds, or what Label Studio exports, as one action."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from scipy.optimize import linear_sum_assignment

from newkinds.assignment import NONE, known_kind, new_kind
from newkinds.cells import by_cell
from newkinds.corrections.actions import FRESH, Batch, Confirm, Move, Name, Single, clean_name
from newkinds.corrections.names_file import read_names_file
from newkinds.corrections.state import State
from newkinds.errors import DataError
from newkinds.files import read_plain
from newkinds.images.tables import read_table

MOST_BYTES = 1 << 28  # of a file of Label Studio's
CHOICES = ("kind", "choice", "label")  # what the choice may be called in Label Studio's short form
_SHOWN = 3
_LABEL_STUDIO = "Export from Label Studio as JSON, with one choice for each picture."
_UPLOADED = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts before the name of a file that is uploaded

Pairs = Sequence[tuple[str, str]]


def kind_title(kind: str, called: Mapping[str, str] | None = None) -> str:
    """Return what a kind is called outside: its name, or "kind-3" of new:3; that of a known kind; "none"."""
    name = (called or {}).get(kind)
    return name or (f"kind-{kind[4:]}" if kind.startswith("new:") else kind.partition(":")[2] or kind)


def read_pairs(path: Path, state: State) -> tuple[list[tuple[str, str]], bool]:
    """Return picture and kind of each row of a file that says one, and whether a person has looked at all of them.

    A .json file is Label Studio's, where each annotation is a person's; others are tables with path and kind. Raises a
    DataError if a picture is not of the run, is there twice, or the file cannot be read.
    """
    studio = path.suffix.lower() == ".json"
    rows = _from_label_studio(path, state) if studio else _from_table(path)
    cells = by_cell(state.names)
    pairs = {}
    unknown, twice = [], []
    for name, kind in rows:
        picture = cells.get(name)
        if picture is None:
            unknown.append(name)
        elif picture in pairs:
            twice.append(picture)
        else:
            pairs[picture] = kind
    for wrong, what in ((unknown, f"not among the {len(state)} pictures of the run"), (twice, "there more than once")):
        if wrong:
            more = f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
            shown = ", ".join(map(repr, wrong[:_SHOWN]))
            raise DataError(
                f"{path} speaks of pictures that are {what}: {shown}{more}. Nothing was imported.",
                hint="Write paths as they stand in kinds.csv, each once; take the others out.",
            )
    if not pairs:
        raise DataError(f"{path} says of no picture which kind it is.", hint="Write kinds beside the paths.")
    return list(pairs.items()), studio


def names_as_action(path: Path, state: State) -> Batch | None:
    """Return what gives kinds the names in a names file of the run's page, None if they all have them already."""
    actions: list[Single] = []
    for key, name in read_names_file(path).names.items():
        kind = new_kind(int(key)) if re.fullmatch(r"0|[1-9][0-9]{0,8}", key) else key
        if not kind.startswith("new:") or not state.exists(kind):
            raise DataError(
                f"{path} names a kind that the run does not have: {key!r}. Nothing was imported.",
                hint="Use the names file of this run's page.",
            )
        kind, name = state.current(kind), _clean(name)
        if name and state.called.get(kind) != name:
            actions.append(Name(kind=kind, name=name))
    return Batch(actions=tuple(actions), note=f"names from {path.name}: {len(actions):,}") if actions else None


def as_action(pairs: Pairs, state: State, *, confirm: bool, note: str) -> Batch | None:
    """Return what makes the pictures be of these kinds, None if they all are already.

    A kind is one of the run's, "new:3", "known:bolt" or "none", or a name: that of a kind; or of one that has no name
    yet, if most of what is said of its pictures is that; or of one that is made. confirm: whether pictures that are of
    that kind already are confirmed.
    """
    named = {state.called[kind]: kind for kind in sorted(state.called, reverse=True) if kind not in state.merged}
    meant = {label: _kind_of(label, state, named) for label in dict.fromkeys(label for _, label in pairs)}
    titles = {label: _clean(label) for label, kind in meant.items() if kind is None}
    names = _named_by(pairs, titles, state)
    moves: dict[str, list[str]] = {}
    stays: dict[str, list[str]] = {}
    fresh: dict[str, str] = {}
    for picture, label in pairs:
        kind = meant[label]
        if kind is None and titles[label] in names:
            kind = names[titles[label]]
        if kind is None:
            kind = fresh.setdefault(titles[label], f"{FRESH}:{len(fresh)}")
        stay = state.kind_of(picture) == kind
        if not stay:
            moves.setdefault(kind, []).append(picture)
        elif confirm and not state.confirmed[state.rows[picture]]:
            stays.setdefault(kind, []).append(picture)
    actions: list[Single] = [Move(pictures=tuple(pictures), to=kind) for kind, pictures in moves.items()]
    actions += [Name(kind=kind, name=name) for name, kind in {**fresh, **names}.items()]
    actions += [Confirm(kind=kind, pictures=tuple(pictures)) for kind, pictures in stays.items()]
    if not actions:
        return None
    moved, kept = sum(map(len, moves.values())), sum(map(len, stays.values()))
    told = f"{note}: {moved:,} pictures moved, {kept:,} confirmed, {len(names):,} kinds named, {len(fresh):,} made"
    return Batch(actions=tuple(actions), note=told[:1000])


def _named_by(pairs: Pairs, titles: Mapping[str, str], state: State) -> dict[str, str]:
    """Return which kinds without a name get one of these: those of whose pictures most are said to be that.

    titles: the names that no kind has yet, by what stands in the file. Names and kinds are matched one to one, so that
    as many pictures as possible stay where they are.
    """
    now = [state.kind_of(picture) for picture, _ in pairs]
    said = Counter(now)
    may = [kind for kind in said if kind.startswith("new:") and not state.name_of(kind)]
    open_ = {kind: place for place, kind in enumerate(one for one in may if state.status.get(one) != "rejected")}
    wanted = {name: place for place, name in enumerate(dict.fromkeys(titles.values()))}
    counts = np.zeros((len(wanted), len(open_)), dtype=np.int64)
    for kind, (_, label) in zip(now, pairs, strict=True):
        if label in titles and kind in open_:
            counts[wanted[titles[label]], open_[kind]] += 1
    rows, columns = linear_sum_assignment(counts, maximize=True)
    names, kinds = list(wanted), list(open_)
    matched = zip(rows.tolist(), columns.tolist(), strict=True)
    return {names[row]: kinds[place] for row, place in matched if 2 * counts[row, place] > said[kinds[place]]}


def _kind_of(label: str, state: State, named: Mapping[str, str]) -> str | None:
    """Return the kind of the run that a label means, None if there is none yet."""
    if state.exists(label):
        return state.current(label)
    if label in named:
        return named[label]
    if state.exists(known_kind(label)):
        return known_kind(label)
    number = label.removeprefix("kind-")
    plain = new_kind(int(number)) if label.startswith("kind-") and number.isdecimal() else NONE
    if plain != NONE and state.exists(plain):
        return state.current(plain)
    if re.match(r"(new|known):", label):
        raise DataError(
            f"There is no kind {label!r} in the run. Nothing was imported.",
            hint="Write a kind that it has, or a name alone for one that is to be made.",
        )
    return None


def _clean(label: str) -> str:
    try:
        return clean_name(label)
    except ValueError as error:
        what = f"{label[:40]!r} cannot be the name of a kind: {error}. Nothing was imported."
        raise DataError(what, hint="Write a shorter name.") from None


def _from_table(path: Path) -> Iterator[tuple[str, str]]:
    for row in read_table(path, labelled=True):
        if row.label is not None and str(row.label).strip():
            yield row.path, str(row.label).strip()


def _from_label_studio(path: Path, state: State) -> Iterator[tuple[str, str]]:
    try:
        tasks = json.loads(read_plain(path, MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", hint="Look whether it is there.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}.", hint=_LABEL_STUDIO) from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(f"{path} is not a list of tasks.", hint=_LABEL_STUDIO)
    ends = _by_last_part(state.names)
    for task in tasks:
        chosen = _choice(task)
        if chosen is not None:
            yield _picture(task, state, ends), chosen


def _choice(task: Mapping[str, Any]) -> str | None:
    """Return the choice of the last annotation of a task that was not cancelled, None if there is none."""
    annotations = task.get("annotations")
    if not isinstance(annotations, list):  # the short form has the choice itself
        given = next((task[key] for key in CHOICES if key in task), None)
        several = given.get("choices") if isinstance(given, dict) else None
        given = several[0] if isinstance(several, list) and several else given
        return given.strip() or None if isinstance(given, str) else None
    for annotation in reversed(annotations):
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        results = annotation.get("result")
        for result in results if isinstance(results, list) else ():
            value = result.get("value") if isinstance(result, dict) and result.get("type") == "choices" else None
            choices = value.get("choices") if isinstance(value, dict) else None
            if isinstance(choices, list) and choices and isinstance(choices[0], str):
                return choices[0].strip() or None
    return None


def _picture(task: Mapping[str, Any], state: State, ends: Mapping[str, str]) -> str:
    """Return the picture of a task: as our own export names it, or by the address of its image."""
    data = task.get("data") if isinstance(task.get("data"), dict) else task
    assert isinstance(data, dict)
    for key in ("path", "image"):
        given = data.get(key)
        if not isinstance(given, str):
            continue
        try:
            parts = urlsplit(given)
            asked = parse_qs(parts.query).get("d", [""])[0]
        except ValueError:  # no address, such as "//[a].jpg"
            parts, asked = urlsplit(""), given
        for name in (given, asked, unquote(parts.path).lstrip("/")):
            if name in state.rows:
                return name
        last = (asked or unquote(parts.path)).rpartition("/")[2]
        for name in (last, _UPLOADED.sub("", last, count=1)):
            if ends.get(name):
                return ends[name]
    return str(data.get("path") or data.get("image") or f"task {task.get('id')}")


def _by_last_part(names: Sequence[str]) -> dict[str, str]:
    """Return pictures by the last part of their names, "" where several share it."""
    found: dict[str, str] = {}
    for name in names:
        last = name.rpartition("/")[2]
        found[last] = "" if last in found else name
    return found
