"""PIM: the loss by hand, what it finds, how it comes back from a file, and what it refuses."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from blobs import KNOWN, NEW, heap, rightly_named
from numpy.typing import NDArray
from sklearn.datasets import make_blobs

from newkinds.configure import make_settings
from newkinds.equations import clustering_accuracy
from newkinds.errors import NumericsError, UsageError
from newkinds.features import apply
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem
from newkinds.methods.pim import CosineHead, mixed_pim_loss, pim, pim_loss
from newkinds.methods.registry import HEADS, METHODS
from newkinds.networks import build_network
from newkinds.networks.files import model_from_bytes, model_to_bytes


def blobs(n: int = 90, kinds: int = 3, spread: float = 1.0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    points, labels = make_blobs(n, 8, centers=kinds, cluster_std=spread, random_state=0)
    return points.astype(np.float32), labels.astype(np.int64)


def problem(points: NDArray[np.float32], kinds: int = 3, **changes: Any) -> Problem:
    images = ImageSet(points, tuple(map(str, range(len(points)))), None, (), "made up", "no mark")
    settings = make_settings({"method": "pim", "pim": {"steps": 60, **changes}})
    f = build_network("identity", points.shape[1], 1, seed=0)
    return Problem(f, images, settings, unsorted=images, kinds=kinds, features=points)


def test_the_loss_by_hand() -> None:
    # Two pictures that are sure of two kinds: no entropy each, log 2 in the mean.
    sure = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).clamp_min(1e-30).log()
    assert pim_loss(sure, 0.5).item() == pytest.approx(-math.log(2))
    # Two that know nothing: log 2 each, log 2 in the mean.
    flat = torch.full((2, 2), math.log(0.5))
    assert pim_loss(flat, 0.5).item() == pytest.approx(-0.5 * math.log(2))
    # Two that are sure of the same kind: no entropy anywhere.
    same = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).clamp_min(1e-30).log()
    assert pim_loss(same, 0.5).item() == pytest.approx(0, abs=1e-6)


def test_kinds_far_apart_are_found_and_told_again() -> None:
    points, truth = blobs()
    given = problem(points)
    found = pim(given)
    assert clustering_accuracy(found.assignment.labels, truth) == 1.0
    assert found.assignment.columns == ("new:0", "new:1", "new:2")
    assert found.assignment.probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert found.model is not None
    assert np.exp(apply(found.model, given.unsorted)) == pytest.approx(found.assignment.probabilities, abs=1e-6)


def test_steps_make_the_loss_smaller_and_pictures_surer() -> None:
    points, _ = blobs(spread=6.0)
    losses, sure = [], []
    for steps in (0, 200):
        found = pim(problem(points, steps=steps))
        assert found.model is not None
        losses.append(pim_loss(torch.from_numpy(found.assignment.probabilities).log(), 0.5).item())
        sure.append(found.assignment.probability.mean())
    assert losses[1] < losses[0] - 0.02
    assert sure[1] > sure[0]


def test_a_small_weight_holds_kinds_to_the_same_size() -> None:
    points, _ = make_blobs([120, 15, 15], 8, cluster_std=6.0, random_state=1)
    even, free = (
        pim(problem(points.astype(np.float32), sureness=sureness, steps=300)).assignment.sizes
        for sureness in (0.05, 1.0)
    )
    assert even.max() - even.min() < free.max() - free.min()


@pytest.mark.parametrize(("mixed", "same"), [(False, 0.5), (True, 0.2)])
def test_the_weight_depends_on_the_heap(mixed: bool, same: float) -> None:
    found = [
        pim(heap("pim", {"pim": {"steps": 20, **changes}}, mixed=mixed, spread=2.0)[0]).assignment.probabilities
        for changes in ({}, {"sureness": same}, {"sureness": 0.9})
    ]
    assert found[0].tobytes() == found[1].tobytes() != found[2].tobytes()


def test_the_same_seed_gives_the_same_bytes_and_f_is_left_alone() -> None:
    points, _ = blobs(spread=4.0)
    state = torch.get_rng_state()
    first, again = (pim(problem(points)).assignment.probabilities.tobytes() for _ in range(2))
    assert first == again
    assert torch.equal(torch.get_rng_state(), state)


def test_its_head_comes_back_from_a_file() -> None:
    points, _ = blobs()
    given = problem(points, scale=10.0)
    model = pim(given).model
    assert model is not None
    again, _, about = model_from_bytes(model_to_bytes(model, {}), "here", HEADS)
    assert isinstance(again.head, CosineHead)
    assert (about["head"], about["scale"], again.head.scale) == ("cosine", 10.0, 10.0)
    assert apply(again, given.unsorted).tobytes() == apply(model, given.unsorted).tobytes()


def test_a_loss_that_is_not_finite_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    points, _ = blobs()
    monkeypatch.setattr(
        import_module("newkinds.methods.pim"), "pim_loss", lambda log_p, sureness: log_p.sum() * math.inf
    )
    with pytest.raises(NumericsError, match=r"step 0 .* Lower pim\.learning_rate"):
        pim(problem(points, steps=5))


def test_too_many_kinds() -> None:
    points, _ = blobs(n=5)
    with pytest.raises(UsageError, match=r"6 kinds .* 5 unsorted"):
        pim(problem(points, kinds=6))


def test_it_is_registered() -> None:
    assert METHODS["pim"].run is pim


# Mixed heaps


def test_the_mixed_loss_by_hand() -> None:
    # An unsorted picture that knows nothing, and a labelled one that is 3/4 sure of its kind.
    log_p = torch.tensor([[0.5, 0.5], [0.75, 0.25]]).log()
    of_mean = -(0.625 * math.log(0.625) + 0.375 * math.log(0.375))
    found = mixed_pim_loss(log_p, torch.tensor([0]), 0.3)
    assert found.item() == pytest.approx(0.3 * math.log(2) - of_mean - math.log(0.75))


def test_known_and_new_kinds_of_a_mixed_heap_are_found() -> None:
    given, columns = heap("pim", {"pim": {"steps": 60}})
    found = pim(given)
    assert found.assignment.columns == given.columns
    assert len(given.columns) == NEW + KNOWN
    assert rightly_named(found.assignment.labels, columns) == 1.0
    assert found.model is not None
    assert (apply(found.model, given.known).argmax(axis=1) == NEW + given.known.labels).all()
