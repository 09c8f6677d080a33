"""Measure the cells of a table: every run a run folder, every result a line of a file, nothing measured twice."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from newkinds import api
from newkinds.errors import DataError, NewkindsError, UsageError, unknown_name
from newkinds.evaluation.scores import Scores
from newkinds.files import digest, write_atomic
from newkinds.images.imageset import ImageSet
from newkinds.methods.dtc.settings import Discover
from newkinds.methods.registry import METHODS
from newkinds.networks.files import network_about
from newkinds.parallel.jobs import check_spread, spread
from newkinds.presets import find_preset
from newkinds.progress import QUIET, Progress
from newkinds.report.figures import draw_figures, shown
from newkinds.runs import RunFolder
from newkinds.settings import CoreSettings
from newkinds.version import __version__
from newkinds_bench.cells import Cell, cells, chosen_cells, is_counted, lesson_name, settings_of
from newkinds_bench.figures import figure_data
from newkinds_bench.house import FIGURES
from newkinds_bench.results import Result, Results
from newkinds_bench.setups import OURS, PRESETS, SETUPS
from newkinds_bench.starts import Where, f_of, lesson_of, opened
from newkinds_bench.tables import TABLES


def bench(
    table: str,
    *,
    seeds: int = 1,
    preset: str = OURS,
    only: Sequence[str] = (),
    network: str | None = None,
    each: int | None = None,
    where: Where | None = None,
    jobs: int = 1,
    backend: str = "loky",
    progress: Progress = QUIET,
) -> list[str]:
    """Measure what a table lacks, as far as the data is there, and return the names of the runs that it has.

    table: one of TABLES. only: names of data sets, of their parts and of rows to measure, instead of all. network: f,
    trained already, instead of the one that belongs to the table. each: take so many pictures of each kind, where all
    of them take too long; such results stand beside no figure of the paper. Data sets that are not there are left out
    with a warning; so is what fails, and the rest goes on.
    """
    if table not in TABLES:
        raise unknown_name("table", table, TABLES)
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    if seeds < 1:
        raise UsageError(f"seeds={seeds} should be at least 1.", hint="Leave it out for 1.")
    if each is not None and each < 2:
        raise UsageError(f"each={each} should be at least 2 pictures of each kind.", hint="Leave it out for all.")
    check_spread(jobs, backend)
    where = where or Where()
    every = [replace(cell, network=network, each=each) for cell in cells(TABLES[table], preset, seeds)]
    wanted = chosen_cells(every, TABLES[table], only)
    ready = _with_data(wanted, where, progress)
    results = Results(where.results)
    there = results.all().keys()
    left = [cell for cell in ready if cell.name not in there]
    progress.say(f"{table}: {len(ready) - len(left)} of {len(wanted)} results are there, {len(left)} to measure.")
    _prepare(left, where, progress)
    # Estimates of the number of kinds come first: other rows take them.
    counted = list({cell.counting.name: cell.counting for cell in left if is_counted(cell)}.values())
    others = [cell for cell in left if cell not in counted]
    failed = []
    for title, some in ((f"{table}, number of kinds", counted), (table, others)):
        work = [(cell, where) for cell in some]
        for cell, error in spread(_measured, work, title=title, jobs=jobs, backend=backend, progress=progress):
            if error is not None:
                failed.append(f"{cell.name}: {error}")
                progress.warn(failed[-1])
    if failed:
        raise DataError(
            f"{len(failed)} of {len(left)} results could not be measured. The last: {failed[-1]}",
            hint="The others are kept; the same line again tries what is missing.",
        )
    there = results.all().keys()
    done = [cell for cell in wanted if cell.name in there]
    if TABLES[table].kind == "figure":
        for cell in done:
            _draw(cell, where, progress)
    return [cell.name for cell in done]


def _draw(cell: Cell, where: Where, progress: Progress) -> None:
    """Draw the figures of a cell's run into its folder, and keep what those without pictures are made of.

    The hash of what is kept goes into the result: runs that were repeated are compared by it.
    """
    results, file = Results(where.results), where.results / FIGURES / f"{cell.name}.json"
    result = results.of(cell.setup)[cell.name]
    if (FIGURES in result and file.exists()) or not (where.runs / cell.name).exists():
        return
    run = RunFolder.open(where.runs / cell.name)
    images = opened(cell.part, where.data, cell.each)
    for path in draw_figures(run, images, run.path / "figures", progress):
        progress.say(str(path))
    data = (json.dumps(figure_data(shown(run, images)), separators=(",", ":")) + "\n").encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, data)
    results.put(cell.setup, cell.name, {**result, FIGURES: digest(data)})


def _with_data(wanted: Sequence[Cell], where: Where, progress: Progress) -> list[Cell]:
    """Return the cells whose data set is there; for each that is not, say why."""
    first = {cell.setup: cell for cell in reversed(wanted)}
    missing = {setup: error for setup, cell in first.items() if (error := _missing(cell, where)) is not None}
    if first and len(missing) == len(first):
        raise next(iter(missing.values()))
    for setup, error in missing.items():
        progress.warn(f"{SETUPS[setup].title} is left out: {error}")
    return [cell for cell in wanted if cell.setup not in missing]


def _missing(cell: Cell, where: Where) -> NewkindsError | None:
    """Return why a cell's pictures cannot be opened, or None."""
    try:
        for part in (cell.part, cell.known):
            opened(part, where.data)
    except NewkindsError as error:
        return error
    return None


