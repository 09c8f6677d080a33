"""Lloyd's iterations with kept distances: what comes out is what plain iterations give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from clouds import DTYPES, Cloud, assert_nearest, blobs, clouds, restart, squared_distances
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from newkinds.clustering.lloyd import Points, Restart, floats
from newkinds.clustering.threads import Threads
from newkinds.errors import UsageError


def centres_of(work: Restart) -> NDArray[np.float64]:
    return (work.centres[: work.k] + work.points.offset).numpy()


def plain_lloyd(
    points: NDArray[Any], centres: NDArray[Any], anchors: NDArray[np.int64]
) -> tuple[NDArray[np.int64], float] | None:
    """Iterate in the textbook's way until no label changes; None where a cluster runs empty."""
    labels = np.full(len(points), -2)
    while True:
        before, distances = labels, squared_distances(points, centres)
        labels = np.where(anchors < 0, distances.argmin(axis=1), anchors)
        if (labels == before).all():
            return labels, float(distances[np.arange(len(points)), labels].sum())
        if len(np.unique(labels)) < len(centres):
            return None
        centres = np.stack([points[labels == c].mean(axis=0) for c in range(len(centres))])


# Steps


def test_a_step_by_hand() -> None:
    work = restart(np.array([[0.0], [2.0], [6.0], [10.0]]), 2)
    work.start(torch.tensor([[0.0], [4.0]]))
    assert work.labels.tolist() == [0, 0, 1, 1]
    assert work.inertia() == pytest.approx(0 + 4 + 4 + 36)
    # The centres go to 1 and 8, that is by 1 and by 4.
    assert work.step() == pytest.approx(1 + 16)
    assert centres_of(work)[:, 0].tolist() == pytest.approx([1, 8])
    assert work.labels.tolist() == [0, 0, 1, 1]
    assert work.inertia() == pytest.approx(1 + 1 + 4 + 4)
    assert work.step() == 0


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 5), st.integers(1, 8), st.integers(0, 3))
def test_it_ends_where_plain_iterations_end(seed: int, n: int, d: int, k: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    k = min(k, n)
    classes = min(classes, k)
    points = rng.normal(size=(n, d))
    anchors = np.where(np.arange(n) < classes, np.arange(n), -1)
    start = rng.normal(size=(k, d))
    expected = plain_lloyd(points, start, anchors)
    assume(expected is not None)
    work = restart(points, k, anchors)
    work.start(torch.from_numpy(start))
    work.settle(1000, 0)
    assert expected is not None
    assert (work.labels.numpy() == expected[0]).all()
    assert work.inertia() == pytest.approx(expected[1], rel=1e-9, abs=1e-12 * work.points.square)


@settings(deadline=None, max_examples=150)
@given(clouds(), st.integers(0, 5))
def test_free_points_are_always_with_a_nearest_centre(cloud: Cloud, seed: int) -> None:
    work = restart(cloud.points, cloud.k, cloud.anchors)

    def check() -> None:
        assert_nearest(cloud.points, centres_of(work), work.labels.numpy(), cloud.anchors)

    work.seed(cloud.k - work.k, np.random.default_rng(seed))
    check()
    fewest = max(1, work.points.classes)
    while True:
        for _ in range(6):
            work.step()
            check()
        work.settle(3, 0)
        check()
        if work.k == fewest:
            return
        if work.k % 2:
            work.forget()
        work.shrink(min(2, work.k - fewest))


@settings(deadline=None, max_examples=150)
@given(clouds(), st.integers(0, 5))
def test_the_inertia_never_rises_and_is_the_slow_sum(cloud: Cloud, seed: int) -> None:
    work = restart(cloud.points, cloud.k, cloud.anchors)
    work.seed(cloud.k - work.k, np.random.default_rng(seed))
    relative = 1e-9 if cloud.points.dtype == np.float64 else 1e-4
    slack = relative * work.points.square + 1e-30
    before = np.inf
    for _ in range(8):
        distances = squared_distances(cloud.points, centres_of(work))
        slow = distances[np.arange(len(distances)), work.labels.numpy()].sum()
        assert work.inertia() == pytest.approx(slow, rel=relative, abs=slack)
        assert work.inertia() <= before * (1 + relative) + slack
        before = work.inertia()
        work.step()


@settings(deadline=None, max_examples=60)
@given(clouds(), st.integers(0, 5))
def test_sums_and_sizes_are_those_of_the_members(cloud: Cloud, seed: int) -> None:
    # They change by the points that come and go, and clusters change their numbers where others merge.
    work = restart(cloud.points, cloud.k, cloud.anchors)
    work.seed(cloud.k - work.k, np.random.default_rng(seed))
    while True:
        work.settle(4, 0)
        members = np.eye(work.k)[work.labels.numpy()]
        assert work.mass[: work.k].tolist() == members.sum(axis=0).tolist()
        assert work.sums[: work.k].numpy() == pytest.approx(members.T @ work.points.x.double().numpy(), abs=1e-9)
        if work.k == max(1, work.points.classes):
            return
        work.shrink(1)


def test_nearly_equal_points_in_single_precision() -> None:
    # The first point lies so near its centre that products give a distance of 0, in place of .0002. The centre goes
    # away by .5, and now the second centre, at .5001, is the nearer one.
    for seed in range(20):
        axes, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))
        point, away, aside = axes[:3]
        first, second = point + 2e-4 * away, point - 0.5001 * aside
        points = np.stack([point, 2 * (first + 0.5 * away) - point, second, second])
        points = np.concatenate([points, -points]).astype(np.float32)
        work = restart(points, 4)
        work.start(torch.from_numpy(np.stack([first, second, -first, -second])))
        assert work.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        work.step()
        assert work.labels.tolist() == [1, 0, 1, 1, 3, 2, 3, 3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_most_points_that_stay_need_no_product(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    points, _ = blobs(500, 10, spread=5.0, dtype=dtype)
    work = restart(points, 10)
    work.seed(10, np.random.default_rng(0))
    seen: list[int] = []
    own = Points.distances

    def spy(self: Points, rows: torch.Tensor | slice, centres: torch.Tensor) -> torch.Tensor:
        found = own(self, rows, centres)
        seen.append(len(found))
        return found

    monkeypatch.setattr(Points, "distances", spy)
    work.settle(100, 0)
    assert work.iterations > 10
    assert 0 < sum(seen) < 0.4 * 500 * work.iterations


def test_it_ends_at_the_tolerance_or_after_the_iterations() -> None:
    points, _ = blobs(300, 8, spread=5.0)

    def iterations(most: int, tolerance: float) -> int:
        work = restart(points, 8)
        work.seed(8, np.random.default_rng(0))
        work.settle(most, tolerance)
        return work.iterations

    whole = iterations(1000, 0)
    assert 5 < whole < 1000
    assert iterations(4, 0) == 4
    assert iterations(1000, 1e-2) < whole
    assert iterations(1000, 1e9) == 1


# Empty clusters


def test_empty_clusters_move_to_the_farthest_points() -> None:
    # Cluster 0 has everything. Of the free points 50 is the farthest from 20, then 0: the anchor at 90 is not taken.
    work = restart(np.array([[0.0], [19.0], [20.0], [50.0], [90.0]]), 3, np.array([-1, -1, -1, -1, 0]))
    work.start(torch.tensor([[20.0], [1e6], [1e6]]))
    assert work.labels.tolist() == [0, 0, 0, 0, 0]
    work.step()
    assert centres_of(work)[:, 0].tolist() == pytest.approx([43, 50, 0])
    assert work.mass.tolist() == [1, 1, 3]  # 19 and 20 are nearer to 0 than to 43


def test_an_empty_cluster_that_moved_goes_on_moving() -> None:
    # The large cluster moves by less than the tolerance when it loses a point; the empty one has come a long way.
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(2000, 1)), 10 + 0.3 * rng.normal(size=(5, 1))])
    work = restart(points, 2)
    work.start(torch.tensor([[float(points.mean())], [1e6]]))
    assert not work.labels.any()
    work.settle(100, 1e-4)
    assert work.mass.tolist() == [2000, 5]
    assert centres_of(work)[1] == pytest.approx(points[2000:].mean(axis=0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_cluster_is_used_where_the_points_allow_it(dtype: Any) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        places = rng.normal(size=(9, 2)) * 10
        points = np.repeat(places, 3, axis=0).astype(dtype)
        work = restart(points, 9)
        work.start(torch.from_numpy(np.concatenate([places[:2], np.full((7, 2), 1e3)])))
        work.settle(100, 0)
        assert work.mass.tolist() == [3] * 9
        assert work.inertia() == pytest.approx(0, abs=1e-6 * work.points.square)


@pytest.mark.parametrize("dtype", DTYPES)
def test_clusters_stay_empty_where_there_are_no_more_places(dtype: Any) -> None:
    points = np.repeat(np.array([[0.1, 0.2], [5.3, 0.7], [0.4, 9.9]], dtype=dtype), 4, axis=0)
    work = restart(points, 6)
    work.start(torch.from_numpy(np.concatenate([points[[0, 4, 8]].astype(np.float64), np.full((3, 2), 50.0)])))
    work.settle(100, 0)
    assert work.mass.tolist() == [4, 4, 4, 0, 0, 0]
    assert centres_of(work)[3:] == pytest.approx(np.full((3, 2), 50.0))


# Seeds


def test_draws_follow_the_squared_distances_and_fall_back_to_free_points() -> None:
    work = restart(np.array([[0.0], [1.0], [7.0], [3.0], [0.0]]), 2, np.array([-1, -1, 0, -1, 0]))
    work.nearest[:] = torch.tensor([0.0, 1.0, 9.0, 3.0, 9.0])
    drawn = np.bincount(work._draw(4000, np.random.default_rng(0)), minlength=5)
    assert drawn[[0, 2, 4]].tolist() == [0, 0, 0]
    assert drawn[3] == pytest.approx(3600, abs=4 * np.sqrt(360))
    # Where nothing has any weight left, any free point will do; anchors never.
    work.nearest[:] = 0
    drawn = np.bincount(work._draw(4000, np.random.default_rng(0)), minlength=5)
    assert drawn[[2, 4]].tolist() == [0, 0]
    assert drawn[[0, 1, 3]] == pytest.approx(4000 / 3, abs=4 * np.sqrt(4000 * 2 / 9))


@pytest.mark.parametrize("dtype", DTYPES)
def test_seeds_are_points_spread_over_the_blobs(dtype: Any) -> None:
    # Greedy k-means++ without any iteration: with plain random seeds two thirds of the blobs would be hit.
    points, labels = blobs(240, 12, seed=5, spread=0.05, d=8, dtype=dtype)
    for seed in range(20):
        work = restart(points, 12)
        work.seed(12, np.random.default_rng(seed))
        distances = squared_distances(points, centres_of(work))
        assert distances.min(axis=0) == pytest.approx(np.zeros(12), abs=1e-9)
        assert len(set(labels[distances.argmin(axis=0)].tolist())) == 12


def test_anchors_are_the_first_seeds() -> None:
    points = np.array([[0.0], [2.0], [10.0], [11.0], [30.0]])
    work = restart(points, 3, np.array([0, 0, 1, -1, -1]))
    assert centres_of(work)[:, 0].tolist() == [1, 10]
    work.seed(1, np.random.default_rng(0))
    assert work.labels.tolist() == [0, 0, 1, 1, 2]


# Fewer clusters


def test_the_cheapest_merge_by_hand() -> None:
    # Of 2 points each at 0 and 3, and 1 at 7 and 10: the cost of 0 with 3 is 2*2/4 * 9 = 9, that of 7 with 10 is
    # 1*1/2 * 9 = 4.5, that of 3 with 7 is 2/3 * 16.
    work = restart(np.array([[0.0], [0], [3], [3], [7], [10]]), 4)
    work.start(torch.tensor([[0.0], [3.0], [7.0], [10.0]]))
    work.settle(10, 0)
    work.shrink(1)
    work.settle(10, 0)
    assert sorted(centres_of(work)[:, 0].tolist()) == pytest.approx([0, 3, 8.5])
    assert work.inertia() == pytest.approx(4.5)
    # At this place the next: 9 against 2*2/4 * 5.5^2.
    work.shrink(1)
    work.settle(10, 0)
    assert sorted(centres_of(work)[:, 0].tolist()) == pytest.approx([1.5, 8.5])


def test_clusters_of_anchors_stay_and_keep_their_numbers() -> None:
    # The anchors' clusters lie side by side; all others merge into them or into one another before they do.
    points = np.array([[0.0], [0.1], [10.0], [20.0], [30.0]])
    anchors = np.array([0, 1, -1, -1, -1])
    work = restart(points, 5, anchors)
    work.seed(3, np.random.default_rng(0))
    for k in (4, 3, 2):
        work.shrink(1)
        work.settle(50, 0)
        assert work.k == k
        assert work.labels[:2].tolist() == [0, 1]
        assert len(set(work.labels.tolist())) == k
    assert work.labels.tolist() == [0, 1, 1, 1, 1]


def test_what_was_forgotten_is_computed_again() -> None:
    points, labels = blobs(200, 9, spread=2.0)
    anchors = np.where(np.arange(200) < 40, np.where(labels < 2, labels, -1), -1)
    forgets, keeps = (restart(points, 9, anchors) for _ in range(2))
    for work in (forgets, keeps):
        work.seed(9 - work.k, np.random.default_rng(0))
    for _ in range(5):
        for work in (forgets, keeps):
            work.settle(100, 0)
            work.shrink(1)
        forgets.forget()
        assert forgets.kept.numel() == 0
        assert keeps.kept.numel() > 0
    for work in (forgets, keeps):
        work.settle(100, 0)
    assert (forgets.labels == keeps.labels).all()
    assert forgets.inertia() == pytest.approx(keeps.inertia(), rel=1e-12)


# What goes in


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_to_points_are_the_same_by_the_products_of_all_pairs(dtype: Any) -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 7))).to(dtype)
    free, drawn = torch.full((50,), -1), torch.tensor([3, 49, 3])
    few, many = Points(x, free, seeds=2), Points(x, free, seeds=50)
    assert few.products is None
    assert many.products is not None
    with Threads() as threads:
        mine, other = (points.distances_to(drawn, threads) for points in (few, many))
    assert torch.allclose(mine, other, atol=1e-3 if dtype == torch.float32 else 1e-7)
    assert torch.allclose(other.double(), torch.cdist(x.double(), x[drawn].double()), atol=1e-3)


def test_points_are_centred_and_measured() -> None:
    data = Points(torch.tensor([[1.0, 0], [3, 4]]), torch.tensor([-1, 1]))
    assert data.x.tolist() == [[-1, -2], [1, 2]]
    assert (data.square, data.variance, data.classes, len(data)) == (10, 2.5, 2, 2)
    assert data.distances(slice(0, 2), torch.tensor([[1.0, 2.0]]))[:, 0].tolist() == pytest.approx([20**0.5, 0])


def test_floats() -> None:
    assert floats(np.arange(6).reshape(3, 2)).dtype == torch.float64
    assert floats(np.ones((3, 2), dtype=np.float16)).dtype == torch.float64
    assert floats(torch.ones(3, 2)).dtype == torch.float32
    with pytest.raises(UsageError, match=r"shape \(3,\)"):
        floats(np.ones(3))
    broken = np.ones((4, 2))
    broken[1], broken[3, 0] = np.nan, -np.inf
    with pytest.raises(UsageError, match=r"2 of 4 rows are not finite"):
        floats(broken)
