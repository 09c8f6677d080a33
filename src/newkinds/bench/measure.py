"""Measure the cells of a table: every run a run folder, every result a small file, nothing measured twice."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from newkinds import api
from newkinds.bench.figures import figure_data
from newkinds.bench.setups import OURS, PRESETS, SETUPS, Trained
from newkinds.bench.tables import TABLES, Row, Table
from newkinds.datasets import named
from newkinds.errors import DataError, NewkindsError, UsageError, unknown_name
from newkinds.evaluate import Scores
from newkinds.figures import draw_figures, shown
from newkinds.images.imageset import ImageSet
from newkinds.methods import METHODS
from newkinds.presets import find_preset
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds.runs import RunFolder
from newkinds.runs.files import digest, write_atomic
from newkinds.runs.weights import network_about
from newkinds.settings import Settings
from newkinds.spread import check_spread, spread
from newkinds.version import __version__

FIGURES = "figures"  # in the folder of results: what figures are made of
RESULTS, RUNS, WEIGHTS = Path("bench/results"), Path("runs/bench"), Path("weights")


@dataclass(frozen=True)
class Where:
    """Where a bench reads and writes. data: the folder of the data sets; None: $NEWKINDS_DATA."""

    results: Path = RESULTS
    runs: Path = RUNS
    weights: Path = WEIGHTS
    data: Path | None = None


@dataclass(frozen=True)
class Cell:
    """What is measured at once: a row of a table on one set of unsorted pictures, with one seed."""

    setup: str
    part: str
    row: Row
    preset: str
    seed: int
    network: str | None = None
    each: int | None = None

    @property
    def name(self) -> str:
        """What its run folder and its result file are called: the same for the same work in several tables."""
        part = self.part.replace(":", "-") + (f"-{self.each}-each" if self.each else "")
        preset = self.preset if self.network is None else f"{self.preset}-{re.sub(r'[^a-z0-9]+', '_', self.network)}"
        return "--".join([part, *row_name(self.setup, self.row), preset, str(self.seed)])

    @property
    def counting(self) -> Cell:
        """The estimate of the number of kinds that this takes."""
        return replace(self, row=TABLES["k-estimates"].rows[0])

    @property
    def known(self) -> str:
        """The known part: that with the probes, where kinds are counted."""
        if self.row.method == "count" and self.network is None:
            return SETUPS[self.setup].counted_with
        return self.taught

    @property
    def taught(self) -> str:
        """The known part that f is trained on."""
        setup = SETUPS[self.setup]
        if self.network is not None and setup.beside is not None:
            return setup.beside
        return (self.knows_no_probes and setup.but_probes) or setup.known

    @property
    def knows_no_probes(self) -> bool:
        """Whether f must not have seen the probes: where Algorithm 2 counts, and DTC takes its number, as published."""
        return self.row.method in ("count", "dtc") and self.row.kinds == "auto"


def row_name(setup: str, row: Row) -> tuple[str, str]:
    """Return what tells a row apart in the names of files: the method with what is changed, and the number of kinds."""
    words = [row.method]
    for key, value in row.settings(setup).items():
        words.append(str(value) if key == "discover.variant" else f"{key.rpartition('.')[2]}-{value}")
    return "-".join(words), f"k-{row.kinds}"


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
    """Measure what a table lacks, as far as the data is there, and return the names of its result files.

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
    wanted = _wanted(every, TABLES[table], only)
    ready = _with_data(wanted, where, progress)
    left = [cell for cell in ready if not (where.results / f"{cell.name}.json").exists()]
    progress.say(f"{table}: {len(ready) - len(left)} of {len(wanted)} results are there, {len(left)} to measure.")
    _prepare(left, where, progress)
    # Estimates of the number of kinds come first: other rows take them.
    counted = list({cell.counting.name: cell.counting for cell in left if _is_counted(cell)}.values())
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
    done = [cell for cell in wanted if (where.results / f"{cell.name}.json").exists()]
    if TABLES[table].kind == "figure":
        for cell in done:
            _draw(cell, where, progress)
    return [cell.name for cell in done]


