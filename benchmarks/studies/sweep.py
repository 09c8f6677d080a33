"""The sweep of Algorithm 2 beside scikit-learn's, one k-means beside others, growth.

Parts, all or those named: `mixture` and `cifar100` sweep K = 0..100 with 10 restarts over 5,000 unsorted and 5,000
probe points in 512 dimensions, and take the silhouette of the unsorted ones at every K; scikit-learn does some of the
K, in turns with ours, and its other times are interpolated. Both cluster all points freely here, scikit-learn having
no anchors. `memory` is the peak of such sweeps, of a process that does nothing else, above what it had with its
features. `fit` is one k-means, 20,000 points, K = 100, beside scikit-learn and faiss, each stopped by its own rule.
`growth` is one division of Algorithm 2 as it runs, for more points and for larger K.

The limit of a sweep is the time that the products it made would take at the speed of matrix products measured here.
Writes benchmarks/results/studies/sweep.json and docs/figures/count-cost.png. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import faiss
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from newkinds.clustering import kmeans, kmeans_sweep
from newkinds.clustering.lloyd import Points
from newkinds.clustering.validity import validity
from newkinds.count.algorithm2 import Division, _sweep
from newkinds.features import apply
from newkinds.networks.files import read_network
from newkinds.settings import Count as CountSettings
from newkinds_bench.house import DOCS
from newkinds_bench.starts import opened
from studies.tools.memory import memory_of, peak_growth
from studies.tools.networks import network_file
from studies.tools.results import RESULTS, write_result

PROBES, LARGEST, RESTARTS, EACH = 10, 100, 10, 5_000
COUNTS = [PROBES + k for k in range(LARGEST + 1)]
ASKED = [0, 5, 10, 25, 50, 75, 100]  # K that scikit-learn does
PICTURE = DOCS / "figures" / "count-cost.png"

Floats = NDArray[np.float32]
Result = TypeVar("Result")


def main() -> None:
    """Measure the parts asked for; the others keep what was measured before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="all, if none is named")
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.memory:
        print(json.dumps(peak(chosen.memory, chosen.data)))
        return
    parts: dict[str, Callable[[], Any]] = {
        "mixture": lambda: sweeps("mixture", chosen.data),
        "cifar100": lambda: sweeps("cifar100", chosen.data),
        "fit": one_fit,
        "growth": growth,
        "memory": lambda: {name: memory_of("sweep", name, chosen.data) for name in ("mixture", "cifar100")},
    }
    path = RESULTS / "sweep.json"
    values: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in chosen.parts or parts:
        values |= {name: parts[name](), "threads": torch.get_num_threads()}
        write_result("sweep", values)
    draw(values["growth"])


# Data