def _prepare(left: Sequence[Cell], where: Where, progress: Progress) -> None:
    """Train every f and learn every lesson that the cells share."""
    for cell in {(cell.setup, cell.taught, lesson_name(cell)): cell for cell in left}.values():
        f_of(cell, where, progress)
        if (lesson := lesson_name(cell)) is not None:
            lesson_of(cell, lesson, where, progress)


def _measured(cell: Cell, where: Where) -> tuple[Cell, NewkindsError | None]:
    """Measure a cell unless it is there; an error is returned, so that the others go on."""
    try:
        if cell.name not in Results(where.results).of(cell.setup):
            _measure(cell, where)
    except NewkindsError as error:
        return cell, error
    return cell, None


def _measure(cell: Cell, where: Where) -> None:
    """Run a cell in its run folder and write its result."""
    weights, out = f_of(cell, where, QUIET), where.runs / cell.name
    known, unsorted = (opened(part, where.data, cell.each) for part in (cell.known, cell.part))
    begun, started = out.exists(), time.monotonic()
    values = (_count if cell.row.method == "count" else _discover)(cell, where, known, unsorted, weights)
    run = RunFolder.open(out)
    about: Result = {
        "data": cell.part,
        "known": cell.known,
        "method": cell.row.method,
        "changed": cell.row.settings(cell.setup),
        "kinds_asked": cell.row.kinds,
        "preset": cell.preset,
        "seed": cell.seed,
        "version": __version__,
        "pictures": len(unsorted),
        **({} if cell.each is None else {"each": cell.each}),
        **({"note": where.note} if where.note else {}),
        "epochs": epochs_of(run),
        "seconds": None if begun else round(time.monotonic() - started, 1),
        "machine": machine(run.threads),
        "f": {"network": cell.network or SETUPS[cell.setup].network} if weights is None else about_f(weights),
        "differs_from_paper": differences(cell, run.settings),
        "true_kinds": len(_new_kinds(cell, known, unsorted)),
    }
    Results(where.results).put(cell.setup, cell.name, {**about, **_rounded(values)})


def _count(cell: Cell, where: Where, known: ImageSet, unsorted: ImageSet, weights: Path | None) -> Result:
    """Estimate the number of kinds, and return what came out."""
    count = api.count(
        known,
        unsorted,
        out=where.runs / cell.name,
        weights=weights,
        settings=settings_of(cell),
        data=where.data,
        progress=QUIET,
    )
    kept = ("k", "low", "high", "k_accuracy", "k_index")
    return {
        "kinds": count["k"],
        "count": {key: count[key] for key in kept if key in count},
        "error_in_k": abs(count["k"] - len(unsorted.classes)),
    }


