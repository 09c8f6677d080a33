"""k-means, plain and constrained."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from clouds import (
    DTYPES,
    FLOATS,
    ROUNDING,
    Cloud,
    assert_nearest,
    blobs,
    clouds,
    partition,
    torch_threads,
    untouched_generators,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from newkinds.clustering import Clustering, kmeans, kmeans_sweep, nearest
from newkinds.clustering.lloyd import Restart
from newkinds.errors import UsageError


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
    assert found.labels.dtype == np.int64
    assert found.centres.dtype == np.float64


def test_hand_case_with_anchors() -> None:
    # The anchor of class 0 lies among the points on the right, and stays with class 0 on the left all the same.
    points = np.array([[0.0], [1.0], [11.0], [10.0], [12.0], [13.0]])
    found = kmeans(points, 2, seed=0, anchors=np.array([0, -1, 0, 1, -1, 1]))
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.centres.tolist() == [[pytest.approx(4)], [pytest.approx(35 / 3)]]
    assert found.inertia == pytest.approx(16 + 9 + 49 + (5 / 3) ** 2 + (1 / 3) ** 2 + (4 / 3) ** 2)


@pytest.mark.parametrize(("k", "spread"), [(3, 1.0), (5, 3.0), (10, 2.0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_as_good_as_scikit_learn(k: int, spread: float, dtype: Any) -> None:
    for seed in range(2):
        points, _ = blobs(400, k, seed, spread, dtype=dtype)
        theirs = KMeans(k, n_init=10, random_state=seed).fit(points)
        ours = kmeans(points, k, seed=seed)
        assert ours.inertia <= 1.01 * theirs.inertia_
        assert ours.inertia == pytest.approx(inertia_of(points, ours), rel=1e-5)


def test_single_restarts_are_as_good_as_scikit_learn_s_on_average() -> None:
    # Many clusters that overlap: hardly two restarts end at the same place.
    points, _ = blobs(400, 17, seed=1, spread=2.0)
    theirs = [KMeans(17, n_init=1, random_state=seed).fit(points).inertia_ for seed in range(60)]
    ours = [kmeans(points, 17, seed=seed, restarts=1).inertia for seed in range(60)]
    assert np.mean(ours) <= 1.02 * np.mean(theirs)


def test_right_on_blobs_far_apart() -> None:
    points, labels = blobs(200, 6, spread=0.3, seed=3)
    found = kmeans(points, 6, seed=0)
    assert len(set(zip(found.labels.tolist(), labels.tolist(), strict=True))) == 6


@settings(deadline=None, max_examples=100)
@given(clouds(), st.integers(0, 5))
def test_what_always_holds(cloud: Cloud, seed: int) -> None:
    before = cloud.points.copy()
    found = kmeans(cloud.points, cloud.k, seed=seed, anchors=cloud.anchors, restarts=2)
    assert found.centres.shape == (cloud.k, cloud.points.shape[1])
    assert np.isfinite(found.centres).all()
    assert math.isfinite(found.inertia)
    # Anchors never move; free points are with the nearest centre, up to rounding.
    assert_nearest(cloud.points, found.centres, found.labels, cloud.anchors)
    own = inertia_of(cloud.points.astype(np.float64), found)
    assert found.inertia == pytest.approx(own, abs=1e-6 * (1 + float(np.square(cloud.points).sum())))
    # The same again, and the input unchanged.
    again = kmeans(cloud.points, cloud.k, seed=seed, anchors=cloud.anchors, restarts=2)
    assert again.labels.tobytes() == found.labels.tobytes()
    assert again.centres.tobytes() == found.centres.tobytes()
    assert (cloud.points == before).all()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 4), st.integers(0, 3))
def test_the_order_of_the_points_and_of_the_classes_does_not_matter(seed: int, n: int, d: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    classes = min(classes, n)
    k = int(rng.integers(max(1, classes), n + 1))
    points, start = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    anchors = np.where(np.arange(n) < classes, np.arange(n), np.where(rng.random(n) < 0.3, classes - 1, -1))
    found = kmeans(points, k, seed=0, anchors=anchors, start=start)
    rows = rng.permutation(n)
    other = kmeans(points[rows], k, seed=0, anchors=anchors[rows], start=start)
    assert (other.labels == found.labels[rows]).all()
    assert other.inertia == pytest.approx(found.inertia, rel=1e-9, abs=1e-9)
    # Class c is called names[c]; the clusters without anchors keep their numbers.
    names = np.concatenate([rng.permutation(classes), np.arange(classes, k)])
    other = kmeans(points, k, seed=0, anchors=np.where(anchors < 0, -1, names[anchors]), start=start[np.argsort(names)])
    assert (other.labels == names[found.labels]).all()
    assert partition(other.labels) == partition(found.labels)
    assert other.centres[names] == pytest.approx(found.centres)
    assert other.inertia == pytest.approx(found.inertia, rel=1e-9, abs=1e-9)


def test_given_centres_to_begin_with() -> None:
    points = np.array([[0.0], [1.0], [9.0], [10.0]])
    # Cluster c is the one that begins at the c-th centre.
    assert kmeans(points, 2, seed=0, start=np.array([[0.0], [1.0]])).labels.tolist() == [0, 0, 1, 1]
    assert kmeans(points, 2, seed=0, start=np.array([[20.0], [1.0]])).labels.tolist() == [1, 1, 0, 0]
    assert kmeans(points, 2, seed=0, start=np.array([[2, 5]]).T, max_iterations=0).centres.tolist() == [[2], [5]]
    anchored = kmeans(points, 2, seed=0, anchors=np.array([0, -1, -1, -1]), start=np.array([[11.0], [1.0]]))
    assert anchored.labels.tolist() == [0, 1, 0, 0]


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


def test_every_cluster_is_used_where_the_points_allow_it() -> None:
    # k-means++ with one restart on clumped data: relocation leaves no cluster empty.
    for seed in range(20):
        points, _ = blobs(40, 2, seed, spread=0.01)
        assert (kmeans(points, 12, seed=seed, restarts=1).mass() > 0).all()


def test_anchor_classes_keep_their_clusters_and_new_ones_come_behind() -> None:
    points, labels = blobs(300, 5, seed=1, spread=0.3)
    anchors = np.where(labels < 2, labels, -1)
    anchors[np.flatnonzero(labels == 0)[5:]] = -1  # most of class 0 is free, and finds its anchors
    found = kmeans(points, 5, seed=0, anchors=anchors)
    assert (found.labels[labels == 0] == 0).all()
    assert (found.labels[labels == 1] == 1).all()
    assert set(found.labels[labels > 1].tolist()) == {2, 3, 4}


@pytest.mark.parametrize("restarts", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_thread_count_does_not_matter(dtype: Any, restarts: int) -> None:
    points, labels = blobs(5000, 8, spread=4.0, d=16, dtype=dtype)
    anchors = np.where(labels < 2, labels, -1)
    results = []
    for threads in (1, 2, 3):
        with torch_threads(threads):
            found = kmeans(points, 8, seed=0, anchors=anchors, restarts=restarts, max_iterations=20)
            near = nearest(points, found.centres)
            assert torch.get_num_threads() == threads
        results.append((found.labels.tobytes(), found.centres.tobytes(), found.inertia, near.tobytes()))
    assert results[1:] == results[:1] * 2


def test_the_thread_count_does_not_matter_for_sums_over_many_points() -> None:
    points = np.random.default_rng(0).normal(size=(40_000, 3))
    results = []
    for threads in (1, 2, 3):
        with torch_threads(threads):
            found = kmeans(points, 2, seed=0, restarts=1, max_iterations=2)
        results.append((found.labels.tobytes(), found.centres.tobytes(), found.inertia))
    assert results[1:] == results[:1] * 2


def test_torch_has_its_threads_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Restart, max_iterations: int, tolerance: float) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Restart, "settle", fail)
    with torch_threads(2):
        for restarts in (1, 3):
            with pytest.raises(ZeroDivisionError):
                kmeans(blobs(30, 3)[0], 3, seed=0, restarts=restarts)
            assert torch.get_num_threads() == 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_size_of_the_pieces_does_not_matter(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = blobs(200, 5, spread=4.0, dtype=dtype)
    anchors = np.where(labels == 0, 0, -1)
    whole = kmeans(points, 5, seed=0, anchors=anchors)
    monkeypatch.setattr("newkinds.clustering.lloyd.PIECE", 7)
    parts = kmeans(points, 5, seed=0, anchors=anchors)
    assert (parts.labels == whole.labels).all()
    assert parts.inertia == pytest.approx(whole.inertia, rel=1e-12)


def test_restarts_help_and_the_seed_counts() -> None:
    points, _ = blobs(300, 15, spread=2.0)
    few = [kmeans(points, 15, seed=seed, restarts=1).inertia for seed in range(6)]
    assert len(set(few)) > 1
    assert kmeans(points, 15, seed=0, restarts=20).inertia <= min(few) * 1.01


def test_more_seeds_than_clusters_end_lower() -> None:
    points, labels = blobs(400, 17, seed=1, spread=2.0)
    plain = [kmeans(points, 17, seed=seed, restarts=1).inertia for seed in range(20)]
    more = [kmeans(points, 17, seed=seed, restarts=1, overseed=1.5) for seed in range(20)]
    assert all((found.mass() > 0).all() and len(found.centres) == 17 for found in more)
    assert np.mean([found.inertia for found in more]) < 0.99 * np.mean(plain)
    # It is what the sweep does from so many clusters down, and never more seeds than points.
    first = kmeans(points, 17, seed=0, overseed=1.2, restarts=2)
    assert first.inertia == pytest.approx(list(kmeans_sweep(points, [21, 17], seed=0, restarts=2))[1].inertia)
    assert len(kmeans(points[:20], 17, seed=0, overseed=10).centres) == 17
    anchors = np.where(labels < 3, labels, -1)
    anchored = kmeans(points, 17, seed=0, anchors=anchors, overseed=1.5)
    assert_nearest(points, anchored.centres, anchored.labels, anchors)


def test_global_generators_are_left_alone() -> None:
    points, _ = blobs(30, 3)
    with untouched_generators():
        kmeans(points, 3, seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_clusters": 11}, r"n_clusters=11 should be between 1 and n_samples=10"),
        ({"n_clusters": 0}, r"n_clusters=0 should be between 1 and n_samples=10"),
        ({"n_clusters": 2, "anchors": np.array([0, 1, 2] + [-1] * 7)}, r"n_clusters=2 .* anchor classes, 3"),
        ({"anchors": np.array([0, 2, 2] + [-1] * 7)}, r"numbered 0 to 2; class 1 has no point"),
        ({"anchors": np.array([0, -1])}, r"anchors of shape \(2,\) do not go with 10 points"),
        ({"restarts": 0}, r"restarts=0 should be at least 1"),
        ({"start": np.zeros((2, 2))}, r"shape \(2, 2\) do not go with 3 clusters"),
        ({"start": np.full((3, 2), np.nan)}, r"3 of 3 rows are not finite"),
    ],
)
def test_errors_say_value_limit_and_way_out(changes: dict[str, Any], message: str) -> None:
    given = {"n_clusters": 3, **changes}
    with pytest.raises(UsageError, match=message) as caught:
        kmeans(np.arange(20.0).reshape(10, 2), given.pop("n_clusters"), seed=0, **given)
    assert caught.value.hint


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_points_that_are_not_finite_are_refused(value: float, dtype: Any) -> None:
    points = np.ones((10, 2), dtype=dtype)
    points[3, 1] = points[7] = value
    for call in (lambda: kmeans(points, 2, seed=0), lambda: nearest(points, np.ones((2, 2)))):
        with pytest.raises(UsageError, match=r"2 of 10 rows are not finite") as caught:
            call()
        assert caught.value.hint


def test_what_points_may_be() -> None:
    points, labels = blobs(60, 3, spread=0.2)
    expected = partition(labels)
    for same in (points, torch.from_numpy(points), np.asfortranarray(points), (points * 1000).astype(np.int32)):
        assert partition(kmeans(same, 3, seed=0).labels) == expected
    points.setflags(write=False)
    labels.setflags(write=False)
    assert partition(kmeans(points, 3, seed=0, anchors=labels).labels) == expected


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
        assert distances[label] <= min(distances) + ROUNDING[points.dtype] * (1 + max(distances))


def test_nearest_by_hand_and_of_a_clustering() -> None:
    points = np.array([[10.0, 0], [11, 0], [20, 0], [21, 0]], dtype=np.float32)
    assert nearest(points, np.array([[10.5, 0], [20.5, 0]], dtype=np.float32)).tolist() == [0, 0, 1, 1]
    points, _ = blobs(100, 4)
    found = kmeans(points, 4, seed=0)
    assert (nearest(points, found.centres) == found.labels).all()
