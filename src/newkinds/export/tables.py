"""Tables with a row for each picture: its kind, the probability, and the runner-up."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from newkinds.assignment import Assignment
from newkinds.cells import safe_cell

COLUMNS = ("path", "kind", "name", "probability", "runner_up", "runner_up_name", "runner_up_probability")


def csv_bytes(found: Assignment, called: Sequence[str]) -> bytes:
    """Return a CSV table with COLUMNS, each text a `safe_cell`. called: the name of each kind."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for _, row in rows_of(found, called):
        cells = (f"{value:.6f}" if isinstance(value, float) else value for value in row.values())
        writer.writerow(safe_cell(cell) if isinstance(cell, str) else cell for cell in cells)
    return buffer.getvalue().encode()


def jsonl_bytes(found: Assignment, called: Sequence[str]) -> bytes:
    """Return a JSON object a line with COLUMNS and "probabilities", those of all kinds by their numbers.

    The numbers are exact to the last bit of float32.
    """
    buffer = io.StringIO()
    for item, row in rows_of(found, called):
        values = {key: exact(value) if isinstance(value, float) else value for key, value in row.items()}
        values["probabilities"] = [exact(p) for p in found.probabilities[item].tolist()]
        buffer.write(json.dumps(values, ensure_ascii=False) + "\n")
    return buffer.getvalue().encode()


def rows_of(found: Assignment, called: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each picture and its values by COLUMNS; there is no runner-up if there is one kind."""
    for item, (path, row) in enumerate(zip(found.names, found.probabilities, strict=True)):
        first, *others = np.argsort(-row, kind="stable")[:2].tolist()
        values: list[Any] = [path, found.columns[first], called[first], float(row[first])]
        for other in others:
            values += [found.columns[other], called[other], float(row[other])]
        values += [None] * (len(COLUMNS) - len(values))
        yield item, dict(zip(COLUMNS, values, strict=True))


def exact(probability: float) -> float:
    """Return a float32 with as many digits as it takes to read the same float32 again."""
    return float(f"{probability:.9g}")
