"""The demo: the whole pipeline on letters that are drawn in the fonts that come with matplotlib."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from newkinds.api import discover
from newkinds.discovery import Discovery
from newkinds.progress import Progress, automatic
from newkinds.runs import RunFolder, names
from newkinds.version import __version__

KNOWN, UNSORTED = "letters:known", "letters:georgian"
SETTINGS: dict[str, Any] = {
    "pretrain": {"quarter_turns": True, "episode_kinds": 40, "episodes_of": "group", "weight_decay": 0.0},
    "initialise": {"bottleneck": "centres", "views": 8, "neighbours": 7},
    "discover": {"epochs": 10},
}


def demo(out: str | Path = "runs/demo", *, seed: int = 0, progress: Progress | None = None) -> Discovery:
    """Discover letters of Georgian, and how many there are, knowing letters of Latin, Greek and Cyrillic.

    out: the run folder; a demo of another seed or version that is there is replaced. seed, progress: as in `discover`.
    """
    out, progress = Path(out), automatic(progress)
    _clear_other_demo(out, seed)
    progress.say("Letters of Latin, Greek and Cyrillic are known, those of Georgian are unsorted.")
    return discover(
        KNOWN, UNSORTED, out=out, kinds="auto", seed=seed, truth="folders", settings=SETTINGS, progress=progress
    )


def _clear_other_demo(folder: Path, seed: int) -> None:
    """Remove a demo of another seed or version, so that the demo can be run again; nothing else is touched."""
    if not (folder / names.ABOUT).is_file():
        return
    run = RunFolder.open(folder)
    ours = set(run.sources.values()) == {KNOWN, UNSORTED}
    if ours and (run.settings.seed != seed or run.version != __version__):
        shutil.rmtree(folder)
