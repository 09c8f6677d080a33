"""KCL and MCL: their losses on paper and in plain loops, and the kinds that they find."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from newkinds.configure import Settings
from newkinds.equations import clustering_accuracy
from newkinds.errors import DataError, UsageError
from newkinds.features import apply, model_outputs
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem, Solution
from newkinds.methods.pairwise.clustering import PairsTask, TaughtNetwork, kcl, kcl_loss, large_kinds, mcl, mcl_loss
from newkinds.methods.pairwise.similarity import SimilarityNetwork
from newkinds.networks import Model, SoftmaxHead, build_network
from newkinds.randomness import one_thread
from newkinds.training import Record

METHODS = {"kcl": kcl, "mcl": mcl}
KNOWN, NEW, EACH = 40, 4, 15
PLACES = np.random.default_rng(5).normal(0, 1, (KNOWN + NEW, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


# The losses


def contrast(p: list[list[float]], same: list[list[bool]], margin: float) -> float:
    """Return KCL's loss, pair after pair."""
    total = 0.0
    for i, first in enumerate(p):
        for j, second in enumerate(p):
            divergence = sum(b * math.log(b / a) for a, b in zip(first, second, strict=True))
            total += divergence if same[i][j] else max(0.0, margin - divergence)
    return total / len(p) ** 2


def likelihood(p: list[list[float]], same: list[list[bool]]) -> float:
    """Return MCL's loss, pair after pair."""
    total = 0.0
    for i, first in enumerate(p):
        for j, second in enumerate(p):
            s = sum(a * b for a, b in zip(first, second, strict=True))
            total -= math.log(s) if same[i][j] else math.log(1 - s)
    return total / len(p) ** 2


P = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=torch.float64)
FORWARD = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)  # KL(p_1 || p_0), the pair (0, 1)
BACKWARD = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(2)  # KL(p_0 || p_1), the pair (1, 0)


def test_kcl_by_hand() -> None:
    same = torch.tensor([[True, True], [False, True]])
    assert kcl_loss(P.log(), same, 2.0).item() == pytest.approx((FORWARD + 2 - BACKWARD) / 4)
    assert kcl_loss(P.log(), same, 0.1).item() == pytest.approx(FORWARD / 4)  # they diverge enough: by 0.14


def test_mcl_by_hand() -> None:
    # s is 1/2 of the first with either, and 9/16 + 1/16 = 5/8 of the second with itself.
    same = torch.tensor([[True, True], [False, True]])
    assert mcl_loss(P.log(), same).item() == pytest.approx((3 * math.log(2) + math.log(8 / 5)) / 4)
    same = torch.tensor([[True, True], [False, False]])
    assert mcl_loss(P.log(), same).item() == pytest.approx((3 * math.log(2) + math.log(8 / 3)) / 4)


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 5))
def test_the_losses_are_those_of_plain_loops(seed: int, batch: int, kinds: int) -> None:
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(kinds), batch)
    same = random.random((batch, batch)) < 0.5  # not symmetric: nor are the teacher's answers
    log_p, answers = torch.from_numpy(p).log(), torch.from_numpy(same)
    margin = float(random.uniform(0.1, 3))
    assert kcl_loss(log_p, answers, margin).item() == pytest.approx(contrast(p.tolist(), same.tolist(), margin))
    assert mcl_loss(log_p, answers).item() == pytest.approx(likelihood(p.tolist(), same.tolist()))


def test_kcl_s_target_gets_no_gradient() -> None:
    # One pair, (0, 1), is counted: of one kind while all others are too far apart to cost anything. The gradient of
    # KL(p_1* || p_0) by the logits of picture 0 is (p_0 - p_1) / 4, and picture 1 is left alone.
    logits = P.log().requires_grad_()
    same = torch.tensor([[True, True], [False, True]])
    kcl_loss(torch.log_softmax(logits, dim=1), same, 1e-9).backward()
    assert logits.grad is not None
    assert logits.grad[0].numpy() == pytest.approx((P[0] - P[1]).numpy() / 4)
    assert logits.grad[1].numpy() == pytest.approx(np.zeros(2), abs=1e-12)


def test_mcl_s_gradient_is_that_of_differences() -> None:
    logits = torch.from_numpy(np.random.default_rng(0).normal(0, 2, (4, 3))).requires_grad_()
    same = torch.from_numpy(np.random.default_rng(1).random((4, 4)) < 0.5)
    assert torch.autograd.gradcheck(lambda x: mcl_loss(torch.log_softmax(x, dim=1), same), (logits,))


