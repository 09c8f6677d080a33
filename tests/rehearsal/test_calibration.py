"""What a probability means."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from newkinds.assignment import Assignment
from newkinds.rehearsal.calibration import (
    EACH_KIND,
    IN_A_BIN,
    Calibration,
    Observed,
    beginning,
    calibration_error,
    carried_over,
    of_other_pictures,
    reliability,
    with_heap,
)
from newkinds.rehearsal.signals import NAMES

TRUE = np.array([0.5, 1.0, -0.5, 0.3, 0.0, -1.0, 0.7, 0.2, -0.4])
FLAT = Calibration(np.zeros(len(NAMES) + 1), np.ones(len(NAMES) + 1), np.zeros(len(NAMES) + 2))


def others(said: NDArray[np.float64], labels: NDArray[np.int64], table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what is made of pictures of which the method says this of these kinds."""
    p = np.tile(((1 - said) / (len(table) - 1))[:, None], len(table))
    p[np.arange(len(said)), labels] = said
    return of_other_pictures(torch.from_numpy(p.astype(np.float32)), torch.from_numpy(table)).numpy()


def observed(seed: int = 0, n: int = 5000, kinds: int = 5000) -> Observed:
    """Return pictures whose being right follows TRUE."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(NAMES)))
    return Observed(x, rng.random(n) < expit(np.c_[np.ones(n), x] @ TRUE), np.arange(n) % kinds)


def test_with_many_observations_it_finds_the_truth() -> None:
    found = FLAT.after([observed(seed) for seed in range(4)], strength=1.0)
    assert np.abs(found.coefficients[:-1] - TRUE).max() < 0.1


def test_it_is_the_minimum_of_the_penalised_cross_entropy() -> None:
    one, start = observed(n=300, kinds=30), beginning("right")
    design = np.c_[np.ones(300), (with_heap(one.x) - start.centre) / start.scale]

    def loss(b: NDArray[np.float64]) -> float:
        t = design @ b
        held = 7.0 * np.square(b - start.coefficients).sum() / 2
        return float(one.weights @ (np.logaddexp(0, t) - one.yes * t) + held)

    expected = minimize(loss, start.coefficients, tol=1e-12).x
    assert np.allclose(start.after([one], strength=7.0).coefficients, expected, atol=1e-3)


def test_without_rehearsals_it_stays_where_it_begins_and_with_few_it_stays_near() -> None:
    start = beginning("right")
    assert start.after([]) is start
    few = start.after([observed(n=20)])
    many = start.after([observed()])
    assert np.linalg.norm(few.coefficients - start.coefficients) < np.linalg.norm(
        many.coefficients - start.coefficients
    )


def test_what_is_the_same_for_a_whole_heap_counts() -> None:
    x = np.array([[0.9, 0.8, 0.5, 0.9, 0.8, 0.5, 0, 0], [0.7, 0.4, 0.5, 0.9, 0.8, 0.5, 0, 0]])
    assert with_heap(x)[:, -1].tolist() == pytest.approx([0.6, 0.6])
    steady, shaky = np.stack([x[0], x[0]]), x.copy()
    shaky[1, 1] = 0.0
    assert beginning("right")(steady)[0] > beginning("right")(shaky)[0]


def test_a_kind_counts_for_a_few_observations_however_many_pictures_it_has() -> None:
    assert observed(n=1000, kinds=2).weights.sum() == pytest.approx(2 * EACH_KIND)
    assert observed(n=8, kinds=4).weights.sum() == pytest.approx(8)


def test_what_it_says_is_how_often_it_is_right() -> None:
    found = FLAT.after([observed(1)], strength=1.0)
    new = observed(2)
    assert calibration_error(reliability(found(new.x), new.yes)) < 0.03
    assert calibration_error(reliability(np.full(5000, 0.99), new.yes)) > 0.2


def test_where_the_beginning_is_used_sure_pictures_are_more_probable() -> None:
    for of in ("right", "pure"):
        sure, unsure = beginning(of)(np.array([[1, 1, 0.4, 1, 1, 0.4, 0, 0], [0.3, 0.2, 0.9, 0.4, 0.3, 0.9, 0.7, 0]]))
        assert sure > 0.9
        assert unsure < 0.4


def test_bins_hold_equally_many_and_the_error_is_by_hand() -> None:
    said = np.repeat([0.1, 0.2, 0.8, 0.9], IN_A_BIN // 2)
    right = np.repeat([False, False, True, False], IN_A_BIN // 2)
    low, high = reliability(said, right)
    assert (low.pictures, low.said, low.right) == (IN_A_BIN, pytest.approx(0.15), 0)
    assert (high.pictures, high.said, high.right) == (IN_A_BIN, pytest.approx(0.85), 0.5)
    assert calibration_error((low, high)) == pytest.approx((0.15 + 0.35) / 2)


@pytest.mark.parametrize(("pictures", "bins"), [(3, 1), (59, 1), (60, 2), (299, 9), (300, 10), (5000, 10)])
def test_few_pictures_have_few_bins(pictures: int, bins: int) -> None:
    assert len(reliability(np.linspace(0, 1, pictures), np.ones(pictures, np.bool_))) == bins


def test_it_comes_back_from_a_file() -> None:
    start = beginning("pure")
    assert np.array_equal(Calibration.from_dict(start.to_dict()).coefficients, start.coefficients)


def test_other_pictures_get_the_probability_of_those_of_the_heap_that_were_as_sure() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    said = rng.uniform(0.4, 0.9, 600)
    own = expit(np.array([0.5, 1.0, 1.5])[labels] + 0.5 * np.log(said / (1 - said)))
    table = carried_over(said, own, labels, kinds=4)
    assert table.shape == (4, 2)
    assert np.allclose(others(said, labels, table).max(axis=1), np.maximum(own, 0), atol=1e-3)


def test_a_method_that_is_always_sure_says_what_its_kinds_are_worth() -> None:
    labels = np.repeat([0, 1], 50)
    table = carried_over(np.ones(100), np.repeat([0.6, 0.9], 50), labels, kinds=2)
    assert np.allclose(others(np.ones(2), np.array([0, 1]), table).max(axis=1), [0.6, 0.9], atol=1e-3)


def test_other_pictures_keep_their_kind_and_their_row_never_exceeds_one() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(5, 0.3), 400).astype(np.float32)
    table = np.stack([rng.normal(-2, 1, 5), np.full(5, 0.3)], axis=1).astype(np.float32)
    found = of_other_pictures(torch.from_numpy(p), torch.from_numpy(table)).numpy()
    own = found.max(axis=1).astype(np.float64)
    assert (found.argmax(axis=1) == p.argmax(axis=1)).all()
    assert (found.sum(axis=1) <= 1 + 1e-5).all()
    names = tuple(map(str, range(400)))
    assert np.allclose(found, Assignment.of_new(names, p).with_own(own).probabilities, atol=1e-5)
