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
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last action.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Redo what was last undone.")] = False,
    times: Annotated[int, typer.Option(help="How many actions to undo or redo.")] = 1,
    take: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Corrections made elsewhere: a .csv with path,kind, a .json from Label Studio, or names.json from the "
            "report.",
        ),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="With --import: a row that agrees with the run confirms its picture.")
    ] = False,
    mend: Annotated[bool, typer.Option("--mend", help="Set aside the broken part of the journal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each line of the journal as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """List what people said about a run's kinds and pictures; undo, redo or import corrections.

    Example: newkinds journal runs/shop --undo
    """
    say = progress_for(quiet)
    found = nk.journal(run, undo=undo, redo=redo, times=times, take=take, confirm=confirm, mend=mend, progress=say)
    if as_json:
        for line in found.lines:
            out.print(json.dumps(line.to_dict(), ensure_ascii=False), markup=False)
        return
    show_journal(found)
