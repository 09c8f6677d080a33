"""Random numbers that depend on their names only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from newkinds.randomness import generator, key, one_thread, seeded_torch, uniforms


def items(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def test_key_is_the_same_in_every_process_and_release() -> None:
    # Fixed values: runs on disk are continued with the numbers they were begun with.
    assert key(0, "order of discover", 3) == 9258352411161178856
    assert uniforms(0, "augment", 2, items(5), 2)[0].tolist() == [0.6276558494009535, 0.9828387713485887]


@settings(deadline=None)
@given(st.integers(-(2**63), 2**64), st.text(max_size=10), st.lists(st.integers(0, 10**9), max_size=3))
def test_key_is_pure_and_fits_64_bits(seed: int, purpose: str, indices: list[int]) -> None:
    assert key(seed, purpose, *indices) == key(seed, purpose, *indices)
    assert 0 <= key(seed, purpose, *indices) < 2**64


def test_key_differs_by_every_argument() -> None:
    keys = [
        key(seed, purpose, *indices)
        for seed in (0, 1, 11)
        for purpose in ("a", "b", "a1")
        for indices in ((), (0,), (1,), (1, 1), (11,), (0, 0))
    ]
    assert len(set(keys)) == len(keys) == 54


def test_generator_is_fresh_each_time() -> None:
    first, second = generator(0, "probes", 4), generator(0, "probes", 4)
    assert first is not second
    assert first.integers(10**9, size=8).tolist() == second.integers(10**9, size=8).tolist()
    assert generator(0, "probes", 4).random() != generator(0, "probes", 5).random()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=20), st.integers(1, 5), st.integers(0, 10**6))
def test_uniforms_do_not_depend_on_the_batch(numbers: list[int], columns: int, seed: int) -> None:
    together = uniforms(seed, "augment", 7, items(*numbers), columns)
    assert together.shape == (len(numbers), columns)
    assert together.dtype == np.float64
    alone = np.concatenate([uniforms(seed, "augment", 7, items(number), columns) for number in numbers])
    assert (together == alone).all()
    backwards = uniforms(seed, "augment", 7, items(*reversed(numbers)), columns)
    assert (together[::-1] == backwards).all()
    # More columns add numbers and change none.
    assert (uniforms(seed, "augment", 7, items(*numbers), columns + 3)[:, :columns] == together).all()


def test_uniforms_differ_by_every_argument() -> None:
    some = items(*range(100))
    rows = [
        uniforms(seed, purpose, epoch, some, 4, view)
        for seed in (0, 1)
        for purpose in ("a", "b")
        for epoch in (0, 1)
        for view in (0, 1)
    ]
    assert len(np.unique(np.concatenate(rows).ravel())) == 16 * 400


def test_uniforms_are_uniform_and_independent() -> None:
    values = uniforms(3, "augment", 0, np.arange(20_000, dtype=np.int64), 4)
    assert 0 <= values.min() < 1e-3
    assert 1 - 1e-3 < values.max() < 1
    counts = np.stack([np.histogram(column, bins=10, range=(0, 1))[0] for column in values.T])
    chi_squared = ((counts - 2000) ** 2 / 2000).sum(axis=1)
    assert (chi_squared < 33.7).all()  # 9 degrees of freedom: one in 10,000 is above
    # Between columns and between neighbouring items: four standard deviations of a correlation of 20,000.
    assert np.abs(np.corrcoef(values.T) - np.eye(4)).max() < 4 / np.sqrt(20_000)
    neighbours = [np.corrcoef(column[:-1], column[1:])[0, 1] for column in values.T]
    assert np.abs(neighbours).max() < 4 / np.sqrt(20_000)
    # And between the views and the epochs of the same items.
    for other in (
        uniforms(3, "augment", 0, np.arange(20_000), 4, view=1),
        uniforms(3, "augment", 1, np.arange(20_000), 4),
    ):
        assert abs(np.corrcoef(values.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(80_000)


def test_uniforms_of_nothing() -> None:
    assert uniforms(0, "augment", 0, items(), 3).shape == (0, 3)
    assert uniforms(0, "augment", 0, items(1, 2), 0).shape == (2, 0)


def test_global_generators_are_left_alone() -> None:
    torch_before, numpy_before = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    generator(0, "probes").random(10)
    uniforms(0, "augment", 0, items(1, 2), 3)
    with seeded_torch(0, "weights"):
        torch.randn(10)
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert str(np.random.get_state()) == numpy_before  # noqa: NPY002


def test_seeded_torch_depends_on_its_arguments_only() -> None:
    def draw(seed: int, purpose: str, *indices: int) -> list[float]:
        with seeded_torch(seed, purpose, *indices):
            return torch.nn.Linear(3, 2).weight.flatten().tolist()

    first = draw(0, "weights")
    torch.rand(5)
    assert draw(0, "weights") == first
    assert draw(1, "weights") != first
    assert draw(0, "head") != first
    assert draw(0, "weights", 1) != first


def test_seeded_torch_restores_after_an_error() -> None:
    def fail() -> None:
        with seeded_torch(0, "weights"):
            torch.rand(1)
            raise ZeroDivisionError

    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.equal(torch.get_rng_state(), before)


def test_one_thread_holds_inside_and_is_undone() -> None:
    def fail() -> None:
        with one_thread():
            assert torch.get_num_threads() == 1
            assert all(pool["num_threads"] == 1 for pool in threadpool_info() if pool["user_api"] == "blas")
            raise ZeroDivisionError

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError):
            fail()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
