"""The true kinds of pictures, where somebody knows them: for scores only, never for training."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.errors import DataError, UsageError
from newkinds.images import ImageSet

UNKNOWN = ""  # the truth of a picture that nobody has named


def read_truth(truth: str | Path, images: ImageSet) -> tuple[str, ...]:
    """Return the true kind of each picture, "" where it is not known.

    truth: "folders" takes the folder that a picture lies in (the first below the source), or the labels of an array
    file or a named set; anything else is a CSV file with the columns `path` and `kind`.
    """
    if str(truth) != "folders":
        return _from_csv(Path(truth), images)
    if images.labels is not None:
        return tuple(images.classes[label] for label in images.labels)
    if not any("/" in name for name in images.names):
        raise UsageError(
            f"{images.source} has no folders that could tell the true kinds.",
            hint="Give a CSV file with the columns path and kind to --truth, or leave it out.",
        )
    return tuple(name.split("/", 1)[0] if "/" in name else UNKNOWN for name in images.names)


def as_numbers(truth: tuple[str, ...]) -> NDArray[np.int64]:
    """Return true kinds as numbers, int64 (N,), -1 where they are not known."""
    numbers = {kind: number for number, kind in enumerate(sorted(set(truth) - {UNKNOWN}))}
    return np.array([numbers.get(kind, -1) for kind in truth], dtype=np.int64)


def _from_csv(path: Path, images: ImageSet) -> tuple[str, ...]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = {"path", "kind"} - set(reader.fieldnames or ())
            if missing:
                raise DataError(
                    f"{path} has the columns {reader.fieldnames}; {', '.join(sorted(missing))} is missing.",
                    hint="Give a CSV file whose first line is path,kind.",
                )
            kinds = {row["path"]: row["kind"] or UNKNOWN for row in reader}
    except OSError as error:
        raise UsageError(
            f"The truth {str(path)!r} cannot be read: {error.strerror}.",
            hint="Give 'folders' or a CSV file to --truth.",
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file in UTF-8: {error}.", hint="Save it as CSV, UTF-8.") from None
    truth = tuple(kinds.get(name, UNKNOWN) for name in images.names)
    if not any(truth):
        raise DataError(
            f"None of the {len(kinds)} paths in {path} is one of the {len(images)} pictures, such as "
            f"{images.names[0]!r}.",
            hint="Write paths as they stand in kinds.csv.",
        )
    return truth
