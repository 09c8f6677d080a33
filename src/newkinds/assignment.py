"""The one answer: which kind, known or new, each picture belongs to, and how probable each is."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from newkinds.cells import safe_cell
from newkinds.errors import DataError, UsageError
from newkinds.files import as_path, check_target, write_atomic

Sort = Literal["new", "known", "none"]
NONE = "none"  # the column of pictures that are of none of the kinds
HEADER = ("path", "kind", "probability", "runner_up")
_SHOWN = 10  # rows of a notebook's table


def check_table(path: str | Path) -> None:
    """Raise an error unless `Assignment.to_csv` can write to a path: nothing but a table like it may be there."""
    if as_path(path).suffix.lower() == ".parquet":
        raise UsageError(f"{path} is to be a CSV table.", hint="Give a name that ends in .csv.")
    check_target(as_path(path), f"{','.join(HEADER)}\n".encode())


def new_kind(number: int) -> str:
    """Return the column of a new kind: "new:3"."""
    return f"new:{number}"


def new_kinds(number: int) -> tuple[str, ...]:
    """Return the columns of so many new kinds, numbered from 0."""
    return tuple(map(new_kind, range(number)))


def known_kind(name: str) -> str:
    """Return the column of a known kind: "known:bolt"."""
    return f"known:{name}"


def sort_of(column: str) -> Sort:
    """Return whether a column is of a new kind, of a known one, or of none."""
    if column == NONE:
        return "none"
    sort, colon, _ = column.partition(":")
    if sort not in ("new", "known") or not colon:
        raise DataError(f"The column {column!r} is neither 'new:NUMBER' nor 'known:NAME' nor 'none'.")
    return sort  # type: ignore[return-value]


@dataclass(frozen=True, eq=False, repr=False)
class Assignment:
    """N pictures and C kinds.

    names: of the pictures, in the order of the rows. columns: the kinds, each "new:NUMBER", "known:NAME" or "none".
    probabilities: p(k|i), float32 (N, C), in [0, 1]. source: where it came from, such as method, seed, version, run.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    probabilities: NDArray[np.float32]
    source: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.probabilities.shape != (len(self.names), len(self.columns)):
            raise DataError(
                f"Probabilities of shape {self.probabilities.shape} do not go with {len(self.names)} pictures and "
                f"{len(self.columns)} kinds."
            )
        if len(set(self.columns)) != len(self.columns):
            raise DataError(f"The kinds {', '.join(self.columns)} are not all different.")
        for column in self.columns:
            sort_of(column)

    @classmethod
    def of_new(
        cls, names: Sequence[str], probabilities: NDArray[np.float32], source: Mapping[str, Any] | None = None
    ) -> Self:
        """Return an assignment to new kinds alone, numbered from 0 in the order of the columns (N, K)."""
        return cls(tuple(names), new_kinds(probabilities.shape[1]), probabilities, source or {})

    def with_own(self, probability: NDArray[np.float64]) -> Self:
        """Return the same kinds with these probabilities of each picture's own kind, (N,), as calibrated ones.

        What remains is divided among the other kinds as before; none of them gets more than the own one, so that what
        is left over may be of no kind here.
        """
        import torch

        from newkinds.rehearsal.calibration import with_own

        columns = self.labels[:, None], probability.astype(np.float64)[:, None]
        changed = with_own(torch.from_numpy(self.probabilities.astype(np.float64)), *map(torch.from_numpy, columns))
        source = {**self.source, "calibrated": True}
        return replace(self, probabilities=changed.numpy().astype(np.float32), source=source)

    def rejecting(self, rejected: NDArray[np.bool_], probability: NDArray[np.float64]) -> Self:
        """Return the same answer with a column "none" and these pictures in it; the others stay as they are.

        rejected: bool (N,). probability: of none, at least one half, (N,); the rest is divided among the kinds as
        before.
        """
        there = NONE in self.columns
        columns = self.columns if there else (*self.columns, NONE)
        own = np.where(rejected, np.maximum(probability, 0.5), 0.0)
        numbers = self.probabilities.astype(np.float64) * np.where(rejected, 0.999 * (1 - own), 1.0)[:, None]
        if there:
            numbers[:, columns.index(NONE)] += own
        else:
            numbers = np.concatenate([numbers, own[:, None]], axis=1)
        return replace(self, columns=columns, probabilities=numbers.astype(np.float32))

    @property
    def calibrated(self) -> bool:
        """Whether probabilities say how often such a picture is right, instead of how sure the method is."""
        return bool(self.source.get("calibrated", False))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The column of each picture's most probable kind, int64 (N,)."""
        labels: NDArray[np.int64] = self.probabilities.argmax(axis=1)
        return labels

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The name of each picture's most probable kind, such as "new:3", (N,)."""
        kinds: NDArray[np.str_] = np.array(self.columns)[self.labels]
        return kinds

    @property
    def probability(self) -> NDArray[np.float32]:
        """The probability of each picture's own kind, float32 (N,)."""
        return np.take_along_axis(self.probabilities, self.labels[:, None], axis=1)[:, 0]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many pictures each kind holds, int64 (C,)."""
        return np.bincount(self.labels, minlength=len(self.columns)).astype(np.int64)

    def of_sort(self, sort: Sort) -> NDArray[np.int64]:
        """Return which columns are of new kinds, of known ones, or of none, int64."""
        return np.array([n for n, column in enumerate(self.columns) if sort_of(column) == sort], dtype=np.int64)

    @property
    def n_kinds(self) -> int:
        """How many kinds hold a picture; there may be columns of kinds that stayed empty, and none is no kind."""
        used = np.count_nonzero(self.sizes)
        return int(used - np.count_nonzero(self.sizes[self.of_sort("none")]))

    def table(self) -> bytes:
        """Return path, kind, probability and runner-up of each picture as CSV, each a `safe_cell`."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(HEADER)
        for name, row in zip(self.names, self.probabilities, strict=True):
            order = np.argsort(-row, kind="stable")
            runner_up = self.columns[order[1]] if len(order) > 1 else ""
            cells = [name, self.columns[order[0]], f"{row[order[0]]:.6f}", runner_up]
            writer.writerow(map(safe_cell, cells))
        return buffer.getvalue().encode()

    def to_csv(self, path: str | Path) -> None:
        """Write path, kind, probability and runner-up of each picture, whole or not at all, over no other file."""
        check_table(path)
        write_atomic(as_path(path), self.table())

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: path, kind, probability and a column of probabilities for each kind."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise UsageError(
                "A DataFrame needs pandas, which is not installed.", hint="Install it: pip install 'newkinds[tables]'"
            ) from None
        plain = {"path": list(self.names), "kind": self.kinds, "probability": self.probability}
        return pandas.DataFrame({**plain, **dict(zip(self.columns, self.probabilities.T, strict=True))})

    def summary(self) -> str:
        """Return how many pictures are in how many kinds, in a few words."""
        used = [sort_of(column) for column, size in zip(self.columns, self.sizes, strict=True) if size]
        counts = [f"{used.count(sort)} {sort}" for sort in ("new", "known") if sort in used]
        left = int(self.sizes[self.columns.index(NONE)]) if NONE in self.columns else 0
        without = f", {left} of them in none" if left else ""
        return f"{len(self)} pictures in {' and '.join(counts) or 'no'} kinds{without}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for notebooks."""
        own = self.probability
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(kind))}</td><td>{p:.2f}</td></tr>"
            for name, kind, p in zip(self.names[:_SHOWN], self.kinds[:_SHOWN], own[:_SHOWN], strict=True)
        )
        more = f"<p>and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        head = "<tr><th>path</th><th>kind</th><th>probability</th></tr>"
        return f"<p>{html.escape(self.summary())}</p><table>{head}{rows}</table>{more}"
