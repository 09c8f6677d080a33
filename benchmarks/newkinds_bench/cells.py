"""What a table is made of: cells, each with its settings and the names of its files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from newkinds.configure import Settings
from newkinds.errors import UsageError, unknown_name
from newkinds.methods.registry import METHODS
from newkinds.presets import combine, find_preset
from newkinds.settings import CoreSettings
from newkinds_bench.folders import is_folder
from newkinds_bench.setups import OURS, SETUPS
from newkinds_bench.tables import TABLES, Row, Table


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
        if is_folder(self.part):
            return setup.known.replace("DRAW", self.part.rpartition("-")[2])
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


def cells(table: Table, preset: str, seeds: int) -> list[Cell]:
    """Return all that a table is made of, each once: seed by seed, data set by data set, row by row."""
    found = [
        Cell(setup, part, row, preset, seed)
        for seed in range(seeds)
        for setup in table.setups
        for row in table.rows
        for part in SETUPS[setup].unsorted
        if row.method and (row.paper.get(setup) or not row.paper or table.kind != "scores")
    ]
    return list({cell.name: cell for cell in found}.values())


def chosen_cells(every: Sequence[Cell], table: Table, only: Sequence[str]) -> list[Cell]:
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


def lesson_name(cell: Cell) -> str | None:
    """Return what a cell's method learns from the known kinds beside f."""
    auxiliary = None if cell.row.method == "count" else METHODS[cell.row.method].auxiliary
    return None if auxiliary is None else auxiliary.name


def is_counted(cell: Cell) -> bool:
    """Return whether a cell takes an estimate of the number of kinds."""
    finds_itself = cell.row.settings(cell.setup).get("pairs.unknown") == "drop"
    return cell.row.kinds == "auto" and not finds_itself


def settings_of(cell: Cell) -> CoreSettings:
    """Return the settings of a cell but for the number of kinds: the preset's, with what the row changes."""
    setup, method = SETUPS[cell.setup], cell.row.method
    changes = {**setup.probes(), **cell.row.settings(cell.setup), "seed": cell.seed, "rehearse.rehearsals": 0}
    if cell.preset == OURS:
        profile = "auto" if setup.profile == "photos" else setup.profile  # f may be trained here all the same
        changes = {"profile": profile, **setup.own, **setup.own_of.get(method, {}), **changes}
    changes.setdefault("heap", "new")  # as in the paper's tables
    if method != "count":
        changes["method"] = method
    else:
        changes.setdefault("count.estimator", "paper")
    network = cell.network or setup.network
    if network is not None:
        changes["network"] = network
    if setup.is_mixed and cell.preset != OURS:
        raise UsageError(
            f"{setup.title} has no settings {cell.preset!r}: they are the paper's, whose heaps have no known kinds.",
            hint=f"Leave --preset out, or take {OURS!r}.",
        )
    return combine(None, changes, None if cell.preset == OURS else find_preset(f"{cell.setup}-{cell.preset}"))


def shared_settings(cell: Cell) -> CoreSettings:
    """Return the settings of what all rows share, f and lessons: what these do not look at is as by default."""
    chosen = settings_of(replace(cell, row=Row("shared", "dtc", {}), seed=0))
    kept = {
        name: getattr(chosen, name) for name in ("profile", "images", "pretrain", "similarity", "centroids", "network")
    }
    return Settings().model_copy(update=kept)
