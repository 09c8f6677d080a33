"""Mistakes, if the truth is known: the confusion matrix of kinds matched one to one with true ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.equations import matching
from newkinds.evaluation.truth import UNKNOWN, as_numbers
from newkinds.report import text
from newkinds.report.data import ReportData

TABLE = 25  # up to this many rows and columns the matrix is a table, above it an image
GALLERIES = 8  # of the largest mistakes
PICTURES = 8  # in each


@dataclass(frozen=True)
class Mistake:
    """Pictures of one true kind in a kind that is matched with another one, or with none (`meant` is None)."""

    kind: int
    truth: str
    meant: str | None
    count: int
    of: int  # the kind's pictures that have a truth
    items: tuple[int, ...]


@dataclass(frozen=True)
class Mistakes:
    """The confusion matrix: `counts` (T, K), true kinds in rows, both in the order of the matching.

    matched: each kind's true kind. right: each kind's pictures of its true kind, of how many that have a truth; found:
    each true kind's pictures in its kind, of how many. named: pictures whose truth is known; complete: whether all are.
    """

    truths: tuple[str, ...]
    kinds: tuple[int, ...]
    counts: NDArray[np.int64]
    matched: dict[int, str]
    right: dict[int, tuple[int, int]]
    found: tuple[tuple[int, int], ...]
    named: int
    complete: bool
    correct: int
    largest: tuple[Mistake, ...]

    @property
    def as_table(self) -> bool:
        """Whether the matrix is small enough for a table."""
        return len(self.truths) <= TABLE and len(self.kinds) <= TABLE

    @property
    def shares(self) -> NDArray[np.float64]:
        """The counts as shares of their true kind, float64 (T, K)."""
        return np.asarray(self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1), dtype=np.float64)

    def share(self, part: int, whole: int) -> str:
        """Write a share: in percent if all pictures have a truth, otherwise in numbers, which may be very small."""
        if not whole:
            return "–"
        return text.percent(part / whole, 0) if self.complete else f"{text.whole(part)} of {text.whole(whole)}"


def find_mistakes(data: ReportData) -> Mistakes | None:
    """Match the kinds with the true ones, as ACC does (Eq. 7), and look at what does not match.

    None where too few pictures have a truth for a matching to mean anything.
    """
    if data.truth is None or data.coverage is None or not data.coverage.enough:
        return None
    rows = np.flatnonzero([name != UNKNOWN for name in data.truth])
    names = sorted({data.truth[i] for i in rows})
    truth = as_numbers(data.truth)[rows]
    kinds = data.labels[rows]
    counts = np.zeros((len(names), data.n_kinds), dtype=np.int64)
    np.add.at(counts, (truth, kinds), 1)
    matched = matching(kinds, truth)
    kind_of = {t: k for k, t in matched.items()}
    in_order = sorted(kind_of, key=lambda t: kind_of[t])
    row_order = in_order + [t for t in range(len(names)) if t not in kind_of]
    column_order = [kind_of[t] for t in in_order] + [k for k in range(data.n_kinds) if k not in matched]
    sizes = counts.sum(axis=0)
    return Mistakes(
        truths=tuple(names[t] for t in row_order),
        kinds=tuple(column_order),
        counts=counts[np.ix_(row_order, column_order)],
        matched={k: names[t] for k, t in matched.items()},
        right={k: (int(counts[matched[k], k]) if k in matched else 0, int(sizes[k])) for k in range(data.n_kinds)},
        found=tuple((int(counts[t, kind_of[t]]) if t in kind_of else 0, int(counts[t].sum())) for t in row_order),
        named=len(rows),
        complete=data.coverage.complete,
        correct=int(sum(counts[t, k] for k, t in matched.items())),
        largest=_largest(data, names, counts, matched, rows, truth, kinds),
    )


def _largest(
    data: ReportData,
    names: list[str],
    counts: NDArray[np.int64],
    matched: dict[int, int],
    rows: NDArray[np.int64],
    truth: NDArray[np.int64],
    kinds: NDArray[np.int64],
) -> tuple[Mistake, ...]:
    """Return the largest cells off the matching, each with the pictures that it is surest of, the worst of them."""
    wrong = counts.copy()
    for kind, true in matched.items():
        wrong[true, kind] = 0
    own = data.own_probability
    found = []
    for cell in np.argsort(-wrong, axis=None, kind="stable")[:GALLERIES]:
        true, kind = (int(i) for i in np.unravel_index(cell, wrong.shape))
        if not wrong[true, kind]:
            break
        items = rows[(truth == true) & (kinds == kind)]
        surest = items[np.argsort(-own[items], kind="stable")][:PICTURES]
        meant = names[matched[kind]] if kind in matched else None
        size = int(counts[:, kind].sum())
        found.append(Mistake(kind, names[true], meant, int(wrong[true, kind]), size, tuple(surest.tolist())))
    return tuple(found)
