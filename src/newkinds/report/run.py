"""The page of a run, made from its folder."""

from __future__ import annotations

from newkinds.evaluation.scores import Scores
from newkinds.images.imageset import ImageSet
from newkinds.methods.registry import METHODS
from newkinds.progress import QUIET, Progress
from newkinds.report.data import ReportData
from newkinds.report.known_kinds import NearestKnown
from newkinds.report.page import write_report
from newkinds.runs import RunFolder, names
from newkinds.runs.results import (
    read_assignment,
    read_known_quality,
    read_rehearsal,
    read_scores,
    read_snapshots,
    read_tensors,
    read_trust,
)


def report_run(run: RunFolder, unsorted: ImageSet, *, progress: Progress = QUIET) -> None:
    """Make the page of a run. unsorted: its pictures."""
    write_report(report_data(run, unsorted), run.path / names.REPORT, progress=progress)
    run.adopt(names.PAGE)


def report_data(run: RunFolder, unsorted: ImageSet) -> ReportData:
    """Return what the page of a run shows."""
    scored = read_scores(run)
    near = None  # some methods have no model
    if run.has(names.NEAREST_KNOWN):
        near = NearestKnown.from_tensors(read_tensors(run, names.NEAREST_KNOWN)[0])
    method = METHODS[run.settings.method]
    return ReportData(
        title=run.path.resolve().name,
        assignment=read_assignment(run),
        pixels=None if unsorted.is_embedding else unsorted.pixels,
        features=run.get_array(names.EMBEDDING),
        truth=None if scored is None else scored[2],
        history=run.history(),
        count=run.get_json(names.COUNT) if run.has(names.COUNT) else None,
        scores=None if scored is None else _flat(*scored[:2]),
        settings=run.settings.model_dump(mode="json"),
        seed=run.settings.seed,
        version=run.version,
        skipped=unsorted.skipped,
        known_classes=tuple(run.get_json(names.KNOWN)),
        choice=run.get_json(names.CHOICE) if run.has(names.CHOICE) else None,
        stages=method.stages,
        assigns=method.assigns,
        snapshots=tuple(read_snapshots(run)),
        nearest_known=near,
        known_quality=read_known_quality(run),
        trust=read_trust(run),
        rehearsal=read_rehearsal(run),
    )


def _flat(found: Scores, baseline: Scores) -> dict[str, float] | None:
    """Return the scores that the page shows, None where too few pictures have a truth."""
    values = {**found.to_dict(), "kmeans_acc": baseline.acc}
    shown = ("acc", "nmi_geometric", "nmi_arithmetic", "ari", "kmeans_acc")
    return {name: value for name in shown if (value := values[name]) is not None} or None