@pytest.mark.parametrize("loss", [lambda log_p, same: kcl_loss(log_p, same, 2.0), mcl_loss])
@pytest.mark.parametrize("gap", [20.0, 300.0, 3000.0])
@pytest.mark.parametrize("answers", ["right", "wrong"])
def test_certainty_costs_no_infinity(loss: Callable[[Tensor, Tensor], Tensor], gap: float, answers: str) -> None:
    logits = torch.tensor([[gap, 0.0, 0.0], [gap, 0.0, 0.0], [0.0, gap, 0.0]], requires_grad=True)  # p is 0 or 1
    same = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    value = loss(torch.log_softmax(logits, dim=1), same if answers == "right" else ~same)
    value.backward()
    assert logits.grad is not None
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()
    assert (value.item() < 1e-6) == (answers == "right")


def test_mcl_parts_pictures_that_are_wrongly_certain_to_be_one() -> None:
    # Beside 1, 1 - s is less than float32 can show: its logarithm still says how to get away.
    logits = torch.tensor([[40.0, 0.0], [40.0, 0.0]], requires_grad=True)
    same = torch.tensor([[True, False], [False, True]])
    mcl_loss(torch.log_softmax(logits, dim=1), same).backward()
    assert logits.grad is not None
    # Of the two pairs, 1 - s = 2 exp(-40): each moves its two logits by a half of its quarter of the loss.
    assert logits.grad.numpy() == pytest.approx(np.array([[0.25, -0.25], [0.25, -0.25]]), abs=1e-5)


# What is found


def points(labels: NDArray[np.int64], seed: int, labelled: bool) -> ImageSet:
    """Embeddings around a place of each kind's own."""
    spread = np.random.default_rng(seed).normal(0, 0.1, (len(labels), PLACES.shape[1]))
    names = tuple(f"{seed}-{i}" for i in range(len(labels)))
    classes = tuple(f"kind {c}" for c in range(KNOWN)) if labelled else ()
    pixels = (PLACES[labels] + spread).astype(np.float32)
    return ImageSet(pixels, names, labels if labelled else None, classes, "made up", "no mark")


def squares(labels: NDArray[np.int64], seed: int, labelled: bool) -> ImageSet:
    """Grey pictures of noise, each kind bright in a corner of its own."""
    pixels = np.random.default_rng(seed).integers(0, 60, (len(labels), 1, 8, 8), dtype=np.uint8)
    for picture, label in zip(pixels, labels, strict=True):
        top, left = divmod(int(label) % 4, 2)
        picture[0, top * 4 : top * 4 + 4, left * 4 : left * 4 + 4] += 150
    names = tuple(f"{seed}-{i}.png" for i in range(len(labels)))
    classes = tuple(map(str, range(int(labels.max()) + 1))) if labelled else ()
    return ImageSet(pixels, names, labels if labelled else None, classes, "made up", "no mark")


TRUTH = np.random.default_rng(0).permutation(np.repeat(np.arange(NEW), EACH))


def blobs(seed: int = 0, kinds: int = NEW, **changes: Any) -> Problem:
    """Four new kinds far apart, beside forty known ones that say what a kind is."""
    known = points(np.repeat(np.arange(KNOWN), 5), seed=1, labelled=True)
    unsorted = points(TRUTH + KNOWN, seed=2, labelled=False)
    values: dict[str, Any] = {
        "seed": seed,
        "kinds": kinds,
        "similarity": {"epochs": 30, "episode_kinds": 10, "learning_rate": 0.03, "milestones": ()},
        "pairs": {"epochs": 25, "batch_size": 30, "learning_rate": 0.03, "milestones": (), **changes.pop("pairs", {})},
    }
    values |= changes.pop("settings", {})
    network = build_network("identity", known.channels, known.size, seed=0)
    return Problem(
        network, known, Settings(**values), unsorted=unsorted, kinds=kinds, features=unsorted.pixels, **changes
    )


def small(seed: int = 0, **changes: Any) -> Problem:
    """A few pictures and a slim network, for what hangs on no result."""
    known = squares(np.repeat(np.arange(2), 4), seed=1, labelled=True)
    unsorted = squares(np.arange(12) % 2 + 2, seed=2, labelled=False)
    values: dict[str, Any] = {"seed": seed, "kinds": 2}
    values["similarity"] = {"epochs": 1, "each": 2, **changes.pop("similarity", {})}
    values["pairs"] = {"epochs": 3, "batch_size": 6, **changes.pop("pairs", {})}
    values |= changes.pop("settings", {})
    network = build_network("vgg6-4-2-slim", 1, 8, seed=0)
    features = np.zeros((12, network.feature_dim), dtype=np.float32)
    return Problem(
        network,
        known,
        Settings(**values),
        unsorted=unsorted,
        kinds=changes.pop("kinds", 2),
        features=features,
        **changes,
    )


