"""The workbench: a page of this machine alone, over a run and its journal."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from newkinds.errors import UsageError
from newkinds.images import Source
from newkinds.progress import Progress, automatic

NEEDS = ("starlette", "uvicorn")


def open(
    run: str | Path,
    *,
    port: int = 0,
    browser: bool = True,
    images: Source | None = None,
    data: str | Path | None = None,
    progress: Progress | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Open the workbench of a run in the browser, and return when it is stopped with Ctrl-C.

    port: on this machine; 0 takes a free one. browser: whether to open the address in the browser, which `say` gets in
    any case. images: the run's unsorted pictures, if they have moved (which is remembered) or were given in memory.
    data: as in `discover`.
    """
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"The workbench needs {' and '.join(missing)}, which is not installed.",
            hint="Install the extra: pip install 'newkinds[app]'",
        )
    from newkinds.app.serving import serve

    serve(run, port=port, browser=browser, images=images, data=data, progress=automatic(progress), say=say)
