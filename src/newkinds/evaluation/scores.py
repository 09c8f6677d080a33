"""Scores: how well the kinds found agree with the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from newkinds.assignment import NONE, Assignment, new_kinds
from newkinds.equations import clustering_accuracy
from newkinds.errors import UsageError
from newkinds.evaluation.coverage import Coverage
from newkinds.evaluation.mixed import MixedScores, mixed_scores
from newkinds.evaluation.truth import UNKNOWN

_ONE_EACH = "Give the true kind of every picture to be scored."


@dataclass(frozen=True)
class Scores:
    """Agreement of a clustering with the truth, on the pictures that have one.

    acc: Eq. 7. nmi_geometric: normalised as in the paper's tables; nmi_arithmetic: as usual today.
    ari: the adjusted Rand index. All four are None where too few pictures have a truth (`Coverage.enough`).
    n_found: kinds found, among all pictures. n_true: true kinds that the truth names; there may be more where it is not
    complete. error_in_k: |found - true| number of kinds, None where the truth is not complete.
    n: pictures with a truth, which alone are scored. of: pictures in all. mixed: how well known and new
    kinds are told apart, where the answer or the truth speaks of known ones.
    """

    acc: float | None
    nmi_geometric: float | None
    nmi_arithmetic: float | None
    ari: float | None
    n_found: int
    n_true: int
    error_in_k: int | None
    n: int
    of: int
    mixed: MixedScores | None = None

    @property
    def coverage(self) -> Coverage:
        """How much of the pictures the truth covers."""
        return Coverage(self.n, self.of, self.n_true)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores by name; those of a mixed heap are a table in it, where there are any."""
        return {key: value for key, value in asdict(self).items() if key != "mixed" or value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], of: int) -> Scores:
        """Take back what `to_dict` gave. of: pictures in all, for scores that were kept without that number."""
        mixed = values.get("mixed")
        kept = {**values, "mixed": None if mixed is None else MixedScores(**mixed)}
        return _as_far_as_covered(cls(**{"of": of, **kept}))


def score(kinds: Sequence[int] | NDArray[np.int64], truth: Sequence[str] | NDArray[np.int64]) -> Scores:
    """Compare kinds found (N,) with true ones (N,), in any numbering or naming.

    Pictures whose truth is "" (unknown) are left out: kinds are matched with true ones on the others alone, and a kind
    that holds none of those is not counted as an error.
    """
    if len(kinds) != len(truth):
        raise UsageError(
            f"Kinds are given for {len(kinds)} pictures, but the truth is about {len(truth)}.", hint=_ONE_EACH
        )
    named = np.array([kind != UNKNOWN for kind in truth], dtype=bool)
    if not named.any():
        raise UsageError(f"The truth covers none of the {len(truth)} pictures.", hint=_ONE_EACH)
    found = np.unique(np.asarray(kinds)[named], return_inverse=True)[1]
    true = np.unique(np.asarray(truth)[named], return_inverse=True)[1]
    n_found, n_true = len(np.unique(kinds)), int(true.max()) + 1
    scores = Scores(
        acc=clustering_accuracy(found, true),
        nmi_geometric=float(normalized_mutual_info_score(true, found, average_method="geometric")),
        nmi_arithmetic=float(normalized_mutual_info_score(true, found, average_method="arithmetic")),
        ari=float(adjusted_rand_score(true, found)),
        n_found=n_found,
        n_true=n_true,
        error_in_k=abs(n_found - n_true),
        n=len(found),
        of=len(truth),
    )
    return _as_far_as_covered(scores)


def score_answer(found: Assignment, truth: Sequence[str], known: Mapping[str, str]) -> Scores:
    """Compare an answer with the truth about its pictures, "" where it is not known.

    known: the column of each known kind by its name in the truth. Where the heap may be mixed, there are the scores of
    that, too, and the column "none" is no kind that was found.
    """
    scores, said = score(found.labels, truth), [row for row, kind in enumerate(truth) if kind != UNKNOWN]
    true = [truth[row] for row in said]
    mixed = mixed_scores(found.labels[said], found.columns, true, known, found.probabilities[said])
    nobody = NONE in found.columns and bool(found.sizes[found.columns.index(NONE)])
    n_found = scores.n_found - nobody
    n_true = scores.n_true - (mixed is not None and NONE in true and NONE not in known)
    counts = {"n_found": n_found, "n_true": n_true, "error_in_k": abs(n_found - n_true)}
    return _as_far_as_covered(replace(scores, **counts, mixed=mixed))


def score_clusters(kinds: NDArray[np.int64], truth: Sequence[str], known: Mapping[str, str]) -> Scores:
    """Compare clusters (N,), which have no names, with the truth, as `score_answer` does an answer."""
    scores, said = score(kinds, truth), [row for row, kind in enumerate(truth) if kind != UNKNOWN]
    columns = new_kinds(int(kinds.max()) + 1)
    mixed = mixed_scores(kinds[said], columns, [truth[row] for row in said], known)
    return _as_far_as_covered(replace(scores, mixed=mixed))


def _as_far_as_covered(scores: Scores) -> Scores:
    """Leave out what a truth about a part of the pictures cannot tell."""
    if scores.coverage.complete:
        return scores
    if scores.coverage.enough:
        return replace(scores, error_in_k=None)
    return replace(scores, acc=None, nmi_geometric=None, nmi_arithmetic=None, ari=None, error_in_k=None, mixed=None)
