"""The whole pipeline on the handwritten digits that come with scikit-learn."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from newkinds.api import discover
from newkinds.discovery import Discovery
from newkinds.evaluation.scores import Scores
from newkinds.progress import Progress
from newkinds.runs import RunFolder
from newkinds.version import __version__

TRUE_KINDS = 5
# What differs from the defaults, so that both runs end within a minute or so on two cores.
SETTINGS = {"count": {"max_kinds": 20}}


def demo_runs(out: Path, seed: int, progress: Progress) -> tuple[Discovery, Discovery]:
    """Discover the digits 5 to 9 knowing 0 to 4, first with their number estimated, then with it given.

    The run with the number given is left in `out`, the other beside it in `out`-auto.
    """
    auto = out.with_name(f"{out.name}-auto")
    for folder in (auto, out):
        _clear_other_demo(folder, seed)
    common: dict[str, Any] = {"seed": seed, "truth": "folders", "settings": SETTINGS, "progress": progress}
    progress.say("Digits 0 to 4 are known, 5 to 9 unsorted. First: how many new kinds are there, and which?")
    guessed = discover("digits:known", "digits:unsorted", out=auto, kinds="auto", **common)
    progress.say(f"Second: the same with the true number, {TRUE_KINDS}.")
    weights = auto / "network.safetensors"
    given = discover("digits:known", "digits:unsorted", out=out, kinds=TRUE_KINDS, weights=weights, **common)
    return guessed, given


def run_demo(out: Path, seed: int, progress: Progress, console: Console) -> None:
    """Make the demo's runs and print what they found."""
    guessed, given = demo_runs(out, seed, progress)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("K estimated", justify="right")
    table.add_column("K given", justify="right")
    table.add_row("new kinds (truly 5)", str(guessed.n_kinds), str(given.n_kinds))
    table.add_row("ACC of k-means on the features", _acc(guessed.kmeans_scores), _acc(given.kmeans_scores))
    table.add_row("ACC of discovery (DTC)", _acc(guessed.scores), _acc(given.scores))
    console.print(table)
    console.print(f"report  {out / 'report' / 'index.html'}\nkinds   {out / 'kinds.csv'}", markup=False)


def _clear_other_demo(folder: Path, seed: int) -> None:
    """Remove a demo of another seed or version, so that the demo can be run again; nothing else is touched."""
    if not (folder / "run.json").is_file():
        return
    run = RunFolder.open(folder)
    ours = set(run.sources.values()) == {"digits:known", "digits:unsorted"}
    if ours and (run.settings.seed != seed or run.version != __version__):
        shutil.rmtree(folder)


def _acc(scores: Scores | None) -> str:
    return "" if scores is None else f"{scores.acc:.3f}"
