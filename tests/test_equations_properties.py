"""What must hold for any input: bounds, sums, and indifference to the order of samples, clusters and names."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import silhouette_samples
from torch import Tensor

from newkinds import equations as eq

quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
sizes = st.integers(1, 6)
seeds = st.integers(0, 2**32 - 1)


def matrix(rows: int, columns: int, low: float, high: float) -> st.SearchStrategy[Tensor]:
    cells = st.floats(low, high, allow_subnormal=False)
    return hnp.arrays(np.float64, (rows, columns), elements=cells).map(torch.from_numpy)


@st.composite
def embeddings_and_centres(draw: st.DrawFn) -> tuple[Tensor, Tensor, float]:
    n, k, d = draw(sizes), draw(sizes), draw(sizes)
    return draw(matrix(n, d, -100, 100)), draw(matrix(k, d, -100, 100)), draw(st.floats(0.1, 10))


@st.composite
def distributions(draw: st.DrawFn, count: int = 1) -> list[Tensor]:
    n, k = draw(sizes), draw(sizes)
    return [torch.softmax(draw(matrix(n, k, -20, 20)), dim=1) for _ in range(count)]


labellings = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[hnp.arrays(np.int64, n, elements=st.integers(-2, 4)) for _ in range(2)])
)


def permutation(n: int, seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).permutation(n))


def close(actual: Tensor, expected: Tensor, atol: float = 1e-9) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-7, atol=atol)


def rows_sum_to_one(p: Tensor) -> None:
    assert ((p >= 0) & (p <= 1 + 1e-12)).all()
    close(p.sum(dim=1), torch.ones(len(p), dtype=p.dtype))


@quick
@given(embeddings_and_centres())
def test_eq_1_gives_distributions(case: tuple[Tensor, Tensor, float]) -> None:
    p = eq.assignment(*case)
    rows_sum_to_one(p)
    assert (p > 0).all()
    close(eq.log_assignment(*case), p.log())


@quick
@given(embeddings_and_centres(), seeds)
def test_eq_1_does_not_care_about_order(case: tuple[Tensor, Tensor, float], seed: int) -> None:
    z, centres, alpha = case
    i, k = permutation(len(z), seed), permutation(len(centres), seed + 1)
    close(eq.assignment(z[i], centres[k], alpha), eq.assignment(z, centres, alpha)[i][:, k])


@quick
@given(embeddings_and_centres(), st.floats(-1e5, 1e5))
def test_eq_1_does_not_care_where_the_origin_is(case: tuple[Tensor, Tensor, float], move: float) -> None:
    z, centres, alpha = case
    close(eq.assignment(z + move, centres + move, alpha), eq.assignment(z, centres, alpha), atol=1e-6)


@quick
@given(embeddings_and_centres())
def test_eq_1_prefers_the_nearest_centre(case: tuple[Tensor, Tensor, float]) -> None:
    z, centres, alpha = case
    p, squares = eq.assignment(z, centres, alpha), torch.cdist(z, centres).square()
    nearest = p.gather(1, squares.argmin(dim=1, keepdim=True))
    assert (nearest >= p * (1 - 1e-6)).all()


@quick
@given(distributions(count=2))
def test_eq_2_is_a_divergence(case: list[Tensor]) -> None:
    q, p = case
    assert eq.kl_divergence(q, p.log()) >= -1e-12
    assert eq.kl_divergence(p, p.log()).item() == pytest.approx(0, abs=1e-12)
    close(eq.kl_divergence(q, p.log(), "nk") * q.shape[1], eq.kl_divergence(q, p.log()))


@quick
@given(distributions(count=2), seeds)
def test_eq_2_does_not_care_about_order(case: list[Tensor], seed: int) -> None:
    q, p = case
    i, k = permutation(p.shape[0], seed), permutation(p.shape[1], seed + 1)
    close(eq.kl_divergence(q[i][:, k], p.log()[i][:, k]), eq.kl_divergence(q, p.log()))


@quick
@given(distributions(), seeds)
def test_eq_3_gives_distributions_and_does_not_care_about_order(case: list[Tensor], seed: int) -> None:
    (p,) = case
    i, k = permutation(p.shape[0], seed), permutation(p.shape[1], seed + 1)
    q = eq.target(p)
    rows_sum_to_one(q)
    close(eq.target(p[i][:, k]), q[i][:, k])


@quick
@given(distributions())
def test_eq_3_sharpens_where_the_clusters_are_equally_large(case: list[Tensor]) -> None:
    (p,) = case
    q = eq.target(p, mass=torch.ones(p.shape[1], dtype=p.dtype))
    assert (q.amax(dim=1) >= p.amax(dim=1) - 1e-12).all()
    entropy = [-torch.xlogy(rows, rows).sum(dim=1) for rows in (q, p)]
    assert (entropy[0] <= entropy[1] + 1e-9).all()


@quick
@given(distributions())
def test_eq_3_may_be_computed_in_parts(case: list[Tensor]) -> None:
    (p,) = case
    parts = [eq.target(row[None], mass=p.sum(dim=0)) for row in p]
    close(torch.cat(parts), eq.target(p))


@quick
@given(distributions(), st.floats(0, 0.999), st.integers(1, 20))
def test_eq_5_of_a_constant_prediction_is_that_prediction(case: list[Tensor], beta: float, steps: int) -> None:
    (p,) = case
    average = torch.zeros_like(p)
    for _ in range(steps):
        average = eq.ensemble(average, p, beta)
    close(eq.corrected(average, beta, steps), p)


@quick
@given(distributions(count=4), st.floats(0, 0.999))
def test_eq_5_gives_distributions(case: list[Tensor], beta: float) -> None:
    average = torch.zeros_like(case[0])
    for t, p in enumerate(case, start=1):
        average = eq.ensemble(average, p, beta)
        rows_sum_to_one(eq.corrected(average, beta, t))


@quick
@given(distributions(count=3), st.floats(0, 100))
def test_eq_6_adds_its_two_terms(case: list[Tensor], weight: float) -> None:
    q, p, other = case
    apart = eq.consistency(p, other)
    assert 0 <= apart <= 2 / p.shape[1] + 1e-12
    assert eq.consistency(other, p) == apart
    assert eq.consistency(p, p) == 0
    close(eq.objective(q, p.log(), other, weight).loss, eq.kl_divergence(q, p.log()) + weight * apart)


@quick
@given(st.floats(0, 200), st.floats(0, 200), st.floats(0.1, 100), st.floats(0, 100))
def test_omega_rises_to_its_maximum(epoch: float, ramp: float, maximum: float, later: float) -> None:
    weight = eq.omega(epoch, ramp, maximum)
    assert maximum * math.exp(-5) * (1 - 1e-12) <= weight <= maximum
    assert eq.omega(epoch + later, ramp, maximum) >= weight


@quick
@given(labellings, seeds)
def test_eq_7_does_not_care_about_names_and_order(case: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    assigned, truth = case
    expected = eq.clustering_accuracy(assigned, truth)
    order = permutation(len(truth), seed).numpy()
    assert eq.clustering_accuracy(assigned[order], truth[order]) == expected
    names = np.random.default_rng(seed).choice(10**6, size=7, replace=False)
    assert eq.clustering_accuracy(names[assigned + 2], truth) == expected
    assert eq.clustering_accuracy(torch.from_numpy(assigned), names[truth + 2]) == expected
    assert eq.clustering_accuracy(truth, assigned) == expected


@quick
@given(labellings)
def test_eq_7_lies_between_the_largest_overlap_and_one(case: tuple[np.ndarray, np.ndarray]) -> None:
    assigned, truth = case
    pairs = np.unique(np.stack([assigned, truth]), axis=1, return_counts=True)[1]
    groups = max(len(np.unique(assigned)), len(np.unique(truth)))
    accuracy = eq.clustering_accuracy(assigned, truth)
    # The mean over the cyclic shifts of any matching is 1/groups, so the best is not below it.
    assert max(pairs.max() / len(truth), 1 / groups) - 1e-12 <= accuracy <= 1
    assert eq.clustering_accuracy(truth, truth) == 1
    assert (accuracy == 1) == (len(pairs) == len(np.unique(assigned)) == len(np.unique(truth)))


@st.composite
def clustered_points(draw: st.DrawFn) -> tuple[Tensor, np.ndarray]:
    n = draw(st.integers(3, 12))
    x = draw(matrix(n, draw(st.integers(1, 3)), -50, 50))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 4)))
    assume(2 <= len(np.unique(labels)) < n)
    return x.round(decimals=2), labels


@quick
@given(clustered_points(), st.integers(1, 13))
def test_eq_8_agrees_with_scikit_learn(case: tuple[Tensor, np.ndarray], chunk: int) -> None:
    x, labels = case
    values = eq.silhouette_samples(x, labels, chunk)
    assert (values.abs() <= 1).all()
    assert eq.silhouette(x, labels) == pytest.approx(values.mean().item())
    # scikit-learn is given distances, because its own keep 1e-8 where duplicates have 0.
    distances = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    close(values, torch.from_numpy(silhouette_samples(distances, labels, metric="precomputed")))


@quick
@given(clustered_points(), seeds, st.floats(0.01, 100), st.floats(-1e4, 1e4))
def test_eq_8_does_not_care_about_names_order_place_and_scale(
    case: tuple[Tensor, np.ndarray], seed: int, scale: float, move: float
) -> None:
    x, labels = case
    expected = eq.silhouette_samples(x, labels)
    i = permutation(len(x), seed)
    close(eq.silhouette_samples(x[i], labels[i.numpy()]), expected[i])
    close(eq.silhouette_samples(x, 7 - 3 * labels), expected)
    close(eq.silhouette_samples(x * scale + move, labels), expected, atol=1e-6)
