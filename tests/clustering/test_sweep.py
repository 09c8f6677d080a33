"""k-means for many numbers of clusters in a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from clouds import (
    DTYPES,
    Cloud,
    assert_nearest,
    blobs,
    clouds,
    partition,
    squared_distances,
    torch_threads,
    untouched_generators,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from newkinds.clustering import Clustering, kmeans, kmeans_sweep
from newkinds.clustering.lloyd import Restart
from newkinds.errors import UsageError


def as_bytes(found: Clustering) -> tuple[bytes, bytes, float]:
    return found.labels.tobytes(), found.centres.tobytes(), found.inertia


def test_hand_case() -> None:
    points = np.array([[0.0], [1.0], [10.0], [11.0], [30.0]])
    three, two, one = kmeans_sweep(points, [1, 2, 3], seed=0)
    assert partition(three.labels) == {frozenset({0, 1}), frozenset({2, 3}), frozenset({4})}
    assert three.inertia == pytest.approx(0.5 + 0.5)
    assert partition(two.labels) == {frozenset({0, 1, 2, 3}), frozenset({4})}
    assert two.inertia == pytest.approx(2 * 5.5**2 + 2 * 4.5**2)
    assert one.centres[0, 0] == pytest.approx(10.4)


def test_from_the_largest_down_each_once() -> None:
    points, _ = blobs(40, 4)
    assert [len(found.centres) for found in kmeans_sweep(points, [3, 9, 3, 1, 9, 5], seed=0)] == [9, 5, 3, 1]
    assert [len(found.centres) for found in kmeans_sweep(points, range(2, 5), seed=0)] == [4, 3, 2]
    assert [len(found.centres) for found in kmeans_sweep(points, np.array([40, 2]), seed=0)] == [40, 2]  # type: ignore[arg-type]
    assert list(kmeans_sweep(points, [], seed=0)) == []


@settings(deadline=None, max_examples=40)
@given(clouds(), st.integers(0, 5))
def test_what_always_holds(cloud: Cloud, seed: int) -> None:
    fewest = max(1, int(cloud.anchors.max()) + 1)
    counts = range(fewest, cloud.k + 1)
    options: dict[str, Any] = {"seed": seed, "anchors": cloud.anchors, "restarts": 2}
    sweep = list(kmeans_sweep(cloud.points, counts, **options))
    assert [len(found.centres) for found in sweep] == list(reversed(counts))
    for found in sweep:
        # Anchors never move; free points are with the nearest centre, up to rounding.
        assert_nearest(cloud.points, found.centres, found.labels, cloud.anchors)
        own = squared_distances(cloud.points, found.centres)[np.arange(len(cloud.points)), found.labels].sum()
        assert found.inertia == pytest.approx(own, abs=1e-6 * (1 + float(np.square(cloud.points).sum())))
    assert list(map(as_bytes, kmeans_sweep(cloud.points, counts, **options))) == list(map(as_bytes, sweep))
    # The largest is what k-means gives.
    assert as_bytes(kmeans(cloud.points, cloud.k, **options)) == as_bytes(sweep[0])


def assert_as_good(shares: list[float], spread: float) -> None:
    """Assert that the inertias for 16 clusters and less, as shares of those found elsewhere, are at most .01 above 1.

    Nine blobs far apart are found by all restarts, which are alike from there on: with fewer clusters than blobs, no
    other merges than the cheapest are tried, and the inertia may be some hundredths above the best.
    """
    assert max(shares[:8]) <= 1.01
    assert max(shares) <= (1.05 if spread < 1 else 1.01)
    assert np.mean(shares) <= 1.005


@pytest.mark.parametrize("spread", [0.5, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_as_good_as_scikit_learn_at_every_number(spread: float, seed: int) -> None:
    points, _ = blobs(400, 9, seed, spread, d=6, dtype=np.float32)
    shares = []
    for found in kmeans_sweep(points, range(1, 17), seed=seed):
        theirs = KMeans(len(found.centres), n_init=10, random_state=seed).fit(points)
        shares.append(found.inertia / theirs.inertia_)
    assert_as_good(shares, spread)


@pytest.mark.parametrize("spread", [0.5, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_as_good_as_k_means_with_anchors_at_every_number(spread: float, seed: int) -> None:
    points, labels = blobs(400, 9, seed, spread, d=6, dtype=np.float32)
    anchors = np.where((labels < 3) & (np.arange(400) < 200), labels, -1)
    shares = []
    for found in kmeans_sweep(points, range(3, 17), seed=seed, anchors=anchors):
        alone = kmeans(points, len(found.centres), seed=seed, anchors=anchors)
        shares.append(found.inertia / alone.inertia)
        assert (found.labels[anchors >= 0] == anchors[anchors >= 0]).all()
    assert_as_good(shares, spread)


def test_steps_may_be_large() -> None:
    points, labels = blobs(300, 5, spread=0.3)
    found = list(kmeans_sweep(points, [60, 5], seed=0))[1]
    assert partition(found.labels) == partition(labels)


@pytest.mark.parametrize("dtype", DTYPES)
def test_restarts_that_forget_are_as_good(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = blobs(300, 8, spread=3.0, dtype=dtype)
    anchors = np.where(labels == 0, 0, -1)
    forgotten: list[Restart] = []
    own = Restart.forget

    def spy(self: Restart) -> None:
        forgotten.append(self)
        own(self)

    monkeypatch.setattr(Restart, "forget", spy)
    whole = list(kmeans_sweep(points, range(1, 15), seed=0, anchors=anchors, restarts=3))
    assert not forgotten
    monkeypatch.setitem(kmeans_sweep.__globals__, "MEMORY", 0)
    parts = list(kmeans_sweep(points, range(1, 15), seed=0, anchors=anchors, restarts=3))
    assert len(forgotten) == 3 * 14
    for ours, theirs in zip(parts, whole, strict=True):
        assert ours.inertia == pytest.approx(theirs.inertia, rel=0.01)
        assert_nearest(points, ours.centres, ours.labels, anchors)


@pytest.mark.parametrize("dtype", DTYPES)
def test_duplicates_and_equal_points(dtype: Any) -> None:
    points = np.repeat(np.array([[0.1, 0.2], [5.3, 0.7], [0.4, 9.9]], dtype=dtype), 4, axis=0)
    for found in kmeans_sweep(points, range(1, 13), seed=0):
        assert np.isfinite(found.centres).all()
        if len(found.centres) >= 3:
            assert found.inertia == pytest.approx(0, abs=1e-4)
            assert len(set(found.labels.tolist())) >= 3
    for found in kmeans_sweep(np.full((6, 3), 7, dtype=dtype), range(1, 7), seed=0):
        assert found.centres == pytest.approx(np.full((len(found.centres), 3), 7.0))
        assert found.inertia == pytest.approx(0)


def test_from_all_points_down_to_one_cluster() -> None:
    points = np.random.default_rng(0).normal(size=(12, 3))
    sweep = list(kmeans_sweep(points, range(1, 13), seed=0))
    assert all((found.mass() > 0).all() for found in sweep)
    assert sweep[0].inertia == pytest.approx(0, abs=1e-12)
    assert sweep[-1].centres[0] == pytest.approx(points.mean(axis=0))
    inertias = [found.inertia for found in sweep]
    assert inertias == sorted(inertias)
    single = list(kmeans_sweep(points[:1], [1], seed=0))
    assert single[0].labels.tolist() == [0]
    assert single[0].centres == pytest.approx(points[:1])


def test_all_points_anchors() -> None:
    points, labels = blobs(30, 3)
    for found in kmeans_sweep(points, [3, 4, 6], seed=0, anchors=labels):
        assert (found.labels == labels).all()
        assert found.centres[:3] == pytest.approx(np.stack([points[labels == c].mean(axis=0) for c in range(3)]))
        assert np.isfinite(found.centres).all()


# Threads and generators


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("restarts", [1, 3])
def test_the_thread_count_does_not_matter(dtype: Any, restarts: int) -> None:
    points, labels = blobs(3000, 8, spread=4.0, d=8, dtype=dtype)
    anchors = np.where(labels < 2, labels, -1)
    results = []
    for threads in (1, 2, 3):
        with torch_threads(threads):
            sweep = kmeans_sweep(points, [4, 6, 9], seed=0, anchors=anchors, restarts=restarts, max_iterations=10)
            results.append(list(map(as_bytes, sweep)))
    assert results[1:] == results[:1] * 2


def test_between_the_results_torch_has_its_threads() -> None:
    points, _ = blobs(50, 4)
    with torch_threads(2):
        for _ in kmeans_sweep(points, range(1, 5), seed=0, restarts=3):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 2
        # Also where two go on in turn, and where one is left in the middle.
        sweeps = [kmeans_sweep(points, [4, 3, 2], seed=seed, restarts=3) for seed in (0, 1)]
        for _ in zip(*sweeps, strict=True):
            assert torch.get_num_threads() == 2
        next(kmeans_sweep(points, [4, 3], seed=0))
        assert torch.get_num_threads() == 2


def test_torch_has_its_threads_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Restart, number: int, random: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Restart, "shrink", fail)
    with torch_threads(2):
        with pytest.raises(ZeroDivisionError):
            list(kmeans_sweep(blobs(30, 3)[0], [3, 2], seed=0, restarts=3))
        assert torch.get_num_threads() == 2


def test_global_generators_are_left_alone() -> None:
    points, _ = blobs(30, 3)
    with untouched_generators():
        list(kmeans_sweep(points, [4, 3, 2], seed=0))


def test_results_are_not_changed_by_those_that_follow() -> None:
    points, _ = blobs(60, 6, spread=3.0)
    sweep = kmeans_sweep(points, [6, 4, 2], seed=0)
    first = next(sweep)
    before = as_bytes(first)
    list(sweep)
    assert as_bytes(first) == before


# Errors


def points_with_a_gap(value: float) -> NDArray[Any]:
    points = np.arange(20.0).reshape(10, 2)
    points[4, 0] = value
    return points


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_clusters": [3, 11]}, r"n_clusters=11 should be between 1 and n_samples=10"),
        ({"n_clusters": [3, 0]}, r"n_clusters=0 should be between 1 and n_samples=10"),
        ({"n_clusters": [4, 2], "anchors": np.array([0, 1, 2] + [-1] * 7)}, r"n_clusters=2 .* anchor classes, 3"),
        ({"anchors": np.array([0, 2, 2] + [-1] * 7)}, r"numbered 0 to 2; class 1 has no point"),
        ({"anchors": np.array([0, -1])}, r"anchors of shape \(2,\) do not go with 10 points"),
        ({"restarts": 0}, r"restarts=0 should be at least 1"),
        ({"points": points_with_a_gap(np.nan)}, r"1 of 10 rows are not finite"),
        ({"points": points_with_a_gap(np.inf)}, r"1 of 10 rows are not finite"),
    ],
)
def test_errors_say_value_limit_and_way_out(changes: dict[str, Any], message: str) -> None:
    given = {"points": points_with_a_gap(0), "n_clusters": [3, 4], **changes}
    with pytest.raises(UsageError, match=message) as caught:
        list(kmeans_sweep(given.pop("points"), given.pop("n_clusters"), seed=0, **given))
    assert caught.value.hint
