"""Time and peak memory of a whole discovery against the number of pictures.

Ready-made embeddings, 128 wide: Gaussian kinds that share their covariance, 20 known ones of 200 pictures each and a
heap of 50 others. `discover` runs with its defaults and K = 50, each time in a process of its own that keeps freed
memory as the command line does. Memory is the peak above what the process had before, without the heap's embeddings;
time is that of the processor, over all threads, in all and in some of the stages. Adds to
benchmarks/results/studies/growth.json, draws docs/figures/growth.svg and puts the table into docs/inputs.md; with
--render, only that. Rows labelled "before" are of the version before neighbours were found in tiles; those that are
kept were taken by a profiler of the stages, whose set has the same kinds drawn in another order (`drawn`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import newkinds as nk
from newkinds import start
from newkinds.evaluation.scores import score
from newkinds.memory import keep_freed_memory
from newkinds.methods.base import Problem
from newkinds.methods.dtc import algorithm
from newkinds.pipeline import stages
from newkinds.progress import Progress
from newkinds.report.figures import STYLE
from newkinds_bench.house import DOCS
from studies.tools.clustering import Rows
from studies.tools.memory import in_a_process, peak_growth
from studies.tools.results import put_table

SIZES = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
KNOWN, EACH, NEW, WIDTH = 20, 200, 50, 128
FILES = ("known.npz", "heap.npz")
STAGES: dict[str, list[tuple[Any, str]]] = {  # of which the time is kept, by where they are called from
    "neighbours": [(algorithm, "nearest_by_direction"), (start, "neighbours_averaged")],
    "k-means": [(start, "kmeans")],
    "training": [(Problem, "train")],
    "page": [(stages, "report_run")],
}
PAGE, PICTURE = DOCS / "inputs.md", DOCS / "figures" / "growth.svg"
SHOWN = {  # with the marks of the axis
    "megabytes": ("peak memory above the features, MB", (100, 300, 1_000, 3_000, 10_000)),
    "cpu_seconds": ("CPU time, s", (10, 30, 100, 300, 1_000)),
}
LINES = {"now": ("#0072b2", "o"), "before": ("#d55e00", "s")}


def main() -> None:
    """Measure the sizes that are not there yet, and draw all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES), help="of the heap")
    parser.add_argument("--label", default="now", choices=list(LINES), help="what the rows are called")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.folder:
        print(json.dumps(measure(chosen.folder)))
        return
    about = {"what": "discover on embeddings, 128 wide, K = 50: peak memory above them, processor time"}
    rows = Rows("growth", about)
    for size in () if chosen.render else chosen.sizes:
        if not rows.has(label=chosen.label, pictures=size):
            with written_set(size) as folder:
                rows.add({"label": chosen.label, **json.loads(in_a_process("growth", "--folder", str(folder)))})
            print(rows.rows[-1], flush=True)
    render(rows.rows)


def measure(folder: Path) -> dict[str, Any]:
    """Return what one discovery takes in this process."""
    keep_freed_memory()
    spent = timed_stages()
    found: list[nk.Discovery] = []

    def work() -> None:
        known, heap = (folder / file for file in FILES)
        found.append(nk.discover(known, heap, out=folder / "run", kinds=NEW, progress=Progress("quiet")))

    started, busy = time.perf_counter(), time.process_time()
    grown = peak_growth(work)
    busy, seconds = time.process_time() - busy, time.perf_counter() - started
    truth = np.load(folder / FILES[1])["labels"]
    return {
        "pictures": len(truth),
        "megabytes": grown - len(truth) * WIDTH * 4 / 2**20,
        "cpu_seconds": busy,
        "seconds": seconds,
        "stages": dict(spent),
        "acc": score(found[0].labels, truth).acc,
    }


@contextmanager
def written_set(pictures: int) -> Iterator[Path]:
    """Give a folder of known embeddings and a heap as .npz files: not made by the process that is measured."""
    random = np.random.default_rng(0)
    centres = 1.2 * random.normal(size=(KNOWN + NEW, WIDTH))
    inside = random.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH) * np.exp(random.normal(size=WIDTH))
    kinds = np.repeat(np.arange(KNOWN), EACH), KNOWN + random.integers(0, NEW, pictures)
    with tempfile.TemporaryDirectory() as folder:
        for file, labels in zip(FILES, kinds, strict=True):
            embeddings = np.empty((len(labels), WIDTH), np.float32)
            for some in np.array_split(np.arange(len(labels)), 1 + len(labels) // 10_000):
                embeddings[some] = centres[labels[some]] + random.normal(size=(len(some), WIDTH)) @ inside.T
            np.savez(Path(folder) / file, embeddings=embeddings, labels=labels)
        yield Path(folder)


def timed_stages() -> dict[str, float]:
    """Return the processor time of each stage, which grows while they run."""
    spent: dict[str, float] = defaultdict(float)

    def timed(stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            started = time.process_time()
            try:
                return work(*args, **options)
            finally:
                spent[stage] += time.process_time() - started

        return run

    for stage, places in STAGES.items():
        for place, name in places:
            setattr(place, name, timed(stage, getattr(place, name)))
    return spent


def render(rows: list[dict[str, Any]]) -> None:
    """Draw memory and time against the number of pictures, and put the table into its page."""
    put_table(PAGE, "growth", table(rows))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 2.8), layout="constrained")
        axes = figure.subplots(1, 2)
        for axis, (value, (words, ticks)) in zip(axes, SHOWN.items(), strict=True):
            for label, (colour, marker) in LINES.items():
                points = sorted((row["pictures"], row[value]) for row in rows if row["label"] == label)
                axis.plot(*zip(*points, strict=True), color=colour, marker=marker, label=label)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xticks(SIZES, [f"{size // 1000}k" for size in SIZES])
            axis.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
            axis.minorticks_off()
            axis.set_xlabel("pictures in the heap")
            axis.set_ylabel(words)
            axis.grid(color="#dddddd", linewidth=0.6)
            axis.spines[["top", "right"]].set_visible(False)
        axes[0].legend(frameon=False)
        figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the rows of this version as a table, with the memory that the version before took."""
    before = {row["pictures"]: row for row in rows if row["label"] == "before"}
    lines = [
        "| pictures | memory above the features, MB | memory before | CPU time, s | neighbours | k-means | training | "
        "report | CPU time before |",
        "|---" * 9 + "|",
    ]
    for row in sorted((row for row in rows if row["label"] == "now"), key=lambda row: row["pictures"]):
        old = before.get(row["pictures"])
        shown = [f"{row['pictures']:,}", f"{row['megabytes']:,.0f}", f"{old['megabytes']:,.0f}" if old else "–"]
        shown += [f"{row['cpu_seconds']:.0f}", *(f"{row['stages'][stage]:.0f}" for stage in STAGES)]
        lines.append("| " + " | ".join([*shown, f"{old['cpu_seconds']:.0f}" if old else "–"]) + " |")
    return lines


if __name__ == "__main__":
    main()
