"""The number of new kinds by the estimator that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from newkinds.count.algorithm2 import count_by_probes, prepared
from newkinds.count.labelled import count_by_labelled
from newkinds.count.result import Count
from newkinds.count.ward import count_by_ward
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds.settings import Count as CountSettings

MOST = 50_000  # unsorted pictures that are clustered; of more, a random sample


def count_kinds(
    probe_features: NDArray[np.float32],
    probe_labels: NDArray[np.int64],
    unsorted_features: NDArray[np.float32],
    settings: CountSettings,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress = QUIET,
) -> Count:
    """Estimate the number of kinds in the unsorted pictures from features of them and of the probe kinds.

    probe_features: float (P, d); probe_labels: int64 (P,) numbered 0..L_r-1; unsorted_features: float (M, d).
    groups: the group that each probe kind belongs to, such as its alphabet; each group is then used separately. Of more
    than 50,000 unsorted pictures, a random sample of that size is used, which a remark says.
    """
    if len(unsorted_features) > MOST:
        whole = len(unsorted_features)
        drawn = np.sort(generator(seed, "sample for the count").choice(whole, MOST, replace=False))
        some = unsorted_features[drawn]
        found = count_kinds(probe_features, probe_labels, some, settings, groups=groups, seed=seed, progress=progress)
        remark = f"The number was estimated from {MOST:,} of the {whole:,} unsorted pictures, drawn at random."
        return replace(found, remarks=(*found.remarks, remark))
    probes, unsorted = prepared(probe_features, unsorted_features, settings)
    # Beyond half the number of pictures, a kind would have fewer than two.
    largest = min(settings.max_kinds, len(unsorted) // 2)
    if settings.estimator == "labelled":
        return count_by_labelled(probes, probe_labels, unsorted, largest, settings, seed)
    if settings.estimator == "ward":
        return count_by_ward(probes, probe_labels, unsorted, largest, seed)
    return count_by_probes(
        probes, probe_labels, unsorted, largest, settings, groups=groups, seed=seed, progress=progress
    )
