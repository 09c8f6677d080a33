"""The paper's text, its authors' code or ours, one factor at a time.

Starts from the defaults and changes one thing to what the paper or its authors do, on alphabets of OmniGlot's
background that f did not see, with the same seeds in every row. f is trained first, which takes about an hour, unless
--weights names one. Writes benchmarks/results/studies/ablation.json row by row, and the table in
docs/paper-vs-authors.md from it; --render makes the table alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.presets import find_preset
from newkinds.runs.claim import flat
from newkinds_bench.house import DOCS
from studies.tools.clustering import Rows, measure
from studies.tools.networks import network_file
from studies.tools.results import put_table

ALPHABETS = ["omniglot:Latin", "omniglot:Cyrillic"]
PAGE = DOCS / "paper-vs-authors.md"
F = "omniglot-25"
EPOCHS = {"discover.warmup_epochs": 5, "discover.epochs": 10}

FACTORS: dict[str, tuple[str, dict[str, Any]]] = {
    "ours": ("the defaults", {}),
    "random bottleneck": ("authors", {"initialise.bottleneck": "random"}),
    "divergence / N K": ("authors", {"discover.kl_normalisation": "nk"}),
    "omega to 1": ("paper", {"discover.consistency": 1.0}),
    "omega to 100 K": ("authors", {"discover.consistency": "100 K"}),
    "q every 5 epochs": ("authors elsewhere", {"discover.update_every": 5}),
    "learning rate .001": ("both", {"discover.learning_rate": 1e-3}),
    "learning rate .0001": ("neither", {"discover.learning_rate": 1e-4}),
    "k-means from as many seeds as kinds": ("both", {"initialise.overseed": 1.0}),
    "all of the paper": ("paper", {"preset": "omniglot-paper"}),
    "all of the authors": ("authors", {"preset": "omniglot-authors"}),
    "q from a pass after the epoch": ("both", {"discover.p_from": "pass"}),
    "q by Eq. 3": ("both", {"discover.targets": "eq3"}),
    "alpha 1": ("both", {"discover.alpha": 1.0}),
    "embedding not scaled": ("both", {"initialise.scale": "none"}),
    "batch norm frozen": ("neither", {"discover.batch_norm": "frozen"}),
    "divergence on augmented views": ("authors elsewhere", {"discover.first_view": "augmented"}),
}


def main() -> None:
    """Measure what the result file lacks, and make the page from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, help=f"f; default: {F}, trained here first")
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--only", type=int, help="the first so many rows of the table")
    parser.add_argument("--render", action="store_true", help="only make the page again")
    chosen = parser.parse_args()
    f = chosen.weights.name if chosen.weights else F
    rows = Rows("ablation", {"what": __doc__.splitlines()[0], "weights": f, "epochs": EPOCHS})
    if not chosen.render:
        run(rows, chosen)
    render(rows.rows)


def run(rows: Rows, chosen: argparse.Namespace) -> None:
    """Measure what the result file lacks."""
    weights = chosen.weights or network_file(F, chosen.data)
    for seed in chosen.seeds:
        for factor in list(FACTORS)[: chosen.only]:
            for source in ALPHABETS:
                if not rows.has(factor=factor, data=source, seed=seed):
                    row = measure(weights, source, chosen.data, changes_of(factor, source), seed)
                    rows.add({"factor": factor, **row})
                    print(rows.rows[-1], flush=True)


def changes_of(factor: str, source: str) -> dict[str, Any]:
    """Return the settings of a row: nothing watches or stops, so that the last epoch counts."""
    changes = dict(FACTORS[factor][1])
    values: dict[str, Any] = {}
    if preset := changes.pop("preset", None):
        stated = flat(find_preset(preset).values)
        values = {key: value for key, value in stated.items() if key.split(".")[0] in ("discover", "initialise")}
    values |= EPOCHS | {"discover.settled": 0, "discover.guard": "off"} | changes
    if values.get("discover.consistency") == "100 K":
        values["discover.consistency"] = 100.0 * KINDS[source]
    return values


KINDS = {"omniglot:Latin": 26, "omniglot:Cyrillic": 33}


def render(rows: list[dict[str, Any]]) -> None:
    """Put the table into the page, between its marks."""
    lines = [
        "| changed | whose | start | end | difference from ours, per run | worst on the way |",
        "|---|---|---|---|---|---|",
    ]
    ours = {(row["data"], row["seed"]): row["last_acc"] for row in rows if row["factor"] == "ours"}
    for factor, (whose, _) in FACTORS.items():
        mine = [row for row in rows if row["factor"] == factor]
        if not mine:
            continue
        differences = [row["last_acc"] - ours[row["data"], row["seed"]] for row in mine]
        numbers = [np.mean([row[key] for row in mine]) for key in ("start_acc", "last_acc")]
        shown = " ".join(f"{round(100 * value, 1) + 0.0:+.1f}" for value in differences) if factor != "ours" else ""
        worst = min(row["worst_acc"] - row["start_acc"] for row in mine)
        lines.append(f"| {factor} | {whose} | {numbers[0]:.3f} | {numbers[1]:.3f} | {shown} | {100 * worst:+.1f} |")
    put_table(PAGE, "table", lines)


if __name__ == "__main__":
    main()
