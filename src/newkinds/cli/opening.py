"""The command that opens the workbench."""

from __future__ import annotations

from typing import Annotated

import typer

import newkinds as nk
from newkinds.cli.base import Data, Images, Quiet, Run, app, out, progress_for


@app.command("open")
def open_(
    run: Run,
    port: Annotated[int, typer.Option(help="The port on this machine; default: a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open it in the browser.")] = True,
    images: Images = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Open a run in the browser to look at its kinds and correct them; every step is saved and can be undone.

    Example: newkinds open runs/shop
    """
    nk.open(
        run,
        port=port,
        browser=browser,
        images=images,
        data=data,
        progress=progress_for(quiet),
        say=lambda text: out.print(text, markup=False),
    )
