"""Scoring a run against the truth: its kinds, and k-means on the features as the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment
from newkinds.clustering import kmeans
from newkinds.errors import UsageError
from newkinds.evaluation.scores import Scores, score_answer, score_clusters
from newkinds.evaluation.truth import UNKNOWN
from newkinds.runs import RunFolder, names
from newkinds.runs.following import OF_MACHINE, follow, known_columns, pinned_again
from newkinds.runs.results import read_scores


def score_machine(run: RunFolder) -> tuple[Scores, Scores]:
    """Score what the machine said against what people confirmed, and keep the scores in the run folder.

    Where it has sorted the pictures again by what was said, those that people had spoken of are no test any more.
    """
    answer = follow(run)
    confirmed = np.zeros(len(answer.machine), np.bool_) if answer.state is None else answer.state.confirmed
    told = pinned_again(run, len(confirmed))
    test = confirmed & ~told
    if answer.state is None or not test.any():
        since = " since its pictures were last sorted again" if told.any() else ""
        raise UsageError(
            f"Nobody has confirmed any picture of the run in {run.path}{since}.",
            hint="Confirm or move some more pictures, or give another --truth.",
        )
    kinds = [answer.state.kinds[kind] for kind in answer.state.kind.tolist()]
    truth = [kind if yes else UNKNOWN for kind, yes in zip(kinds, test, strict=True)]
    known = {column: column for column in known_columns(run).values()}  # what people confirmed are columns
    return _score(run, answer.machine, truth, known, len(answer.machine.columns), None, of_machine=True)


def score_run(run: RunFolder, truth: Sequence[str], features: NDArray[Any] | None = None) -> tuple[Scores, Scores]:
    """Score the kinds, and k-means on the features that they started from, and keep the scores in the run folder.

    The kinds are those that hold after what people said. k-means clusters all pictures into as many kinds as the
    machine has, and both are scored on the same ones, those that have a truth.

    truth: the true kind of each picture, "" where it is not known. features: f's of the unsorted pictures, float32
    (N, d), if already computed.
    """
    answer = follow(run)
    return _score(run, answer.assignment, truth, known_columns(run), len(answer.machine.columns), features)


def score_again(run: RunFolder, features: NDArray[Any] | None = None) -> None:
    """Score a run whose answer is another one now against the truth that it has; that of people is none any more."""
    kept = read_scores(run)
    if kept is None:
        return
    if run.get_json(names.SCORES).get(OF_MACHINE):
        run.forget(names.SCORES)
    else:
        score_run(run, kept[2], features)


def _score(
    run: RunFolder,
    found: Assignment,
    truth: Sequence[str],
    known: Mapping[str, str],
    kinds: int,
    features: NDArray[Any] | None,
    *,
    of_machine: bool = False,
) -> tuple[Scores, Scores]:
    """Score an answer, and k-means into as many `kinds`, and keep the scores.

    known: the column of each known kind by its name in the truth.
    """
    if features is None:
        features = run.get_array(names.features("unsorted"))
    kinds = min(kinds, len(features))  # known kinds may be more than pictures
    start = kmeans(features, kinds, seed=run.settings.seed, restarts=run.settings.initialise.restarts)
    discovered, baseline = score_answer(found, truth, known), score_clusters(start.labels, truth, known)
    kept = {"discovered": discovered.to_dict(), "kmeans": baseline.to_dict(), "truth": list(truth)}
    run.put_json(names.SCORES, {**kept, OF_MACHINE: True} if of_machine else kept)
    return discovered, baseline
