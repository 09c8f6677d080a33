"""Sinkhorn's assignment by hand, against plain loops and over random costs; Sinkhorn k-means on clouds of points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from torch import Tensor

from newkinds.clustering.sinkhorn import sinkhorn, sinkhorn_kmeans
from newkinds.equations import clustering_accuracy
from newkinds.errors import UsageError

sizes = st.integers(1, 7)
seeds = st.integers(0, 9999)
quick = settings(deadline=None, max_examples=50)


def some_costs(seed: int, n: int, k: int, scale: float = 1.0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0, scale, (n, k)))


# The assignment


def test_two_by_two_by_hand() -> None:
    # Both marginals hold by symmetry: a point goes to its own centre e^(c / r) times as often as to the other.
    c, r = 3.0, 2.0
    plan = sinkhorn(torch.tensor([[0.0, c], [c, 0.0]]), r, iterations=1)
    own = 1 / (1 + math.exp(-c / r))
    expected = torch.tensor([[own, 1 - own], [1 - own, own]]) / 2
    assert torch.allclose(plan.log_p.exp(), expected)


def test_equal_shares_overrule_the_nearest() -> None:
    # Three of four points are nearest to centre 0; the one that loses least by it goes to centre 1.
    costs = torch.tensor([[0.0, 50.0], [0.0, 10.0], [0.0, 50.0], [50.0, 0.0]])
    p = sinkhorn(costs, 1.0, iterations=200).log_p.exp()
    assert p.argmax(dim=1).tolist() == [0, 1, 0, 1]
    assert torch.allclose(p.sum(dim=0), torch.tensor([0.5, 0.5]))


def plain_sinkhorn(costs: list[list[float]], regulariser: float, iterations: int) -> list[list[float]]:
    """The scaling again, in slow loops and without logarithms."""
    n, k = len(costs), len(costs[0])
    kernel = [[math.exp(-cost / regulariser) for cost in row] for row in costs]
    a, b = [1.0] * n, [1.0] * k
    for _ in range(iterations):
        a = [1 / n / sum(kernel[i][j] * b[j] for j in range(k)) for i in range(n)]
        b = [1 / k / sum(kernel[i][j] * a[i] for i in range(n)) for j in range(k)]
    return [[a[i] * kernel[i][j] * b[j] for j in range(k)] for i in range(n)]


@quick
@given(seeds, sizes, sizes, st.floats(0.2, 5), st.integers(1, 12))
def test_it_is_what_plain_loops_give(seed: int, n: int, k: int, regulariser: float, iterations: int) -> None:
    costs = some_costs(seed, n, k, scale=10)
    p = sinkhorn(costs, regulariser, iterations).log_p.exp()
    assert p.numpy() == pytest.approx(np.array(plain_sinkhorn(costs.tolist(), regulariser, iterations)), rel=1e-8)


@quick
@given(seeds, sizes, sizes, st.sampled_from([torch.float32, torch.float64]), st.integers(1, 5))
def test_columns_hold_exactly(seed: int, n: int, k: int, dtype: torch.dtype, iterations: int) -> None:
    plan = sinkhorn(some_costs(seed, n, k, scale=20).to(dtype), 1.0, iterations)
    assert plan.log_p.dtype == dtype
    off = (plan.log_p.exp().sum(dim=0) * k - 1).abs().max()
    assert off < (1e-5 if dtype == torch.float32 else 1e-12)


@quick
@given(seeds, sizes, sizes)
def test_rows_hold_in_the_end(seed: int, n: int, k: int) -> None:
    costs = some_costs(seed, n, k, scale=3)  # an iteration leaves at most tanh(3 / 2)^2 = .82 of what is off
    off = [(sinkhorn(costs, 1.0, some).log_p.exp().sum(dim=1) * n - 1).abs().max().item() for some in (1, 150)]
    assert off[1] < 1e-9
    assert off[1] <= off[0] + 1e-12


@quick
@given(seeds, sizes, sizes, st.floats(-1e4, 1e4))
def test_what_a_row_has_in_common_changes_nothing(seed: int, n: int, k: int, constant: float) -> None:
    costs = some_costs(seed, n, k, scale=5)
    constants = constant * torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 1)))
    one, other = sinkhorn(costs, 0.7, 5), sinkhorn(costs + constants, 0.7, 5)
    assert torch.allclose(one.log_p, other.log_p, atol=1e-8)
    assert torch.allclose(one.columns, other.columns, atol=1e-8)


def test_what_a_row_has_in_common_costs_no_digits() -> None:
    costs = (some_costs(0, 20, 4, scale=64).round() / 16).float()
    far = costs + 2.0**18  # exact in float32
    assert torch.allclose(sinkhorn(far, 1.0, 10).log_p, sinkhorn(costs, 1.0, 10).log_p, atol=1e-5)


@quick
@given(seeds, sizes, sizes, st.floats(0.1, 5))
def test_duals_make_the_plan(seed: int, n: int, k: int, regulariser: float) -> None:
    costs = some_costs(seed, n, k, scale=5)
    plan = sinkhorn(costs, regulariser, 4)
    made = plan.rows[:, None] + plan.columns - costs / regulariser
    assert torch.allclose(plan.log_p, made, atol=1e-9)


@quick
@given(seeds, sizes, sizes, st.integers(1, 5), st.integers(1, 5))
def test_a_warm_start_goes_on(seed: int, n: int, k: int, first: int, second: int) -> None:
    costs = some_costs(seed, n, k, scale=5)
    before = sinkhorn(costs, 1.0, first)
    assert torch.allclose(
        sinkhorn(costs, 1.0, second, before.columns).log_p, sinkhorn(costs, 1.0, first + second).log_p, atol=1e-9
    )


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float32, 1e8), (torch.float64, 1e200)])
def test_large_costs_do_not_overflow(dtype: torch.dtype, scale: float) -> None:
    costs = (some_costs(0, 30, 4) * scale).to(dtype).requires_grad_()
    plan = sinkhorn(costs, 1.0, 20)
    assert all(part.isfinite().all() for part in plan)
    plan.log_p.log_softmax(dim=1).max(dim=1).values.mean().backward()
    assert costs.grad is not None
    assert costs.grad.isfinite().all()


def test_gradients_flow_through_all_iterations() -> None:
    costs = some_costs(1, 4, 3).requires_grad_()
    start = torch.tensor([0.1, -0.2, 0.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda c: sinkhorn(c, 0.8, 3, start).log_p, (costs,))


@pytest.mark.parametrize(
    ("costs", "options"),
    [
        (torch.zeros(3), {}),
        (torch.zeros(0, 3), {}),
        (torch.zeros(3, 2), {"regulariser": 0.0}),
        (torch.zeros(3, 2), {"iterations": 0}),
    ],
)
def test_no_plan(costs: Tensor, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"shape|regulariser"):
        sinkhorn(costs, **{"regulariser": 1.0, "iterations": 5, **options})


# k-means


def clouds(kinds: int = 4, each: int = 15, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    points, labels = make_blobs([each] * kinds, 5, cluster_std=0.7, random_state=seed)
    return points, labels.astype(np.int64)


@pytest.mark.parametrize("seed", range(5))
def test_clouds_of_equal_size_are_found(seed: int) -> None:
    points, labels = clouds(seed=seed)
    found = sinkhorn_kmeans(points, 4, seed=seed, restarts=3)
    assert clustering_accuracy(found.probabilities.argmax(axis=1), labels) == 1.0
    assert found.probabilities.sum(axis=1) == pytest.approx(np.ones(len(points)))
    for kind in range(4):
        mine = points[found.probabilities.argmax(axis=1) == kind]
        assert found.centres[kind] == pytest.approx(mine.mean(axis=0), abs=0.05)


def test_clusters_are_of_equal_size_where_clouds_are_not() -> None:
    points = np.random.default_rng(0).normal(size=(60, 2))
    points[:15, 0] += 6
    found = sinkhorn_kmeans(points, 2, seed=0, first_iterations=200)
    assert found.probabilities.sum(axis=0) == pytest.approx([30, 30], abs=0.1)
    assert np.bincount(found.probabilities.argmax(axis=1)) == pytest.approx([30, 30], abs=3)


def test_probabilities_are_those_of_the_centres_and_the_duals() -> None:
    points, _ = clouds()
    found = sinkhorn_kmeans(points, 3, seed=0, regulariser=8.0, first_iterations=500)
    squares = np.square(points[:, None] - found.centres).sum(axis=2)
    weights = np.exp(found.columns - squares / 8.0)
    assert found.probabilities == pytest.approx(weights / weights.sum(axis=1, keepdims=True), rel=1e-6)
    # The rows are even by then: so the cost is the mean squared distance to the centres that p says.
    assert found.cost == pytest.approx((found.probabilities * squares).sum(axis=1).mean(), rel=1e-4)


def test_the_place_of_the_points_does_not_count() -> None:
    points, _ = clouds()
    here, there = (sinkhorn_kmeans(points + far, 4, seed=0) for far in (0.0, 1000.0))
    assert there.probabilities == pytest.approx(here.probabilities, abs=1e-6)
    assert there.centres == pytest.approx(here.centres + 1000.0)


def test_the_restart_of_least_cost_is_taken() -> None:
    points = np.random.default_rng(2).normal(0, 3, (40, 3))
    costs = [sinkhorn_kmeans(points, 5, seed=0, restarts=some).cost for some in (1, 2, 4, 8)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


def test_the_seed_counts_and_the_global_generators_do_not() -> None:
    points = np.random.default_rng(2).normal(0, 3, (40, 3))

    def bits(seed: int) -> bytes:
        return sinkhorn_kmeans(points, 5, seed=seed).probabilities.tobytes()

    torch.manual_seed(1)
    first, before = bits(0), torch.get_rng_state()
    torch.manual_seed(2)
    assert bits(0) == first
    assert bits(1) != first
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kinds", [1, 61])
def test_kinds_out_of_range(kinds: int) -> None:
    with pytest.raises(UsageError, match=f"{kinds} kinds: 2 to 60"):
        sinkhorn_kmeans(np.zeros((60, 2)), kinds, seed=0)