def mixture(n: int, kinds: int, d: int = 512, spread: float = 0.4, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Return points of Gaussians of deviation 1 in every direction, and of which each is."""
    rng = np.random.default_rng(seed)
    centres = spread * rng.normal(size=(kinds, d))
    labels = np.arange(n) % kinds
    return (centres[labels] + rng.normal(size=(n, d))).astype(np.float32), labels


def features(what: str, data: Path | None) -> Floats:
    """Return 5,000 points of ten probe kinds and then 5,000 unsorted ones (10,000, 512)."""
    if what == "mixture":
        probes = mixture(EACH, PROBES, seed=0)[0]
        return np.concatenate([probes, mixture(EACH, 40, seed=1)[0]])
    network = read_network(network_file("cifar100-80", data))[0]
    # Without the last pooling: 128 channels of 2 x 2, so that there are 512.
    layers = network.backbone.get_submodule("layers")
    network.backbone.layers = torch.nn.Sequential(*list(layers.children())[:-2], torch.nn.ReLU())
    return np.concatenate([apply(network, opened(f"cifar100:{part}", data)) for part in ("probes", "unlabelled")])


# The sweep


def ours(points: Floats) -> dict[int, tuple[float, float]]:
    """Return inertia and silhouette for every K."""
    clusterings = list(kmeans_sweep(points, COUNTS, seed=0, restarts=RESTARTS))[::-1]
    index = validity("silhouette", points[EACH:], [clustering.labels[EACH:] for clustering in clusterings])
    return {k: (clusterings[k].inertia, float(index.values[k])) for k in range(LARGEST + 1)}


def theirs(points: Floats, k: int) -> tuple[float, float]:
    """Return scikit-learn's inertia and silhouette for one K."""
    found = KMeans(PROBES + k, n_init=RESTARTS, random_state=0).fit(points)
    return float(found.inertia_), float(silhouette_score(points[EACH:], found.labels_[EACH:]))


def sweeps(what: str, data: Path | None) -> dict[str, Any]:
    """Compare the sweep of some features with scikit-learn's, taking turns."""
    points = features(what, data)
    kmeans(points[:500], 5, seed=0, restarts=1)  # to warm up
    KMeans(5, n_init=1).fit(points[:500])
    own, their, seconds, products = [], {}, {}, 0
    for k in ASKED:
        if k in (ASKED[0], ASKED[-1]):  # at the beginning and at the end
            started = time.perf_counter()
            values, products = counting_products(lambda: ours(points))
            own.append(time.perf_counter() - started)
            print(what, "ours", own[-1], flush=True)
        started = time.perf_counter()
        their[k] = theirs(points, k)
        seconds[k] = time.perf_counter() - started
        print(what, k, seconds[k], values[k], their[k], flush=True)
    whole = float(np.interp(range(LARGEST + 1), ASKED, [seconds[k] for k in ASKED]).sum())
    # Silhouettes: distances among the unsorted points, and their sums over each cluster.
    products += EACH * EACH * (points.shape[1] + sum(COUNTS))
    speed = product_speed(points.shape[1])
    return {
        "points": list(points.shape),
        "seconds": {"ours": own, "scikit-learn, by K": seconds, "scikit-learn, all K interpolated": whole},
        "times_faster": whole / float(np.median(own)),
        "inertia_over_scikit_learns": {k: values[k][0] / their[k][0] for k in ASKED},
        "silhouette": {k: {"ours": values[k][1], "scikit-learn": their[k][1]} for k in ASKED},
        "limit": {
            "gflop": 2e-9 * products,
            "gflop_a_second_measured": speed,
            "seconds": 2e-9 * products / speed,
            "times_slower_than_it": float(np.median(own)) / (2e-9 * products / speed),
        },
    }


def counting_products(work: Callable[[], Result]) -> tuple[Result, int]:
    """Return what some work returns, and how many multiplications the products of its distances took."""
    made = 0
    plain = Points.distances

    def counted(self: Points, rows: Any, centres: torch.Tensor) -> torch.Tensor:
        nonlocal made
        distances = plain(self, rows, centres)
        made += distances.numel() * centres.shape[1]
        return distances

    Points.distances = counted  # type: ignore[method-assign]
    try:
        result = work()
        return result, made
    finally:
        Points.distances = plain  # type: ignore[method-assign]


def product_speed(d: int) -> float:
    """Return the speed of products of the sweep's shape, in Gflop/s, all threads at work."""
    a, b = torch.randn(2 * EACH, d), torch.randn(d, PROBES + LARGEST)
    seconds = []
    for _ in range(20):
        started = time.perf_counter()
        a @ b
        seconds.append(time.perf_counter() - started)
    return 2e-9 * a.numel() * b.shape[1] / float(np.median(seconds))


def peak(what: str, data: Path | None) -> float:
    """Return the peak memory of this process during the sweep above that with the features, in MB."""
    points = features(what, data)
    kmeans(points[:500], 5, seed=0, restarts=1)
    return peak_growth(lambda: ours(points))


# One k-means


def one_fit(n: int = 20_000, k: int = 100, restarts: int = 3, turns: int = 3) -> dict[str, Any]:
    """Compare one k-means with scikit-learn's and faiss's, taking turns."""
    points = mixture(n, k, seed=2)[0]
    ways: dict[str, Callable[[int], float]] = {
        "ours": lambda seed: kmeans(points, k, seed=seed, restarts=restarts).inertia,
        "ours, 1 restart": lambda seed: kmeans(points, k, seed=seed, restarts=1).inertia,
        "ours, 1 restart, overseeded": lambda seed: kmeans(points, k, seed=seed, restarts=1, overseed=1.5).inertia,
        "scikit-learn": lambda seed: float(KMeans(k, n_init=restarts, random_state=seed).fit(points).inertia_),
        "faiss": lambda seed: _faiss(points, k, restarts, seed),
        "faiss, 10 restarts": lambda seed: _faiss(points, k, 10, seed),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    inertia: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns):
        for name, way in ways.items():
            started = time.perf_counter()
            inertia[name].append(way(turn))
            seconds[name].append(time.perf_counter() - started)
            print(name, seconds[name][-1], inertia[name][-1], flush=True)
    least = min(float(np.mean(values)) for values in inertia.values())
    return {
        "points": list(points.shape),
        "kinds": k,
        "restarts": restarts,
        "seconds": {name: float(np.median(values)) for name, values in seconds.items()},
        "mean_inertia_over_the_least": {name: float(np.mean(values)) / least for name, values in inertia.items()},
    }


def _faiss(points: Floats, k: int, restarts: int, seed: int) -> float:
    # Its own 25 iterations; of more than 256 points a centre it would take a sample.
    trained = faiss.Kmeans(points.shape[1], k, nredo=restarts, niter=25, seed=seed, max_points_per_centroid=len(points))
    trained.train(points)
    return float(trained.index.search(points, 1)[0].sum())


# Growth


def growth() -> dict[str, Any]:
    """Time one division of Algorithm 2 for more points, and for a larger K_max."""
    settings = CountSettings()
    rows = []
    for n, largest in [(n, 50) for n in (6_250, 12_500, 25_000, 50_000, 100_000, 200_000)] + [
        (20_000, most) for most in (25, 50, 100, 200)
    ]:
        points, labels = mixture(n, 60, d=settings.dimensions, spread=1.0)
        probes = labels < 30
        division = Division(tuple(range(24)), tuple(range(24, 30)), 0)
        started = time.perf_counter()
        _sweep(points[probes], labels[probes], points[~probes], division, largest, settings)
        rows.append({"points": n, "largest_k": largest, "seconds": time.perf_counter() - started})
        print(rows[-1], flush=True)
    return {
        "what": "one of the 10 divisions that an estimate has by default, 32 dimensions, half of the points probes; "
        "the silhouette of at most 10,000 unsorted points",
        "restarts": settings.restarts,
        "runs": rows,
    }


def draw(values: dict[str, Any]) -> None:
    """Draw both curves of growth, with lines that go straight through the origin beside them."""
    figure = Figure(figsize=(7, 3), dpi=150, layout="constrained")
    axes: Sequence[Any] = figure.subplots(1, 2)
    shown = ((axes[0], "points", "largest_k", 50), (axes[1], "largest_k", "points", 20_000))
    for axis, name, other, value in shown:
        rows = [row for row in values["runs"] if row[other] == value]
        x, y = np.array(sorted([row[name], row["seconds"]] for row in rows)).T
        slope, intercept = np.polyfit(x, y, 1)
        axis.plot([0, x[-1]], [intercept, intercept + slope * x[-1]], color="#999999", linestyle="--", linewidth=1)
        axis.plot(x, y, "o-", color="#0072b2")
        axis.set_xlabel({"points": f"points, K up to {value}", "largest_k": f"largest K, {value:,} points"}[name])
        axis.set_ylabel("seconds a division")
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Software": None})


if __name__ == "__main__":
    main()
