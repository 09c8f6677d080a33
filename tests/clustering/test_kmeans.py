"""k-means, plain and constrained."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from newkinds.clustering import Clustering, kmeans, nearest
from newkinds.clustering.kmeans import _draw, _Lloyd
from newkinds.errors import UsageError

FLOATS = st.floats(-100, 100, allow_nan=False, width=32)


def blobs(n: int, k: int, seed: int = 0, spread: float = 1.0, d: int = 4) -> tuple[NDArray[Any], NDArray[Any]]:
    points, labels = make_blobs(n, d, centers=k, cluster_std=spread, random_state=seed)
    return points, labels.astype(np.int64)


@st.composite
def clouds(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Points (N, d), anchors (N,) of 0 to 3 classes, and a number of clusters that goes with them."""
    n, d = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    points = draw(hnp.arrays(np.float64, (n, d), elements=FLOATS))
    classes = draw(st.integers(0, min(3, n)))
    anchors = draw(hnp.arrays(np.int64, n, elements=st.integers(-1, classes - 1)))
    anchors[:classes] = np.arange(classes)
    return points, anchors, draw(st.integers(max(1, classes), n))


def inertia_of(points: NDArray[Any], found: Clustering) -> float:
    """The slow way: point by point."""
    distances = [np.sum((point - found.centres[label]) ** 2) for point, label in zip(points, found.labels, strict=True)]
    return float(sum(distances))


def test_hand_case() -> None:
    points = np.array([[0.0, 0], [0, 2], [10, 0], [10, 2], [10, 4]])
    found = kmeans(points, 2, seed=0)
    first = found.labels[0]
    assert found.labels.tolist() == [first, first, 1 - first, 1 - first, 1 - first]
    assert found.centres[first].tolist() == [0, 1]
    assert found.centres[1 - first].tolist() == [10, 2]
    assert found.inertia == pytest.approx(2 + 8)
    assert sorted(found.mass().tolist()) == [2, 3]
    assert (found.labels.dtype, found.centres.dtype) == (np.int64, np.float64)


def test_hand_case_with_anchors() -> None:
    # The anchor of class 0 lies among the points on the right, and stays with class 0 on the left all the same.
    points = np.array([[0.0], [1.0], [11.0], [10.0], [12.0], [13.0]])
    found = kmeans(points, 2, seed=0, anchors=np.array([0, -1, 0, 1, -1, 1]))
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.centres.tolist() == [[pytest.approx(4)], [pytest.approx(35 / 3)]]
    assert found.inertia == pytest.approx(16 + 9 + 49 + (5 / 3) ** 2 + (1 / 3) ** 2 + (4 / 3) ** 2)


