"""Run the demo with several seeds and keep what came out."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.demo import demo
from newkinds.progress import Progress
from studies.tools.results import standard_error, write_result


def main() -> None:
    """Measure, and write benchmarks/results/studies/demo.json unless the first seed is another than 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed; from 100 on for tuning, nothing is kept")
    parser.add_argument("--runs", type=Path, default=Path("runs/demo-seeds"), help="where the run folders go")
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        began = time.process_time()
        found = demo(chosen.runs / f"seed{seed}", seed=seed, progress=Progress("quiet"))
        assert found.scores is not None
        assert found.kmeans_scores is not None
        assert found.count is not None
        kinds = found.scores.n_true
        rows.append(
            {
                "seed": seed,
                "k_estimated": found.n_kinds,
                "in_range": found.count["low"] <= kinds <= found.count["high"],
                "kmeans_acc": found.kmeans_scores.acc,
                "acc": found.scores.acc,
                "nmi_geometric": found.scores.nmi_geometric,
                "cpu_seconds": time.process_time() - began,
            }
        )
        print(rows[-1], flush=True)
    if chosen.first == 0:
        write_result("demo", summary(rows, kinds))


def summary(rows: list[dict[str, Any]], kinds: int) -> dict[str, Any]:
    """Return what the result file holds; kinds: the true number."""
    gain = np.array([row["acc"] - row["kmeans_acc"] for row in rows])
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name not in ("seed", "in_range")}
    mean |= {"gain": float(gain.mean()), "gain_standard_error": standard_error(gain)}
    mean |= {"error_in_k": float(np.mean([abs(row["k_estimated"] - kinds) for row in rows]))}
    right = sum(row["k_estimated"] == kinds for row in rows)
    about = f"letters of Latin, Greek and Cyrillic known, {kinds} of Georgian unsorted; the seed is that of the run"
    told = {"data": about, "kinds": kinds, "k_right": right, "in_range": sum(row["in_range"] for row in rows)}
    return {**told, "mean": mean, "runs": rows}


if __name__ == "__main__":
    main()
