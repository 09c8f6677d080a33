"""Signs of collapse that need no labels: by hand, against scikit-learn, and what they reward."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import mutual_info_score
from torch import nn

from newkinds.methods.base import Choice
from newkinds.methods.dtc.monitor import BestState, agreement, effective_kinds, shared_information

labels_of = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)


def array(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def test_shared_information_by_hand() -> None:
    even = array([0, 0, 1, 1])
    assert shared_information(even, even, 2) == pytest.approx(1.0)
    # Half of the views go to the other kind, whichever theirs is: nothing is shared.
    assert shared_information(even, array([0, 1, 0, 1]), 2) == pytest.approx(0.0)
    # Two of four kinds have died out: log 2 of log 4.
    assert shared_information(even, even, 4) == pytest.approx(0.5)


def test_all_in_one_kind_agree_and_share_nothing() -> None:
    one = np.zeros(10, dtype=np.int64)
    assert shared_information(one, one, 5) == pytest.approx(0.0)
    assert effective_kinds(one, 5) == pytest.approx(1.0)


@given(labels_of)
def test_shared_information_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    first, second = (array(list(column)) for column in zip(*pairs, strict=True))
    expected = mutual_info_score(first, second) / math.log(5)
    assert shared_information(first, second, 5) == pytest.approx(expected, abs=1e-9)
    assert shared_information(second, first, 5) == pytest.approx(expected, abs=1e-9)
    assert shared_information(4 - first, second, 5) == pytest.approx(expected, abs=1e-9)  # names do not matter
    assert -1e-9 <= expected <= 1 + 1e-9


def test_merging_two_kinds_lowers_it_though_views_agree_better() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 4, 4000)
    views = np.where(rng.random(4000) < 0.1, rng.integers(0, 4, 4000), kinds)
    merged = [np.where(labels == 3, 2, labels) for labels in (kinds, views)]
    assert (merged[0] == merged[1]).mean() > (kinds == views).mean()
    assert shared_information(*merged, 4) < shared_information(kinds, views, 4) - 0.02


def test_effective_kinds_by_hand() -> None:
    assert effective_kinds(array([0, 1, 2, 3]), 4) == pytest.approx(4.0)
    # Shares 1/2, 1/4, 1/4: exp(1.5 log 2).
    assert effective_kinds(array([0, 0, 1, 2]), 3) == pytest.approx(2**1.5)


def test_agreement_does_not_mind_the_numbering() -> None:
    start = array([0, 0, 1, 1, 2, 2])
    assert agreement(array([2, 2, 0, 0, 1, 1]), start) == 1.0
    assert agreement(array([2, 2, 0, 0, 0, 0]), start) == pytest.approx(4 / 6)


def test_best_state_keeps_the_best_and_survives() -> None:
    module, best = nn.Linear(1, 1), BestState(wanted=True)
    assert best.state() == {}
    for epoch, (sign, value) in enumerate([(0.5, 1.0), (0.7, 2.0), (0.7, 3.0), (0.6, 4.0)]):
        with torch.no_grad():
            module.weight.fill_(value)
        best.offer(module, epoch, sign)
    again = BestState(wanted=True)
    again.load_state({})
    again.load_state(best.state())
    for state in (best, again):
        assert (state.epoch, state.value) == (1, 0.7)  # the first of equals
        assert state.weights["weight"].item() == 2.0  # a copy: the module went on
    again.offer(module, 9, 0.8)
    assert again.epoch == 9


def test_nobody_watches_nothing_is_kept() -> None:
    best = BestState(wanted=False)
    best.offer(nn.Linear(1, 1), 0, 0.5)
    assert best.weights == {}


def test_choice_as_plain_values() -> None:
    plain = Choice("last", 4, math.nan, math.nan, "why").to_dict()
    assert plain == {"kept": "last", "epoch": 4, "monitor": None, "last_monitor": None, "why": "why", "warning": ""}
