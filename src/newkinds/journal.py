"""What people said about a run: listed, taken back, done again, imported."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from newkinds.arguments import plain_arguments
from newkinds.cells import plain_cell
from newkinds.corrections import parse_action
from newkinds.corrections.actions import Said
from newkinds.corrections.imports import as_action, names_as_action, read_pairs
from newkinds.corrections.names_file import is_names_file
from newkinds.errors import DataError, RunError, UsageError, check_whole
from newkinds.files import as_path
from newkinds.images.tables import read_table
from newkinds.progress import Progress, automatic
from newkinds.runs import RunFolder, names
from newkinds.runs.following import answer_by, follow
from newkinds.runs.journal import Journal
from newkinds.runs.results import restore_table


@plain_arguments
def journal(
    run: str | Path,
    *,
    say: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    undo: bool = False,
    redo: bool = False,
    times: int = 1,
    take: str | Path | None = None,
    confirm: bool = False,
    mend: bool = False,
    progress: Progress | None = None,
) -> Journal:
    """Return the journal of a run, after doing one thing with it, if asked. `lines` has all that was said.

    Args:
        run: the run folder.
        say: one action or several, as plain values: {"do": "move", "pictures": ["a.jpg"], "to": "new:3"}. All of them
            are written, or none.
        undo, redo: take the last action back, or do again what was undone last.
        times: as many of them.
        take: a file of corrections made elsewhere, which become one action: a CSV or Parquet table with path and kind,
            a JSON export of Label Studio, or the names file that the run's page saved.
        confirm: whether pictures of `take` that are of that kind already are confirmed; those of Label Studio always
            are.
        mend: put what is broken in the journal aside.
        progress: as in `discover`.
    """
    asked = sum((say is not None, undo, redo, take is not None, mend))
    if asked > 1:
        raise UsageError("One thing at a time: undo, redo, import or mend.", hint="Ask for one, then for the next.")
    check_whole("times", times, 1, "Say how many actions.")
    if times > 1 and not (undo or redo):
        raise UsageError(f"times = {times} of what is not said.", hint="Ask for undo or redo, or leave it out.")
    if confirm and take is None:
        raise UsageError("There is no file whose rows could be confirmed.", hint="Name one to import.")
    progress, folder = automatic(progress), RunFolder.open(as_path(run))
    with _edited(folder, take) as take:
        return _done(folder, say, undo, redo, times, take, confirm, mend, progress, follows=asked > 0)


def _done(
    folder: RunFolder,
    say: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    undo: bool,
    redo: bool,
    times: int,
    take: str | Path | None,
    confirm: bool,
    mend: bool,
    progress: Progress,
    *,
    follows: bool,
) -> Journal:
    """Do what was asked for; the arguments are those of `journal`. follows: whether kinds.csv is to follow it."""
    found = Journal.mended(folder) if mend else Journal.open(folder, progress)
    if say is not None:
        found.say(*map(_action, say if isinstance(say, list | tuple) else [say]))
    elif undo:
        found.undo(times)
    elif redo:
        found.redo(times)
    elif take is not None:
        if is_names_file(as_path(take)):
            action = names_as_action(as_path(take), found.state)
        else:
            pairs, looked = read_pairs(as_path(take), found.state)
            action = as_action(
                pairs, found.state, confirm=confirm or looked, note=f"imported from {as_path(take).name}"
            )
        if action is None:
            progress.say(f"{take} says nothing new.")
        else:
            found.say(action, base=found.last)
    if follows:
        _follow(folder.path, progress, mend=mend)
    return found


@contextmanager
def _edited(folder: RunFolder, take: str | Path | None) -> Iterator[str | Path | None]:
    """Yield the file to import. If that is the run's own kinds.csv, changed by a person: a copy, after restoring it."""
    own = folder.path / names.KINDS
    if take is None or folder.has(names.KINDS) or not own.is_file() or not os.path.samefile(own, take):
        yield take
        return
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copy(own, Path(place) / own.name))
        paths = [plain_cell(row.path) for row in read_table(copy, labelled=True)]
        with RunFolder.open(folder.path, writing=True) as writing:
            if not restore_table(writing, paths):
                raise DataError(
                    f"{own} was changed, and its paths are not those of the run's pictures in their order.",
                    hint="Change nothing but the column kind; or import a copy, after the same `newkinds discover` has "
                    "made the file anew.",
                )
        yield copy


def _action(values: Mapping[str, Any]) -> Said:
    if not isinstance(values, Mapping):
        raise UsageError(
            f"{values!r:.60} is no action.", hint='Say {"do": "name", "kind": "new:0", "name": "star"}, say.'
        )
    return parse_action(dict(values))


def _follow(run: Path, progress: Progress, *, mend: bool) -> None:
    """Bring kinds.csv up to date, unless somebody works in the folder: what was said is saved already.

    mend: whether lines that it went by may be gone.
    """
    try:
        with RunFolder.open(run, writing=True) as folder:
            follow(folder, answer_by(Journal.mended(folder)) if mend else None)
    except RunError as error:
        progress.warn(f"It is saved, but kinds.csv does not follow yet: {error.message}")
