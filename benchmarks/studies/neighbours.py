"""Exact nearest neighbours in tiles beside indices of libraries made for it: recall, time, memory.

The heap of the study `growth`: embeddings at length 1, 128 wide, the 10 nearest of each among all by direction, on one
thread, each library in a process of its own. Recall is the share of the 10 that are right, over 1,000 pictures; memory
is the peak above the embeddings. Libraries that are not installed are left out: none of them is needed by the package,
`pip install faiss-cpu hnswlib pynndescent usearch` brings all. Adds to benchmarks/results/studies/neighbours.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.clustering.neighbours import directions_float32, nearest_by_direction
from newkinds.randomness import one_thread
from studies.growth import FILES, written_set
from studies.tools.clustering import Rows
from studies.tools.memory import in_a_process, peak_growth

NEAREST, ASKED = 10, 1_000
LINKS, BUILT, SEARCHED = 16, 100, 64  # of a graph: links a node, and candidates while it is built and searched

Floats = NDArray[np.float32]
Items = NDArray[np.int64]


def exact(x: Floats) -> Items:
    """Ours."""
    return nearest_by_direction(x, NEAREST)


def faiss_flat(x: Floats) -> Items:
    """All pairs, by faiss."""
    faiss = import_module("faiss")
    index = faiss.IndexFlatIP(x.shape[1])
    index.add(x)
    found: Items = index.search(x, NEAREST)[1]
    return found


def faiss_hnsw(x: Floats) -> Items:
    """A graph, by faiss."""
    faiss = import_module("faiss")
    index = faiss.IndexHNSWFlat(x.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = BUILT, SEARCHED
    index.add(x)
    found: Items = index.search(x, NEAREST)[1]
    return found


def hnswlib(x: Floats) -> Items:
    """A graph, by hnswlib."""
    index = import_module("hnswlib").Index("ip", x.shape[1])
    index.init_index(len(x), ef_construction=BUILT, M=LINKS, random_seed=0)
    index.set_ef(SEARCHED)
    index.add_items(x, num_threads=1)
    found: Items = index.knn_query(x, NEAREST, num_threads=1)[0].astype(np.int64)
    return found


def usearch(x: Floats) -> Items:
    """A graph, by usearch."""
    index = import_module("usearch.index").Index(
        ndim=x.shape[1],
        metric="ip",
        dtype="f32",
        connectivity=LINKS,
        expansion_add=BUILT,
        expansion_search=SEARCHED,
    )
    index.add(np.arange(len(x)), x, threads=1)
    found: Items = index.search(x, NEAREST, threads=1).keys.astype(np.int64)
    return found


def pynndescent(x: Floats) -> Items:
    """A graph that improves itself, by pynndescent; its compilation is not counted."""
    index = import_module("pynndescent").NNDescent(x, metric="cosine", n_neighbors=15, n_jobs=1, random_state=0)
    found: Items = index.neighbor_graph[0][:, :NEAREST].astype(np.int64)
    return found


WAYS: dict[str, tuple[str, Callable[[Floats], Items]]] = {
    "exact": ("newkinds", exact),
    "faiss-flat": ("faiss", faiss_flat),
    "faiss-hnsw": ("faiss", faiss_hnsw),
    "hnswlib": ("hnswlib", hnswlib),
    "usearch": ("usearch", usearch),
    "pynndescent": ("pynndescent", pynndescent),
}


def main() -> None:
    """Measure each library that is installed at each size that is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=[20_000, 50_000, 200_000])
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--heap", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.way:
        print(json.dumps(measure(chosen.way, chosen.heap)))
        return
    rows = Rows("neighbours", {"what": "the 10 nearest of each embedding, 128 wide, by direction, on one thread"})
    for size in chosen.sizes:
        with written_set(size) as folder:
            for way, (package, _) in WAYS.items():
                if find_spec(package) is None:
                    print(f"{way}: {package} is not installed")
                elif not rows.has(way=way, pictures=size):
                    heap = str(folder / FILES[1])
                    rows.add(json.loads(in_a_process("neighbours", "--way", way, "--heap", heap)))
                    print(rows.rows[-1], flush=True)


def measure(way: str, heap: str) -> dict[str, Any]:
    """Return what one way takes in this process, and how many neighbours it finds."""
    with np.load(heap) as file:
        x = directions_float32(file["embeddings"])
    pictures = len(x)
    package, find = WAYS[way]
    with one_thread():
        find(x[:2000])  # whatever is loaded or compiled first
        found: list[Items] = []
        started = time.process_time()
        grown = peak_growth(lambda: found.append(find(x)))
        seconds = time.process_time() - started
    asked = np.random.default_rng(0).choice(pictures, ASKED, replace=False)
    right = (torch.from_numpy(x[asked]) @ torch.from_numpy(x).T).topk(NEAREST, dim=1).indices.numpy()
    hits = [len(np.intersect1d(one, other)) / NEAREST for one, other in zip(found[0][asked], right, strict=True)]
    version = getattr(import_module(package), "__version__", None)
    return {
        "way": way,
        "package": package,
        "package_version": version,
        "pictures": pictures,
        "recall": float(np.mean(hits)),
        "cpu_seconds": seconds,
        "megabytes": grown,
    }


if __name__ == "__main__":
    main()
