"""Points, anchors and slow references for the tests of clustering."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from sklearn.datasets import make_blobs

from newkinds.clustering.lloyd import Points, Restart
from newkinds.clustering.threads import Threads

FLOATS = st.floats(-100, 100, allow_nan=False, width=32)
DTYPES = [np.float32, np.float64]
ROUNDING = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-11}  # of a squared distance beside the squared norms


@dataclass(frozen=True)
class Cloud:
    """Points (N, d), anchors (N,) of 0 to 3 classes, and a number of clusters that goes with them."""

    points: NDArray[Any]
    anchors: NDArray[np.int64]
    k: int


@st.composite
def clouds(draw: st.DrawFn) -> Cloud:
    """Draw points of either precision, often with duplicates."""
    n, d = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    elements = draw(st.sampled_from([FLOATS, st.integers(-2, 2).map(float)]))
    points = draw(hnp.arrays(draw(st.sampled_from(DTYPES)), (n, d), elements=elements))
    classes = draw(st.integers(0, min(3, n)))
    anchors = draw(hnp.arrays(np.int64, n, elements=st.integers(-1, classes - 1)))
    anchors[:classes] = np.arange(classes)
    return Cloud(points, anchors, draw(st.integers(max(1, classes), n)))


def blobs(
    n: int, k: int, seed: int = 0, spread: float = 1.0, d: int = 4, dtype: Any = np.float64
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return points (N, d) around k centres, and whose they are."""
    points, labels = make_blobs(n, d, centers=k, cluster_std=spread, random_state=seed)
    return points.astype(dtype), labels.astype(np.int64)


def restart(points: NDArray[Any], most: int, anchors: NDArray[np.int64] | None = None) -> Restart:
    """Return a run of k-means that has not begun."""
    held = np.full(len(points), -1) if anchors is None else anchors
    return Restart(Points(torch.from_numpy(points), torch.from_numpy(held)), most, Threads())


def squared_distances(points: NDArray[Any], centres: NDArray[Any]) -> NDArray[np.float64]:
    """Return the squared distances (N, K) by differences, in float64."""
    distances: NDArray[np.float64] = np.square(points.astype(np.float64)[:, None] - centres).sum(axis=2)
    return distances


def assert_nearest(
    points: NDArray[Any], centres: NDArray[Any], labels: NDArray[np.int64], anchors: NDArray[np.int64]
) -> None:
    """Assert that anchors are where they belong, and free points with a nearest centre, up to rounding."""
    distances = squared_distances(points, centres)
    free = anchors < 0
    assert (labels[~free] == anchors[~free]).all()
    own = distances[np.arange(len(points)), labels]
    size = np.square(points - points.mean(axis=0, dtype=np.float64)).sum(axis=1).max()
    tiny = 1e-36  # below this, squares in float32 are 0
    assert (own[free] <= distances.min(axis=1)[free] + ROUNDING[points.dtype] * size + tiny).all()


def partition(labels: NDArray[np.int64]) -> set[frozenset[int]]:
    """Return the clusters as sets of points, whatever their numbers."""
    return {frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)}


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Tell torch how many threads to use, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def untouched_generators() -> Iterator[None]:
    """Assert that the global generators of torch and numpy are as before."""
    torch_before, numpy_before = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    yield
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert str(np.random.get_state()) == numpy_before  # noqa: NPY002
