"""The four variants: what p' is, what makes q, and what they must get back to go on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from newkinds.equations import target
from newkinds.methods.dtc.variants import TE, TEP, VARIANTS, Pi, Variant

N, KINDS = 4, 3


def some_p(seed: int, rows: int = N) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, KINDS))).softmax(dim=1)


def test_names_and_views() -> None:
    assert {name: make.views for name, make in VARIANTS.items()} == {"baseline": 1, "pi": 2, "te": 1, "tep": 1}


def test_baseline_has_no_other_prediction_and_makes_q_from_p() -> None:
    variant, p = Variant(make_targets=lambda p: p**3), some_p(0)
    log_p, other = variant.other(p.log(), torch.arange(N))
    assert other is None
    assert torch.equal(log_p, p.log())
    assert torch.equal(variant.targets(p), p**3)
    assert torch.equal(Variant().targets(p), target(p))


def test_pi_takes_the_second_view() -> None:
    p = some_p(1, 2 * N)
    log_p, other = Pi().other(p.log(), torch.arange(N))
    assert other is not None
    assert torch.equal(log_p, p[:N].log())
    assert torch.allclose(other, p[N:])


def epoch_of(variant: Variant, p: Tensor, order: list[list[int]]) -> list[Tensor | None]:
    """Show a variant the predictions of an epoch, batch by batch, and return what it held against them."""
    held = [variant.other(p[batch].log().requires_grad_(), torch.tensor(batch))[1] for batch in order]
    variant.epoch_done(some_p(99), p)  # what makes q is of no interest to te
    return held


def test_te_holds_earlier_epochs_against_this_one() -> None:
    variant = TE(beta=0.6)
    first, second = some_p(2), some_p(3)
    assert epoch_of(variant, first, [[2, 0], [1, 3]]) == [None, None]  # no ensemble yet: no term
    # One epoch: the ensemble, corrected, is that epoch.
    one, two = epoch_of(variant, second, [[3, 1], [0, 2]])
    assert one is not None
    assert two is not None
    assert torch.allclose(one, first[[3, 1]])
    assert torch.allclose(two, first[[0, 2]])
    assert not one.requires_grad
    # Two epochs: (0.6 * 0.4 * first + 0.4 * second) / (1 - 0.36), by hand.
    (now,) = epoch_of(variant, some_p(4), [[0, 1, 2, 3]])
    assert now is not None
    assert torch.allclose(now, (0.24 * first + 0.4 * second) / 0.64)
    # q is still made from the current p alone.
    assert torch.equal(variant.targets(first), target(first))


def test_tep_makes_q_from_the_ensemble_and_has_no_other_prediction() -> None:
    variant = TEP(beta=0.5)
    first, second = some_p(5), some_p(6)
    assert variant.other(first.log(), torch.arange(N))[1] is None
    variant.epoch_done(first, some_p(97))
    assert torch.allclose(variant.targets(second), target(first))
    variant.epoch_done(second, some_p(98))
    expected = (0.25 * first + 0.5 * second) / 0.75
    assert torch.allclose(variant.targets(some_p(7)), target(expected))
    assert torch.equal(TEP(make_targets=lambda p: p**3).targets(first), first**3)  # nothing averaged yet


@pytest.mark.parametrize("name", list(VARIANTS))
def test_state_is_all_there_is(name: str) -> None:
    going, again = VARIANTS[name](), VARIANTS[name]()
    again.load_state(going.state())  # before anything was seen
    views = going.views
    for seed in (8, 9):
        going.other(some_p(seed, views * N).log(), torch.arange(N))
        going.epoch_done(some_p(seed + 10), some_p(seed + 11))
    again.load_state(going.state())
    p, log_p = some_p(20), some_p(21, views * N).log()
    assert torch.equal(going.targets(p), again.targets(p))
    ours, theirs = going.other(log_p, torch.arange(N))[1], again.other(log_p, torch.arange(N))[1]
    assert (ours is None) == (theirs is None)
    assert ours is None or torch.equal(ours, theirs)