def _draw(cell: Cell, where: Where, progress: Progress) -> None:
    """Draw the figures of a cell's run into its folder, and keep what those without pictures are made of."""
    file = where.results / FIGURES / f"{cell.name}.json"
    if file.exists() or not (where.runs / cell.name).exists():
        return
    run = RunFolder.open(where.runs / cell.name)
    images = opened(cell.part, where.data, cell.each)
    for path in draw_figures(run, images, run.path / "figures", progress):
        progress.say(str(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, (json.dumps(figure_data(shown(run, images))) + "\n").encode())


def cells(table: Table, preset: str, seeds: int) -> list[Cell]:
    """Return all that a table is made of, each once: seed by seed, data set by data set, row by row."""
    found = [
        Cell(setup, part, row, preset, seed)
        for seed in range(seeds)
        for setup in table.setups
        for row in table.rows
        for part in SETUPS[setup].unsorted
        if row.paper.get(setup) or not row.paper or table.kind != "scores"
    ]
    return list({cell.name: cell for cell in found}.values())


def _wanted(every: Sequence[Cell], table: Table, only: Sequence[str]) -> list[Cell]:
    """Return the cells that are named; where no data, or no row, is named, those of all."""
    data = {name for setup in table.setups for name in (setup, *SETUPS[setup].unsorted)}
    rows = {name for setup in table.setups for row in table.rows for name in _names(setup, row)}
    for name in only:
        if name not in data | rows:
            raise unknown_name("data set or row", name, sorted(data | rows))
    of_data, of_rows = data.intersection(only), rows.intersection(only)
    return [
        cell
        for cell in every
        if (not of_data or of_data & {cell.setup, cell.part})
        and (not of_rows or of_rows & _names(cell.setup, cell.row))
    ]


def _names(setup: str, row: Row) -> set[str]:
    return {row.label, row.method, row_name(setup, row)[0]}


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


@lru_cache(maxsize=32)
def opened(source: str, data: Path | None, each: int | None = None) -> ImageSet:
    """Return a set of pictures by name, opened once in a process; each: so many of each kind, drawn at random."""
    if each is None:
        images = named(source, data=data)
        assert images is not None
        return images
    images = opened(source, data)
    order = generator(0, f"each of {source}").permutation(len(images))
    assert images.labels is not None
    mine = [order[images.labels[order] == label][:each] for label in range(len(images.classes))]
    return images.select(np.sort(np.concatenate(mine)))


def _prepare(left: Sequence[Cell], where: Where, progress: Progress) -> None:
    """Train every f and learn every lesson that the cells share."""
    for cell in {(cell.setup, cell.taught, _lesson(cell)): cell for cell in left}.values():
        f_of(cell, where, progress)
        if (lesson := _lesson(cell)) is not None:
            lesson_of(cell, lesson, where, progress)


def _lesson(cell: Cell) -> str | None:
    """Return what a cell's method learns from the known kinds beside f."""
    return None if cell.row.method == "count" else METHODS[cell.row.method].lesson


def _is_counted(cell: Cell) -> bool:
    """Return whether a cell takes an estimate of the number of kinds."""
    finds_itself = cell.row.settings(cell.setup).get("pairs.unknown") == "drop"
    return cell.row.kinds == "auto" and not finds_itself


def settings_of(cell: Cell) -> Settings:
    """Return the settings of a cell but for the number of kinds: the preset's, with what the row changes."""
    setup, method = SETUPS[cell.setup], cell.row.method
    changes = {**setup.probes(), **cell.row.settings(cell.setup), "seed": cell.seed}
    if cell.preset == OURS:
        changes = {**setup.own, **changes}
    if method != "count":
        changes["method"] = method
    if cell.network is not None:
        changes["network"] = cell.network
    return api.combine(None, changes, None if cell.preset == OURS else find_preset(f"{cell.setup}-{cell.preset}"))


def shared_settings(cell: Cell) -> Settings:
    """Return the settings of what all rows share, f and lessons: what these do not look at is as by default."""
    chosen = settings_of(replace(cell, row=Row("shared", "dtc", {}), seed=0))
    kept = {name: getattr(chosen, name) for name in ("images", "pretrain", "similarity", "centroids", "network")}
    return Settings().model_copy(update=kept)


def f_of(cell: Cell, where: Where, progress: Progress) -> Path | None:
    """Return the file of f that a cell starts from: one that is kept, or trained here first, with the seed 0.

    None: f is the network that was named, trained elsewhere.
    """
    setup = SETUPS[cell.setup]
    if cell.network is not None:
        return None
    but_probes = cell.taught == setup.but_probes
    f = setup.f_but_probes if but_probes else setup.f
    if cell.preset == OURS and f is not None:
        return _trained(f, cell, where, progress)
    out = where.runs / _cut("-".join(["f", cell.setup, cell.preset, *(["but-probes"] if but_probes else [])]), cell)
    known = opened(cell.taught, where.data, cell.each)
    return api.pretrain_known(known, out=out, settings=shared_settings(cell), data=where.data, progress=progress)


def _trained(f: Trained, cell: Cell, where: Where, progress: Progress) -> Path:
    """Return the file of an f of ours, trained first where it is not kept."""
    file = where.weights / f"{f.weights}.safetensors"
    if file.exists():
        return file
    setup = SETUPS[cell.setup]
    known = setup.but_probes if f is setup.f_but_probes and setup.but_probes else setup.known
    return api.pretrain_known(
        opened(known, where.data, cell.each),
        out=where.runs / _cut(f.weights, cell),
        settings=api.combine(None, f.recipe),
        weights=None if f.after is None else _trained(f.after, cell, where, progress),
        data=where.data,
        progress=progress,
    )


def _cut(name: str, cell: Cell) -> str:
    """Return the name of what is learnt from the known part, which differs where only some pictures are taken."""
    return f"{name}-{cell.each}-each" if cell.each else name


def lesson_of(cell: Cell, lesson: str, where: Where, progress: Progress) -> Path:
    """Return the file of what a method learns from the known kinds beside f, learnt here first, with the seed 0."""
    return api.prepare(
        opened(cell.known, where.data, cell.each),
        lesson,
        out=where.runs / _cut(f"{lesson}-{cell.setup}-{cell.preset}", cell),
        weights=f_of(cell, where, QUIET),
        settings=shared_settings(cell),
        data=where.data,
        progress=progress,
    )


def _measured(cell: Cell, where: Where) -> tuple[Cell, NewkindsError | None]:
    """Measure a cell unless it is there; an error is returned, so that the others go on."""
    try:
        if not (where.results / f"{cell.name}.json").exists():
            _measure(cell, where)
    except NewkindsError as error:
        return cell, error
    return cell, None


def _measure(cell: Cell, where: Where) -> None:
    """Run a cell in its run folder and write its result."""
    settings, weights = settings_of(cell), f_of(cell, where, QUIET)
    known, unsorted = (opened(part, where.data, cell.each) for part in (cell.known, cell.part))
    out = where.runs / cell.name
    begun, started = out.exists(), time.monotonic()
    values: dict[str, Any] = {"true_kinds": len(unsorted.classes)}
    if cell.row.method == "count":
        count = api.count(known, unsorted, out=out, weights=weights, settings=settings, data=where.data)
        kept = ("k", "low", "high", "k_accuracy", "k_index")
        values |= {"kinds": count["k"], "count": {key: count[key] for key in kept if key in count}}
        values["error_in_k"] = abs(count["k"] - len(unsorted.classes))
    else:
        kinds: int | str = len(unsorted.classes) if cell.row.kinds == "true" else cell.row.kinds
        if _is_counted(cell):
            estimate = where.results / f"{cell.counting.name}.json"
            if not estimate.exists():
                raise DataError(f"The number of kinds that it takes, {estimate.name}, could not be estimated.")
            kinds = json.loads(estimate.read_text())["kinds"]
        lesson = _lesson(cell)
        found = api.discover(
            known,
            unsorted,
            out=out,
            kinds=kinds,
            weights=weights,
            truth="folders",
            settings=settings,
            data=where.data,
            lessons={} if lesson is None else {lesson: lesson_of(cell, lesson, where, QUIET)},
            page=False,
            model=False,
        )
        assert found.scores is not None
        values |= {"kinds": found.n_kinds, **_scores(found.scores)}
    run = RunFolder.open(out)
    about = {
        "data": cell.part,
        "known": cell.known,
        "setup": cell.setup,
        "method": cell.row.method,
        "changed": cell.row.settings(cell.setup),
        "kinds_asked": cell.row.kinds,
        "preset": cell.preset,
        "seed": cell.seed,
        "version": __version__,
        "pictures": len(unsorted),
        **({} if cell.each is None else {"each": cell.each}),
        "epochs": epochs_of(run),
        "seconds": None if begun else round(time.monotonic() - started, 1),
        "machine": machine(run.threads),
        "f": {"network": cell.network} if weights is None else about_f(weights),
        "differs_from_paper": differences(cell, run.settings),
    }
    text = json.dumps({**about, **_rounded(values)}, indent=1, ensure_ascii=False)
    where.results.mkdir(parents=True, exist_ok=True)
    write_atomic(where.results / f"{cell.name}.json", (text + "\n").encode())


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


def differences(cell: Cell, settings: Settings) -> dict[str, list[Any]]:
    """Return the settings of a run that differ from the paper's, of those that the method uses: ours and the paper's.

    What f was trained with is in `f`; whatever a setting says, f is what it is.
    """
    paper = find_preset(f"{cell.setup}-paper").settings(settings.discover.variant)
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
