"""The page of a run, made from its folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from newkinds.evaluation.scores import Scores
from newkinds.images.imageset import ImageSet
from newkinds.methods.registry import METHODS
from newkinds.progress import QUIET, Progress
from newkinds.report.data import ReportData
from newkinds.report.known_kinds import NearestKnown
from newkinds.report.page import check_target, make_page
from newkinds.runs import DamagedError, RunFolder, names
from newkinds.runs.results import (
    read_assignment,
    read_known_quality,
    read_rehearsal,
    read_scores,
    read_snapshots,
    read_tensors,
    read_trust,
)

T = TypeVar("T")


def report_run(run: RunFolder, unsorted: ImageSet, *, progress: Progress = QUIET) -> None:
    """Make the page of a run, in the place of an older one when it is whole. unsorted: its pictures."""
    if not run.wrote(names.PAGE):
        check_target(run.path / names.REPORT)
    run.put(names.PAGE, make_page(report_data(run, unsorted), progress))


def report_data(run: RunFolder, unsorted: ImageSet) -> ReportData:
    """Return what the page of a run shows; what of it is damaged is left out, and named as such."""
    damaged: list[str] = []

    def part(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DamagedError as error:
            damaged.append(error.name)
            return None

    def read_json(name: str) -> Any:
        return run.get_json(name) if run.lists(name) else None

    scored = part(lambda: read_scores(run))
    method = METHODS[run.settings.method]
    return ReportData(
        title=run.path.resolve().name,
        assignment=read_assignment(run),
        pixels=None if unsorted.is_embedding else unsorted.pixels,
        features=run.get_array(names.EMBEDDING),
        truth=None if scored is None else scored[2],
        history=part(run.history) or [],
        count=part(lambda: read_json(names.COUNT)),
        scores=None if scored is None else _flat(*scored[:2]),
        settings=run.settings.model_dump(mode="json"),
        seed=run.settings.seed,
        version=run.version,
        skipped=unsorted.skipped,
        known_classes=tuple(run.get_json(names.KNOWN)),
        choice=part(lambda: read_json(names.CHOICE)),
        stages=method.stages,
        assigns=method.assigns,
        snapshots=tuple(part(lambda: read_snapshots(run)) or ()),
        nearest_known=part(lambda: _nearest_known(run)),
        known_quality=part(lambda: read_known_quality(run)),
        trust=part(lambda: read_trust(run)),
        rehearsal=part(lambda: read_rehearsal(run)),
        damaged=tuple(damaged),
    )


def _nearest_known(run: RunFolder) -> NearestKnown | None:
    """Return how near the known kinds are; None of methods that have no model."""
    listed = run.lists(names.NEAREST_KNOWN)
    return NearestKnown.from_tensors(read_tensors(run, names.NEAREST_KNOWN)[0]) if listed else None


def _flat(found: Scores, baseline: Scores) -> dict[str, float] | None:
    """Return the scores that the page shows, None where too few pictures have a truth."""
    values = {**found.to_dict(), "kmeans_acc": baseline.acc}
    shown = ("acc", "nmi_geometric", "nmi_arithmetic", "ari", "kmeans_acc")
    return {name: value for name in shown if (value := values[name]) is not None} or None
