"""Scores: how well the kinds found agree with the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from newkinds.equations import clustering_accuracy
from newkinds.errors import UsageError

_ONE_EACH = "Give a true kind for every picture that is to be scored."


@dataclass(frozen=True)
class Scores:
    """Agreement of a clustering with the truth.

    acc: Eq. 7. nmi_geometric: normalised as in the paper's tables; nmi_arithmetic: as usual today.
    ari: the adjusted Rand index. error_in_k: |found - true| number of kinds. n: pictures scored.
    """

    acc: float
    nmi_geometric: float
    nmi_arithmetic: float
    ari: float
    n_found: int
    n_true: int
    error_in_k: int
    n: int

    def to_dict(self) -> dict[str, float]:
        """Return the scores by name."""
        return asdict(self)


def score(kinds: Sequence[int] | NDArray[np.int64], truth: Sequence[str] | NDArray[np.int64]) -> Scores:
    """Compare kinds found (N,) with true ones (N,), in any numbering or naming.

    Pictures whose truth is "" (unknown) are left out.
    """
    if len(kinds) != len(truth):
        raise UsageError(f"{len(kinds)} kinds do not go with the truth about {len(truth)} pictures.", hint=_ONE_EACH)
    named = np.array([kind != "" for kind in truth], dtype=bool)
    if not named.any():
        raise UsageError(f"The truth names none of the {len(truth)} pictures.", hint=_ONE_EACH)
    found = np.unique(np.asarray(kinds)[named], return_inverse=True)[1]
    true = np.unique(np.asarray(truth)[named], return_inverse=True)[1]
    n_found, n_true = int(found.max()) + 1, int(true.max()) + 1
    return Scores(
        acc=clustering_accuracy(found, true),
        nmi_geometric=float(normalized_mutual_info_score(true, found, average_method="geometric")),
        nmi_arithmetic=float(normalized_mutual_info_score(true, found, average_method="arithmetic")),
        ari=float(adjusted_rand_score(true, found)),
        n_found=n_found,
        n_true=n_true,
        error_in_k=abs(n_found - n_true),
        n=len(found),
    )
