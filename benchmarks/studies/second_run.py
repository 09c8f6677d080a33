"""What a second `discover` costs with another number of kinds: seconds of the processor by stage, from an empty cache.

ROOT/grocery has one folder of photographs a kind, of which 54 are known (draw 0). The first run is told the true number
of kinds, 28; the others are told other numbers. All share a cache, which is empty at first, and each is a process of
its own. Writes benchmarks/results/studies/second_run.json and the table of docs/trust.md; with --render, only the
table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import newkinds as nk
from newkinds.progress import Progress
from newkinds_bench.house import DOCS
from studies.photographs import Run, folders
from studies.rehearsal import timed
from studies.tools.results import RESULTS, put_table, write_result

NAME, PAGE = "second_run", DOCS / "trust.md"
KINDS = (28, 24, 16)
STAGES = {
    "extraction": "features",
    "transfer": "transfer",
    "quality of known kinds": "known_quality",
    "known or new": "heap_of",
    "rehearsals": "rehearse",
    "sorting": "sort",
    "scores, page": "score_and_report",
}


def main() -> None:
    """Measure the runs one after the other, and make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?", help="the folder of the data sets")
    parser.add_argument("--one", type=int, help="only the run with this number of kinds, in this process")
    parser.add_argument("--out", type=Path, help="the folder of that run")
    parser.add_argument("--render", action="store_true", help="only make the table again")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measured(chosen.root, chosen.out, chosen.one)))
        return
    if not chosen.render:
        measure_all(chosen.root)
    put_table(PAGE, "stages", table(json.loads((RESULTS / f"{NAME}.json").read_text())["runs"]))


def measure_all(root: Path) -> None:
    """Measure what each run takes, beginning with an empty cache; each is written down at once."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        there = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "NEWKINDS_CACHE": f"{folder}/cache", "OMP_NUM_THREADS": "1", "PYTHONPATH": there}
        for kinds in KINDS:
            line = [sys.executable, "-m", "studies.second_run", str(root), "--one", str(kinds)]
            done = subprocess.run(
                [*line, "--out", f"{folder}/{kinds}"], env=environment, check=True, stdout=subprocess.PIPE
            )
            found.append(json.loads(done.stdout.splitlines()[-1]))
            write_result(NAME, {"what": "seconds of the processor", "draw": 0, "seed": 0, "runs": found})


def measured(root: Path, out: Path, kinds: int) -> dict[str, Any]:
    """Run `discover` once, with its defaults, and return the seconds of the processor that its stages took."""
    known, heap, _ = folders(Run("grocery", 0, 0), root, out.parent)
    with timed(STAGES) as seconds:
        found = nk.discover(known, heap, kinds=kinds, out=out, truth="folders", progress=Progress("quiet"))
    taken = dict(seconds)
    total = time.process_time()
    assert found.scores is not None
    return {"kinds": kinds, "acc": found.scores.acc, "total": total, "stages": taken, "pictures": len(found.labels)}


def table(runs: list[dict[str, Any]]) -> list[str]:
    """Return a row for each run."""
    lines = [f"| run | {' | '.join(STAGES)} | total | of the first |", "|---" * (len(STAGES) + 3) + "|"]
    for place, run in enumerate(runs):
        title = f"{'first' if not place else 'later'}, {run['kinds']} kinds"
        told = " | ".join(f"{run['stages'].get(stage, 0.0):.1f}" for stage in STAGES)
        lines.append(f"| {title} | {told} | {run['total']:.0f} | {run['total'] / runs[0]['total']:.0%} |")
    return lines


if __name__ == "__main__":
    main()
