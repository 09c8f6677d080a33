"""What a run found, as its folder keeps it: the assignment, snapshots, and how near the known kinds are."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from newkinds.assignment import Assignment
from newkinds.cells import plain_cell
from newkinds.evaluation.known_quality import KnownQuality, from_dict
from newkinds.evaluation.scores import Scores
from newkinds.methods.base import Snapshot
from newkinds.rehearsal.trust import Trust
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
    with run.understood(names.KINDS):
        rows = csv.DictReader(io.StringIO(run.get(names.KINDS).decode()))
        paths = tuple(plain_cell(row["path"]) for row in rows)
    probabilities = run.get_array(names.PROBABILITIES)
    with run.understood(names.ASSIGNMENT):
        about = run.get_json(names.ASSIGNMENT)
        source = {**about["source"], "version": run.version}
        return Assignment(paths, tuple(about["columns"]), probabilities, source)


def restore_table(run: RunFolder, names_in_order: Sequence[str]) -> bool:
    """Write kinds.csv as the machine made it, where it was changed; return whether these are the pictures of the run.

    The names of the pictures stand nowhere else: their hash tells whether they are right. The run is open for writing.
    """
    about, probabilities = run.get_json(names.ASSIGNMENT), run.get_array(names.PROBABILITIES)
    if len(names_in_order) != len(probabilities):
        return False
    made = Assignment(tuple(names_in_order), tuple(about["columns"]), probabilities)
    return run.restore(names.KINDS, made.table())


def method_of(run: RunFolder) -> str:
    """Return the method that sorted the pictures: the one that was set, or another that rehearsals chose."""
    with run.understood(names.ASSIGNMENT):
        source = run.get_json(names.ASSIGNMENT)["source"] if run.lists(names.ASSIGNMENT) else {}
        return str(source.get("method", run.settings.method))


def read_scores(run: RunFolder) -> tuple[Scores, Scores, tuple[str, ...]] | None:
    """Return the scores of the kinds and of k-means on the features, and the truth, if the run was scored."""
    if not run.lists(names.SCORES):
        return None
    with run.understood(names.SCORES):
        kept = run.get_json(names.SCORES)
        truth = tuple(kept["truth"])
        found, baseline = (Scores.from_dict(kept[key], len(truth)) for key in ("discovered", "kmeans"))
        return found, baseline, truth


def read_known_quality(run: RunFolder) -> KnownQuality | None:
    """Return how well a run tells the known kinds apart, None if it does not say."""
    with run.understood(names.KNOWN_QUALITY):
        return from_dict(run.get_json(names.KNOWN_QUALITY)) if run.lists(names.KNOWN_QUALITY) else None


def read_trust(run: RunFolder) -> Trust | None:
    """Return what to expect of a run's answer, None if no rehearsals were asked for."""
    with run.understood(names.TRUST):
        return Trust.from_dict(run.get_json(names.TRUST)) if run.lists(names.TRUST) else None


def read_rehearsal(run: RunFolder) -> dict[str, Any] | None:
    """Return how well hidden known kinds were sorted, and what was tried and chosen; None if it was not asked for."""
    found: dict[str, Any] | None = run.get_json(names.REHEARSAL) if run.lists(names.REHEARSAL) else None
    return found


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
        with run.understood(name):
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
