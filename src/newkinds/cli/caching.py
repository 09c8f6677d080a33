"""The command that shows what runs keep for later runs."""

from __future__ import annotations

from typing import Annotated

import typer

from newkinds.cli.base import app, out
from newkinds.cli.show import show_rows


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all of it; later runs compute it again.")] = False,
) -> None:
    """Show where runs keep pixels and features that later runs on the same pictures need again, and how large it is.

    Example: newkinds cache --clear
    """
    from newkinds import cache as kept

    folder = kept.cache_folder()
    if folder is None:
        out.print(f"There is no cache: {kept.FOLDER} is empty.", markup=False)
        return
    if clear:
        out.print(f"{folder}: {_megabytes(kept.clear(folder))} deleted", markup=False)
        return
    found = kept.usage(folder)
    out.print(f"{folder}: {_megabytes(found.total)} of {_megabytes(kept.cache_limit())} ({kept.LIMIT})", markup=False)
    show_rows((f"  {name}", f"{_megabytes(found.sizes[name])} in {found.files[name]} files") for name in found.files)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
