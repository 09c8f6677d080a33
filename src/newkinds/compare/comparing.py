"""Comparison of several methods on the same pictures and the same f."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from newkinds import api
from newkinds.arguments import plain_arguments
from newkinds.cache import open_cache
from newkinds.compare.folder import COST, F, claimed, measured
from newkinds.compare.table import Comparison, auxiliaries, tabulate, write_table
from newkinds.errors import UsageError, check_whole, unknown_name
from newkinds.evaluation.truth import read_truth
from newkinds.files import as_path, digest
from newkinds.images import Source, check_out, check_places
from newkinds.images.imageset import ImageSet
from newkinds.memory import explained
from newkinds.methods.registry import COMPARED, DEFAULT, METHODS
from newkinds.networks import is_foreign
from newkinds.opening import open_sets
from newkinds.parallel.jobs import check_spread, spread
from newkinds.pipeline.backbone import open_pretrained
from newkinds.pipeline.choice import choose_backbone
from newkinds.pipeline.pretraining import about
from newkinds.presets import combine
from newkinds.progress import Progress, Warnings, automatic
from newkinds.runs import RunFolder, names
from newkinds.runs.pictures import unsorted_of
from newkinds.runs.results import read_scores
from newkinds.settings import CoreSettings
from newkinds.tensors import read_bytes


@plain_arguments
@explained("compare", "--jobs")
def compare(
    known: Source,
    unsorted: Source,
    *,
    out: str | Path,
    methods: Sequence[str] | None = None,
    kinds: int | str | None = None,
    heap: str | None = None,
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
        known, unsorted, kinds, heap, truth, weights, data, profile, settings, device, offline, progress: as in
            `discover`.
    """
    methods = COMPARED if methods is None else methods
    _check(methods, seeds, jobs, backend)
    check_places(known, unsorted)
    check_out(as_path(out), known, unsorted)
    folder, progress = as_path(out), automatic(progress)
    chosen = combine(settings, {"kinds": kinds, "heap": heap, "profile": profile})
    _check_heap(methods, chosen)
    if not chosen.said("rehearse.rehearsals"):
        chosen = chosen.with_changes({"rehearse.rehearsals": 0})  # the methods are compared with one another
    asked = {"methods": list(methods), "seeds": seeds, "settings": chosen.model_dump(mode="json")}
    asked["weights"] = None if weights is None else digest(read_bytes(as_path(weights)))
    runs = [f"{name}-{seed}" for seed in range(seeds) for name in methods]
    with claimed(folder, asked, [F, *auxiliaries(methods), *runs], progress) as trusted:
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
        file, out = None if weights is None else as_path(weights), begun[0] if begun else first
        chosen, _ = choose_backbone(chosen, given.known, file, out=out, offline=given.offline, progress=progress)
    if given.truth is not None:
        _, unsorted = _opened(given, chosen, weights, progress)
        read_truth(given.truth, unsorted)  # whether it can be: before anything is trained
    on_known: dict[str, Any] = {"settings": chosen, "progress": progress, **given.computing}
    if chosen.kinds == "auto":
        with measured(first):
            counted = api.count(given.known, given.unsorted, out=first, weights=weights, **on_known)
        chosen = chosen.with_changes({"kinds": max(2, counted["k"])})
        weights = weights or first / names.NETWORK
    elif weights is None and not is_foreign(chosen.network) and on_features:
        with measured(first):
            weights = api.pretrain(given.known, out=first, **on_known)
    auxiliary = {}
    for name in auxiliaries(methods):
        with measured(folder / name):
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
    found = tabulate(folder, methods, seeds)
    shown = RunFolder.open(folder / f"{DEFAULT if DEFAULT in methods else methods[0]}-0")
    write_table(found, shown, unsorted_of(shown, given.data, progress, given.unsorted), progress)
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
    known, unsorted = _opened(given, settings, weights, progress)
    data: dict[str, Any] = {"known": about(known), "unsorted": about(unsorted)}
    if weights is not None:
        data["weights"] = digest(read_bytes(as_path(weights)))
    truth = None if given.truth is None else read_truth(given.truth, unsorted)
    return {(name, seed) for name, seed in begun if _is_done(folder / f"{name}-{seed}", data, truth)}


def _opened(
    given: _Given, settings: CoreSettings, weights: str | PathLike[str] | None, progress: Progress
) -> tuple[ImageSet, ImageSet]:
    foreign = open_pretrained(settings, None if weights is None else as_path(weights), given.offline)
    kept = open_cache(progress)
    return open_sets(given.known, given.unsorted, settings, foreign, given.data, kept, progress)


def _is_done(path: Path, data: Mapping[str, Any], truth: tuple[str, ...] | None) -> bool:
    run = RunFolder.open(path)
    if not (run.is_whole and run.lists(names.KINDS) and run.lists(COST)):
        return False
    scored = read_scores(run)
    is_scored = truth is None or (scored is not None and scored[2] == truth)
    return is_scored and all(run.data.get(key) == value for key, value in data.items())


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
    with measured(folder):
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


def _check_heap(methods: Sequence[str], settings: CoreSettings) -> None:
    """Raise an error, before any method is run, if one of them cannot sort a mixed heap and that was asked for."""
    blind = [name for name in methods if settings.heap == "mixed" and not METHODS[name].takes_features(settings)]
    if blind:
        raise UsageError(
            f"{', '.join(blind)} on pixels cannot tell known kinds in the heap.",
            hint="Leave it out of --methods, or leave --heap mixed out.",
        )


def _check(methods: Sequence[str], seeds: int, jobs: int, backend: str) -> None:
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise UsageError(f"methods={methods!r:.60} is no list of names.", hint="`newkinds methods` has them.")
    for name in methods:
        if not isinstance(name, str) or name not in METHODS:
            raise unknown_name("method", name, METHODS)
    if len(set(methods)) != len(methods) or not methods:
        raise UsageError(
            f"Methods {', '.join(methods) or 'none'}: each should be named once.", hint="`newkinds methods` has them."
        )
    check_whole("seeds", seeds, 1, "Leave it out for 3.")
    check_spread(jobs, backend)
