"""The command that compares methods."""

from __future__ import annotations

from typing import Annotated

import typer

import newkinds as nk
from newkinds.cli.base import (
    Backend,
    Data,
    Device,
    Heap,
    Jobs,
    Kinds,
    Known,
    Offline,
    Out,
    ProfileName,
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
        str | None,
        typer.Option(help="Names from `newkinds methods`, separated by commas, or all; default: a few of them."),
    ] = None,
    kinds: Kinds = None,
    heap: Heap = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds for each method.")] = 3,
    truth: Truth = None,
    weights: Weights = None,
    data: Data = None,
    profile: ProfileName = None,
    settings: SettingsFile = None,
    set_: Set = None,
    jobs: Jobs = 1,
    backend: Backend = "loky",
    device: Device = None,
    offline: Offline = False,
    quiet: Quiet = False,
) -> None:
    """Run several methods on the same pictures and the same network, and compare them.

    Example: newkinds compare photos/known photos/unsorted --methods kmeans,lsc,dtc --kinds 12 --out runs/all
    """
    found = nk.compare(
        known,
        unsorted,
        out=folder,
        methods=list(nk.methods()) if methods == "all" else methods and methods.split(","),
        seeds=seeds,
        truth=truth,
        weights=weights,
        data=data,
        settings=settings_from(settings, set_, {"kinds": kinds_from(kinds), "heap": heap, "profile": profile}),
        jobs=jobs,
        backend=backend,
        device=device,
        offline=offline,
        progress=progress_for(quiet),
    )
    show_comparison(found)
