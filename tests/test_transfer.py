"""Transfer: whitening by hand, the loss by hand, what is chosen on hidden kinds, and what becomes of odd data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from newkinds import memory
from newkinds.errors import OutOfMemoryError
from newkinds.settings.transfer import Transfer as TransferSettings
from newkinds.transfer import (
    choose,
    from_tensors,
    learn_transfer,
    leave_one_out_loss,
    principal,
    share_of_kind,
    to_tensors,
    whitening,
)


def kinds_with_noise(
    kinds: int, each: int, seed: int, noise: float = 3.0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return kinds that differ in 6 directions, and vary far more inside kinds in 6 others that are always the same."""
    random = np.random.default_rng(seed)
    means = np.concatenate([random.normal(size=(kinds, 6)), np.zeros((kinds, 6))], axis=1)
    labels = np.repeat(np.arange(kinds), each)
    spread = np.array([0.3] * 6 + [noise] * 6)
    points = means[labels] + random.normal(size=(len(labels), 12)) * spread + 4
    return points.astype(np.float32), labels


def test_whitening_by_hand() -> None:
    # Two kinds at x = 0 and 10, each with points at y = +-2 and x = +-1: inside kinds the variance is 4/3 and 16/3.
    points = np.array([[-1, 0], [1, 0], [0, 2], [0, -2], [9, 0], [11, 0], [10, 2], [10, -2]], dtype=np.float64)
    labels = np.repeat([0, 1], 4)
    inside = np.array([2 * 2 / 6, 2 * 8 / 6])  # sums of squares over 8 points less 2 kinds
    matrix = whitening(points, labels, 1e-12)
    np.testing.assert_allclose(matrix @ matrix.T, np.diag(1 / inside), rtol=1e-6)
    # Shrunk all the way, W is a sphere, and nothing turns or stretches but by one number.
    sphere = whitening(points, labels, 1.0)
    np.testing.assert_allclose(sphere @ sphere.T, np.eye(2) / inside.mean(), rtol=1e-9)


def test_the_loss_by_hand() -> None:
    # Two kinds of two pictures each, at right angles: own prototype at cosine 1, the other at 0.
    z = torch.tensor([[2.0, 0], [1, 0], [0, 3], [0, 1]])
    labels = torch.tensor([0, 0, 1, 1])
    assert leave_one_out_loss(z, labels, 0.5).item() == pytest.approx(math.log(1 + math.exp(-2)))


def test_the_own_prototype_is_made_without_the_picture() -> None:
    z = torch.tensor([[1.0, 0], [0, 1.0], [-1, 0], [0, -1.0]])
    labels = torch.tensor([0, 0, 1, 1])
    # Picture 0 is at cosine 0 of the other of its kind, and at -1 / sqrt 2 of the other kind's mean.
    expected = math.log(1 + math.exp(-1 / math.sqrt(2)))
    assert leave_one_out_loss(z, labels, 1.0).item() == pytest.approx(expected, rel=1e-6)


def test_it_finds_what_varies_inside_kinds_and_helps_kinds_it_has_not_seen() -> None:
    features, labels = kinds_with_noise(20, 12, seed=0)
    transfer = learn_transfer(features, labels, TransferSettings())
    assert transfer.chosen != "none"
    *first, one, two, three = transfer.tried
    assert first == ["none", "whiten-0.3", "whiten-0.1", "whiten-0.05"]
    best = max(first, key=lambda way: transfer.tried[way][0])
    assert [one, two, three] == [f"{best}+project-{steps}" for steps in (25, 75, 150)]
    assert transfer.tried[best][0] > transfer.tried["none"][0] + 0.1
    new, truth = kinds_with_noise(10, 12, seed=1)
    moved = transfer(new)
    assert moved.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 1, rtol=1e-5)
    assert share_of_kind(moved, truth) > share_of_kind(new, truth) + 0.1


def test_nothing_is_done_where_nothing_is_to_be_gained() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 10)
    features = (random.normal(size=(12, 8))[labels] + 0.02 * random.normal(size=(120, 8))).astype(np.float32)
    transfer = learn_transfer(features, labels, TransferSettings())
    assert transfer.chosen == "none"  # all ways are perfect, and this is the simplest
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    np.testing.assert_allclose(transfer(features), features / lengths, rtol=1e-5)


@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_few_known_kinds_teach_nothing(kinds: int) -> None:
    features, labels = kinds_with_noise(kinds, 12, seed=0)
    assert learn_transfer(features, labels, TransferSettings()).chosen == "none"


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [("none", "none"), ("whiten", "whiten-0.2"), ("project", "project-3"), ("both", "whiten-0.2+project-3")],
)
def test_a_way_may_be_asked_for(kind: Any, chosen: str) -> None:
    features, labels = kinds_with_noise(3, 6, seed=0)  # too few kinds to choose
    transfer = learn_transfer(features, labels, TransferSettings(kind=kind, steps=(9, 3), shrinkage=(0.1, 0.2)))
    assert (transfer.chosen, transfer.tried) == (chosen, {})
    features, labels = kinds_with_noise(9, 6, seed=0)
    transfer = learn_transfer(features, labels, TransferSettings(kind=kind, steps=(9, 3), shrinkage=(0.1, 0.2)))
    assert [part.partition("-")[0] for part in transfer.chosen.split("+")] == [
        part.partition("-")[0] for part in chosen.split("+")
    ]


