"""The whole pipeline on the handwritten digits that come with scikit-learn."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from newkinds.api import discover
from newkinds.progress import Progress

TRUE_KINDS = 5
# What differs from the defaults, so that both runs end within a minute or so on two cores.
SETTINGS = {"count": {"max_kinds": 20}}


def run_demo(out: Path, seed: int, progress: Progress, console: Console) -> None:
    """Discover the digits 5 to 9 knowing 0 to 4, first with their number estimated, then with it given.

    The run with the number given is left in `out`, the other beside it in `out`-auto.
    """
    guessed_folder = out.with_name(f"{out.name}-auto")
    progress.say("Digits 0 to 4 are known, 5 to 9 unsorted. First: how many new kinds are there, and which?")
    guessed = discover(
        "digits:known", "digits:unsorted", out=guessed_folder, kinds="auto", seed=seed, truth="folders",
        settings=SETTINGS, progress=progress,
    )  # fmt: skip
    progress.say(f"Second: the same with the true number, {TRUE_KINDS}.")
    given = discover(
        "digits:known", "digits:unsorted", out=out, kinds=TRUE_KINDS, seed=seed, truth="folders",
        settings=SETTINGS, weights=guessed_folder / "network.safetensors", progress=progress,
    )  # fmt: skip
    assert guessed.scores and given.scores and guessed.kmeans_scores and given.kmeans_scores
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("K estimated", justify="right")
    table.add_column("K given", justify="right")
    table.add_row("new kinds (truly 5)", str(guessed.n_kinds), str(given.n_kinds))
    table.add_row("ACC of k-means on the features", f"{guessed.kmeans_scores.acc:.3f}", f"{given.kmeans_scores.acc:.3f}")
    table.add_row("ACC of discovery (DTC)", f"{guessed.scores.acc:.3f}", f"{given.scores.acc:.3f}")
    console.print(table)
    console.print(f"report  {out / 'report' / 'index.html'}\nkinds   {out / 'kinds.csv'}", markup=False)
