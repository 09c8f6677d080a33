"""Scoring a run against the truth: its kinds, and k-means on the features as the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from newkinds.clustering import kmeans
from newkinds.evaluation.scores import Scores, score
from newkinds.runs import RunFolder, names
from newkinds.runs.following import follow


def score_run(run: RunFolder, truth: Sequence[str], features: NDArray[Any] | None = None) -> tuple[Scores, Scores]:
    """Score the kinds, and k-means on the features that they started from, and keep the scores in the run folder.

    The kinds are those that hold after what people said. k-means clusters all pictures into as many kinds as the
    machine has, and both are scored on the same ones, those that have a truth.

    truth: the true kind of each picture, "" where it is not known. features: f's of the unsorted pictures, float32
    (N, d), if already computed.
    """
    answer, settings = follow(run), run.settings
    if features is None:
        features = run.get_array(names.features("unsorted"))
    start = kmeans(features, len(answer.machine.columns), seed=settings.seed, restarts=settings.initialise.restarts)
    discovered, baseline = score(answer.assignment.labels, truth), score(start.labels, truth)
    run.put_json(names.SCORES, {"discovered": discovered.to_dict(), "kmeans": baseline.to_dict(), "truth": list(truth)})
    return discovered, baseline
