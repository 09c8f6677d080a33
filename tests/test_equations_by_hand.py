"""One small case for each equation, with the working, to be checked on paper."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from newkinds import equations as eq


def tensor(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_eq_1_assignment() -> None:
    # Squared distances 0, 1 and 4. With alpha = 1 the exponent is -1: 1/1, 1/2, 1/5 = 10/10, 5/10, 2/10; sum 17/10.
    p = eq.assignment(tensor([3, 1]), tensor([3, 1], [4, 1], [3, 3]))
    close(p, tensor([10 / 17, 5 / 17, 2 / 17]))


def test_eq_1_with_three_degrees_of_freedom() -> None:
    # Squared distances 0 and 3. With alpha = 3 the exponent is -2: (1 + 0)^-2 = 1, (1 + 3/3)^-2 = 1/4; sum 5/4.
    p = eq.assignment(tensor([0, 0, 0]), tensor([0, 0, 0], [1, 1, 1]), alpha=3)
    close(p, tensor([4 / 5, 1 / 5]))
    close(eq.log_assignment(tensor([0, 0, 0]), tensor([0, 0, 0], [1, 1, 1]), alpha=3), p.log())


def test_squared_distances() -> None:
    # (1,2)-(1,2): 0. (1,2)-(4,6): 9 + 16. (0,0)-(1,2): 1 + 4. (0,0)-(4,6): 16 + 36.
    close(eq.squared_distances(tensor([1, 2], [0, 0]), tensor([1, 2], [4, 6])), tensor([0, 25], [5, 52]))


Q = tensor([1, 0], [1 / 2, 1 / 2])
P = tensor([1 / 2, 1 / 2], [1 / 4, 3 / 4])
# Row 1: 1 log(1 / (1/2)) + 0 = log 2. Row 2: 1/2 log 2 + 1/2 log(2/3) = 1/2 log(4/3).
DIVERGENCE = math.log(2) + math.log(4 / 3) / 2


def test_eq_2_divergence() -> None:
    assert eq.kl_divergence(Q, P.log()).item() == pytest.approx(DIVERGENCE / 2, rel=1e-12)  # N = 2
    assert eq.kl_divergence(Q, P.log(), normalisation="nk").item() == pytest.approx(DIVERGENCE / 4, rel=1e-12)  # N K


def test_eq_3_target_sharpens() -> None:
    # Both columns hold 1, so only the squares count: 9/16 : 1/16 = 9 : 1.
    close(eq.target(tensor([3 / 4, 1 / 4], [1 / 4, 3 / 4])), tensor([9 / 10, 1 / 10], [1 / 10, 9 / 10]))


def test_eq_3_target_balances() -> None:
    # The columns hold 6/5 and 4/5. Row 1: .64 / 1.2 = 8/15 and .04 / .8 = 1/20, that is 32 : 3.
    # Row 2: .16 / 1.2 = 2/15 and .36 / .8 = 9/20, that is 8 : 27.
    p = tensor([0.8, 0.2], [0.4, 0.6])
    q = tensor([32 / 35, 3 / 35], [8 / 35, 27 / 35])
    close(eq.target(p), q)
    # The same rows one at a time, with the columns' mass given.
    close(torch.cat([eq.target(p[:1], mass=p.sum(0)), eq.target(p[1:], mass=p.sum(0))]), q)


def test_eq_3_of_nothing() -> None:
    # A cluster that nobody belongs to stays empty; a sample that belongs to nothing is shared equally.
    p = tensor([1, 0, 0], [1 / 2, 1 / 2, 0], [0, 0, 0])
    # The columns hold 3/2, 1/2 and 0. Row 2: 1/4 / (3/2) = 1/6 and 1/4 / (1/2) = 1/2, that is 1 : 3.
    close(eq.target(p), tensor([1, 0, 0], [1 / 4, 3 / 4, 0], [1 / 3, 1 / 3, 1 / 3]))


def test_eq_4_ensemble_and_eq_5_correction() -> None:
    # beta = 1/2, from zero. After (.8, .2): (.4, .1), divided by 1 - 1/2 it is (.8, .2) again.
    first = eq.ensemble(tensor([0, 0]), tensor([0.8, 0.2]), beta=0.5)
    close(first, tensor([0.4, 0.1]))
    close(eq.corrected(first, beta=0.5, t=1), tensor([0.8, 0.2]))
    # After (.4, .6): (.2 + .2, .05 + .3) = (.40, .35), divided by 1 - 1/4 it is (8/15, 7/15).
    second = eq.ensemble(first, tensor([0.4, 0.6]), beta=0.5)
    close(second, tensor([0.40, 0.35]))
    close(eq.corrected(second, beta=0.5, t=2), tensor([8 / 15, 7 / 15]))


def test_eq_6_objective() -> None:
    # p' differs from p in the first row only, by 1/4 in both columns: (1/16 + 1/16 + 0 + 0) / 4 = 1/32.
    other = tensor([3 / 4, 1 / 4], [1 / 4, 3 / 4])
    assert eq.consistency(P, other).item() == pytest.approx(1 / 32, rel=1e-12)
    assert eq.objective(Q, P.log(), other, weight=2).loss.item() == pytest.approx(DIVERGENCE / 2 + 2 / 32, rel=1e-12)
    # The other normalisation changes the first term only.
    assert eq.objective(Q, P.log(), other, 2, "nk").loss.item() == pytest.approx(DIVERGENCE / 4 + 2 / 32, rel=1e-12)
    # Without p' the divergence is all.
    assert eq.objective(Q, P.log()).loss.item() == pytest.approx(DIVERGENCE / 2, rel=1e-12)


def test_omega() -> None:
    # (1 - t/T)^2 is 1, 1/4 and 0 at the start, half way and at the end.
    assert eq.omega(0, 80) == pytest.approx(math.exp(-5))
    assert eq.omega(40, 80) == pytest.approx(math.exp(-5 / 4))
    assert eq.omega(80, 80) == eq.omega(1000, 80) == 1
    assert eq.omega(40, 80, maximum=10) == pytest.approx(10 * math.exp(-5 / 4))
    assert eq.omega(0, 0, maximum=10) == 10


def test_eq_7_accuracy() -> None:
    # Cluster 0 holds two of class 1 and one of class 0, cluster 1 two of class 0, cluster 2 one of class 2.
    # 0 -> 1, 1 -> 0, 2 -> 2 makes 2 + 2 + 1 of 6 right.
    assigned, truth = [0, 0, 0, 1, 1, 2], [1, 1, 0, 0, 0, 2]
    assert eq.clustering_accuracy(assigned, truth) == pytest.approx(5 / 6)
    assert eq.matching(assigned, truth) == {0: 1, 1: 0, 2: 2}


def test_eq_7_looks_at_all_pairs_together() -> None:
    # Clusters by classes: [[3, 2], [2, 0]]. Taking the 3 first leaves 0; 2 + 2 of 7 is more.
    assigned, truth = [0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0, 0]
    assert eq.clustering_accuracy(assigned, truth) == pytest.approx(4 / 7)
    assert eq.matching(assigned, truth) == {0: 1, 1: 0}


def test_eq_7_with_more_clusters_than_classes_and_with_fewer() -> None:
    # Class 5 is in two clusters, only one of which can stand for it: 2 + 2 of 5.
    assert eq.clustering_accuracy([7, 7, 8, 9, 9], [5, 5, 5, 6, 6]) == pytest.approx(4 / 5)
    assert eq.matching([7, 7, 8, 9, 9], [5, 5, 5, 6, 6]) == {7: 5, 9: 6}
    # One cluster can stand for one class only: 3 of 5.
    assert eq.clustering_accuracy([0, 0, 0, 0, 0], [5, 5, 5, 6, 6]) == pytest.approx(3 / 5)
    assert eq.matching([0, 0, 0, 0, 0], [5, 5, 5, 6, 6]) == {0: 5}
    # Clusters by classes: [[3, 1], [1, 0]]. 3 + 0 beats 1 + 1, but cluster 1 and class 6 have nothing in common.
    assert eq.clustering_accuracy([0, 0, 0, 0, 1], [5, 5, 5, 6, 5]) == pytest.approx(3 / 5)
    assert eq.matching([0, 0, 0, 0, 1], [5, 5, 5, 6, 5]) == {0: 5}


def test_eq_8_silhouette() -> None:
    # On a line, clusters {0, 2} and {5, 9}.
    # 0: a = 2, b = (5 + 9) / 2 = 7, so 5/7.  2: a = 2, b = (3 + 7) / 2 = 5, so 3/5.
    # 5: a = 4, b = (5 + 3) / 2 = 4, so 0.    9: a = 4, b = (9 + 7) / 2 = 8, so 1/2.
    x, labels = tensor([0], [2], [5], [9]), [1, 1, 0, 0]
    close(eq.silhouette_samples(x, labels), torch.tensor([5 / 7, 3 / 5, 0, 1 / 2], dtype=torch.float64))
    # 5/7 + 3/5 + 1/2 = (50 + 42 + 35) / 70.
    assert eq.silhouette(x, labels, reduction="sum") == pytest.approx(127 / 70, rel=1e-12)
    assert eq.silhouette(x, labels) == pytest.approx(127 / 280, rel=1e-12)


def test_eq_8_takes_the_nearest_other_cluster_and_0_for_a_sample_alone() -> None:
    # {0, 1}, {3, 4} and {9}. 0: a = 1, b = min(7/2, 9), so 5/7.  1: a = 1, b = min(5/2, 8), so 3/5.
    # 3: a = 1, b = min(5/2, 6), so 3/5.  4: a = 1, b = min(7/2, 5), so 5/7.  9: alone, so 0.
    values = eq.silhouette_samples(tensor([0], [1], [3], [4], [9]), [0, 0, 1, 1, 2])
    close(values, torch.tensor([5 / 7, 3 / 5, 3 / 5, 5 / 7, 0], dtype=torch.float64))
