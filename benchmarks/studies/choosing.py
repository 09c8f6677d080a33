"""What choosing settings on rehearsals gains: the default command beside the settings as they are, on small kinds.

ROOT/grocery and ROOT/tiny-imagenet/train have one folder of photographs a kind. Which kinds are known is drawn by the
number of the draw (draws from 100 on were for tuning); of each new kind, so many pictures are in the heap. K is given,
and that the heap has new kinds alone (`--heap new`). Averages over ten neighbours suit kinds of many pictures and not
those of four. Adds to benchmarks/results/studies/choosing.json, and makes the table of docs/trust.md; with --render,
only that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import newkinds as nk
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names
from newkinds_bench.house import DOCS
from studies.photographs import Run, folders, spread, thinned
from studies.tools.results import put_table, read_result, write_result

NAME, PAGE = "choosing", DOCS / "trust.md"
DATA = {
    "grocery": "groceries, 54 kinds known, 28 unsorted",
    "tiny-imagenet": "Tiny-ImageNet, 30 kinds known, 10 unsorted",
}
DRAWS, SIZES = 3, (4, 6, 10)


def main() -> None:
    """Measure what is missing, and make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?", help="the folder of the data sets")
    parser.add_argument("--runs", type=Path, default=Path("runs/choosing"), help="where folders and runs go")
    parser.add_argument("--render", action="store_true", help="only make the table again")
    chosen = parser.parse_args()
    for data, draw, each in planned():
        if chosen.render or f"{data}-{draw}-{each}" in kept():
            continue
        found = measured(data, draw, each, chosen.root, chosen.runs)
        write_result(NAME, {"seed": 0, "cases": {**kept(), f"{data}-{draw}-{each}": found}})
    put_table(PAGE, "choosing", table(kept()))


def planned() -> Iterator[tuple[str, int, int]]:
    """Yield the data, the draw and the pictures of a kind of each case."""
    for draw in range(DRAWS):
        for each in SIZES:
            for data in DATA:
                yield data, draw, each


def kept() -> dict[str, dict[str, Any]]:
    """Return what was measured, by name."""
    return read_result(NAME, "cases")


def measured(data: str, draw: int, each: int, root: Path, runs: Path) -> dict[str, Any]:
    """Sort a heap with and without choosing, and return how well, and what was chosen."""
    known, heap, kinds = folders(Run(data, draw, 0), root, runs)
    small, out = thinned(heap, draw, each), runs / f"chosen-{data}-{draw}-{each}"
    options: dict[str, Any] = {
        "kinds": kinds,
        "heap": "new",
        "truth": "folders",
        "page": False,
        "progress": Progress("quiet"),
    }
    auto = nk.discover(known, small, out=out, **options)
    off = nk.discover(known, small, out=Path(f"{out}-off"), rehearsals=0, **options)
    assert auto.scores is not None
    assert off.scores is not None
    rehearsal = RunFolder.open(out).get_json(names.REHEARSAL)
    tried = {one["name"]: one["gain"] for one in rehearsal["tried"]}
    return {"acc": auto.scores.acc, "acc_off": off.scores.acc, "chosen": rehearsal["chosen"], "tried": tried}


def table(cases: dict[str, dict[str, Any]]) -> list[str]:
    """Return how choosing did for each data set and size of kinds, and over all cases."""
    lines = ["| pictures | of each new kind | heaps | ACC as set | ACC as chosen | gain | what was chosen |"]
    lines.append("|---" * 7 + "|")
    for data, title in DATA.items():
        for each in SIZES:
            some = [one for name, one in cases.items() if name.startswith(data) and name.endswith(f"-{each}")]
            lines += _line(title, str(each), some)
    return lines + _line("all", "", list(cases.values()))


def _line(title: str, each: str, cases: list[dict[str, Any]]) -> list[str]:
    if not cases:
        return []
    off, auto = (np.array([one[key] for one in cases]) for key in ("acc_off", "acc"))
    what = sorted({one["chosen"] for one in cases})
    told = ", ".join(f"{name} ({sum(one['chosen'] == name for one in cases)})" for name in what)
    return [
        f"| {title} | {each} | {len(cases)} | {off.mean():.3f} | {auto.mean():.3f} | "
        f"{spread((auto - off).tolist())} | {told} |"
    ]


if __name__ == "__main__":
    main()
