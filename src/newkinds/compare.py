"""Comparison of several methods on the same pictures and the same f: a table, and how far they agree."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from newkinds import api
from newkinds.equations import clustering_accuracy
from newkinds.errors import RunError, UsageError, unknown_name
from newkinds.files import write_atomic
from newkinds.images import Source, check_places
from newkinds.memory import PeakMemory
from newkinds.methods.registry import COMPARED, DEFAULT, METHODS
from newkinds.networks import is_foreign
from newkinds.parallel.jobs import check_spread, spread
from newkinds.pipeline.choice import choose_backbone
from newkinds.presets import combine
from newkinds.progress import Progress, Warnings, automatic
from newkinds.report import write_report
from newkinds.report.run import report_data
from newkinds.runs import RunFolder, names
from newkinds.runs.pictures import unsorted_of
from newkinds.runs.results import read_assignment, read_scores
from newkinds.settings import CoreSettings

ASKED, TABLE, COST = "compare.json", "table.json", names.COST
F = "f"  # the folder of the network that all methods share
SCORES = ("acc", "nmi_geometric", "ari")


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    path: the folder. methods: a row for each, with the mean and the standard deviation over the seeds of every score
    (where the truth is known), of the number of kinds, of seconds and of megabytes. agreement: how far two methods
    agree, the share of pictures that both put into the same kinds, matched one to one; mean over the seeds, (M, M).
    learnt: f and the auxiliary networks, which are trained once for all methods and seeds, with the seconds that each
    took; None where training was interrupted, and so not timed.
    """

    path: Path
    methods: tuple[dict[str, Any], ...]
    agreement: tuple[tuple[float, ...], ...]
    learnt: dict[str, float | None]

    @property
    def page(self) -> Path:
        """The report."""
        return self.path / names.PAGE

    def table(self) -> bytes:
        """Return the rows as CSV."""
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(self.methods[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.methods)
        return buffer.getvalue().encode()


def compare(
    known: Source,
    unsorted: Source,
    *,
    out: str | Path,
    methods: Sequence[str] | None = None,
    kinds: int | str | None = None,
    seeds: int = 3,
    truth: str | Path | None = None,
    weights: str | PathLike[str] | None = None,
    data: str | Path | None = None,
    profile: str | None = None,
    settings: CoreSettings | dict[str, Any] | str | Path | None = None,
    jobs: int = 1,
    backend: str = "loky",
    device: str | None = None,
    offline: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Sort the unsorted pictures by several methods, each with several seeds, on one f.

    The same call again continues: what is finished is not repeated.

    Args:
        out: a folder; f is in `f`, each auxiliary network in its own folder, every run in METHOD-SEED.
        methods: names from `newkinds methods`; default: a few of them.
        seeds: how many, from 0; f and the auxiliary networks are trained with the settings' seed.
        jobs: how many runs at once.
        backend: the joblib backend that runs them: "loky", "threading", "dask" or "ray".
        known, unsorted, kinds, truth, weights, data, profile, settings, device, offline, progress: as in `discover`.
    """
    methods = COMPARED if methods is None else methods
    _check(methods, seeds, jobs, backend)
    check_places(known, unsorted)
    folder, progress = Path(out), automatic(progress)
    chosen = combine(settings, {"kinds": kinds, "profile": profile})
    _claim(folder, {"methods": list(methods), "seeds": seeds, "settings": chosen.model_dump(mode="json")})
    first, asked = folder / F, chosen.network
    on_features = [name for name in methods if METHODS[name].takes_features(chosen)]
    if on_features or chosen.kinds == "auto":
        begun = [one for one in (first, *(folder / f"{name}-0" for name in on_features)) if one.exists()]
        file, out = None if weights is None else Path(weights), begun[0] if begun else first
        chosen, _ = choose_backbone(chosen, known, file, out=out, offline=offline, progress=progress)
    computing: dict[str, Any] = {"data": data, "device": device, "offline": offline}
    on_known: dict[str, Any] = {"settings": chosen, "progress": progress, **computing}
    if chosen.kinds == "auto":
        with _measured(first):
            counted = api.count(known, unsorted, out=first, weights=weights, **on_known)
        chosen = chosen.with_changes({"kinds": max(2, counted["k"])})
        weights = weights or first / names.NETWORK
    elif weights is None and not is_foreign(chosen.network) and on_features:
        with _measured(first):
            weights = api.pretrain(known, out=first, **on_known)
    auxiliary = {}
    for name in _auxiliaries(methods):
        with _measured(folder / name):
            auxiliary[name] = api.prepare(known, name, out=folder / name, weights=weights, **on_known)
    options = {"truth": truth, "auxiliary": auxiliary, **computing}
    others = chosen.with_changes({"network": asked})  # for methods on pixels
    settings_of = {name: chosen if name in on_features else others for name in methods}
    calls = [
        (known, unsorted, folder / f"{name}-{seed}", name, seed, settings_of[name], weights, options)
        for seed in range(seeds)
        for name in methods
    ]
    told: set[str] = set()
    for warnings in spread(_run, calls, title="Comparing", jobs=jobs, backend=backend, progress=progress):
        for text in dict.fromkeys(warnings):
            if text not in told:  # most of them are about the pictures, and come from every run
                progress.warn(text)
        told.update(warnings)
    found = _table(folder, methods, seeds)
    values = {"methods": found.methods, "agreement": found.agreement, "learnt": found.learnt}
    write_atomic(folder / TABLE, (json.dumps(values, indent=2) + "\n").encode())
    write_atomic(folder / "table.csv", found.table())
    shown = RunFolder.open(folder / f"{DEFAULT if DEFAULT in methods else methods[0]}-0")
    page = report_data(shown, unsorted_of(shown, data, progress, unsorted))
    write_report(
        replace(page, title=folder.resolve().name, comparison=values), folder / names.REPORT, progress=progress
    )
    return found


def _check(methods: Sequence[str], seeds: int, jobs: int, backend: str) -> None:
    for name in methods:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    if len(set(methods)) != len(methods) or not methods:
        raise UsageError(
            f"Methods {', '.join(methods) or 'none'}: each should be named once.", hint="`newkinds methods` has them."
        )
    if seeds < 1:
        raise UsageError(f"seeds={seeds} should be at least 1.", hint="Leave it out for 3.")
    check_spread(jobs, backend)


def _claim(folder: Path, asked: dict[str, Any]) -> None:
    """Make the folder, or refuse one that holds something else."""
    RunFolder.check_writable(folder)
    file = folder / ASKED
    if file.exists():
        before = json.loads(file.read_text())
        if before.get("settings") != asked["settings"]:  # methods and seeds may be added
            raise RunError(
                f"{folder} holds a comparison with other settings.",
                hint="Give another folder to --out, or the same settings.",
            )
    elif folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} is not empty, and no comparison.", hint="Give another folder to --out.")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(file, (json.dumps(asked, indent=2) + "\n").encode())


def _run(
    known: Source,
    unsorted: Source,
    folder: Path,
    method: str,
    seed: int,
    settings: CoreSettings,
    weights: str | PathLike[str] | None,
    options: dict[str, Any],
) -> list[str]:
    """Run one method with one seed, unless that is done, and record what it cost; return the run's warnings."""
    progress = Warnings()  # the comparison shows how many runs are done
    if (folder / COST).exists():
        return progress.texts
    chosen = settings.with_changes({"method": method, "seed": seed})
    taken = weights if METHODS[method].takes_features(chosen) else None
    own = METHODS[method].auxiliary
    files = {} if own is None else {own.name: options["auxiliary"][own.name]}
    with _measured(folder):
        api.discover(
            known,
            unsorted,
            out=folder,
            settings=chosen,
            weights=taken,
            page=False,
            progress=progress,
            **{**options, "auxiliary": files},
        )
    return progress.texts


@contextmanager
def _measured(folder: Path) -> Iterator[None]:
    """Record in a folder what making it cost; the time only if that was not interrupted."""
    begun, started, peak = folder.exists(), time.monotonic(), PeakMemory()
    yield
    if not (folder / COST).exists():
        cost = {"seconds": None if begun else time.monotonic() - started, "megabytes": peak.megabytes()}
        write_atomic(folder / COST, (json.dumps(cost) + "\n").encode())


def _auxiliaries(methods: Sequence[str]) -> list[str]:
    """Return the auxiliary networks of the methods, each once."""
    found = (METHODS[method].auxiliary for method in methods)
    return list(dict.fromkeys(one.name for one in found if one is not None))


def _table(folder: Path, methods: Sequence[str], seeds: int) -> Comparison:
    """Read the runs and tabulate them."""
    labels: dict[str, list[Any]] = {}
    rows = []
    for name in methods:
        values: dict[str, list[float]] = {}
        labels[name] = []
        for seed in range(seeds):
            run = RunFolder.open(folder / f"{name}-{seed}")
            found = read_assignment(run)
            labels[name].append(found.labels)
            cost = json.loads((run.path / COST).read_text())
            known = {"kinds": found.n_kinds, **{key: value for key, value in cost.items() if value is not None}}
            if (scored := read_scores(run)) is not None:
                scores = scored[0].to_dict()
                known |= {key: scores[key] for key in SCORES}
            for key, value in known.items():
                values.setdefault(key, []).append(float(value))
        rows.append({"method": name, "line": METHODS[name].line, **_summary(values)})
    agreement = tuple(tuple(_agreement(labels[x], labels[y]) for y in methods) for x in methods)
    learnt = {
        name: json.loads((folder / name / COST).read_text())["seconds"]
        for name in (F, *_auxiliaries(methods))
        if (folder / name / COST).exists()
    }
    return Comparison(folder, tuple(rows), agreement, learnt)


def _agreement(first: list[Any], second: list[Any]) -> float:
    """Return the mean agreement of two methods over the seeds."""
    return float(np.mean([clustering_accuracy(a, b) for a, b in zip(first, second, strict=True)]))


def _summary(values: dict[str, list[float]]) -> dict[str, float | None]:
    """Return the mean and the standard deviation of each value; of one value there is no deviation."""
    row: dict[str, float | None] = {}
    for key in (*SCORES, "kinds", "seconds", "megabytes"):
        some = values.get(key, [])
        row[key] = float(np.mean(some)) if some else None
        row[f"{key}_std"] = float(np.std(some, ddof=1)) if len(some) > 1 else None
    return {key: None if value is not None and math.isnan(value) else value for key, value in row.items()}
