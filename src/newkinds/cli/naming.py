"""Commands that list methods, networks, data sets, settings, profiles and presets."""

from __future__ import annotations

from typing import Annotated

import typer

import newkinds as nk
from newkinds.cli.base import app, out
from newkinds.cli.show import show_rows


@app.command()
def methods() -> None:
    """List the methods: deep transfer clustering and those to compare it with.

    Example: newkinds methods
    """
    show_rows(nk.methods().items())


@app.command()
def networks() -> None:
    """List the networks.

    Example: newkinds networks
    """
    show_rows(nk.networks().items())
    out.print("Pretrained networks scale pictures to their own size; --set network_size=96 is faster.")


@app.command()
def datasets() -> None:
    """List the data sets that can be given by name: their parts, the files they need in --data, and where to get them.

    Example: newkinds datasets
    """
    for name, one in nk.datasets().items():
        out.print(f"[bold]{name}[/]  {one['title']}{', ' if one['address'] else ''}{one['address']}")
        defaults = {one["known"]: " (KNOWN by default)", one["unsorted"]: " (UNSORTED by default)"}
        rows = [(f"  {name}:{part}", about + defaults.get(part, "")) for part, about in one["parts"].items()]
        show_rows([*rows, ("  needs", one["needs"])] if one["needs"] else rows)


@app.command()
def settings(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="A setting or a section, such as discover.evenness, evenness or discover."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every setting, not only the usual ones.")] = False,
) -> None:
    """Show settings as TOML for --settings: what they do, valid values and defaults.

    Example: newkinds settings > my.toml
    """
    out.write(nk.settings(name, all=every))


@app.command()
def profiles(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The profile to show.")] = None,
) -> None:
    """List the profiles, each of settings for one sort of pictures; or show one, with reasons, as TOML for --settings.

    Example: newkinds profiles photos
    """
    if name is not None:
        out.write(nk.profiles(name))
        return
    show_rows(nk.profiles().items())


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The preset to show.")] = None,
) -> None:
    """List the presets for the paper's data sets; or show one, with reasons, as TOML for --settings.

    Example: newkinds presets omniglot-paper > my.toml
    """
    if name is not None:
        out.write(nk.presets(name))
        return
    # A preset is named after its data set and its kind.
    show_rows((name, name.rpartition("-")[0], about) for name, about in nk.presets().items())