def _discover(cell: Cell, where: Where, known: ImageSet, unsorted: ImageSet, weights: Path | None) -> Result:
    """Sort the unsorted pictures, and return the number of kinds and the scores."""
    kinds: int | str = len(_new_kinds(cell, known, unsorted)) if cell.row.kinds == "true" else cell.row.kinds
    if is_counted(cell):
        estimate = Results(where.results).of(cell.setup).get(cell.counting.name)
        if estimate is None:
            raise DataError(f"The number of kinds that it takes, {cell.counting.name}, could not be estimated.")
        kinds = estimate["kinds"]
    lesson = lesson_name(cell)
    found = api.discover(
        known,
        unsorted,
        out=where.runs / cell.name,
        kinds=kinds,
        weights=weights,
        truth="folders",
        settings=settings_of(cell),
        data=where.data,
        auxiliary={} if lesson is None else {lesson: lesson_of(cell, lesson, where, QUIET)},
        page=False,
        model=False,
        progress=QUIET,
    )
    assert found.scores is not None
    values = {"kinds": found.n_kinds, **_scores(found.scores)}
    mixed = found.scores.mixed
    if SETUPS[cell.setup].is_mixed:
        assert mixed is not None
        values |= {key: getattr(mixed, key) for key in ("all", "old", "new", "named", "auroc")}
    return values


def _new_kinds(cell: Cell, known: ImageSet, unsorted: ImageSet) -> set[str]:
    """Return the kinds that are to be found among the unsorted pictures: of a mixed heap, those that are not known."""
    return set(unsorted.classes) - (set(known.classes) if SETUPS[cell.setup].is_mixed else set())


def _scores(scores: Scores) -> dict[str, Any]:
    """Return ACC, NMI both ways, ARI and the error in the number of kinds."""
    values = scores.to_dict()
    return {key: values[key] for key in ("acc", "nmi_geometric", "nmi_arithmetic", "ari", "error_in_k")}


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(value, 5) if isinstance(value, float) else value for key, value in values.items()}


def epochs_of(run: RunFolder) -> dict[str, int]:
    """Return how many epochs each stage took, as the log has them."""
    found: dict[str, int] = {}
    for record in run.history():
        found[record["stage"]] = found.get(record["stage"], 0) + 1
    return found


def about_f(weights: Path) -> dict[str, Any]:
    """Return what tells which f it was: the network, how it was trained, and the hash of its file."""
    data = weights.read_bytes()
    about = network_about(data, str(weights))
    kept = {key: value for key, value in about.items() if key not in ("classes", "format")}
    return {**kept, "kinds": len(about.get("classes", ())), "sha256": digest(data)}


def machine(threads: int) -> dict[str, Any]:
    """Return what kind of machine this is."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()} CPU"
    return {"device": device, "cores": os.cpu_count(), "threads": threads}


def differences(cell: Cell, settings: CoreSettings) -> dict[str, list[Any]]:
    """Return the settings of a run that differ from the paper's, of those that the method uses: ours and the paper's.

    What f was trained with is in `f`; whatever a setting says, f is what it is.
    """
    if SETUPS[cell.setup].is_mixed:  # of which the paper has none
        return {}
    paper = find_preset(f"{cell.setup}-paper").settings(settings.section(Discover).variant)
    sections = ["count"] if cell.row.method == "count" else list(METHODS[cell.row.method].sections)
    if cell.row.method == "dtc":
        sections.append("initialise")
    ours, theirs = settings.model_dump(mode="json"), paper.model_dump(mode="json")
    found = {} if ours["network"] == theirs["network"] else {"network": [ours["network"], theirs["network"]]}
    for section in sections:
        for key, value in ours[section].items():
            if theirs[section][key] != "auto" and value != theirs[section][key]:
                found[f"{section}.{key}"] = [value, theirs[section][key]]
    return found