@pytest.mark.parametrize("method", list(METHODS))
def test_kinds_far_apart_are_found(method: str) -> None:
    records: list[Record] = []
    made = blobs(truth=TRUTH, log=records.append)
    found = METHODS[method](made)
    assert clustering_accuracy(found.assignment.labels, TRUTH) == 1.0
    assert found.assignment.probabilities.shape == (len(TRUTH), NEW)
    assert found.assignment.probabilities.dtype == np.float32
    assert found.assignment.probabilities.sum(axis=1) == pytest.approx(np.ones(len(TRUTH)), abs=1e-5)
    assert isinstance(found.model, Model)
    assert isinstance(found.model.head, SoftmaxHead)
    assert np.exp(apply(found.model, made.unsorted)) == pytest.approx(found.assignment.probabilities, abs=1e-6)
    assert found.embedding == pytest.approx(model_outputs(found.model, made.unsorted).embedding)
    assert [record["stage"] for record in records] == ["similarity"] * 30 + [method] * 25
    assert records[30]["changed"] == 1.0
    assert records[-1]["changed"] < 0.1
    assert records[-1]["acc"] == 1.0
    assert records[-1]["effective_kinds"] == pytest.approx(NEW)
    assert records[-1]["same"] == pytest.approx(1 / NEW, abs=0.05)
    assert records[-1]["loss"] < records[30]["loss"]


def bits(found: Solution) -> dict[str, bytes]:
    assert found.model is not None
    return {name: value.numpy().tobytes() for name, value in found.model.state_dict().items()}


@pytest.mark.parametrize("start", ["f", "fresh"])
def test_the_same_seed_gives_the_same_result_and_the_truth_is_not_looked_at(start: str) -> None:
    chosen = {"start": start}
    first, again, other = (
        mcl(small(seed, similarity=chosen, pairs=chosen, truth=truth))
        for seed, truth in ((0, None), (0, np.array([0, 1] * 6)), (1, None))
    )
    assert bits(first) == bits(again)
    assert first.assignment.probabilities.tobytes() == again.assignment.probabilities.tobytes()
    assert bits(first)["head.bottleneck.weight"] != bits(other)["head.bottleneck.weight"]


def test_the_first_weights_hang_on_the_seed() -> None:
    first, other = (bits(kcl(small(seed, pairs={"epochs": 0}))) for seed in (0, 1))
    assert first["head.bottleneck.weight"] != other["head.bottleneck.weight"]
    assert first["network.backbone.layers.0.weight"] == other["network.backbone.layers.0.weight"]  # f's
    first, other = (bits(kcl(small(seed, pairs={"epochs": 0, "start": "fresh"}))) for seed in (0, 1))
    assert first["network.backbone.layers.0.weight"] != other["network.backbone.layers.0.weight"]


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_another_precision_is_left_behind(precision: str) -> None:
    found = kcl(small(settings={"precision": precision}))
    assert found.model is not None
    assert {value.dtype for value in found.model.parameters()} == {torch.float32}
    assert found.assignment.probabilities.dtype == np.float32


