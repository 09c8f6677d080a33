"""Commands that compare and measure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import newkinds as nk
from newkinds.cli.base import (
    Backend,
    Data,
    Jobs,
    Kinds,
    Known,
    Out,
    Quiet,
    Set,
    SettingsFile,
    Truth,
    Unsorted,
    Weights,
    app,
    kinds_from,
    out,
    progress_for,
    settings_from,
)
from newkinds.cli.show import show_comparison


@app.command()
def compare(
    known: Known,
    unsorted: Unsorted,
    folder: Out,
    methods: Annotated[
        str, typer.Option(help="Names from `newkinds methods`, with commas, or all.")
    ] = "kmeans,lsc,mcl,dtc",
    kinds: Kinds = None,
    seeds: Annotated[int, typer.Option(help="How many runs of each method.")] = 3,
    truth: Truth = None,
    weights: Weights = None,
    data: Data = None,
    settings: SettingsFile = None,
    set_: Set = None,
    jobs: Jobs = 1,
    backend: Backend = "loky",
    quiet: Quiet = False,
) -> None:
    """Sort the same pictures by several methods, on one network, and show them side by side.

    Example: newkinds compare photos/known photos/unsorted --methods kmeans,lsc,dtc --kinds 12 --out runs/all
    """
    found = nk.compare(
        known,
        unsorted,
        out=folder,
        methods=list(nk.methods()) if methods == "all" else methods.split(","),
        seeds=seeds,
        truth=truth,
        weights=weights,
        data=data,
        settings=settings_from(settings, set_, {"kinds": kinds_from(kinds)}),
        jobs=jobs,
        backend=backend,
        progress=progress_for(quiet),
    )
    show_comparison(found)


@app.command()
def bench(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="One of the paper's; without: a list.")] = None,
    data: Data = None,
    seeds: Annotated[int, typer.Option(help="How many runs of each cell.")] = 1,
    preset: Annotated[str, typer.Option(help="ours, paper, authors or quick.")] = "ours",
    only: Annotated[list[str] | None, typer.Option(help="A data set, a part of one or a row. May be repeated.")] = None,
    network: Annotated[str | None, typer.Option(help="An f trained already: timm:NAME, module:function.")] = None,
    each: Annotated[int | None, typer.Option(help="So many pictures of each kind, where all take too long.")] = None,
    note: Annotated[str, typer.Option(help="Words about the data, kept in every result.")] = "",
    jobs: Jobs = 1,
    backend: Backend = "loky",
    results: Annotated[Path, typer.Option(help="Where the results are kept.")] = Path("bench/results"),
    runs: Annotated[Path, typer.Option(help="Where the run folders go.")] = Path("runs/bench"),
    weights: Annotated[Path, typer.Option(help="The folder of networks that are trained already.")] = Path("weights"),
    render: Annotated[bool, typer.Option("--render", help="Make the page and the figures from the results.")] = False,
    docs: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("docs"),
    quiet: Quiet = False,
) -> None:
    """Measure one of the paper's tables again, as far as the data is there; what is measured is not repeated.

    Example: newkinds bench known-k --data ~/data --seeds 3 --only omniglot
    """
    from newkinds.bench import Where
    from newkinds.bench import bench as run_bench
    from newkinds.bench import render as render_bench

    if render:
        for file in render_bench(results, docs):
            out.print(str(file), markup=False)
        return
    if table is None:
        _show_tables(results, preset, seeds)
        return
    where = Where(results, runs, weights, data, note)
    names = run_bench(
        table,
        seeds=seeds,
        preset=preset,
        only=only or (),
        network=network,
        each=each,
        where=where,
        jobs=jobs,
        backend=backend,
        progress=progress_for(quiet),
    )
    out.print(f"{len(names)} results in {results}", markup=False)


def _show_tables(results: Path, preset: str, seeds: int) -> None:
    """List the paper's tables: what they are, what they need, how long they take, and how much of them is there."""
    from rich.table import Table

    from newkinds.bench import SETUPS, TABLES, cells
    from newkinds.datasets import DATASETS

    shown = Table("table", "what", "data", "minutes", "measured", box=None, pad_edge=False)
    for one in TABLES.values():
        names = [cell.name for cell in cells(one, preset, seeds)]
        there = sum((results / f"{name}.json").exists() for name in names)
        shown.add_row(one.name, one.title, ", ".join(one.setups), str(one.minutes), f"{there} of {len(names)}")
    out.print(shown)
    out.print("\nMinutes are about those of two cores, for all of a table and one seed. The data sets:")
    for dataset in dict.fromkeys(part.partition(":")[0] for setup in SETUPS.values() for part in setup.unsorted):
        out.print(f"  {dataset}: {DATASETS[dataset].needs}", markup=False)
