"""The page of a run, made from its folder."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np

from newkinds.assignment import new_kind
from newkinds.evaluation.scores import Scores
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Snapshot
from newkinds.methods.registry import METHODS
from newkinds.progress import QUIET, Progress
from newkinds.report.data import ReportData
from newkinds.report.known_kinds import NearestKnown
from newkinds.report.page import check_target, make_page
from newkinds.runs import DamagedError, RunFolder, names
from newkinds.runs.following import Answer, follow, read_answer, read_current_scores, read_current_trust, read_since
from newkinds.runs.results import method_of, read_known_quality, read_rehearsal, read_snapshots, read_tensors

T = TypeVar("T")


def report_run(run: RunFolder, unsorted: ImageSet, *, progress: Progress = QUIET) -> None:
    """Make the page of a run, in the place of an older one when it is whole. unsorted: its pictures."""
    if not run.wrote(names.PAGE):
        check_target(run.path / names.REPORT)
    answer = follow(run)
    run.put(names.PAGE, make_page(report_data(run, unsorted, answer), progress))
    if answer.holds:
        run.set_followed(names.PAGE, answer.holds)


def report_data(run: RunFolder, unsorted: ImageSet, answer: Answer | None = None) -> ReportData:
    """Return what the page of a run shows; what of it is damaged is left out, and named as such.

    answer: the run's, and what people said about it, if it was read already.
    """
    damaged: list[str] = []
    answer = answer or read_answer(run)

    def part(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DamagedError as error:
            damaged.append(error.name)
            return None

    def read_json(name: str) -> Any:
        return run.get_json(name) if run.lists(name) else None

    scored = part(lambda: read_current_scores(run, answer))
    method = METHODS[run.settings.method]
    return ReportData(
        title=run.path.resolve().name,
        assignment=answer.assignment,
        pixels=None if unsorted.is_embedding else unsorted.pixels,
        features=run.get_array(names.EMBEDDING),
        truth=None if scored is None else scored[2],
        history=part(run.history) or [],
        count=part(lambda: read_json(names.COUNT)),
        scores=None if scored is None else _flat(*scored[:2]),
        settings=used_settings(run.settings.model_dump(mode="json"), {run.settings.method, method_of(run)}),
        seed=run.settings.seed,
        version=run.version,
        skipped=unsorted.skipped,
        known_classes=tuple(run.get_json(names.KNOWN)),
        choice=part(lambda: read_json(names.CHOICE)),
        stages=method.stages,
        assigns=method.assigns,
        snapshots=tuple(_followed(answer, one) for one in part(lambda: read_snapshots(run)) or ()),
        nearest_known=part(lambda: _nearest_known(run, answer)),
        known_quality=part(lambda: read_known_quality(run)),
        trust=part(lambda: read_current_trust(run, answer)),
        rehearsal=part(lambda: read_rehearsal(run)),
        damaged=tuple(damaged),
        called=answer.called,
        said=answer.actions,
        heap=part(lambda: read_json(names.NOVELTY)),
        since=part(lambda: read_since(run, answer)),
    )


def used_settings(settings: dict[str, Any], methods: Collection[str]) -> dict[str, Any]:
    """Return settings without the sections of methods that had no part in a run."""
    own = {name for method in methods if method in METHODS for name in METHODS[method].sections}
    others = {name for method in METHODS.values() for name in method.sections} - own
    return {name: value for name, value in settings.items() if name not in others}


def _nearest_known(run: RunFolder, answer: Answer) -> NearestKnown | None:
    """Return how near the known kinds are; None of methods that have no model, -1 of kinds that people made."""
    if not run.lists(names.NEAREST_KNOWN):
        return None
    near = NearestKnown.from_tensors(read_tensors(run, names.NEAREST_KNOWN)[0])
    told = answer.machine.source.get("sorted") or [new_kind(number) for number in range(len(near.of_kinds))]
    found = {column: row for row, column in enumerate(told[: len(near.of_kinds)])}
    place = np.array([found.get(column, -1) for column in answer.assignment.columns], dtype=np.int64)
    return replace(
        near,
        of_kinds=np.where(place < 0, -1, near.of_kinds[place]),
        kind_distances=np.where(place < 0, np.inf, near.kind_distances[place]),
    )


def _followed(answer: Answer, taken: Snapshot) -> Snapshot:
    """Return a snapshot with the kinds of the answer as they are now: merged ones have the sum of theirs."""
    head = answer.machine.source.get("head") or [new_kind(number) for number in range(taken.p.shape[1])]
    first = tuple(head[: taken.p.shape[1]])
    if answer.assignment.columns[: len(first)] == first and not answer.is_corrected:
        return taken
    into = answer.now_of(first)
    return replace(taken, p=taken.p[:, : len(into)] @ into, q=taken.q[:, : len(into)] @ into)


def _flat(found: Scores, baseline: Scores) -> dict[str, float] | None:
    """Return the scores that the page shows, None where too few pictures have a truth."""
    values = {**found.to_dict(), "kmeans_acc": baseline.acc}
    shown = ["acc", "nmi_geometric", "nmi_arithmetic", "ari", "kmeans_acc"]
    if found.mixed is not None:
        values |= asdict(found.mixed)
        shown += ["all", "old", "new", "named", "auroc"]
        if found.mixed.rejected:
            values["rejected_rightly"] = 1 - found.mixed.rejected_wrongly / found.mixed.rejected
            shown.append("rejected_rightly")
    return {name: value for name in shown if (value := values[name]) is not None} or None
