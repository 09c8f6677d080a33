"""What can be asked of a run that has clustered its pictures: scores, the page, the result as an object."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np
import torch

from newkinds.clustering import kmeans
from newkinds.discovery import Discovery
from newkinds.evaluation.scores import Scores, score
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Moment
from newkinds.networks.files import from_bytes, to_bytes
from newkinds.predict import MODEL
from newkinds.progress import QUIET, Progress
from newkinds.report import ReportData, nearest_known, write_report
from newkinds.runs import RunFolder

PROBABILITIES = "features/probabilities.npy"
EMBEDDING = "features/embedding.npy"
KNOWN = "known.json"  # the names of the known kinds
CHOICE = "choice.json"  # which epoch's state was kept, and why
LAST = "model/last.safetensors"  # the last state, where an earlier one was kept
MOMENTS = "moments"  # states on the way
LAST_PROBABILITIES = "features/probabilities-last.npy"
PAGE = "report/index.html"


def score_run(run: RunFolder, truth: Sequence[str]) -> tuple[Scores, Scores]:
    """Score the kinds, and k-means on the features they started from, and keep the scores in the run folder."""
    probabilities = run.get_array(PROBABILITIES)
    settings = run.settings
    start = kmeans(
        run.get_array("features/unsorted.npy"),
        probabilities.shape[1],
        seed=settings.seed,
        restarts=settings.initialise.restarts,
    )
    discovered, baseline = score(probabilities.argmax(axis=1), truth), score(start.labels, truth)
    run.put_json(
        "scores.json", {"discovered": discovered.to_dict(), "kmeans": baseline.to_dict(), "truth": list(truth)}
    )
    return discovered, baseline


def put_moment(run: RunFolder, moment: Moment) -> None:
    """Keep a state on the way; half precision is more than pictures of it show."""
    arrays = {"embedding": moment.embedding, "p": moment.p, "q": moment.q}
    tensors = {name: torch.from_numpy(array).half() for name, array in arrays.items()}
    tensors["items"] = torch.from_numpy(moment.items)
    run.put(f"{MOMENTS}/{moment.epoch:04d}.safetensors", to_bytes(tensors, {"epoch": moment.epoch}))


def read_moments(run: RunFolder) -> list[Moment]:
    """Return the states on the way that a run kept, the start first."""
    found = []
    for path in sorted((run.path / MOMENTS).glob("*.safetensors")):
        name = f"{MOMENTS}/{path.name}"
        if run.has(name):
            tensors, about = from_bytes(run.get(name), str(path))
            values = {key: tensors[key].float().numpy() for key in ("embedding", "p", "q")}
            found.append(Moment(about["epoch"], tensors["items"].numpy(), **values))
    return found


def run_truth(run: RunFolder) -> tuple[str, ...] | None:
    """Return the truth that a run was scored with, if it was."""
    return tuple(run.get_json("scores.json")["truth"]) if run.has("scores.json") else None


def report_run(run: RunFolder, unsorted: ImageSet, *, progress: Progress = QUIET) -> None:
    """Make the page of a run again from what its folder holds."""
    write_report(report_data(run, unsorted), run.path / "report", progress=progress)
    run.adopt(PAGE)


def report_data(run: RunFolder, unsorted: ImageSet) -> ReportData:
    """Return what the page of a run shows."""
    scores = run.get_json("scores.json") if run.has("scores.json") else None
    flat = None
    if scores is not None:
        shown = ("acc", "nmi_geometric", "nmi_arithmetic", "ari")
        flat = {name: scores["discovered"][name] for name in shown} | {"kmeans_acc": scores["kmeans"]["acc"]}
    probabilities = run.get_array(PROBABILITIES)
    near = None  # lsc and lpnmf leave no model
    if run.has(MODEL):
        near = nearest_known(run.get(MODEL), str(run.path / MODEL), unsorted, probabilities, run.settings.seed)
    return ReportData(
        title=run.path.resolve().name,
        names=unsorted.names,
        pixels=None if unsorted.is_embedding else unsorted.pixels,
        kinds=probabilities.argmax(axis=1).astype(np.int64),
        probabilities=probabilities,
        features=run.get_array(EMBEDDING),
        truth=tuple(scores["truth"]) if scores is not None else None,
        history=run.history(),
        count=run.get_json("count.json") if run.has("count.json") else None,
        scores=flat,
        settings=run.settings.model_dump(mode="json"),
        seed=run.settings.seed,
        version=run.version,
        skipped=unsorted.skipped,
        known_classes=tuple(run.get_json(KNOWN)),
        choice=run.get_json(CHOICE) if run.has(CHOICE) else None,
        moments=tuple(read_moments(run)),
        nearest_known=near,
    )


def read_result(run: RunFolder) -> Discovery:
    """Return what a finished run found."""
    rows = list(csv.DictReader(io.StringIO(run.get("kinds.csv").decode())))
    scores = run.get_json("scores.json") if run.has("scores.json") else None
    return Discovery(
        path=run.path,
        names=tuple(row["path"] for row in rows),
        probabilities=run.get_array(PROBABILITIES),
        scores=Scores(**scores["discovered"]) if scores else None,
        kmeans_scores=Scores(**scores["kmeans"]) if scores else None,
        count=run.get_json("count.json") if run.has("count.json") else None,
        choice=run.get_json(CHOICE) if run.has(CHOICE) else None,
    )
