"""How f learns OmniGlot's characters best.

f at half the paper's width is trained by several recipes on the 25 alphabets of the background without the probes, and
judged by k-means on its features of the five probe alphabets, with their number of characters given; so are two
networks of full width, of which the first is trained for it. Writes benchmarks/results/studies/recipes.json row by row,
and the table in docs/paper-vs-authors.md from it; --render makes the table alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import newkinds as nk
from newkinds import api
from newkinds.clustering import kmeans
from newkinds.evaluation.scores import score
from newkinds_bench.house import DOCS
from studies.tools.clustering import Rows, opened
from studies.tools.networks import network_file
from studies.tools.results import put_table

PAGE = DOCS / "paper-vs-authors.md"
PROBES = ("Alphabet_of_the_Magi", "Cyrillic", "Grantha", "Japanese_(katakana)", "Latin")
COMMON = {"loss": "prototypical", "quarter_turns": True, "weight_decay": 0.0, "epochs": 5}
FEW = {"episode_kinds": 100, "support": 2, "query": 2}
RECIPES: dict[str, dict[str, Any]] = {
    "episodes of 40 characters, 5 + 5 pictures of each": {"episode_kinds": 40},
    "the same of one alphabet, or two": {"episode_kinds": 40, "episodes_of": "group"},
    "of 100 characters, 2 + 2 pictures of each": FEW,
    "the same of a few alphabets": {**FEW, "episodes_of": "group"},
}
FULL_WIDTH = ("omniglot-25", "omniglot-25-group")
SEEDS = range(4)  # of k-means


def main() -> None:
    """Train and judge what the result file lacks, and make the table from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    parser.add_argument("--runs", type=Path, default=Path("runs/recipes"), help="where f is trained")
    parser.add_argument("--render", action="store_true", help="only make the table again")
    chosen = parser.parse_args()
    rows = Rows("recipes", {"what": __doc__.splitlines()[0], "network": "vgg6-4-2-half", "pretrain": COMMON})
    for number, (name, recipe) in enumerate(() if chosen.render else RECIPES.items()):
        if not rows.has(recipe=name):
            file = api.pretrain(
                "omniglot:train",
                out=chosen.runs / str(number),
                network="vgg6-4-2-half",
                settings={"pretrain": {**COMMON, **recipe}},
                data=chosen.data,
                progress=nk.Progress(),
            )
            rows.add({"recipe": name, "changed": recipe, "alphabets": judged(file, chosen.data)})
    for name in () if chosen.render else FULL_WIDTH:
        if not rows.has(recipe=name):
            rows.add({"recipe": name, "alphabets": judged(network_file(name, chosen.data), chosen.data)})
    render(rows.rows)


def judged(weights: Path, data: Path | None) -> dict[str, dict[str, float]]:
    """Return ACC and NMI of k-means on f's features of each probe alphabet."""
    found = {}
    for alphabet in PROBES:
        images, features = opened(weights, f"omniglot:{alphabet}", data)
        assert images.labels is not None
        scores = [
            score(kmeans(features, len(images.classes), seed=seed, restarts=20, overseed=1.5).labels, images.labels)
            for seed in SEEDS
        ]
        found[alphabet] = {
            "acc": float(np.mean([one.acc for one in scores])),
            "nmi": float(np.mean([one.nmi_geometric for one in scores])),
        }
    return found


def render(rows: list[dict[str, Any]]) -> None:
    """Put the table into the page, between its marks."""
    lines = ["| recipe | ACC | NMI | worst alphabet's ACC |", "|---|---|---|---|"]
    for row in rows:
        acc, nmi = ([of[key] for of in row["alphabets"].values()] for key in ("acc", "nmi"))
        lines.append(f"| {row['recipe']} | {np.mean(acc):.3f} | {np.mean(nmi):.3f} | {min(acc):.3f} |")
    put_table(PAGE, "recipes", lines)


if __name__ == "__main__":
    main()
