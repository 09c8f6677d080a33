"""Each equation against a slow reference: plain loops over Python floats, written from the paper's formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from newkinds import equations as eq

Matrix = Sequence[Sequence[float]]

SHAPES = [(1, 1, 1), (1, 4, 3), (5, 1, 2), (7, 3, 1), (12, 5, 8)]  # N, K, d


def assignment(z: Matrix, centres: Matrix, alpha: float) -> list[list[float]]:
    """Eq. 1."""
    p = []
    for point in z:
        weights = []
        for centre in centres:
            distance = sum((a - b) ** 2 for a, b in zip(point, centre, strict=True))
            weights.append((1 + distance / alpha) ** (-(alpha + 1) / 2))
        p.append([weight / sum(weights) for weight in weights])
    return p


def divergence(q: Matrix, p: Matrix) -> float:
    """Eq. 2."""
    total = 0.0
    for i in range(len(q)):
        for k in range(len(q[0])):
            if q[i][k] > 0:
                total += q[i][k] * math.log(q[i][k] / p[i][k])
    return total / len(q)


def target(p: Matrix) -> list[list[float]]:
    """Eq. 3."""
    q = []
    for i in range(len(p)):
        weights = [p[i][k] ** 2 / sum(row[k] for row in p) for k in range(len(p[0]))]
        q.append([weight / sum(weights) for weight in weights])
    return q


def averaged(history: Sequence[Matrix], beta: float) -> list[list[float]]:
    """Eq. 4 and 5 together, unrolled: a weighted mean in which the prediction of step s counts beta^(t-s)."""
    t = len(history)
    weights = [beta ** (t - 1 - s) for s in range(t)]
    rows, columns = len(history[0]), len(history[0][0])
    return [
        [sum(w * p[i][k] for w, p in zip(weights, history, strict=True)) / sum(weights) for k in range(columns)]
        for i in range(rows)
    ]


def objective(q: Matrix, p: Matrix, other: Matrix, weight: float) -> float:
    """Eq. 6."""
    rows, columns = len(p), len(p[0])
    squares = sum((p[i][k] - other[i][k]) ** 2 for i in range(rows) for k in range(columns))
    return divergence(q, p) + weight * squares / (rows * columns)


def accuracy(assigned: Sequence[int], truth: Sequence[int]) -> float:
    """Eq. 7, over every permutation of the larger of the two label sets."""
    size = max(max(assigned), max(truth)) + 1
    hits = (sum(g[y] == t for y, t in zip(assigned, truth, strict=True)) for g in itertools.permutations(range(size)))
    return max(hits) / len(truth)


def silhouettes(x: Matrix, labels: Sequence[int]) -> list[float]:
    """The terms of Eq. 8."""
    values = []
    for i, point in enumerate(x):
        means = {}
        for cluster in set(labels):
            members = [j for j in range(len(x)) if labels[j] == cluster and j != i]
            if members:
                means[cluster] = sum(math.dist(point, x[j]) for j in members) / len(members)
        if labels[i] not in means:
            values.append(0.0)
            continue
        a = means.pop(labels[i])
        b = min(means.values())
        values.append((b - a) / max(a, b) if max(a, b) > 0 else 0.0)
    return values


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def distributions(n: int, k: int, seed: int) -> Tensor:
    return torch.softmax(2 * torch.randn(n, k, generator=generator(seed), dtype=torch.float64), dim=1)


def close(actual: Tensor, expected: Matrix | Sequence[float] | float) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("n", "k", "d"), SHAPES)
def test_eq_1_assignment(n: int, k: int, d: int, alpha: float) -> None:
    z = torch.randn(n, d, generator=generator(1), dtype=torch.float64)
    centres = 3 * torch.randn(k, d, generator=generator(2), dtype=torch.float64)
    close(eq.assignment(z, centres, alpha), assignment(z.tolist(), centres.tolist(), alpha))


@pytest.mark.parametrize(("n", "k", "d"), SHAPES)
def test_eq_2_divergence(n: int, k: int, d: int) -> None:
    q, p = distributions(n, k, 3), distributions(n, k, 4)
    q[0] = 0
    q[0, d % k] = 1  # a row with zeros in it
    close(eq.kl_divergence(q, p.log()), divergence(q.tolist(), p.tolist()))
    close(eq.kl_divergence(q, p.log(), "nk") * k, divergence(q.tolist(), p.tolist()))


@pytest.mark.parametrize(("n", "k", "d"), SHAPES)
def test_eq_3_target(n: int, k: int, d: int) -> None:
    p = distributions(n, k, d)
    close(eq.target(p), target(p.tolist()))


@pytest.mark.parametrize("beta", [0.0, 0.6, 0.99])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_eq_4_and_5_ensemble(steps: int, beta: float) -> None:
    history = [distributions(4, 3, seed) for seed in range(steps)]
    average = torch.zeros(4, 3, dtype=torch.float64)
    for p in history:
        average = eq.ensemble(average, p, beta)
    close(eq.corrected(average, beta, steps), averaged([p.tolist() for p in history], beta))


@pytest.mark.parametrize(("n", "k", "d"), SHAPES)
def test_eq_6_objective(n: int, k: int, d: int) -> None:
    q, p, other = (distributions(n, k, seed) for seed in (5, 6, d))
    close(eq.objective(q, p.log(), other, 0.3).loss, objective(q.tolist(), p.tolist(), other.tolist(), 0.3))


@pytest.mark.parametrize(("clusters", "classes"), [(1, 1), (1, 4), (4, 1), (3, 5), (5, 3), (5, 5)])
def test_eq_7_accuracy(clusters: int, classes: int) -> None:
    random = np.random.default_rng(clusters * 10 + classes)
    for _ in range(5):
        assigned, truth = random.integers(clusters, size=17), random.integers(classes, size=17)
        expected = accuracy(assigned.tolist(), truth.tolist())
        assert eq.clustering_accuracy(assigned, truth) == pytest.approx(expected)
        # The matching attains it.
        match = eq.matching(assigned, truth)
        hits = [match.get(y) == t for y, t in zip(assigned.tolist(), truth.tolist(), strict=True)]
        assert sum(hits) / len(hits) == pytest.approx(expected)
        assert len(set(match.values())) == len(match)


@pytest.mark.parametrize("chunk", [None, 1, 7, 1000])
@pytest.mark.parametrize(("n", "k", "d"), [(4, 2, 1), (15, 4, 3), (20, 12, 2)])
def test_eq_8_silhouette(n: int, k: int, d: int, chunk: int | None) -> None:
    x = torch.randn(n, d, generator=generator(n), dtype=torch.float64)
    x[1] = x[0]  # a duplicate
    labels = torch.arange(n) % k
    expected = silhouettes(x.tolist(), labels.tolist())
    close(eq.silhouette_samples(x, labels, chunk), expected)
    assert eq.silhouette(x, labels, chunk, "sum") == pytest.approx(sum(expected))


@pytest.mark.parametrize("block", [eq._BLOCK, 0])  # with 0 there are always too many near pairs to list
def test_eq_8_of_tight_clusters_far_apart(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eq, "_BLOCK", block)
    # The squared norms are 1e20 times the squared distances inside a cluster: products alone would keep no digit of
    # those. The move by the mean costs a few digits all the same: 5e5 x 1e-16 of 1e-4.
    x = 1e-4 * torch.randn(24, 6, generator=generator(8), dtype=torch.float64)
    x[::2] += 1e6
    labels = torch.arange(24) % 4
    expected = torch.tensor(silhouettes(x.tolist(), labels.tolist()), dtype=torch.float64)
    torch.testing.assert_close(eq.silhouette_samples(x, labels), expected, rtol=0, atol=1e-6)