def test_f_is_left_alone_and_the_teacher_s_weights_too() -> None:
    kept: dict[str, dict[str, Tensor]] = {}
    taken: dict[str, Tensor] = {}

    class Watch(InMemory):
        def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
            taken.update({name: value.clone() for name, value in tensors.items() if stage == "mcl"})

    def keep(name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        return kept.setdefault(name, make())

    made = small(keep=keep, checkpoints=Watch({}))
    before = {name: value.clone() for name, value in made.network.state_dict().items()}
    mcl(made)
    assert all(torch.equal(value, before[name]) for name, value in made.network.state_dict().items())
    learnt = dict(SimilarityNetwork(made.network, 0).named_parameters())
    for name in learnt:
        assert torch.equal(taken[f"module.teacher.{name}"], kept["similarity"][name]), name
    assert not torch.equal(taken["module.student.network.backbone.layers.0.weight"], before["backbone.layers.0.weight"])


def test_both_networks_train_by_the_batch_and_the_teacher_answers_all_pairs() -> None:
    made = small()
    student = Model(made.network, SoftmaxHead(made.network.feature_dim, 2))
    teacher = SimilarityNetwork(build_network("vgg6-4-2-slim", 1, 8, seed=1), seed=0)
    seen: list[Tensor] = []

    def loss(log_p: Tensor, same: Tensor) -> Tensor:
        seen.append(same)
        return log_p.sum()

    task = PairsTask("kcl", TaughtNetwork(student, teacher), loss, made)
    task.set_mode()
    assert all(part.training for part in task.module.modules())
    items = np.array([3, 0, 7, 5])
    inputs = task.inputs(items, 0)
    losses = task.losses(task.module(inputs), items, 0)
    assert torch.equal(seen[0], teacher.same(teacher(inputs)))
    assert losses["same"].item() == pytest.approx(seen[0].double().mean().item())
    assert task.named[items].tolist() == student(inputs).argmax(dim=1).tolist()
    moved = [value for group in task.parameter_groups(made.settings.pairs) for value in group["params"]]
    assert {id(value) for value in moved} == {id(value) for value in student.parameters()}


class InMemory:
    """Checkpoints of every epoch of every stage, in memory."""

    def __init__(self, kept: dict[tuple[str, int], dict[str, Tensor]]) -> None:
        self.kept = kept

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        epochs = [epoch for name, epoch in self.kept if name == stage]
        return (max(epochs), self.kept[stage, max(epochs)]) if epochs else None

    def due(self) -> bool:
        return True

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        self.kept[stage, epoch] = {name: value.detach().clone() for name, value in tensors.items()}


@pytest.mark.parametrize("method", list(METHODS))
def test_it_goes_on_from_a_checkpoint_to_the_same_bits(method: str) -> None:
    kept: dict[tuple[str, int], dict[str, Tensor]] = {}
    records: list[Record] = []
    whole = METHODS[method](small(checkpoints=InMemory(kept), log=records.append))
    assert sorted(kept) == [(method, 1), (method, 2)]
    later: list[Record] = []
    again = METHODS[method](small(checkpoints=InMemory({(method, 1): kept[method, 1]}), log=later.append))
    assert bits(again) == bits(whole)
    assert [record for record in later if record["stage"] == method] == records[-2:]


@pytest.mark.parametrize("kinds", [1, 13])
def test_as_many_kinds_as_there_can_be(kinds: int) -> None:
    with pytest.raises(UsageError, match=rf"{kinds} kinds were asked for, .* between 2 and 12"):
        kcl(small(kinds=kinds))


def test_known_pictures_that_say_nothing_are_refused() -> None:
    made = small()
    with pytest.raises(DataError, match="are of 1 kinds"):
        mcl(replace(made, known=made.known.with_classes([0])))


# A number of kinds that is not known


def test_kinds_with_less_than_a_share_of_an_even_part_are_dropped() -> None:
    labels = np.repeat([0, 2, 3, 4], [8, 2, 1, 9])  # of 5 kinds; an even part is 4
    assert large_kinds(labels, 5, 0.5).tolist() == [0, 2, 4]
    assert large_kinds(labels, 5, 0.51).tolist() == [0, 4]
    assert large_kinds(labels, 5, 0.0).tolist() == [0, 1, 2, 3, 4]
    assert large_kinds(labels, 5, 100.0).tolist() == [0, 4]  # two are left, whatever is asked for
    assert large_kinds(np.zeros(6, dtype=np.int64), 3, 1.0).tolist() == [0, 1]


def test_small_kinds_are_cut_out_of_the_network_and_the_rest_sums_to_one() -> None:
    most = 12
    whole, cut = (
        mcl(blobs(kinds=most, settings={"kinds": asked}, pairs={"unknown": "drop"})) for asked in (most, "auto")
    )
    kept = large_kinds(whole.assignment.labels, most, 0.5)
    assert 2 <= len(kept) < most
    assert cut.assignment.probabilities.shape == (len(TRUTH), len(kept))
    left = whole.assignment.probabilities[:, kept].astype(np.float64)
    assert cut.assignment.probabilities == pytest.approx(left / left.sum(axis=1, keepdims=True), abs=1e-5)
    assert isinstance(cut.model, Model)
    assert isinstance(cut.model.head, SoftmaxHead)
    assert cut.model.kinds == len(kept)
    assert np.exp(apply(cut.model, blobs().unsorted)) == pytest.approx(cut.assignment.probabilities, abs=1e-6)
    assert cut.embedding == pytest.approx(whole.embedding[:, kept], abs=1e-4)
    assert clustering_accuracy(cut.assignment.labels, TRUTH) > 0.9


def test_kinds_that_were_asked_for_or_counted_are_all_kept() -> None:
    for asked, unknown in ((8, "drop"), ("auto", "count")):
        found = kcl(blobs(kinds=8, settings={"kinds": asked}, pairs={"unknown": unknown}))
        assert found.assignment.probabilities.shape == (len(TRUTH), 8)
