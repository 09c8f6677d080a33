"""The table of a comparison: scores and costs of each method over the seeds, and how far the methods agree."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.compare.folder import COST, TABLE, F
from newkinds.equations import clustering_accuracy
from newkinds.evaluation.coverage import coverage
from newkinds.files import write_atomic
from newkinds.images.imageset import ImageSet
from newkinds.methods.registry import METHODS
from newkinds.progress import Progress
from newkinds.report.page import make_page
from newkinds.report.run import report_data
from newkinds.runs import RunFolder, names
from newkinds.runs.results import read_assignment, read_scores

SCORES = ("acc", "nmi_geometric", "ari")
MIXED = ("all", "old", "new", "named", "auroc")  # where the heap is mixed
Truth = tuple[str, ...] | None  # of the pictures of a run, if it was scored


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    path: the folder. methods: a row for each, with the mean and the standard deviation over the seeds of every score
    (where the truth is known; those of MIXED where the heap is), of the number of kinds, of seconds and of megabytes;
    n, of: how many pictures it was scored on, and how many there are. Where not all runs were scored against one truth,
    there are none of these.
    agreement: how far two methods agree, the share of pictures that both put into the same kinds, matched one to one;
    mean over the seeds, (M, M). learnt: f and the auxiliary networks, which are trained once for all methods and seeds,
    with the seconds that each took; None where training was interrupted, and so not timed. remark: on which pictures
    the methods were scored, where that is not all of them, or why they have no scores.
    """

    path: Path
    methods: tuple[dict[str, Any], ...]
    agreement: tuple[tuple[float, ...], ...]
    learnt: dict[str, float | None]
    remark: str = ""

    @property
    def page(self) -> Path:
        """The report."""
        return self.path / names.PAGE

    def table(self) -> bytes:
        """Return the rows as CSV."""
        buffer = io.StringIO()
        columns = dict.fromkeys(key for row in self.methods for key in row)
        writer = csv.DictWriter(buffer, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.methods)
        return buffer.getvalue().encode()


def tabulate(folder: Path, methods: Sequence[str], seeds: int) -> Comparison:
    """Read the runs and tabulate them."""
    labels: dict[str, list[Any]] = {}
    scores, rows = _scores(folder, methods, seeds), []
    truths = {name: {scores[name, seed][1] for seed in range(seeds)} for name in methods}
    every = set().union(*truths.values())
    common = every.pop() if len(every) == 1 else None
    for name in methods:
        values: dict[str, list[float]] = {}
        labels[name] = []
        for seed in range(seeds):
            run = RunFolder.open(folder / f"{name}-{seed}")
            found = read_assignment(run)
            labels[name].append(found.labels)
            cost = run.get_json(COST)
            known = {"kinds": found.n_kinds, **{key: value for key, value in cost.items() if value is not None}}
            if common is not None:
                known |= scores[name, seed][0]
            for key, value in known.items():
                values.setdefault(key, []).append(float(value))
        rows.append({"method": name, "line": METHODS[name].line, **_summary(values), **_counts(common)})
    agreement = tuple(tuple(_agreement(labels[x], labels[y]) for y in methods) for x in methods)
    learnt = {
        name: RunFolder.open(folder / name).get_json(COST)["seconds"]
        for name in (F, *auxiliaries(methods))
        if (folder / name / names.ABOUT).exists()
    }
    return Comparison(folder, tuple(rows), agreement, learnt, _remark(truths))


def _counts(truth: Truth) -> dict[str, int | None]:
    """Return how many pictures all runs were scored on, and of how many. truth: of all of them, if it was the same."""
    covered = None if truth is None else coverage(truth)
    return {"n": None if covered is None else covered.pictures, "of": None if covered is None else covered.of}


def _remark(truths: Mapping[str, set[Truth]]) -> str:
    """Return on which pictures the methods were scored, if not on all, or that they had different truths."""
    different = set().union(*truths.values())
    if len(different) == 1:
        truth = different.pop()
        return "" if truth is None else coverage(truth).in_words()
    parts = {truth: "no truth" if truth is None else coverage(truth).part for truth in different}
    each = "; ".join(f"{name}: {' or '.join(sorted(parts[truth] for truth in own))}" for name, own in truths.items())
    return f"The runs were not scored against the same truth, so their scores are not shown ({each})."


def _scores(folder: Path, methods: Sequence[str], seeds: int) -> dict[tuple[str, int], tuple[dict[str, float], Truth]]:
    """Return the scores of each run by method and seed, none where too few pictures have a truth, and that truth."""
    found = {}
    for run in product(methods, range(seeds)):
        scored = read_scores(RunFolder.open(folder / f"{run[0]}-{run[1]}"))
        values = {} if scored is None else scored[0].to_dict()
        values |= values.get("mixed") or {}
        kept = {key: value for key in (*SCORES, *MIXED) if (value := values.get(key)) is not None}
        found[run] = kept, None if scored is None else scored[2]
    return found


def _agreement(first: list[Any], second: list[Any]) -> float:
    """Return the mean agreement of two methods over the seeds."""
    return float(np.mean([clustering_accuracy(a, b) for a, b in zip(first, second, strict=True)]))


def _summary(values: dict[str, list[float]]) -> dict[str, float | None]:
    """Return the mean and the standard deviation of each value; of one value there is no deviation."""
    row: dict[str, float | None] = {}
    mixed = MIXED if any(key in values for key in MIXED) else ()
    for key in (*SCORES, *mixed, "kinds", "seconds", "megabytes"):
        some = values.get(key, [])
        row[key] = float(np.mean(some)) if some else None
        row[f"{key}_std"] = float(np.std(some, ddof=1)) if len(some) > 1 else None
    return {key: None if value is not None and math.isnan(value) else value for key, value in row.items()}


def auxiliaries(methods: Sequence[str]) -> list[str]:
    """Return the auxiliary networks of the methods, each once."""
    found = (METHODS[method].auxiliary for method in methods)
    return list(dict.fromkeys(one.name for one in found if one is not None))


def write_table(found: Comparison, shown: RunFolder, pictures: ImageSet, progress: Progress) -> None:
    """Write the table and the page, which shows one run beside it."""
    values = {"methods": found.methods, "agreement": found.agreement, "learnt": found.learnt, "remark": found.remark}
    folder = found.path
    write_atomic(folder / TABLE, (json.dumps(values, indent=2) + "\n").encode())
    write_atomic(folder / "table.csv", found.table())
    data = report_data(shown, pictures)
    page = make_page(replace(data, title=folder.resolve().name, comparison=values), progress)
    write_atomic(folder / names.PAGE, page, root=folder)