def test_shrinkage_follows_the_number_of_pictures() -> None:
    """With few pictures in many dimensions the covariance is noise, and hidden kinds say so."""
    random, width = np.random.default_rng(0), 60
    spread = np.linspace(0.3, 3, width)
    chosen = {}
    for each in (3, 100):
        labels = np.repeat(np.arange(12), each)
        features = random.normal(size=(12, width))[labels] + spread * random.normal(size=(12 * each, width))
        options = TransferSettings(kind="whiten", shrinkage=(0.01, 0.99))
        chosen[each] = learn_transfer(features.astype(np.float32), labels, options).chosen
    assert chosen == {3: "whiten-0.99", 100: "whiten-0.01"}


def test_the_same_seed_gives_the_same_bytes() -> None:
    features, labels = kinds_with_noise(8, 6, seed=0)
    options = TransferSettings(kind="project", steps=(10,))
    first, again, other = (
        to_tensors(learn_transfer(features, labels, options, seed=seed))[0]["matrix"].numpy() for seed in (0, 0, 1)
    )
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_fewer_pictures_than_dimensions_and_pictures_that_are_equal() -> None:
    random = np.random.default_rng(0)
    features = np.repeat(random.normal(size=(5, 40)), 4, axis=0).astype(np.float32)
    labels = np.repeat(np.arange(5), 4)
    for kind in ("whiten", "project"):
        transfer = learn_transfer(features, labels, TransferSettings(kind=kind, steps=(5,)))
        assert np.isfinite(transfer(features)).all()
        assert share_of_kind(transfer(features), labels) > 0.15


def test_it_comes_back_from_tensors() -> None:
    features, labels = kinds_with_noise(8, 6, seed=0)
    transfer = learn_transfer(features, labels, TransferSettings())
    again = from_tensors(*to_tensors(transfer))
    assert again(features).tobytes() == transfer(features).tobytes()
    assert (again.chosen, again.tried) == (transfer.chosen, transfer.tried)


def test_principal_components_keep_what_varies() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(50, 3)) @ random.normal(size=(3, 10))
    mean, basis = principal(points, 8)
    assert basis.shape == (10, 3)  # there are no more
    np.testing.assert_allclose((points - mean) @ basis @ basis.T, points - mean, atol=1e-8)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=5))
def test_the_choice_is_the_best_and_the_simplest_of_equals(rows: list[list[float]]) -> None:
    shares = {f"way {number}": row for number, row in enumerate(rows)}
    chosen = choose(shares)
    assert np.mean(shares[chosen]) >= max(np.mean(row) for row in rows) - 1e-4
    assert choose({"simpler": shares[chosen], **shares}) == "simpler"


def test_wide_features_take_memory_for_their_pictures_only() -> None:
    """Features of 100,000 values have a covariance of 80 GB."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 8)
    features = random.normal(size=(48, 100_000)).astype(np.float32) + random.normal(size=(6, 100_000))[labels]
    found = learn_transfer(features.astype(np.float32), labels, TransferSettings(kind="whiten"))
    assert found.matrix is not None
    assert found.matrix.shape == (100_000, 47)


def test_principal_components_are_the_same_by_either_product() -> None:
    features = np.random.default_rng(0).normal(size=(30, 20)) * np.linspace(1, 3, 20)
    tall, wide = principal(features, 5)[1], principal(np.hstack([features, np.zeros((30, 20))]), 5)[1]
    assert np.abs(wide[20:]).max() < 1e-12
    np.testing.assert_allclose(np.abs(np.diag(tall.T @ wide[:20])), 1, atol=1e-9)


def test_features_that_stay_as_they_are_keep_no_matrix() -> None:
    features, labels = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32), np.arange(20) % 5
    found = learn_transfer(features, labels, TransferSettings(kind="none"))
    again = from_tensors(*to_tensors(found))
    assert found.matrix is None
    assert again.matrix is None
    np.testing.assert_allclose(again(features), features / np.linalg.norm(features, axis=1, keepdims=True), atol=1e-6)


def test_features_that_do_not_fit_into_memory_are_refused_before_they_are_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: (1_000_000, "the machine"))
    features, labels = np.ones((1000, 64), np.float32), np.arange(1000) % 10
    with pytest.raises(OutOfMemoryError, match="1,000 known features of 64 numbers takes 2 MB"):
        learn_transfer(features, labels, TransferSettings())
    assert learn_transfer(features, labels, TransferSettings(kind="none")).chosen == "none"
