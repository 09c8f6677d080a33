"""The command that compares methods."""

from __future__ import annotations

from typing import Annotated

import typer

import newkinds as nk
from newkinds.cli.base import (
    Backend,
    Data,
    Device,
    Jobs,
    Kinds,
    Known,
    Offline,
    Out,
    Quiet,
    Set,
    SettingsFile,
    Truth,
    Unsorted,
    Weights,
    app,
    kinds_from,
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
    device: Device = None,
    offline: Offline = False,
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
        device=device,
        offline=offline,
        progress=progress_for(quiet),
    )
    show_comparison(found)
