"""The demo: the whole pipeline on letters that are drawn in a font that comes with matplotlib."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newkinds.api import discover
from newkinds.discovery import Discovery
from newkinds.progress import Progress, automatic
from newkinds.runs import RunFolder, names
from newkinds.version import __version__

KNOWN, UNSORTED = "letters:known", "letters:georgian"


def demo(
    out: str | Path = "runs/demo",
    *,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Discovery:
    """Discover seven letters of Georgian, and how many they are, knowing letters of Latin, Greek and Cyrillic.

    out: the run folder; a demo of another seed or version that is there is replaced. seed, settings, progress: as in
    `discover`; the defaults are those of any discovery.
    """
    out, progress = Path(out), automatic(progress)
    _clear_other_demo(out, seed)
    progress.say("Letters of Latin, Greek and Cyrillic are known, seven of Georgian are unsorted.")
    return discover(
        KNOWN, UNSORTED, out=out, kinds="auto", seed=seed, truth="folders", settings=settings, progress=progress
    )


def _clear_other_demo(folder: Path, seed: int) -> None:
    """Remove a demo of another seed or version, so that the demo can be run again; nothing else is touched."""
    if not (folder / names.ABOUT).is_file():
        return
    run = RunFolder.open(folder)
    ours = set(run.sources.values()) == {KNOWN, UNSORTED}
    if ours and (run.settings.seed != seed or run.version != __version__):
        shutil.rmtree(folder)
