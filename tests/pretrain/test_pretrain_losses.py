"""The metric losses: by hand, against plain loops, and over random inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from newkinds.pretrain.losses import prototypical_loss, triplet_loss


def embeddings(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(0, scale, shape))


# The prototypical loss


def test_prototypical_by_hand() -> None:
    # On a line: kind 0 has its supports at -1 and 1, so its prototype at 0, and a query at 1; kind 1 has supports at 2
    # and 4, its prototype at 3, and a query at 2. Each query is 1 from its own and 2 from the other prototype.
    line = torch.tensor([[[-1.0], [1.0], [1.0]], [[2.0], [4.0], [2.0]]])
    own, other = math.exp(-1), math.exp(-4)
    assert prototypical_loss(line, support=2).item() == pytest.approx(-math.log(own / (own + other)))
    # With one support each, the prototypes are at -1 and 2, and of either kind there is one query more.
    chances = [
        math.exp(-(2**2)) / (math.exp(-(2**2)) + math.exp(-(1**2))),  # both queries of kind 0, at 1
        math.exp(-(2**2)) / (math.exp(-(2**2)) + math.exp(-(5**2))),  # of kind 1, at 4
        1 / (1 + math.exp(-(3**2))),  # and at 2
    ]
    expected = -(2 * math.log(chances[0]) + math.log(chances[1]) + math.log(chances[2])) / 4
    assert prototypical_loss(line, support=1).item() == pytest.approx(expected)


def plain_prototypical(episode: Tensor, support: int) -> float:
    """The loss again, in slow loops."""
    kinds, each, width = episode.shape
    values = episode.tolist()
    prototypes = [
        [sum(values[kind][i][axis] for i in range(support)) / support for axis in range(width)] for kind in range(kinds)
    ]
    losses = []
    for kind in range(kinds):
        for query in values[kind][support:each]:
            weights = [math.exp(-(math.dist(query, prototype) ** 2)) for prototype in prototypes]
            losses.append(-math.log(weights[kind] / sum(weights)))
    return sum(losses) / len(losses)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 999), st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5))
def test_prototypical_is_what_plain_loops_give(seed: int, kinds: int, support: int, query: int, width: int) -> None:
    episode = embeddings(seed, kinds, support + query, width)
    assert prototypical_loss(episode, support).item() == pytest.approx(plain_prototypical(episode, support), rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 999), st.integers(2, 5), st.integers(1, 3), st.integers(1, 3))
def test_prototypical_knows_no_order_and_no_place(seed: int, kinds: int, support: int, query: int) -> None:
    episode = embeddings(seed, kinds, support + query, 3)
    loss = prototypical_loss(episode, support).item()
    random = np.random.default_rng(seed)
    assert prototypical_loss(episode[random.permutation(kinds)], support).item() == pytest.approx(loss)
    within = np.concatenate([random.permutation(support), support + random.permutation(query)])
    assert prototypical_loss(episode[:, within], support).item() == pytest.approx(loss)
    assert prototypical_loss(episode + 5, support).item() == pytest.approx(loss)


def test_prototypical_moves_queries_and_supports_together() -> None:
    episode = embeddings(0, 3, 4, 2).requires_grad_()
    prototypical_loss(episode, support=2).backward()
    assert episode.grad is not None
    assert (episode.grad.abs().sum(dim=2) > 0).all()  # prototypes are learned from, too
    moved = (episode - 0.1 * episode.grad).detach()
    assert prototypical_loss(moved, 2) < prototypical_loss(episode, 2)


def test_prototypical_is_0_when_all_is_told_apart_and_chance_when_nothing_is() -> None:
    apart = torch.eye(4)[:, None].repeat(1, 3, 1) * 20
    assert prototypical_loss(apart, 1).item() == pytest.approx(0, abs=1e-6)
    alike = torch.ones(4, 3, 2)
    assert prototypical_loss(alike, 1).item() == pytest.approx(math.log(4))


# The triplet loss


def test_triplet_by_hand() -> None:
    # Four points on the unit circle; two that are an angle a apart have the distance 2 sin(a / 2).
    angles, labels = torch.deg2rad(torch.tensor([0.0, 60.0, 90.0, 180.0])), torch.tensor([0, 0, 1, 1])
    circle = torch.stack([angles.cos(), angles.sin()], dim=1)
    near = 2 * math.sin(math.radians(15))
    same = [1, 1, math.sqrt(2), math.sqrt(2)]  # 60 and 90 degrees
    other = [math.sqrt(2), near, near, math.sqrt(3)]  # 90, 30, 30 and 120 degrees
    for margin in (0.25, 0.5, 1.5):
        expected = [max(0, margin + s - o) for s, o in zip(same, other, strict=True)]
        assert triplet_loss(circle, labels, margin).item() == pytest.approx(sum(expected) / 4, rel=1e-5), margin
    # With the small margin the first and the last are far enough: only the two in the middle count.
    assert triplet_loss(circle, labels, 0.25).item() == pytest.approx((0.5 + 1 + math.sqrt(2) - 2 * near) / 4, rel=1e-5)
    # The lengths do not matter.
    lengths = torch.tensor([[0.1], [2.0], [30.0], [1.0]])
    assert triplet_loss(lengths * circle, labels, 0.5).item() == pytest.approx(
        triplet_loss(circle, labels, 0.5).item(), rel=1e-5
    )


def plain_triplet(batch: Tensor, labels: Tensor, margin: float) -> float:
    """The loss again, in slow loops."""
    points = [[value / math.hypot(*row) for value in row] for row in batch.tolist()]
    losses = []
    for i, point in enumerate(points):
        furthest, nearest = 0.0, math.inf
        for j, another in enumerate(points):
            if labels[i] == labels[j]:
                furthest = max(furthest, math.dist(point, another))
            else:
                nearest = min(nearest, math.dist(point, another))
        losses.append(max(0.0, margin + furthest - nearest))
    return sum(losses) / len(losses)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 999), st.integers(2, 5), st.integers(1, 4), st.integers(2, 5), st.floats(0.01, 2))
def test_triplet_is_what_plain_loops_give(seed: int, kinds: int, each: int, width: int, margin: float) -> None:
    batch = embeddings(seed, kinds * each, width)
    labels = torch.from_numpy(np.random.default_rng(seed).permutation(np.repeat(np.arange(kinds), each)))
    # A picture's distance to itself counts as 1e-6, which shows where a kind has a single picture.
    assert triplet_loss(batch, labels, margin).item() == pytest.approx(plain_triplet(batch, labels, margin), abs=2e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 999), st.integers(2, 4), st.integers(1, 4))
def test_triplet_knows_no_order_and_no_names(seed: int, kinds: int, each: int) -> None:
    batch, labels = embeddings(seed, kinds * each, 3), torch.arange(kinds).repeat_interleave(each)
    loss = triplet_loss(batch, labels, 0.5).item()
    order = torch.from_numpy(np.random.default_rng(seed).permutation(kinds * each))
    assert triplet_loss(batch[order], labels[order], 0.5).item() == pytest.approx(loss)
    assert triplet_loss(batch, 7 - labels, 0.5).item() == pytest.approx(loss)


def test_triplet_is_0_when_kinds_are_a_margin_apart_and_the_margin_when_nothing_is() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    apart = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # sqrt(2) between the kinds
    assert triplet_loss(apart, labels, 1.4).item() == 0
    assert triplet_loss(apart, labels, 1.5).item() == pytest.approx(1.5 - math.sqrt(2), abs=1e-5)
    assert triplet_loss(torch.ones(4, 2), labels, 0.3).item() == pytest.approx(0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_is_finite_where_a_picture_meets_itself(dtype: torch.dtype) -> None:
    labels = torch.tensor([0, 0, 1, 1])
    cases = {
        "all different": embeddings(0, 4, 3),
        "the same picture twice in a kind": embeddings(0, 4, 3)[[0, 0, 1, 2]],
        "the same picture in two kinds": embeddings(0, 4, 3)[[0, 1, 0, 2]],
        "all the same": torch.ones(4, 3),
        "no length": torch.zeros(4, 3),
    }
    for name, batch in cases.items():
        given = batch.to(dtype).clone().requires_grad_()
        triplet_loss(given, labels, 0.5).backward()
        assert given.grad is not None
        assert given.grad.isfinite().all(), name
        episode = batch.to(dtype).reshape(2, 2, 3).clone().requires_grad_()
        prototypical_loss(episode, 1).backward()
        assert episode.grad is not None
        assert episode.grad.isfinite().all(), name
    # The root alone, without its bound, would not do.
    bare = torch.zeros(1, dtype=dtype, requires_grad=True)
    (bare.square().sqrt() * 0).sum().backward()
    assert bare.grad is not None
    assert not bare.grad.isfinite().all()


def test_the_gradient_of_the_triplet_loss_is_that_of_small_steps() -> None:
    batch, labels = embeddings(1, 6, 3).requires_grad_(), torch.tensor([0, 0, 0, 1, 1, 1])
    assert torch.autograd.gradcheck(lambda x: triplet_loss(x, labels, 0.5), [batch])
    episode = embeddings(2, 2, 4, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: prototypical_loss(x, 2), [episode])
