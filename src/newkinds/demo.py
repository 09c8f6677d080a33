"""The demo: the whole pipeline on the handwritten digits that come with scikit-learn."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from newkinds.api import discover
from newkinds.discovery import Discovery
from newkinds.progress import Progress, automatic
from newkinds.runs import RunFolder, names
from newkinds.version import __version__

TRUE_KINDS = 5
# What differs from the defaults, so that both runs end within a minute or so on two cores.
SETTINGS = {"count": {"max_kinds": 20}}


def demo(
    out: str | Path = "runs/demo", *, seed: int = 0, progress: Progress | None = None
) -> tuple[Discovery, Discovery]:
    """Discover the digits 5 to 9 knowing 0 to 4, first with their number estimated, then with it given.

    The run with the number given is left in `out`, the other beside it in `out`-auto. Returns the run with the number
    estimated and the run with the number given. seed, progress: as in `discover`.
    """
    out, progress = Path(out), automatic(progress)
    auto = out.with_name(f"{out.name}-auto")
    for folder in (auto, out):
        _clear_other_demo(folder, seed)
    common: dict[str, Any] = {"seed": seed, "truth": "folders", "settings": SETTINGS, "progress": progress}
    progress.say("Digits 0 to 4 are known, 5 to 9 unsorted. First: how many new kinds are there, and which?")
    guessed = discover("digits:known", "digits:unsorted", out=auto, kinds="auto", **common)
    progress.say(f"Second: the same with the true number, {TRUE_KINDS}.")
    weights = auto / names.NETWORK
    given = discover("digits:known", "digits:unsorted", out=out, kinds=TRUE_KINDS, weights=weights, **common)
    return guessed, given


def _clear_other_demo(folder: Path, seed: int) -> None:
    """Remove a demo of another seed or version, so that the demo can be run again; nothing else is touched."""
    if not (folder / names.ABOUT).is_file():
        return
    run = RunFolder.open(folder)
    ours = set(run.sources.values()) == {"digits:known", "digits:unsorted"}
    if ours and (run.settings.seed != seed or run.version != __version__):
        shutil.rmtree(folder)
