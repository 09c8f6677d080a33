"""Ground truth, where it is known: for scores only, never for training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.cells import by_cell
from newkinds.errors import DataError, UsageError
from newkinds.files import as_path
from newkinds.images import ImageSet
from newkinds.images.tables import Row, read_table
from newkinds.progress import QUIET, Progress

UNKNOWN = ""  # of a picture without a label


def read_truth(truth: str | Path, images: ImageSet, progress: Progress = QUIET) -> tuple[str, ...]:
    """Return the true kind of each picture, "" where it is not known: it need not be known of all.

    truth: "folders" takes the folder that a picture lies in (the first below the source), or the labels of a list, of
    arrays or of a named set; anything else is a CSV or Parquet file with the columns `path` and `kind` (or `label`).
    progress: is told how many rows of a file name none of the pictures.
    """
    if str(truth) != "folders":
        return _from_table(as_path(truth), images, progress)
    if images.labels is not None:
        return tuple(images.classes[label] for label in images.labels)
    kinds = tuple(name.split("/", 1)[0] if "/" in name else UNKNOWN for name in images.names)
    if not any(kinds):  # a list may have absolute paths, whose first folder is the root
        raise UsageError(
            f"{images.source} has no folders that could give the true kinds.",
            hint="Give a CSV file with the columns path and kind to --truth, or leave it out.",
        )
    return kinds


def as_numbers(truth: tuple[str, ...]) -> NDArray[np.int64]:
    """Return true kinds as numbers, int64 (N,), -1 where they are not known."""
    numbers = {kind: number for number, kind in enumerate(sorted(set(truth) - {UNKNOWN}))}
    return np.array([numbers.get(kind, -1) for kind in truth], dtype=np.int64)


def _from_table(path: Path, images: ImageSet, progress: Progress) -> tuple[str, ...]:
    if not path.is_file():
        why = "it is not a file" if path.exists() else "it does not exist"
        raise UsageError(
            f"The truth {str(path)!r} cannot be read: {why}.", hint="Give 'folders' or a CSV file to --truth."
        )
    kinds = _said_once(path, read_table(path, labelled=True))
    cells = by_cell(images.names)
    told = {cells[path]: kind for path, kind in kinds.items() if path in cells}
    truth = tuple(kinds.get(name, told.get(name, UNKNOWN)) for name in images.names)
    others = [path for path in kinds if path not in cells]
    if len(others) == len(kinds):
        raise DataError(
            f"None of the {len(kinds)} paths in {path} is one of the {len(images)} pictures, such as "
            f"{images.names[0]!r}.",
            hint="Write paths as they are in kinds.csv.",
        )
    if not any(truth):
        raise DataError(
            f"{path} gives no kind for any of the {len(images)} pictures.",
            hint="Write a kind next to each path whose truth is known.",
        )
    if others:
        progress.warn(
            f"Ignored {len(others)} of {len(kinds)} paths in {path}, because they name none of the "
            f"{len(images)} pictures: {others[0]!r}, for example."
        )
    return truth


def _said_once(path: Path, rows: Sequence[Row]) -> dict[str, str]:
    """Return the kind of each path, "" where it has none; a path may stand there again, but not with another kind."""
    kinds: dict[str, str] = {}
    for row in rows:
        kind = UNKNOWN if row.label is None else str(row.label)
        if kinds.setdefault(row.path, kind) != kind:
            raise DataError(
                f"{path} gives two kinds for {row.path!r}: {kinds[row.path]!r} and, in row {row.number}, {kind!r}.",
                hint="Remove one of the two.",
            )
    return kinds
