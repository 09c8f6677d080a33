"""The number of new kinds where it is known.

OmniGlot's alphabets are a table of the paper: `newkinds bench k-estimates`. `cifar100`: the ten unlabelled classes with
the ten probe classes, and the other estimator. `mixtures`: Gaussians, 5 to 50 of them, as many pictures of each or very
different numbers. `digits`: scikit-learn's, by their pixels, some of the ten digits known. For all of them: how often
the interval holds the truth. Every row is written to benchmarks/results/studies/estimates.json at once, and none is
measured twice.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import newkinds as nk
from newkinds.networks.files import read_network
from newkinds.settings import Count as CountSettings
from newkinds_bench.starts import opened
from studies.tools.clustering import Rows
from studies.tools.networks import network_file

Case = tuple[dict[str, Any], NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]


def main() -> None:
    """Estimate every case that the result file lacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"cifar100": cifar100, "mixtures": mixtures, "digits": digits}
    parser.add_argument("parts", nargs="*", default=[], help="all, if none is named")
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    chosen = parser.parse_args()
    settings = CountSettings(estimator="paper")
    rows = Rows("estimates", {"what": "the number of new kinds estimated", "count": settings.model_dump(mode="json")})
    for part in chosen.parts or parts:
        for about, probes, labels, unsorted in parts[part](chosen.data):
            if rows.has(part=part, **about):
                continue
            started = time.monotonic()
            mine = settings.model_copy(update=about.get("settings", {}))
            found = nk.count_kinds(probes, labels, unsorted, mine, seed=about.get("seed", 0))
            row = {"part": part, **about, "k": found.k, "low": found.low, "high": found.high}
            row |= {"holds": found.low <= about["truth"] <= found.high, "answers": list(found.answers)}
            row |= {"k_accuracy": found.k_accuracy, "k_index": found.k_index, "remarks": list(found.remarks)}
            rows.add({**row, "seconds": time.monotonic() - started})
            print(row, flush=True)
    for part in parts:
        kept = [row for row in rows.rows if row["part"] == part and "settings" not in row]
        if kept:
            error = np.mean([abs(row["k"] - row["truth"]) for row in kept])
            print(
                f"{part}: {len(kept)} cases, mean error {error:.2f}, held by {np.mean([r['holds'] for r in kept]):.2f}"
            )


def cifar100(data: Path | None) -> Iterator[Case]:
    """Yield CIFAR-100's ten unlabelled classes, for three seeds, and once for the other estimator."""
    network = read_network(network_file("cifar100-80", data))[0]
    probes, unsorted = opened("cifar100:probes", data), opened("cifar100:unlabelled", data)
    assert probes.labels is not None
    features = [nk.extract_features(network, images) for images in (probes, unsorted)]
    for seed in range(3):
        yield {"data": "cifar100", "truth": 10, "seed": seed}, features[0], probes.labels, features[1]
    other = {"estimator": "labelled"}
    yield {"data": "cifar100", "truth": 10, "seed": 0, "settings": other}, features[0], probes.labels, features[1]


def mixtures(data: Path | None) -> Iterator[Case]:
    """Yield Gaussians in 16 dimensions that overlap a little, 20 of them known."""
    for kinds in (5, 10, 20, 35, 50):
        for balanced in (True, False):
            for seed in range(2):
                rng = np.random.default_rng([kinds, balanced, seed])
                sizes = np.full(20 + kinds, 40) if balanced else rng.integers(10, 101, 20 + kinds)
                labels = np.repeat(np.arange(20 + kinds), sizes)
                centres = 1.6 * rng.normal(size=(20 + kinds, 16))
                points = (centres[labels] + rng.normal(size=(len(labels), 16))).astype(np.float32)
                known = labels < 20
                about = {"data": "balanced" if balanced else "10 to 100 of each", "truth": kinds, "seed": seed}
                yield about, points[known], labels[known], points[~known]


def digits(data: Path | None) -> Iterator[Case]:
    """Yield the digits, four to seven of them known."""
    images, numbers = load_digits(return_X_y=True)
    for known in (4, 5, 6, 7):
        for seed in range(5):
            order = np.random.default_rng([known, seed]).permutation(10)
            place = np.argsort(order)[numbers]
            probes = place < known
            about = {"data": "digits", "truth": 10 - known, "seed": seed}
            yield about, images[probes].astype(np.float32), place[probes], images[~probes].astype(np.float32)


if __name__ == "__main__":
    main()
