"""Commands that list what there is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from newkinds.cli.base import (
    app,
    out,
)
from newkinds.configure import Settings
from newkinds.datasets import DATASETS
from newkinds.methods.registry import METHODS
from newkinds.networks import FOREIGN, NETWORKS
from newkinds.presets import all_presets, find_preset
from newkinds.settings.words import shown


@app.command()
def methods() -> None:
    """List the methods by name: deep transfer clustering and what it can be compared with.

    Example: newkinds methods
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, entry in METHODS.items():
        table.add_row(name, entry.line)
    out.print(table)


@app.command()
def networks() -> None:
    """List the networks by name.

    Example: newkinds networks
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, entry in NETWORKS.items():
        table.add_row(name, entry.description)
    for name, description in FOREIGN.items():
        table.add_row(name, escape(description))
    out.print(table)
    out.print("The last two are trained already and see pictures at their own size; --set network_size=96 is faster.")


@app.command()
def datasets() -> None:
    """List the data sets that can be given by name: their parts, what they need below --data, and where to get it.

    Example: newkinds datasets
    """
    for one in DATASETS.values():
        out.print(f"[bold]{one.name}[/]  {one.title}{', ' if one.address else ''}{one.address}")
        defaults = {one.known: " (KNOWN by default)", one.unsorted: " (UNSORTED by default)"}
        table = Table(box=None, show_header=False, pad_edge=False)
        for part, about in one.parts.items():
            table.add_row(f"  {one.name}:{part}", about + defaults.get(part, ""))
        if one.needs:
            table.add_row("  needs", one.needs)
        out.print(table)


@app.command("settings")
def show_settings(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A setting or a section: discover.evenness, evenness, discover."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every setting, not only the everyday ones.")] = False,
) -> None:
    """Show settings with what they do, valid values and defaults, as TOML that --settings takes.

    Example: newkinds settings > my.toml
    """
    sys.stdout.write(shown(Settings, name, every))


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The preset to show.")] = None,
) -> None:
    """List the presets for the paper's data sets, or show one as TOML that --settings takes, with its reasons.

    Example: newkinds presets omniglot-paper > my.toml
    """
    if name is not None:
        sys.stdout.write(find_preset(name).text)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for one in all_presets().values():
        table.add_row(one.name, one.dataset, escape(one.about))
    out.print(table)
