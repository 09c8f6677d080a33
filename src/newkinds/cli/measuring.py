"""The command that compares methods."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from newkinds import api
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
    Unsorted,
    Weights,
    app,
    given_settings,
    kinds_from,
    out,
    progress_for,
)
from newkinds.compare import Comparison
from newkinds.compare import compare as compare_methods
from newkinds.methods.registry import METHODS


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
    truth: Annotated[str | None, typer.Option(help="The true kinds: a CSV with path,kind, or 'folders'.")] = None,
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
    given = given_settings(set_, {"kinds": kinds_from(kinds)})
    found = compare_methods(
        known,
        unsorted,
        out=folder,
        methods=list(METHODS) if methods == "all" else methods.split(","),
        seeds=seeds,
        truth=truth,
        weights=weights,
        data=data,
        settings=api.combine(settings, given),
        jobs=jobs,
        backend=backend,
        progress=progress_for(quiet),
    )
    _show_comparison(found)


def _show_comparison(found: Comparison) -> None:
    table = Table(box=None, pad_edge=False)
    names = {"method": "method", "acc": "ACC", "nmi_geometric": "NMI", "ari": "ARI", "kinds": "kinds"}
    names |= {"seconds": "seconds", "megabytes": "MB"}
    shown = [name for name in names if any(row[name] is not None for row in found.methods)]
    for name in shown:
        table.add_column(names[name], justify="left" if name == "method" else "right")
    for row in found.methods:
        table.add_row(*(row[name] if name == "method" else _measured(row[name], row[f"{name}_std"]) for name in shown))
    out.print(table)
    out.print(f"report  {found.page}", markup=False)


def _measured(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return ""
    return f"{mean:.3g}" if deviation is None else f"{mean:.3g} ± {deviation:.2g}"
