"""Where to start and how long to go on, on kinds that f did not see.

What `newkinds bench` changes from the defaults was chosen by this, on alphabets of OmniGlot's background and on the
probe classes of CIFAR-100, never on those that its tables are about. An f that is not kept is trained first. Writes
benchmarks/results/studies/starts.json row by row, and the table in docs/paper-vs-authors.md from it; --render makes the
table alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from newkinds_bench.house import DOCS
from studies.tools.clustering import Rows, measure
from studies.tools.networks import network_file
from studies.tools.results import put_table

PAGE = DOCS / "paper-vs-authors.md"
TE, CENTRES = {"discover.variant": "te"}, {"initialise.bottleneck": "centres"}
FAST, EVEN = {"discover.learning_rate": 1e-3}, {"discover.evenness": 1.0}
DIRECTIONS = {"initialise.bottleneck": "directions", "initialise.views": 8, **FAST, **EVEN}
NEAR = {**DIRECTIONS, "initialise.neighbours": 10}
VOTED = {**NEAR, "discover.neighbours": 10}
MIXED = {**VOTED, "discover.mixed": True}
SHORT = {"discover.epochs": 20, **CENTRES}
SEVEN = {**SHORT, "initialise.views": 8, "initialise.neighbours": 7}

CHARACTERS: list[tuple[str, dict[str, Any]]] = [
    ("pi, span of the centres, 20 epochs", SHORT),
    ("the same, 8 views and 7 neighbours at the start", SEVEN),
    ("the same, 10 epochs", {**SEVEN, "discover.epochs": 10}),
    ("the same, 5 neighbours for q", {**SEVEN, "discover.epochs": 10, "discover.neighbours": 5}),
]
# Pictures, the f that they start from, and what is tried there.
TRIES: list[tuple[str, str, list[tuple[str, dict[str, Any]]]]] = [
    (
        "cifar100:probes",
        "cifar100-80",
        [
            ("te, the defaults", TE),
            ("te, span of the centres, learning rate .001", {**CENTRES, **FAST, **TE}),
            ("te, the same, even sizes", {**CENTRES, **FAST, **EVEN, **TE}),
            ("te, the same by directions, 8 views", {**DIRECTIONS, **TE}),
            ("te, the same, 10 neighbours at the start", {**NEAR, **TE}),
            ("te, the same, 10 neighbours for q, too", {**VOTED, **TE}),
            ("te, the same, pictures mixed", {**MIXED, **TE}),
            ("pi, 10 neighbours at the start", NEAR),
            ("pi, 10 neighbours for q, too", VOTED),
            ("pi, the same, pictures mixed", MIXED),
        ],
    ),
    ("omniglot:Grantha", "omniglot-25-group", CHARACTERS),
    ("omniglot:Japanese_(katakana)", "omniglot-25-group", CHARACTERS),
    # Nothing is chosen here: what was chosen above, with an f of twice the width, on the classes of the tables, too.
    ("cifar100:probes", "cifar100-80-half", [("te, as in `newkinds bench`", {**MIXED, **TE})]),
    ("cifar100:unlabelled", "cifar100-80-half", [("te, as in `newkinds bench`", {**MIXED, **TE})]),
]


def main() -> None:
    """Measure what the result file lacks, and make the table from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--render", action="store_true", help="only make the table again")
    chosen = parser.parse_args()
    rows = Rows("starts", {"what": __doc__.splitlines()[0]})
    for seed in () if chosen.render else chosen.seeds:
        for source, f, tries in TRIES:
            for name, changes in tries:
                if not rows.has(tried=name, data=source, f=f, seed=seed):
                    found = measure(network_file(f, chosen.data), source, chosen.data, changes, seed)
                    rows.add({"f": f, "tried": name, "changed": changes, **found})
                    print(rows.rows[-1], flush=True)
    render(rows.rows)


def render(rows: list[dict[str, Any]]) -> None:
    """Put the table into the page, between its marks."""
    lines = ["| pictures | f | tried | k-means | start | end |", "|---|---|---|---|---|---|"]
    for source, f, tries in TRIES:
        for name, _ in tries:
            mine = [row for row in rows if (row["data"], row["f"], row["tried"]) == (source, f, name)]
            if mine:
                keys = ("kmeans_acc", "start_acc", "discovered_acc")
                means = (sum(row[key] for row in mine) / len(mine) for key in keys)
                lines.append(f"| {source} | {f} | {name} | {' | '.join(f'{value:.3f}' for value in means)} |")
    put_table(PAGE, "starts", lines)


if __name__ == "__main__":
    main()
