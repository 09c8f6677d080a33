"""Comparison of several methods on the same pictures and the same f: a table, and how far they agree."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from newkinds import api
from newkinds.cache import open_cache
from newkinds.equations import clustering_accuracy
from newkinds.errors import RunError, UsageError, unknown_name
from newkinds.evaluation.coverage import coverage
from newkinds.evaluation.truth import read_truth
from newkinds.files import digest, sealed, unsealed, write_atomic
from newkinds.images import Source, check_out, check_places
from newkinds.memory import PeakMemory
from newkinds.methods.registry import COMPARED, DEFAULT, METHODS
from newkinds.networks import is_foreign
from newkinds.opening import open_sets
from newkinds.parallel.jobs import check_spread, spread
from newkinds.pipeline.backbone import open_pretrained
from newkinds.pipeline.choice import choose_backbone
from newkinds.pipeline.pretraining import about
from newkinds.presets import combine
from newkinds.progress import Progress, Warnings, automatic
from newkinds.report.page import make_page
from newkinds.report.run import report_data
from newkinds.runs import RunFolder, names
from newkinds.runs.lock import FolderLock
from newkinds.runs.pictures import unsorted_of
from newkinds.runs.results import read_assignment, read_scores
from newkinds.settings import CoreSettings
from newkinds.tensors import read_bytes

ASKED, TABLE, COST = "compare.json", "table.json", names.COST
F = "f"  # the folder of the network that all methods share
SCORES = ("acc", "nmi_geometric", "ari")
Truth = tuple[str, ...] | None  # of the pictures of a run, if it was scored


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    path: the folder. methods: a row for each, with the mean and the standard deviation over the seeds of every score
    (where the truth is known), of the number of kinds, of seconds and of megabytes; n, of: how many pictures it was
    scored on, and how many there are. Where not all runs were scored against one truth, there are none of these.
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
    check_out(Path(out), known, unsorted)
    folder, progress = Path(out), automatic(progress)
    chosen = combine(settings, {"kinds": kinds, "profile": profile})
    if not chosen.said("rehearse.rehearsals"):
        chosen = chosen.with_changes({"rehearse.rehearsals": 0})  # the methods are compared with one another
    asked = {"methods": list(methods), "seeds": seeds, "settings": chosen.model_dump(mode="json")}
    asked["weights"] = None if weights is None else digest(read_bytes(Path(weights)))
    runs = [f"{name}-{seed}" for seed in range(seeds) for name in methods]
    with _claimed(folder, asked, [F, *_auxiliaries(methods), *runs], progress) as trusted:
        given = _Given(known, unsorted, truth, data, device, offline)
        found = _compared(folder, given, methods, seeds, chosen, weights, (jobs, backend), trusted, progress)
    return found


@dataclass(frozen=True)
class _Given:
    """What every run of a comparison is given alike, as `discover` takes it."""

    known: Source
    unsorted: Source
    truth: str | Path | None
    data: str | Path | None
    device: str | None
    offline: bool

    @property
    def computing(self) -> dict[str, Any]:
        """Where data lie and where to compute, as arguments."""
        return {"data": self.data, "device": self.device, "offline": self.offline}


def _compared(
    folder: Path,
    given: _Given,
    methods: Sequence[str],
    seeds: int,
    chosen: CoreSettings,
    weights: str | PathLike[str] | None,
    workers: tuple[int, str],
    trusted: bool,
    progress: Progress,
) -> Comparison:
    """Make what is not there yet, and tabulate. workers: jobs and backend. trusted: whether compare.json was intact."""
    first, asked = folder / F, chosen.network
    on_features = [name for name in methods if METHODS[name].takes_features(chosen)]
    if on_features or chosen.kinds == "auto":
        begun = [one for one in (first, *(folder / f"{name}-0" for name in on_features)) if one.exists()]
        file, out = None if weights is None else Path(weights), begun[0] if begun else first
        chosen, _ = choose_backbone(chosen, given.known, file, out=out, offline=given.offline, progress=progress)
    on_known: dict[str, Any] = {"settings": chosen, "progress": progress, **given.computing}
    if chosen.kinds == "auto":
        with _measured(first):
            counted = api.count(given.known, given.unsorted, out=first, weights=weights, **on_known)
        chosen = chosen.with_changes({"kinds": max(2, counted["k"])})
        weights = weights or first / names.NETWORK
    elif weights is None and not is_foreign(chosen.network) and on_features:
        with _measured(first):
            weights = api.pretrain(given.known, out=first, **on_known)
    auxiliary = {}
    for name in _auxiliaries(methods):
        with _measured(folder / name):
            auxiliary[name] = api.prepare(given.known, name, out=folder / name, weights=weights, **on_known)
    others = chosen.with_changes({"network": asked})  # for methods on pixels
    calls = []
    for group, settings, taken in ((on_features, chosen, weights), (set(methods) - set(on_features), others, None)):
        runs = [(name, seed) for seed in range(seeds) for name in methods if name in group]
        done = _done(folder, runs, settings, taken, given, progress) if trusted else set()
        calls += [
            (given, folder / f"{name}-{seed}", name, seed, settings, taken, auxiliary)
            for name, seed in runs
            if (name, seed) not in done
        ]
    calls.sort(key=lambda call: (call[3], methods.index(call[2])))
    _run_all(calls, *workers, progress)
    found = _table(folder, methods, seeds)
    shown = RunFolder.open(folder / f"{DEFAULT if DEFAULT in methods else methods[0]}-0")
    _write_table(found, given, shown, progress)
    return found


def _run_all(calls: Sequence[tuple[Any, ...]], jobs: int, backend: str, progress: Progress) -> None:
    told: set[str] = set()
    for warnings in spread(_run, calls, title="Comparing", jobs=jobs, backend=backend, progress=progress):
        for text in dict.fromkeys(warnings):
            if text not in told:  # most of them are about the pictures, and come from every run
                progress.warn(text)
        told.update(warnings)


def _done(
    folder: Path,
    runs: Sequence[tuple[str, int]],
    settings: CoreSettings,
    weights: str | PathLike[str] | None,
    given: _Given,
    progress: Progress,
) -> set[tuple[str, int]]:
    """Return which runs are finished, whole, and of the pictures, weights and truth that are asked for now."""
    begun = [run for run in runs if (folder / f"{run[0]}-{run[1]}" / names.ABOUT).is_file()]
    if not begun:
        return set()
    file = None if weights is None else Path(weights)
    foreign = open_pretrained(settings, file, given.offline)
    kept = open_cache(progress)
    known, unsorted = open_sets(given.known, given.unsorted, settings, foreign, given.data, kept, progress)
    data: dict[str, Any] = {"known": about(known), "unsorted": about(unsorted)}
    if file is not None:
        data["weights"] = digest(read_bytes(file))
    truth = None if given.truth is None else read_truth(given.truth, unsorted)
    return {(name, seed) for name, seed in begun if _is_done(folder / f"{name}-{seed}", data, truth)}


def _is_done(path: Path, data: Mapping[str, Any], truth: tuple[str, ...] | None) -> bool:
    run = RunFolder.open(path)
    if not (run.is_whole and run.lists(names.KINDS) and run.lists(COST)):
        return False
    scored = read_scores(run)
    is_scored = truth is None or (scored is not None and scored[2] == truth)
    return is_scored and all(run.data.get(key) == value for key, value in data.items())


def _write_table(found: Comparison, given: _Given, shown: RunFolder, progress: Progress) -> None:
    """Write the table and the page, which shows one run beside it."""
    values = {"methods": found.methods, "agreement": found.agreement, "learnt": found.learnt, "remark": found.remark}
    folder = found.path
    write_atomic(folder / TABLE, (json.dumps(values, indent=2) + "\n").encode())
    write_atomic(folder / "table.csv", found.table())
    data = report_data(shown, unsorted_of(shown, given.data, progress, given.unsorted))
    page = make_page(replace(data, title=folder.resolve().name, comparison=values), progress)
    write_atomic(folder / names.PAGE, page, root=folder)


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


@contextmanager
def _claimed(folder: Path, asked: dict[str, Any], parts: Sequence[str], progress: Progress) -> Iterator[bool]:
    """Make the folder, or refuse one that holds something else, and keep others from writing to it.

    parts: the names of the folders in it. Yields whether compare.json, if it was there, was what had been written:
    otherwise nothing is known about the runs, and each is looked at as `discover` does.
    """
    RunFolder.check_writable(folder)
    file = folder / ASKED
    there = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    ours = ASKED in there or there <= {names.LOCK} or any((folder / part / names.ABOUT).is_file() for part in parts)
    if not ours:
        raise RunError(f"{folder} is not empty, and no comparison.", hint="Give another folder to --out.")
    linked = [part for part in (*parts, names.REPORT) if (folder / part).is_symlink()]
    if linked:
        raise RunError(f"{folder / linked[0]} is a link. Nothing is written through links.", hint="Remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        before = _read_asked(file)
        if before is None and there - {names.LOCK}:
            progress.warn(f"{file} was damaged or missing, and is written again; every run is looked at.")
        # Methods and seeds may be added. An earlier version did not record the weights.
        there_before = before or {}
        differing = [key for key in ("settings", "weights") if there_before.get(key, asked[key]) != asked[key]]
        if differing:
            raise RunError(
                f"{folder} holds a comparison with other {differing[0]}.",
                hint=f"Give another folder to --out, or the same {differing[0]}.",
            )
        write_atomic(file, sealed(asked))
        yield before is not None
    finally:
        lock.release()


def _read_asked(file: Path) -> dict[str, Any] | None:
    """Return what compare.json says, None if it is not there or damaged."""
    try:
        found = unsealed(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found.get("settings"), dict) else None


def _run(
    given: _Given,
    folder: Path,
    method: str,
    seed: int,
    settings: CoreSettings,
    weights: str | PathLike[str] | None,
    auxiliary: Mapping[str, Path],
) -> list[str]:
    """Run one method with one seed, or what is not done of it, and record what it cost; return the run's warnings."""
    progress = Warnings()  # the comparison shows how many runs are done
    chosen = settings.with_changes({"method": method, "seed": seed})
    own = METHODS[method].auxiliary
    with _measured(folder):
        api.discover(
            given.known,
            given.unsorted,
            out=folder,
            settings=chosen,
            weights=weights,
            truth=given.truth,
            page=False,
            progress=progress,
            auxiliary={} if own is None else {own.name: auxiliary[own.name]},
            **given.computing,
        )
    return progress.texts


@contextmanager
def _measured(folder: Path) -> Iterator[None]:
    """Record in a run folder what making it cost; the time only if that was not interrupted."""
    begun, started, peak = folder.exists(), time.monotonic(), PeakMemory()
    yield
    with RunFolder.open(folder, writing=True) as run:
        if not run.has(COST):
            cost = {"seconds": None if begun else time.monotonic() - started, "megabytes": peak.megabytes()}
            run.put(COST, (json.dumps(cost) + "\n").encode())


def _auxiliaries(methods: Sequence[str]) -> list[str]:
    """Return the auxiliary networks of the methods, each once."""
    found = (METHODS[method].auxiliary for method in methods)
    return list(dict.fromkeys(one.name for one in found if one is not None))


def _table(folder: Path, methods: Sequence[str], seeds: int) -> Comparison:
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
        for name in (F, *_auxiliaries(methods))
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
        kept = {key: value for key in SCORES if (value := values.get(key)) is not None}
        found[run] = kept, None if scored is None else scored[2]
    return found


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
