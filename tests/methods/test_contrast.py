"""Contrastive learning: the losses by hand and in slow loops, the batches, the views, the head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from blobs import heap

from newkinds.methods.contrast import Contrasted, DirectionsHead, info_nce, sup_con
from newkinds.methods.gcd import Gcd, GcdTask
from newkinds.networks import build_network

HALF = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])  # two pictures whose views are equal


def test_info_nce_by_hand() -> None:
    # Of each row's three others, the second view has the cosine 1, the two of the other picture 0.
    assert info_nce(HALF, 1.0).item() == pytest.approx(math.log((math.e + 2) / math.e))
    assert info_nce(HALF, 0.5).item() == pytest.approx(math.log((math.e**2 + 2) / math.e**2))


def test_sup_con_by_hand() -> None:
    # Different kinds: the only row of the same kind is the second view.
    apart = sup_con(HALF, torch.tensor([0, 1, 0, 1]), 1.0)
    assert apart.item() == pytest.approx(info_nce(HALF, 1.0).item())
    # One kind: the mean of one log-probability of cosine 1 and two of cosine 0.
    together = sup_con(HALF, torch.tensor([3, 3, 3, 3]), 1.0)
    assert together.item() == pytest.approx(math.log(math.e + 2) - 1 / 3)


def test_the_losses_in_slow_loops() -> None:
    z = F.normalize(torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64), dim=1)
    labels = torch.tensor([0, 1, 0, 2] * 2)
    views, kinds = [], []
    for i in range(8):
        weights = [math.exp(float(z[i] @ z[j]) / 0.3) if j != i else 0.0 for j in range(8)]
        views.append(-math.log(weights[(i + 4) % 8] / sum(weights)))
        alike = [j for j in range(8) if j != i and labels[j] == labels[i]]
        kinds.append(-sum(math.log(weights[j] / sum(weights)) for j in alike) / len(alike))
    assert info_nce(z, 0.3).item() == pytest.approx(sum(views) / 8)
    assert sup_con(z, labels, 0.3).item() == pytest.approx(sum(kinds) / 8)


def test_the_losses_are_weighted() -> None:
    problem, _ = heap("gcd", {})
    task = GcdTask(problem, Gcd(supervised=0.25))
    items = task.batches(0)[0]
    found = task.losses(task.module(task.inputs(items, 0)), items, 0)
    assert found["loss"].item() == pytest.approx(0.75 * found["views"].item() + 0.25 * found["kinds"].item())


@pytest.mark.parametrize(("size", "each"), [(16, 8), (200, 60)])
def test_batches_have_as_many_labelled_as_unsorted_pictures(size: int, each: int) -> None:
    problem, _ = heap("gcd", {})
    n, labelled = len(problem.unsorted), len(problem.known)
    assert (n, labelled) == (100, 60)
    task = GcdTask(problem, Gcd(batch_size=size))
    batches = task.batches(3)
    assert all((batch < n).sum() == min(size // 2, n) for batch in batches)
    assert all((batch >= n).sum() == each for batch in batches)
    assert all(len(set(batch.tolist())) == len(batch) for batch in batches)
    assert sum(map(len, batches)) >= n + labelled
    assert all((one == other).all() for one, other in zip(batches, task.batches(3), strict=True))
    assert any((one != other).any() for one, other in zip(batches, task.batches(4), strict=True))


def test_views_of_features_leave_some_out_whatever_the_batch() -> None:
    problem, _ = heap("gcd", {})
    task = GcdTask(problem, Gcd(dropout=0.25))
    items = np.array([5, 120, 7])
    both = task.inputs(items, epoch=2)
    plain = np.stack([problem.unsorted.pixels[5], problem.known.pixels[20], problem.unsorted.pixels[7]])
    for view in (both[:3].numpy(), both[3:].numpy()):
        kept = view != 0
        assert 0 < kept.mean() < 1
        np.testing.assert_allclose(view[kept], (plain / 0.75)[kept], rtol=1e-6)
    assert (both[:3] != both[3:]).any()
    again = task.inputs(items[::-1].copy(), epoch=2)
    assert torch.equal(again[:3].flip(0), both[:3])
    assert torch.equal(GcdTask(problem, Gcd(dropout=0)).inputs(items, 0)[:3], torch.from_numpy(plain))


def test_labels_go_with_their_rows() -> None:
    problem, _ = heap("gcd", {})
    assert problem.known.labels is not None
    rows, labels = GcdTask(problem, Gcd()).labelled(np.array([3, 155, 101, 4]), torch.device("cpu"))
    assert rows.tolist() == [1, 2, 5, 6]
    assert labels.tolist() == [problem.known.labels[55], problem.known.labels[1]] * 2


def test_a_frozen_f_gets_a_layer_that_changes_nothing_yet_and_a_trained_one_none() -> None:
    frozen = Contrasted(build_network("identity", 8, 1, 0), (4,), 0)
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(frozen.directions(x)[0], F.normalize(x, dim=1))
    trained = Contrasted(build_network("vgg6-4-2-slim", 1, 8, 0), (4,), 0)
    assert trained.adapter is None
    assert trained(torch.rand(2, 1, 8, 8)).shape == (2, 4)


@pytest.mark.parametrize("adapted", [True, False])
def test_the_head_prefers_the_nearest_centre_and_is_rebuilt(adapted: bool) -> None:
    head = DirectionsHead(2, 2, 0.5, adapted)
    with torch.no_grad():
        head.centres.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.5]]))
    log_p = head(torch.tensor([[3.0, 0.0]]))  # squared distances 0 and 1.25
    assert log_p.exp()[0, 0].item() == pytest.approx(1 / (1 + math.exp(-0.5 * 1.25)))
    about: dict[str, Any] = head.about()
    again = DirectionsHead.build(2, about)
    again.load_state_dict(head.state_dict())
    assert again.about() == about
    assert torch.equal(again(torch.eye(2)), head(torch.eye(2)))
