"""The command on what people said about a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import newkinds as nk
from newkinds.cli.base import Quiet, Run, app, out, progress_for
from newkinds.cli.show import show_journal


@app.command()
def journal(
    run: Run,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last action back.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Do again what was undone last.")] = False,
    times: Annotated[int, typer.Option(help="With --undo or --redo: how many actions.")] = 1,
    take: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Corrections made elsewhere: a .csv with path,kind, Label Studio's .json, or the page's names.json.",
        ),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="With --import: rows that change nothing confirm their pictures.")
    ] = False,
    mend: Annotated[bool, typer.Option("--mend", help="Put what is broken in the journal aside.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each line of the journal.")] = False,
    quiet: Quiet = False,
) -> None:
    """List what was said about a run's kinds and pictures; take it back, do it again, import more.

    Example: newkinds journal runs/shop --undo
    """
    say = progress_for(quiet)
    found = nk.journal(run, undo=undo, redo=redo, times=times, take=take, confirm=confirm, mend=mend, progress=say)
    if as_json:
        for line in found.lines:
            out.print(json.dumps(line.to_dict(), ensure_ascii=False), markup=False)
        return
    show_journal(found)
