"""Targets with held sizes: by hand, their masses, and what happens to small kinds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from newkinds.equations import target
from newkinds.methods.dtc.settings import Discover
from newkinds.methods.dtc.targets import AT_ONCE, ROUNDS, Targets, held_target


def some_p(seed: int, rows: int, kinds: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, kinds))).softmax(dim=1)


def test_by_hand() -> None:
    # Symmetric: the columns of p^2 have equal mass already, so nothing is scaled. Rows: .64 and .04 of .68.
    p = torch.tensor([[0.8, 0.2], [0.2, 0.8]], dtype=torch.float64)
    q = held_target(p, torch.tensor([1.0, 1.0]), power=2)
    assert torch.allclose(q, torch.tensor([[16 / 17, 1 / 17], [1 / 17, 16 / 17]], dtype=torch.float64))
    # Two pictures that say the same must be shared out as the masses are, whatever they say.
    same = torch.tensor([[0.9, 0.1], [0.9, 0.1]], dtype=torch.float64)
    assert torch.allclose(held_target(same, torch.tensor([0.5, 1.5]), 2)[0], torch.tensor([0.25, 0.75]).double())


@given(st.integers(0, 1000), st.integers(2, 6), st.floats(1, 4), st.floats(0, 1))
def test_rows_and_columns_have_their_mass(seed: int, kinds: int, power: float, even: float) -> None:
    p = some_p(seed, 40, kinds)
    labels = np.random.default_rng(seed).integers(0, kinds, 40)
    make = Targets(Discover(power=power, evenness=even), labels, kinds)
    assert float(make.mass.sum()) == pytest.approx(40)
    q = make(p)
    assert torch.allclose(q.sum(dim=1), torch.ones(40).double())
    assert (q >= 0).all()
    assert torch.allclose(q.sum(dim=0), make.mass, atol=0.5)


def test_evenness_goes_from_the_start_to_equal_shares() -> None:
    labels = np.array([0] * 6 + [1] * 2)
    masses = [Targets(Discover(evenness=even), labels, 2).mass.tolist() for even in (0.0, 0.5, 1.0)]
    assert masses == [[6.0, 2.0], [5.0, 3.0], [4.0, 4.0]]


def test_eq_3_where_it_is_asked_for() -> None:
    p = some_p(0, 10, 3)
    assert torch.equal(Targets(Discover(targets="eq3"), np.zeros(10, dtype=np.int64), 3)(p), target(p))


def test_a_higher_power_is_sharper() -> None:
    p = some_p(1, 30, 4)
    even = torch.full((4,), 7.5)
    entropies = [float(-(q * q.log()).sum()) for q in (held_target(p, even, power) for power in (1, 2, 4))]
    assert entropies[0] > entropies[1] > entropies[2]


def test_a_small_kind_keeps_its_size_under_updates_where_eq_3_lets_it_go() -> None:
    # Nine pictures lean to kind 0, one is torn and leans to it too: p made from q over and over, as if learnt at once.
    start = torch.tensor([[0.9, 0.1]] * 9 + [[0.55, 0.45]], dtype=torch.float64)
    labels = np.array([0] * 9 + [1])
    held, free = start, start
    make = Targets(Discover(evenness=0.0), labels, 2)
    for _ in range(30):
        held, free = make(held), target(free, free.sum(dim=0) ** 0)
    assert float(free[9, 1]) < 0.01
    assert float(held[9, 1]) > 0.9
    assert held.sum(dim=0).tolist() == pytest.approx([9.0, 1.0], abs=0.01)


@pytest.mark.parametrize("sizes", [[30.0, 10.0, 20.0], [60.0, 0.0, 0.0], [59.0, 0.5, 0.5]])
def test_held_targets_are_sinkhorns_in_logarithms(sizes: list[float]) -> None:
    p = some_p(3, 60, 3) ** 8  # far from even, with small numbers
    p = p / p.sum(dim=1, keepdim=True)
    log_q = 2 * p.log()
    for _ in range(ROUNDS):
        log_q = log_q + (torch.tensor(sizes).double().clamp_min(1e-300).log() - log_q.logsumexp(dim=0))
        log_q = log_q - log_q.logsumexp(dim=1, keepdim=True)
    assert torch.allclose(held_target(p, torch.tensor(sizes), 2), log_q.exp(), atol=1e-10)


def test_float32_and_probabilities_of_nothing() -> None:
    p = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    q = held_target(p, torch.tensor([1.0, 1.0, 1.0]), 2)
    assert q.dtype == torch.float32
    assert torch.isfinite(q).all()
    assert torch.allclose(q.sum(dim=1), torch.ones(3))


def test_q_of_p_averaged_over_neighbours_by_hand() -> None:
    p = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    near = np.array([[0, 1], [1, 0], [2, 1]])
    averaged = torch.tensor([[0.8, 0.2], [0.8, 0.2], [0.45, 0.55]])
    labels = np.array([0, 0, 1])
    for settings in (Discover(targets="eq3"), Discover(evenness=0.0)):
        q = Targets(settings, labels, 2, near)(p)
        assert torch.allclose(q, Targets(settings, labels, 2)(averaged), atol=1e-6)
        assert not torch.allclose(q, Targets(settings, labels, 2)(p), atol=0.01)


def test_p_of_more_neighbours_than_are_held_at_once() -> None:
    p = some_p(0, AT_ONCE + 3, 2)
    near = np.random.default_rng(0).integers(0, len(p), (len(p), 4))
    labels = np.zeros(len(p), dtype=np.int64)
    averaged = (p[near[:, 0]] + p[near[:, 1]] + p[near[:, 2]] + p[near[:, 3]]) / 4
    assert torch.allclose(Targets(Discover(targets="eq3"), labels, 2, near)(p), target(averaged))
