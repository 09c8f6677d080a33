"""GCD and SimGCD: what they find in both kinds of heap, what training does, and how it goes on from a checkpoint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from blobs import KNOWN, NEW, Checkpoints, heap, rightly_named

from newkinds.features import apply
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem
from newkinds.methods.registry import HEADS, METHODS
from newkinds.methods.simgcd import SimGcd, SimGcdTask, distillation, unevenness
from newkinds.networks import build_network
from newkinds.networks.files import model_from_bytes, model_to_bytes
from newkinds.training import Record

BOTH = ("gcd", "simgcd")
SHORT: dict[str, Any] = {"epochs": 3, "batch_size": 32, "restarts": 3, "projection": (16, 8)}


def short(method: str, mixed: bool = True, **changes: Any) -> tuple[Problem, Any]:
    return heap(method, {method: {**SHORT, **changes}}, mixed=mixed)


@pytest.mark.parametrize("method", BOTH)
@pytest.mark.parametrize("mixed", [True, False])
def test_known_and_new_kinds_are_found(method: str, mixed: bool) -> None:
    problem, columns = short(method, mixed)
    found = METHODS[method].run(problem)
    assert rightly_named(found.assignment.labels, columns) == 1.0
    assert found.assignment.columns == problem.columns
    assert len(problem.columns) == NEW + (KNOWN if mixed else 0)
    assert found.assignment.probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert found.model is not None
    assert np.exp(apply(found.model, problem.unsorted)) == pytest.approx(found.assignment.probabilities, abs=1e-6)
    named = apply(found.model, problem.known).argmax(axis=1)
    if mixed:
        assert (named == NEW + problem.known.labels).all()  # type: ignore[operator]


@pytest.mark.parametrize("method", BOTH)
def test_a_run_that_goes_on_ends_with_the_same_bytes(method: str) -> None:
    whole, records = Checkpoints(), []
    state = torch.get_rng_state()

    def run(checkpoints: Checkpoints, log: list[Record]) -> bytes:
        problem, _ = heap(method, {method: SHORT}, checkpoints=checkpoints, log=log.append, spread=1.5)
        return METHODS[method].run(problem).assignment.probabilities.tobytes()

    first = run(whole, records)
    assert [epoch for epoch, _ in whole.kept] == [1, 2]
    rest: list[Record] = []
    assert run(Checkpoints(whole.kept[:1]), rest) == first
    assert rest == records[1:]
    assert {record["stage"] for record in records} == {method}
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("method", BOTH)
def test_training_lowers_the_loss(method: str) -> None:
    records: list[Record] = []
    steady = {"first_target_sharpness": 0.04} if method == "simgcd" else {}  # targets that do not sharpen meanwhile
    changes = {**SHORT, **steady, "epochs": 15, "learning_rate": 0.01}
    problem, _ = heap(method, {method: changes}, log=records.append, spread=1.0)
    METHODS[method].run(problem)
    assert records[-1]["loss"] < records[0]["loss"] - 0.05


@pytest.mark.parametrize("method", BOTH)
@pytest.mark.parametrize("mixed", [True, False])
def test_a_network_is_trained_on_views_of_pictures_and_f_is_left_alone(method: str, mixed: bool) -> None:
    random = np.random.default_rng(0)

    def pictures(kinds: list[int], name: str) -> ImageSet:
        labels = np.repeat(np.arange(len(kinds)), 6)
        pixels = random.integers(0, 60, (len(labels), 1, 8, 8), dtype=np.uint8)
        for picture, label in zip(pixels, labels, strict=True):
            picture[0, kinds[label]] += 150
        names = tuple(f"{name}-{i}" for i in range(len(labels)))
        return ImageSet(pixels, names, labels, tuple(map(str, kinds)), "made up", name)

    known = pictures([0, 4], "known")
    unsorted = pictures([0, 4, 2, 6] if mixed else [2, 6], "heap")
    network = build_network("vgg6-4-2-slim", 1, 8, 0)
    network.normalise_by(known.pixels)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    problem, _ = short(method, epochs=2)
    novelty = np.full(len(unsorted), 0.5, dtype=np.float32) if mixed else None
    features = apply(network, unsorted)
    given = Problem(network, known, problem.settings, unsorted=unsorted, kinds=2, features=features, novelty=novelty)
    found = METHODS[method].run(given)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert found.model is not None
    assert found.model.network is not network
    trained = found.model.network.state_dict()
    assert any(not torch.equal(value, before[name]) for name, value in trained.items() if "weight" in name)
    assert found.features is not None
    np.testing.assert_allclose(found.features, apply(found.model.network, unsorted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", BOTH)
def test_its_head_comes_back_from_a_file(method: str) -> None:
    problem, _ = short(method)
    model = METHODS[method].run(problem).model
    assert model is not None
    again, _, _ = model_from_bytes(model_to_bytes(model, {}), "here", HEADS)
    assert apply(again, problem.unsorted).tobytes() == apply(model, problem.unsorted).tobytes()


# SimGCD's own losses


def test_distillation_by_hand() -> None:
    # One picture: views that differ by log 3 in their first logit, both temperatures 1.
    three = math.log(3)
    logits = torch.tensor([[three, 0.0], [0.0, 0.0]])
    # Targets swap: (1/2, 1/2) for the first view, whose p is (3/4, 1/4), and (3/4, 1/4) for the second's (1/2, 1/2).
    first = -(math.log(3 / 4) + math.log(1 / 4)) / 2
    assert distillation(logits, 1.0, 1.0).item() == pytest.approx((first + math.log(2)) / 2)


def test_no_gradient_flows_through_targets() -> None:
    logits = torch.tensor([[0.3, 0.0], [0.1, 0.2]], requires_grad=True)
    distillation(logits, 0.1, 0.05).backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    p = torch.softmax(logits.detach() / 0.1, dim=1)
    q = torch.softmax(logits.detach() / 0.05, dim=1).flip(0)
    assert torch.allclose(logits.grad, (p - q) / 0.1 / 2, atol=1e-5)


def test_unevenness_by_hand() -> None:
    even = torch.tensor([[1000.0, 0.0], [0.0, 1000.0]])
    assert unevenness(even, 1.0).item() == pytest.approx(0, abs=1e-6)
    assert unevenness(even[:1].repeat(2, 1), 1.0).item() == pytest.approx(math.log(2))
    # (3/4, 1/4) and (1/4, 3/4): even in the mean, however unsure each is.
    unsure = torch.tensor([[math.log(3), 0.0], [0.0, math.log(3)]])
    assert unevenness(unsure, 1.0).item() == pytest.approx(0, abs=1e-6)


def test_targets_sharpen_and_then_stay() -> None:
    problem, _ = short("simgcd")
    task = SimGcdTask(problem, SimGcd(epochs=200), np.eye(5, 8, dtype=np.float32))
    assert [round(task.target_sharpness(epoch), 4) for epoch in (0, 15, 30, 199)] == [0.07, 0.055, 0.04, 0.04]


def test_all_losses_are_summed_by_their_weights() -> None:
    problem, _ = short("simgcd")
    task = SimGcdTask(problem, SimGcd(supervised=0.25, mean_entropy=3.0), np.eye(5, 8, dtype=np.float32))
    items = task.batches(0)[0]
    found = {k: v.item() for k, v in task.losses(task.module(task.inputs(items, 0)), items, 0).items()}
    unsupervised = found["distillation"] + 3 * found["unevenness"] + found["views"]
    assert found["loss"] == pytest.approx(0.75 * unsupervised + 0.25 * (found["labels"] + found["kinds"]), rel=1e-5)


def test_in_a_heap_of_new_kinds_unsorted_pictures_have_no_part_in_known_ones() -> None:
    problem, _ = short("simgcd", mixed=False)
    # Prototypes that put every picture into the first known kind, were it possible.
    first = np.zeros((5, 8), dtype=np.float32)
    first[:, 0] = [-1, -1, 1, -1, -1]
    task = SimGcdTask(problem, SimGcd(), first)
    items = np.array([0, 1])  # unsorted alone, beside a labelled one that the loss of labels needs
    outputs = torch.cat([torch.eye(2, 8).repeat(2, 1), torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]).repeat(4, 1)], dim=1)
    items = np.array([0, len(problem.unsorted)])
    found = task.losses(outputs, items, 0)
    # The unsorted rows share the two new kinds evenly: their cross-entropy is log 2; the labelled ones are sure.
    sure = -math.log(1 / (1 + 4 * math.exp(-10)))
    assert found["distillation"].item() == pytest.approx((math.log(2) + sure) / 2, rel=1e-3)


def test_prototypes_may_begin_at_random() -> None:
    problem, _ = short("simgcd", start="random", epochs=0)
    found = METHODS["simgcd"].run(problem)
    again = METHODS["simgcd"].run(problem)
    assert found.assignment.probabilities.tobytes() == again.assignment.probabilities.tobytes()
