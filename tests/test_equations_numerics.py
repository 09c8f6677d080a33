"""Gradients, extreme inputs, float32 against float64, memory, and the errors for inputs that make no sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from newkinds import equations as eq
from newkinds.errors import UsageError


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def on_centres() -> tuple[Tensor, Tensor]:
    """Return embeddings, two of which lie exactly on a centre, and centres, two of which coincide."""
    centres = normal(4, 3, seed=1)
    centres[3] = centres[2]
    z = normal(5, 3, seed=2)
    z[0], z[1] = centres[0], centres[2]
    return z.requires_grad_(), centres.requires_grad_()


@pytest.mark.parametrize("alpha", [1.0, 2.5])
@pytest.mark.parametrize("function", [eq.squared_distances, eq.assignment, eq.log_assignment])
def test_gradients_of_eq_1(function: Callable[..., Tensor], alpha: float) -> None:
    extra = () if function is eq.squared_distances else (alpha,)
    assert gradcheck(lambda z, centres: function(z, centres, *extra), on_centres())


def test_gradients_of_eq_2() -> None:
    q = torch.softmax(normal(5, 4, seed=3), dim=1)
    q[0] = torch.tensor([0, 1, 0, 0])
    log_p = torch.log_softmax(normal(5, 4, seed=4), dim=1).requires_grad_()
    assert gradcheck(lambda log_p: eq.kl_divergence(q, log_p), (log_p,))
    assert gradcheck(lambda z, centres: eq.kl_divergence(q, eq.log_assignment(z, centres), "nk"), on_centres())


def test_gradients_of_eq_6_through_both_views() -> None:
    z, centres = on_centres()
    other = normal(5, 3, seed=5).requires_grad_()
    q = eq.target(eq.assignment(z, centres).detach())

    def loss(z: Tensor, other: Tensor, centres: Tensor) -> Tensor:
        return eq.objective(q, eq.log_assignment(z, centres), eq.assignment(other, centres), weight=0.7).loss

    assert gradcheck(loss, (z, other, centres))


def test_the_gradient_is_zero_on_a_lone_centre() -> None:
    for dtype in (torch.float32, torch.float64):
        z = torch.full((1, 3), 0.1, dtype=dtype, requires_grad=True)
        centres = torch.full((1, 3), 0.1, dtype=dtype, requires_grad=True)
        eq.squared_distances(z, centres).sum().backward()
        assert z.grad is not None
        assert centres.grad is not None
        assert z.grad.abs().max() == centres.grad.abs().max() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1.0, 1e6, 1e15])
@pytest.mark.parametrize(("n", "k", "d"), [(1, 1, 1), (1, 7, 3), (9, 1, 3), (9, 7, 30)])
def test_eq_1_to_3_stay_finite(n: int, k: int, d: int, scale: float, dtype: torch.dtype) -> None:
    z = (scale * normal(n, d, dtype=dtype)).requires_grad_()
    centres = (scale * normal(k, d, seed=1, dtype=dtype)).requires_grad_()
    log_p = eq.log_assignment(z, centres)
    q = eq.target(log_p.exp().detach())
    loss = eq.objective(q, log_p, torch.full_like(q, 1 / k), weight=1).loss
    loss.backward()
    for value in (log_p, q, loss, z.grad, centres.grad):
        assert value is not None
        assert torch.isfinite(value).all()
        assert value.dtype == dtype
    torch.testing.assert_close(q.sum(dim=1), torch.ones(n, dtype=dtype))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 30.0, 1e6])
def test_float32_is_close_to_float64(scale: float) -> None:
    z, centres = (scale * normal(200, 20, dtype=torch.float32)), scale * normal(15, 20, seed=1, dtype=torch.float32)
    p32, p64 = eq.assignment(z, centres), eq.assignment(z.double(), centres.double())
    torch.testing.assert_close(p32.double(), p64, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(eq.target(p32).double(), eq.target(p64), rtol=1e-3, atol=1e-6)
    loss32 = eq.objective(eq.target(p32), p32.log(), p32.flip(1), weight=10).loss
    loss64 = eq.objective(eq.target(p64), p64.log(), p64.flip(1), weight=10).loss
    torch.testing.assert_close(loss32.double(), loss64, rtol=1e-4, atol=1e-6)


def test_a_large_common_offset_costs_float32_nothing() -> None:
    # Eighths below 4 plus 2^16 are exact in float32, so that only the formula could lose digits. It would lose all.
    z = (normal(50, 8) * 8).clamp(-32, 31).round().float() / 8
    centres = (normal(6, 8, seed=1) * 8).clamp(-32, 31).round().float() / 8
    moved = eq.assignment(z + 2**16, centres + 2**16)
    torch.testing.assert_close(moved, eq.assignment(z, centres), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_on_far_centres_have_no_negative_distance(dtype: torch.dtype) -> None:
    centres = (1e4 * normal(30, 10, dtype=dtype)).requires_grad_()
    z = centres.detach().clone().requires_grad_()
    assert (eq.squared_distances(z, centres) >= 0).all()
    log_p = eq.log_assignment(z, centres)
    assert (log_p.argmax(dim=1) == torch.arange(30)).all()
    torch.autograd.backward(log_p.diagonal().sum())
    assert z.grad is not None
    assert torch.isfinite(log_p).all()
    assert torch.isfinite(z.grad).all()


def test_certainty_without_infinity() -> None:
    # p rounds to 0 and its logarithm is -inf: the divergence ignores it where q is 0, and so does its gradient.
    log_p = torch.tensor([[0.0, -torch.inf]], requires_grad=True)
    loss = eq.kl_divergence(torch.tensor([[1.0, 0.0]]), log_p)
    loss.backward()
    assert loss == 0
    assert log_p.grad is not None
    assert log_p.grad.tolist() == [[-1, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_eq_3_of_tiny_and_missing_masses(dtype: torch.dtype) -> None:
    tiny = 1e-30  # its square is 0 in float32
    p = torch.tensor([[1 - tiny, tiny, 0], [1, 0, 0], [0, 0, 0]], dtype=dtype)
    q = eq.target(p)
    # Row 1: 1/2 : tiny^2 / tiny.
    expected = torch.tensor([[1, 2 * tiny, 0], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3]], dtype=dtype)
    torch.testing.assert_close(q, expected, rtol=1e-6, atol=0)


def test_silhouette_of_float32_of_duplicates_and_of_one_place() -> None:
    x, labels = normal(60, 5, dtype=torch.float32) + 1000, torch.arange(60) % 3
    values = eq.silhouette_samples(x, labels)
    assert values.dtype == torch.float64
    torch.testing.assert_close(values, eq.silhouette_samples(x.double(), labels))
    torch.testing.assert_close(values, eq.silhouette_samples(x.numpy(), labels.tolist()))
    # Two places, each its own cluster: a = 0, b > 0. One place only: a = b = 0.
    places = normal(2, 5)[torch.arange(10) % 2]
    assert (eq.silhouette_samples(places, torch.arange(10) % 2) == 1).all()
    assert (eq.silhouette_samples(normal(1, 5).expand(10, 5), torch.arange(10) % 2) == 0).all()


class LargestTensor(TorchDispatchMode):
    """Remember the largest memory, in elements, behind any tensor that is made while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(item, Tensor):
                self.elements = max(self.elements, item.untyped_storage().nbytes() // item.element_size())
        return result


def test_eq_1_makes_nothing_of_n_by_k_by_d() -> None:
    n, k, d = 300, 40, 50
    z, centres = normal(n, d).requires_grad_(), normal(k, d, seed=1).requires_grad_()
    with LargestTensor() as largest:
        eq.log_assignment(z, centres).square().sum().backward()
    assert n * k <= largest.elements <= n * d  # (N, K) and (N, d) are needed, N K d would be 40 times more


def test_eq_8_makes_nothing_of_n_by_n() -> None:
    n, chunk = 400, 20
    x, labels = normal(n, 8), torch.arange(n) % 5
    x[1::2] = x[::2]  # duplicates take the other way to the distances
    with LargestTensor() as largest:
        eq.silhouette_samples(x, labels, chunk)
    assert n * chunk <= largest.elements < n * n / 4


def wrong(message: str) -> Any:
    return pytest.raises(UsageError, match=message)


def test_values_out_of_range_are_named() -> None:
    p = torch.full((3, 2), 0.5)
    with wrong(r"alpha=0 should be > 0"):
        eq.assignment(p, p, alpha=0)
    with wrong(r"beta=1 should be in \[0, 1\)"):
        eq.ensemble(p, p, beta=1)
    with wrong(r"beta=-0.1"):
        eq.corrected(p, beta=-0.1, t=1)
    with wrong(r"t=0 should be >= 1"):
        eq.corrected(p, beta=0.6, t=0)
    with wrong(r"epoch=-1"):
        eq.omega(-1, 5)
    with wrong(r"Unknown normalisation 'k'.*Valid: n, nk"):
        eq.kl_divergence(p, p.log(), "k")  # type: ignore[arg-type]
    with wrong(r"Unknown reduction 'max'"):
        eq.silhouette(p, [0, 0, 1], reduction="max")  # type: ignore[arg-type]
    with wrong(r"chunk=0"):
        eq.silhouette(p, [0, 0, 1], chunk=0)


def test_shapes_that_do_not_go_together_are_not_broadcast() -> None:
    p = torch.full((3, 2), 0.5)
    with wrong(r"\(3, 2\) and centres of shape \(4, 5\)"):
        eq.assignment(p, torch.zeros(4, 5))
    with wrong(r"q of shape \(1, 2\) and log_p of shape \(3, 2\)"):
        eq.kl_divergence(p[:1], p.log())
    with wrong(r"previous of shape \(3, 1\)"):
        eq.ensemble(p[:, :1], p, beta=0.6)
    with wrong(r"p_other of shape \(2,\)"):
        eq.consistency(p, p[0])
    with wrong(r"mass of shape \(3,\)"):
        eq.target(p, mass=torch.ones(3))
    with wrong(r"\(0, 2\)"):
        eq.objective(p[:0], p[:0].log())
    with wrong(r"2 labels and truth has 3"):
        eq.clustering_accuracy([0, 1], [0, 1, 1])
    with wrong(r"0 labels"):
        eq.matching([], [])
    with wrong(r"float64"):
        eq.clustering_accuracy(np.array([0.5, 1.0]), [0, 1])
    with wrong(r"does not go with 2 labels"):
        eq.silhouette(p, [0, 1])


@pytest.mark.parametrize("labels", [[4, 4, 4, 4], [0, 1, 2, 3]])
def test_silhouette_is_undefined_for_one_cluster_and_for_n(labels: list[int]) -> None:
    with wrong(rf"4 samples is undefined for {len(set(labels))} clusters: 2 to 3"):
        eq.silhouette(torch.arange(4.0)[:, None], labels)
