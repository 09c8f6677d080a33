"""Run the demo with several seeds and keep what came out."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from newkinds.demo import SETTINGS, demo
from newkinds.progress import Progress
from studies.tools.results import standard_error, write_result


def main() -> None:
    """Measure and write benchmarks/results/studies/demo.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=Path, default=Path("runs/demo-seeds"), help="where the run folders go")
    chosen = parser.parse_args()
    rows = []
    for seed in range(chosen.seeds):
        auto, given = demo(chosen.runs / f"seed{seed}", seed=seed, progress=Progress("quiet"))
        rows.append(
            {
                "seed": seed,
                "k_estimated": auto.n_kinds,
                "acc_k_estimated": auto.scores.acc,
                "acc": given.scores.acc,
                "nmi_geometric": given.scores.nmi_geometric,
                "kmeans_acc": given.kmeans_scores.acc,
            }
        )
        print(rows[-1], flush=True)
    gain = np.array([row["acc"] - row["kmeans_acc"] for row in rows])
    summary = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name != "seed"}
    summary |= {"gain": float(gain.mean()), "gain_standard_error": standard_error(gain)}
    summary |= {"error_in_k": float(np.mean([abs(row["k_estimated"] - 5) for row in rows]))}
    about = "handwritten digits of scikit-learn: 0 to 4 known, 5 to 9 unsorted; all randomness hangs on the seed"
    write_result("demo", {"data": about, "settings_changed": SETTINGS, "mean": summary, "runs": rows})


if __name__ == "__main__":
    main()
