"""Time and peak memory of the methods that look at all pictures at once.

LSC and LPNMF with their defaults, and k-means with its own beside them, on a Gaussian mixture cut off below 0, as
features after a ReLU are. Each runs in a process of its own; "nothing" is one that only makes the points. Writes
benchmarks/results/studies/spectral.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.clustering import kmeans
from newkinds.configure import Settings
from newkinds.evaluation.scores import score
from newkinds.methods.kmeans import KMeans
from newkinds.methods.lpnmf import Lpnmf, lpnmf
from newkinds.methods.lsc import Lsc, lsc
from studies.tools.memory import in_a_process
from studies.tools.results import write_result

DEFAULTS = Settings()
METHODS: dict[str, Callable[[NDArray[np.float32], int], NDArray[np.int64] | None]] = {
    "nothing": lambda points, kinds: None,
    "kmeans": lambda points, kinds: kmeans(points, kinds, seed=0, restarts=DEFAULTS.section(KMeans).restarts).labels,
    "lsc": lambda points, kinds: lsc(points, kinds, DEFAULTS.section(Lsc), 0)[0],
    "lpnmf": lambda points, kinds: lpnmf(points, kinds, DEFAULTS.section(Lpnmf), 0)[0],
}


def main() -> None:
    """Measure each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--kinds", type=int, default=20)
    parser.add_argument("--noise", type=float, default=3.0, help="beside centres that are drawn from N(0, 1)")
    parser.add_argument("--method", choices=list(METHODS), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.method:
        print(json.dumps(measure(chosen)))
        return
    runs = []
    for method in METHODS:
        runs.append(_in_a_process(method))
        print(runs[-1], flush=True)
    asked = {name: value for name, value in vars(chosen).items() if name != "method"}
    write_result("spectral", {"what": __doc__.splitlines()[0].partition(":")[0], **asked, "runs": runs})


def mixture(pictures: int, features: int, kinds: int, noise: float) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return points (N, d) that are not negative, and their kinds (N,)."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(kinds, features)).astype(np.float32)
    labels = random.integers(0, kinds, pictures)
    points = random.standard_normal((pictures, features), dtype=np.float32)
    points *= noise
    points += centres[labels]
    return np.maximum(points, 0, out=points), labels


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return seconds and peak memory of this process with one method, and how well it did."""
    points, truth = mixture(chosen.pictures, chosen.features, chosen.kinds, chosen.noise)
    load, started, busy = os.getloadavg()[0], time.perf_counter(), time.process_time()
    labels = METHODS[chosen.method](points, chosen.kinds)
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    return {
        "method": chosen.method,
        "seconds": seconds,
        "cpu_seconds": busy,  # of all threads: the same however busy the machine is
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "acc": None if labels is None else score(labels, truth).acc,
        "threads": torch.get_num_threads(),
        "load_before": load,  # of the machine: processes that run beside this one
    }


def _in_a_process(method: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(in_a_process("spectral", *sys.argv[1:], "--method", method))
    return found


if __name__ == "__main__":
    main()
