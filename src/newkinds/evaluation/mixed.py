"""Scores of an answer to a mixed heap: pictures of known kinds, of new ones, and of none.

All, Old and New are those of generalized category discovery ("v2"): one matching of everything found with everything
true, from which the shares among pictures of known kinds (old) and of new ones are read off. It gives no credit for
names: a picture of the known kind "bolt" is right in any column that stands for bolts. `named` asks for the name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import roc_auc_score

from newkinds.assignment import NONE, sort_of

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class MixedScores:
    """Agreement of an answer with the truth about pictures of known and of new kinds.

    all, old, new: the share of pictures that are right under one matching of all columns with all true kinds, among all
    pictures, those of known kinds and those of new ones. named: the share right where a picture of a known kind has to
    be in the column of that name, and new columns are matched with new kinds alone; None where no column is of a known
    kind. auroc: how well the probability of being new (or none) tells new pictures from known ones. n_old, n_new: how
    many pictures are of known kinds and of others. rejected: how many were called none; rejected_wrongly: those of them
    whose true kind has a column, its own or the one that is matched with it. A share of no pictures is None.
    """

    all: float
    old: float | None
    new: float | None
    named: float | None
    auroc: float | None
    n_old: int
    n_new: int
    rejected: int
    rejected_wrongly: int


def mixed_scores(
    labels: Labels,
    columns: Sequence[str],
    truth: Sequence[str],
    known: Mapping[str, str],
    probabilities: NDArray[np.float32] | None = None,
) -> MixedScores | None:
    """Score an answer to a mixed heap; None where neither the answer nor the truth speaks of known kinds.

    labels: the column of each picture, int64 (N,). columns: what they stand for. truth: the true kinds of the same
    pictures, all of them known; "none" is of no kind. known: the column of each known kind by the name that it has in
    the truth. probabilities: of the columns, float32 (N, C), for the AUROC.
    """
    sorts = np.array([sort_of(column) for column in columns])
    true = np.array(truth, dtype=object)
    is_old = np.array([one in known for one in truth], dtype=bool)
    if not (is_old.any() or (sorts == "known").any()):
        return None
    is_none = ~is_old & (true == NONE)
    rejected = sorts[labels] == "none"
    counted = ~rejected & ~is_none
    stands_for = _matched(labels[counted], true[counted])
    right = _right(stands_for, labels, truth) & counted | (rejected & is_none)
    has_column = set(stands_for.values()) | {name for name, column in known.items() if column in columns}
    of_a_column = np.array([one in has_column for one in truth], dtype=bool) & ~is_none
    return MixedScores(
        all=float(right.mean()),
        old=_share(right[is_old]),
        new=_share(right[~is_old]),
        named=_named(labels, columns, truth, known, right) if (sorts == "known").any() else None,
        auroc=None if probabilities is None else _auroc(probabilities, sorts, ~is_old),
        n_old=int(is_old.sum()),
        n_new=int((~is_old).sum()),
        rejected=int(rejected.sum()),
        rejected_wrongly=int((rejected & of_a_column).sum()),
    )


def _matched(labels: Labels, true: NDArray[np.object_]) -> dict[int, str]:
    """Return the true kind that each column stands for under the best matching, one to one; some stand for none."""
    found, row = np.unique(labels, return_inverse=True)
    kinds, column = np.unique(true.astype(str), return_inverse=True)
    size = max(len(found), len(kinds))
    table = np.zeros((size, size), dtype=np.int64)  # square, as in the field's code: what is left over is matched empty
    np.add.at(table, (row, column), 1)
    pairs = zip(*linear_sum_assignment(table, maximize=True), strict=True)
    return {int(found[r]): str(kinds[c]) for r, c in pairs if r < len(found) and c < len(kinds)}


def _right(stands_for: Mapping[int, str], labels: Labels, truth: Sequence[str]) -> NDArray[np.bool_]:
    """Return which pictures are in a column that stands for their true kind."""
    pairs = zip(labels.tolist(), truth, strict=True)
    return np.array([stands_for.get(label) == one for label, one in pairs], dtype=bool)


def _named(
    labels: Labels,
    columns: Sequence[str],
    truth: Sequence[str],
    known: Mapping[str, str],
    right: NDArray[np.bool_],
) -> float:
    """Return the share of pictures that are right by name.

    right: under one matching of all, which holds for pictures of none.
    """
    told = [columns[label] for label in labels.tolist()]
    apart = np.array(
        [sort_of(column) == "new" and one not in known and one != NONE for column, one in zip(told, truth, strict=True)]
    )
    stands_for = _matched(labels[apart], np.array(truth, dtype=object)[apart])
    named = np.where(apart, _right(stands_for, labels, truth), False)
    for row, (column, one) in enumerate(zip(told, truth, strict=True)):
        if one in known:
            named[row] = column == known[one]
        elif column == NONE:
            named[row] = right[row]
    return float(named.mean())


def _auroc(probabilities: NDArray[np.float32], sorts: NDArray[np.str_], is_new: NDArray[np.bool_]) -> float | None:
    """Return how often a new picture has more of its probability on new columns (and none) than a known one.

    None where the answer has no known columns, or all pictures are of one sort.
    """
    if not (sorts == "known").any() or is_new.all() or not is_new.any():
        return None
    mass = probabilities.astype(np.float64)
    novelty = mass[:, sorts != "known"].sum(axis=1) / np.maximum(mass.sum(axis=1), 1e-30)
    return float(roc_auc_score(is_new, novelty))


def _share(right: NDArray[np.bool_]) -> float | None:
    return float(right.mean()) if len(right) else None