@pytest.mark.parametrize(("k", "spread"), [(3, 1.0), (5, 3.0), (10, 2.0), (17, 5.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_as_good_as_scikit_learn(k: int, spread: float, seed: int) -> None:
    points, _ = blobs(400, k, seed, spread)
    theirs = KMeans(k, n_init=20, random_state=seed).fit(points)
    ours = kmeans(points, k, seed=seed, restarts=20)
    assert ours.inertia <= 1.01 * theirs.inertia_
    assert ours.inertia == pytest.approx(inertia_of(points, ours))


def test_right_on_blobs_far_apart() -> None:
    points, labels = blobs(200, 6, spread=0.3, seed=3)
    found = kmeans(points, 6, seed=0)
    assert len(set(zip(found.labels.tolist(), labels.tolist(), strict=True))) == 6


@settings(deadline=None, max_examples=100)
@given(clouds(), st.integers(0, 5))
def test_what_always_holds(cloud: tuple[NDArray[Any], NDArray[Any], int], seed: int) -> None:
    points, anchors, k = cloud
    found = kmeans(points, k, seed=seed, anchors=anchors, restarts=2)
    assert found.centres.shape == (k, points.shape[1])
    assert np.isfinite(found.centres).all()
    assert math.isfinite(found.inertia)
    # Anchors never move.
    assert (found.labels[anchors >= 0] == anchors[anchors >= 0]).all()
    # Free points are with the nearest centre, up to rounding.
    distances = np.square(points[:, None] - found.centres).sum(axis=2)
    scale = 1e-9 * (1 + np.square(points).sum(axis=1).max())
    free = anchors < 0
    own = distances[np.arange(len(points)), found.labels]
    assert (own[free] <= distances.min(axis=1)[free] + scale).all()
    assert found.inertia == pytest.approx(own.sum(), abs=1e-6 * (1 + own.sum()))
    # The same again, and the input unchanged.
    again = kmeans(points, k, seed=seed, anchors=anchors, restarts=2)
    assert (again.labels == found.labels).all()
    assert (again.centres == found.centres).all()


@settings(deadline=None, max_examples=40)
@given(clouds(), st.integers(0, 5))
def test_inertia_never_rises(cloud: tuple[NDArray[Any], NDArray[Any], int], seed: int) -> None:
    points, anchors, k = cloud

    def after(iterations: int) -> float:
        return kmeans(points, k, seed=seed, anchors=anchors, restarts=1, max_iterations=iterations, tolerance=0).inertia

    inertias = [after(iterations) for iterations in range(6)]
    slack = 1e-9 * (1 + np.square(points).sum())
    assert all(later <= before + slack for before, later in itertools.pairwise(inertias))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 100), st.integers(2, 6), st.floats(-1e4, 1e4), st.floats(-1e4, 1e4))
def test_moving_all_points_moves_the_centres_and_no_label(seed: int, k: int, right: float, up: float) -> None:
    points, _ = blobs(60, k, seed, d=2)
    # One restart: among several equally good ones rounding may choose, and number the clusters otherwise.
    offset = np.array([right, up])
    found, moved = kmeans(points, k, seed=1, restarts=1), kmeans(points + offset, k, seed=1, restarts=1)
    assert (moved.labels == found.labels).all()
    assert moved.centres - offset == pytest.approx(found.centres, abs=1e-6)


def test_a_large_offset_does_not_eat_the_digits() -> None:
    points, _ = blobs(100, 4, spread=0.5)
    assert (kmeans(points + 1e8, 4, seed=0, restarts=1).labels == kmeans(points, 4, seed=0, restarts=1).labels).all()


@pytest.mark.parametrize("k", [4, 7, 12])
@pytest.mark.parametrize("anchored", [False, True])
def test_fewer_distinct_points_than_clusters(k: int, anchored: bool) -> None:
    points = np.repeat(np.array([[0.1, 0.2], [5.3, 0.7], [0.4, 9.9]]), 4, axis=0)
    anchors = np.where(np.arange(12) < 2, 0, -1) if anchored else None
    found = kmeans(points, k, seed=0, anchors=anchors)
    assert np.isfinite(found.centres).all()
    assert found.inertia == pytest.approx(0, abs=1e-9)
    # Equal points stay together, apart from anchors, and every centre lies on a point.
    assert len({(label, *point) for label, point in zip(found.labels.tolist(), points.tolist(), strict=True)}) <= 4
    assert nearest(found.centres, points).shape == (k,)
    assert np.abs(found.centres - points[nearest(found.centres, points)]).max() < 1e-9


def test_all_points_equal() -> None:
    found = kmeans(np.full((6, 3), 7.0), 3, seed=0)
    assert np.isfinite(found.centres).all()
    assert found.centres == pytest.approx(np.full((3, 3), 7.0))
    assert found.inertia == pytest.approx(0)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_as_many_clusters_as_points(n: int) -> None:
    points = np.random.default_rng(0).normal(size=(n, 2))
    found = kmeans(points, n, seed=0)
    assert sorted(found.labels.tolist()) == list(range(n))
    assert found.inertia == pytest.approx(0, abs=1e-12)


def test_one_cluster_is_the_mean() -> None:
    points, _ = blobs(50, 3)
    found = kmeans(points, 1, seed=0)
    assert found.centres[0] == pytest.approx(points.mean(axis=0))
    assert found.inertia == pytest.approx(np.square(points - points.mean(axis=0)).sum())
    assert not found.labels.any()


def test_all_points_anchors() -> None:
    points, labels = blobs(30, 3)
    found = kmeans(points, 3, seed=0, anchors=labels)
    assert (found.labels == labels).all()
    assert found.centres == pytest.approx(np.stack([points[labels == c].mean(axis=0) for c in range(3)]))
    # Clusters to which no free point can go stay empty, and finite.
    more = kmeans(points, 5, seed=0, anchors=labels)
    assert np.isfinite(more.centres).all()
    assert more.mass().tolist()[3:] == [0, 0]


def test_empty_clusters_move_to_the_farthest_points() -> None:
    points = torch.tensor([[0.0], [1.0], [2.0], [50.0], [90.0]], dtype=torch.float64)
    work = _Lloyd(points, torch.tensor([-1, -1, -1, -1, 0]), 3)
    # Cluster 0 has everything; of the free points 50 is the farthest, then 0: the anchor at 90 may not be taken.
    centres = work.points.new_tensor([[40.0], [1e6], [1e6]])[None] - work.offset
    labels, distance = work.assign(centres)
    assert labels.tolist() == [[0, 0, 0, 0, 0]]
    distance[0] = torch.tensor([40.0, 39, 38, 60, 99])
    moved = work.update(labels, distance)[0] + work.offset
    assert moved[:, 0].tolist() == pytest.approx([143 / 5, 50, 0])


def test_every_cluster_is_used_where_the_points_allow_it() -> None:
    # k-means++ with one restart on clumped data: relocation leaves no cluster empty.
    for seed in range(20):
        points, _ = blobs(40, 2, seed, spread=0.01)
        assert (kmeans(points, 12, seed=seed, restarts=1).mass() > 0).all()


def test_seeds_are_spread_over_the_blobs() -> None:
    # Greedy k-means++ without any iteration: with plain random seeds two thirds of the blobs would be hit.
    points, labels = blobs(240, 12, seed=5, spread=0.05, d=8)
    for seed in range(20):
        seeds = kmeans(points, 12, seed=seed, restarts=1, max_iterations=0).centres
        assert len(set(labels[nearest(seeds, points)].tolist())) == 12


def test_draws_follow_the_weights_and_fall_back_to_free_points() -> None:
    free = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    weights = torch.tensor([[0, 1.0, 0, 3.0, 0], [0, 0, 0, 0, 0]], dtype=torch.float64).T
    drawn = _draw(weights, free, 4000, np.random.default_rng(0)).numpy()
    first, second = np.bincount(drawn[0], minlength=5), np.bincount(drawn[1], minlength=5)
    assert first[[0, 2, 4]].tolist() == [0, 0, 0]
    assert first[3] == pytest.approx(3000, abs=4 * np.sqrt(750))
    # Where nothing has any weight left, any free point will do; anchors never.
    assert second[[2, 4]].tolist() == [0, 0]
    assert second[[0, 1, 3]] == pytest.approx(4000 / 3, abs=4 * np.sqrt(4000 * 2 / 9))


def test_anchor_classes_keep_their_clusters_and_new_ones_come_behind() -> None:
    points, labels = blobs(300, 5, seed=1, spread=0.3)
    anchors = np.where(labels < 2, labels, -1)
    anchors[np.flatnonzero(labels == 0)[5:]] = -1  # most of class 0 is free, and finds its anchors
    found = kmeans(points, 5, seed=0, anchors=anchors)
    assert (found.labels[labels == 0] == 0).all()
    assert (found.labels[labels == 1] == 1).all()
    assert set(found.labels[labels > 1].tolist()) == {2, 3, 4}


def test_the_thread_count_does_not_matter() -> None:
    points, labels = blobs(3000, 8, spread=4.0, d=16)
    anchors = np.where(labels < 2, labels, -1)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            results.append(kmeans(points, 8, seed=0, anchors=anchors, restarts=3))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert (other.labels == results[0].labels).all()
        assert other.centres.tobytes() == results[0].centres.tobytes()
        assert other.inertia == results[0].inertia


def test_the_work_is_done_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    own = _Lloyd.assign

    def spy(self: _Lloyd, centres: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        threads.append(torch.get_num_threads())
        return own(self, centres)

    monkeypatch.setattr(_Lloyd, "assign", spy)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = kmeans(blobs(30, 3)[0], 3, seed=0)
        nearest(blobs(30, 3)[0], found.centres)
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}


def test_the_memory_allowed_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = blobs(200, 5, spread=4.0)
    anchors = np.where(labels == 0, 0, -1)
    whole = kmeans(points, 5, seed=0, anchors=anchors)
    monkeypatch.setitem(kmeans.__globals__, "_CHUNK", 300)
    parts = kmeans(points, 5, seed=0, anchors=anchors)
    assert (parts.labels == whole.labels).all()
    assert parts.inertia == pytest.approx(whole.inertia, rel=1e-12)


def test_restarts_help_and_the_seed_counts() -> None:
    points, _ = blobs(300, 15, spread=2.0)
    few = [kmeans(points, 15, seed=seed, restarts=1).inertia for seed in range(6)]
    assert len(set(few)) > 1
    assert kmeans(points, 15, seed=0, restarts=20).inertia <= min(few) * 1.01


def test_global_generators_are_left_alone() -> None:
    torch_before, numpy_before = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    kmeans(blobs(30, 3)[0], 3, seed=0)
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert str(np.random.get_state()) == numpy_before  # noqa: NPY002


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_clusters": 11}, r"n_clusters=11 should be between 1 and n_samples=10"),
        ({"n_clusters": 0}, r"n_clusters=0 should be between 1 and n_samples=10"),
        ({"n_clusters": 2, "anchors": np.array([0, 1, 2] + [-1] * 7)}, r"n_clusters=2 .* anchor classes, 3"),
        ({"anchors": np.array([0, 2, 2] + [-1] * 7)}, r"numbered 0 to 2; class 1 has no point"),
        ({"restarts": 0}, r"restarts=0 should be at least 1"),
    ],
)
def test_errors_say_value_limit_and_way_out(changes: dict[str, Any], message: str) -> None:
    given = {"n_clusters": 3, **changes}
    with pytest.raises(UsageError, match=message) as caught:
        kmeans(np.arange(20.0).reshape(10, 2), given.pop("n_clusters"), seed=0, **given)
    assert caught.value.hint


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(np.float32, st.tuples(st.integers(1, 20), st.just(3)), elements=FLOATS),
    hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=FLOATS),
)
def test_nearest_against_loops(points: NDArray[Any], centres: NDArray[Any]) -> None:
    found = nearest(points, centres)
    assert found.dtype == np.int64
    for point, label in zip(points.astype(np.float64), found, strict=True):
        distances = [float(np.sum((point - centre) ** 2)) for centre in centres]
        assert distances[label] <= min(distances) + 1e-8 * (1 + max(distances))


def test_nearest_by_hand_and_of_a_clustering() -> None:
    points = np.array([[10.0, 0], [11, 0], [20, 0], [21, 0]], dtype=np.float32)
    assert nearest(points, np.array([[10.5, 0], [20.5, 0]], dtype=np.float32)).tolist() == [0, 0, 1, 1]
    points, _ = blobs(100, 4)
    found = kmeans(points, 4, seed=0)
    assert (nearest(points, found.centres) == found.labels).all()
