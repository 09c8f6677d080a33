"""What a run found, as its folder keeps it: the assignment, snapshots, and how near the known kinds are."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import torch
from torch import Tensor

from newkinds.assignment import Assignment
from newkinds.cells import plain_cell
from newkinds.evaluation.known_quality import KnownQuality, from_dict
from newkinds.evaluation.scores import Scores
from newkinds.methods.base import Snapshot
from newkinds.runs import names
from newkinds.runs.folder import RunFolder
from newkinds.tensors import from_bytes, to_bytes


def put_assignment(run: RunFolder, found: Assignment) -> None:
    """Keep the answer: its numbers, its columns, and last the table, which marks the run as sorted."""
    run.put_array(names.PROBABILITIES, found.probabilities)
    run.put_json(names.ASSIGNMENT, {"columns": list(found.columns), "source": dict(found.source)})
    run.put(names.KINDS, found.table())


def read_assignment(run: RunFolder) -> Assignment:
    """Return the answer of a finished run."""
    rows = csv.DictReader(io.StringIO(run.get(names.KINDS).decode()))
    about = run.get_json(names.ASSIGNMENT)
    probabilities = run.get_array(names.PROBABILITIES)
    paths = tuple(plain_cell(row["path"]) for row in rows)
    return Assignment(paths, tuple(about["columns"]), probabilities, {**about["source"], "version": run.version})


def read_scores(run: RunFolder) -> tuple[Scores, Scores, tuple[str, ...]] | None:
    """Return the scores of the kinds and of k-means on the features, and the truth, if the run was scored."""
    if not run.lists(names.SCORES):
        return None
    kept = run.get_json(names.SCORES)
    return Scores(**kept["discovered"]), Scores(**kept["kmeans"]), tuple(kept["truth"])


def read_known_quality(run: RunFolder) -> KnownQuality | None:
    """Return how well a run tells the known kinds apart, None if it does not say."""
    return from_dict(run.get_json(names.KNOWN_QUALITY)) if run.lists(names.KNOWN_QUALITY) else None


def put_snapshot(run: RunFolder, taken: Snapshot) -> None:
    """Keep a snapshot, in half precision, which is more than figures of it show."""
    arrays = {"embedding": taken.embedding, "p": taken.p, "q": taken.q}
    tensors = {name: torch.from_numpy(array).half() for name, array in arrays.items()}
    tensors["items"] = torch.from_numpy(taken.items)
    run.put(names.snapshot(taken.epoch), to_bytes(tensors, {"epoch": taken.epoch}))


def read_snapshots(run: RunFolder) -> list[Snapshot]:
    """Return the snapshots that a run kept, the start first."""
    found = []
    for name in run.listed(names.SNAPSHOTS):
        tensors, about = read_tensors(run, name)
        values = {key: tensors[key].float().numpy() for key in ("embedding", "p", "q")}
        found.append(Snapshot(about["epoch"], tensors["items"].numpy(), **values))
    return found


def put_tensors(run: RunFolder, name: str, tensors: Mapping[str, Tensor]) -> None:
    """Keep tensors as a file."""
    run.put(name, to_bytes(tensors, {}))


def read_tensors(run: RunFolder, name: str) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Return the tensors of a file and their metadata."""
    return from_bytes(run.get(name), str(run.path / name))
