"""The command that shows what runs keep for later runs."""

from __future__ import annotations

from typing import Annotated

import typer

import newkinds as nk
from newkinds.cli.base import app, out
from newkinds.cli.show import show_rows


@app.command()
def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete everything in it; later runs compute it again.")
    ] = False,
) -> None:
    """Show where runs keep pixels and features for later runs on the same pictures, and how large that is.

    Example: newkinds cache --clear
    """
    found = nk.cache(clear=clear)
    folder = found["folder"]
    if folder is None:
        out.print("There is no cache: NEWKINDS_CACHE is empty.")
        return
    if clear:
        out.print(f"{folder}: {_megabytes(found['freed'])} deleted", markup=False)
        return
    sizes, files = found["bytes"], found["files"]
    limit = f"{_megabytes(found['limit'])} (NEWKINDS_CACHE_MB)"
    out.print(f"{folder}: {_megabytes(sum(sizes.values()))} of {limit}", markup=False)
    show_rows((f"  {name}", f"{_megabytes(sizes[name])} in {files[name]} files") for name in files)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
