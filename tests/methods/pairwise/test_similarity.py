"""The similarity network: its head pair by pair, its batches, and what it learns about kinds it has not seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from newkinds.configure import Settings
from newkinds.errors import DataError
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem, Tensors
from newkinds.methods.pairwise.settings import Similarity
from newkinds.methods.pairwise.similarity import PairHead, SimilarityNetwork, SimilarityTask, similarity_network
from newkinds.networks import build_network
from newkinds.randomness import seeded_torch
from newkinds.training import Record

MANY, NEW = 60, 12  # known kinds, new kinds
DIRECTIONS = np.random.default_rng(5).normal(0, 1, (MANY + NEW, 6)).astype(np.float32)


def embeddings(labels: Any, seed: int = 0, noise: float = 0.1) -> ImageSet:
    """Points around a direction of each kind's own."""
    labels = np.asarray(labels, dtype=np.int64)
    spread = np.random.default_rng(seed).normal(0, noise, (len(labels), DIRECTIONS.shape[1]))
    names = tuple(f"{i}" for i in range(len(labels)))
    classes = tuple(f"kind {c}" for c in range(int(labels.max()) + 1))
    return ImageSet((DIRECTIONS[labels] + spread).astype(np.float32), names, labels, classes, "made up", "no mark")


def pictures(labels: Any, size: int = 8) -> ImageSet:
    labels = np.asarray(labels, dtype=np.int64)
    pixels = np.random.default_rng(0).integers(0, 255, (len(labels), 1, size, size), dtype=np.uint8)
    classes = tuple(f"kind {c}" for c in range(int(labels.max()) + 1))
    return ImageSet(pixels, tuple(f"{i}.png" for i in range(len(labels))), labels, classes, "made up", "no mark")


def problem(known: ImageSet, unsorted: ImageSet, seed: int = 0, **changes: Any) -> Problem:
    name = "identity" if known.is_embedding else "vgg6-4-2-slim"
    network = build_network(name, known.channels, known.size, seed=0)
    options = changes.pop("similarity", {})
    settings = Settings(seed=seed, similarity={"epochs": 3, "learning_rate": 0.01, "milestones": (), **options})
    features = np.zeros((len(unsorted), network.feature_dim), dtype=np.float32)
    return Problem(network, known, settings, unsorted=unsorted, kinds=3, features=features, **changes)


def task(known: ImageSet, seed: int = 0, **changes: Any) -> SimilarityTask:
    name = "identity" if known.is_embedding else "vgg6-4-2-slim"
    network = build_network(name, known.channels, known.size, seed=0)
    return SimilarityTask(SimilarityNetwork(network, seed), known, Similarity(**changes), seed)


def plain(head: PairHead, width: int) -> nn.Sequential:
    """Return the published layers with a head's weights; the first has a bias, which batch norm takes away."""
    layers = nn.Sequential(
        nn.Linear(2 * width, 4 * width), nn.BatchNorm1d(4 * width), nn.ReLU(), nn.Linear(4 * width, 2)
    ).to(head.scale.dtype)
    weights = (head.hidden.weight, head.scale, head.shift, head.answer.weight, head.answer.bias)
    own = (layers[0].weight, layers[1].weight, layers[1].bias, layers[3].weight, layers[3].bias)
    with torch.no_grad():
        for target, value in zip(own, weights, strict=True):
            target.copy_(value)
    return layers.train()


# The head


@pytest.mark.parametrize("training", [True, False])
def test_the_head_is_that_of_the_concatenated_pairs(training: bool) -> None:
    width, batch = 3, 11
    with seeded_torch(0, "test"):
        head = PairHead(width).double().train(training)
        nn.init.normal_(head.scale)
        nn.init.normal_(head.shift)
        features = torch.randn(batch, width, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(batch, batch, 2, dtype=torch.float64)
    layers = plain(head, width)
    pairs = torch.stack([torch.cat([features[i], features[j]]) for i in range(batch) for j in range(batch)])
    expected = layers(pairs).reshape(batch, batch, 2)
    logits = head(features)
    assert logits.detach().numpy() == pytest.approx(expected.detach().numpy(), abs=1e-12)
    ours = torch.autograd.grad((logits * weight).sum(), [features, head.hidden.weight, head.scale])
    theirs = torch.autograd.grad((expected * weight).sum(), [features, layers[0].weight, layers[1].weight])
    for one, other in zip(ours, theirs, strict=True):
        assert one.numpy() == pytest.approx(other.numpy(), abs=1e-10)


def test_equal_features_do_not_divide_by_zero() -> None:
    head = PairHead(2)
    features = torch.ones(3, 2, requires_grad=True)
    head(features).sum().backward()
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


def test_same_is_the_larger_logit() -> None:
    network = SimilarityNetwork(build_network("identity", 2, 1, seed=0), seed=0)
    features = torch.tensor([[0.0, 1.0], [1.0, 0.0], [3.0, 1.0]])
    logits = network.head(features)
    assert torch.equal(network.same(features), logits.argmax(dim=2) == 1)
    assert not network.same(features).requires_grad


# Its loss and its batches


def test_the_loss_by_hand() -> None:
    # Four pictures, two of kind 0: of 16 ordered pairs 6 are of one kind. Every pair is called the same with odds 3:1.
    one = task(embeddings([0, 0, 1, 2]))
    with torch.no_grad():
        one.head.answer.weight.zero_()
        one.head.answer.bias.copy_(torch.tensor([0.0, math.log(3)]))
    items = np.arange(4)
    losses = one.losses(one.module(one.inputs(items, 0)), items, 0)
    assert losses["loss"].item() == pytest.approx(-(6 * math.log(0.75) + 10 * math.log(0.25)) / 16)
    assert float(losses["same_right"]) == 1.0
    assert float(losses["different_right"]) == 0.0


def test_a_batch_has_so_many_pictures_of_so_many_kinds() -> None:
    known = embeddings(np.repeat(np.arange(8), 6))
    one = task(known, episode_kinds=4, each=3)
    batches = one.batches(0)
    assert len(batches) == 4  # twice through two batches of 4 kinds: 6 pictures of each kind, 3 at a time
    for items in batches:
        assert len(set(items)) == 12
        assert sorted(np.unique(known.labels[items], return_counts=True)[1]) == [3] * 4
    for first, second in (batches[:2], batches[2:]):
        assert len(set(known.labels[first]) | set(known.labels[second])) == 8
    assert not all((a == b).all() for a, b in zip(batches, one.batches(1), strict=True))
    assert all((a == b).all() for a, b in zip(batches, one.batches(0), strict=True))


def test_fewer_kinds_and_smaller_kinds_than_asked_for() -> None:
    known = embeddings([0] * 7 + [1] * 2 + [2])
    (items,) = task(known, episode_kinds=20, each=5).batches(0)
    assert np.bincount(known.labels[items]).tolist() == [5, 2, 1]
    assert len(set(items)) == 8


def test_no_batch_is_left_with_a_single_kind() -> None:
    known = embeddings(np.repeat(np.arange(5), 4))
    for items in task(known, episode_kinds=2, each=2).batches(0):
        assert len(set(known.labels[items])) >= 2


def test_a_kind_without_pictures_is_passed_over() -> None:
    known = embeddings([0, 0, 2, 2])
    (items,) = task(known, each=2).batches(0)
    assert sorted(items) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("labels", "words"),
    [([0, 0, 0], "3 known pictures are of 1 kinds, at most 3 of one"), ([0, 1, 2], "of 3 kinds, at most 1 of one")],
)
def test_too_little_to_compare_is_refused(labels: list[int], words: str) -> None:
    with pytest.raises(DataError, match=words):
        task(embeddings(labels))


# What it learns


def test_it_tells_new_kinds_apart() -> None:
    known = embeddings(np.repeat(np.arange(MANY), 5), seed=1)
    new = embeddings(np.repeat(np.arange(MANY, MANY + NEW), 5), seed=2)
    records: list[Record] = []
    chosen = {"epochs": 20, "episode_kinds": 15, "each": 5, "learning_rate": 0.03}
    found = similarity_network(problem(known, new, similarity=chosen, log=records.append))
    assert records[-1]["loss"] < 0.1 < records[0]["loss"]
    assert [record["stage"] for record in records] == ["similarity"] * 20
    assert new.labels is not None
    truth = new.labels[:, None] == new.labels
    answers = found.same(torch.from_numpy(new.pixels)).numpy()
    assert answers[truth].mean() > 0.9
    assert answers[~truth].mean() < 0.05


def test_the_backbone_learns_too_and_f_is_left_alone() -> None:
    given = problem(pictures([0, 0, 1, 1]), pictures([0, 1]), similarity={"each": 2, "epochs": 1})
    before = {name: value.clone() for name, value in given.network.state_dict().items()}
    found = similarity_network(given)
    assert all(torch.equal(value, before[name]) for name, value in given.network.state_dict().items())
    learnt = dict(found.network.named_parameters())["backbone.layers.0.weight"]
    assert not torch.equal(learnt, before["backbone.layers.0.weight"])


def same_bits(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_same_seed_gives_the_same_network(precision: str) -> None:
    known = pictures(np.repeat(np.arange(3), 4))
    given = [problem(known, known, seed=seed, similarity={"start": "fresh", "each": 2}) for seed in (0, 0, 1)]
    given = [Problem(**{**vars(one), "settings": one.settings.with_changes({"precision": precision})}) for one in given]
    first, again, other = (similarity_network(one) for one in given)
    assert same_bits(first, again)
    assert not same_bits(first, other)
    assert first.head.scale.dtype == torch.float32


def test_a_run_that_has_it_does_not_learn_it_again() -> None:
    known = embeddings([0, 0, 1, 1])
    kept: dict[str, Tensors] = {}

    def keep(name: str, make: Any) -> Tensors:
        if name not in kept:
            kept[name] = make()
        return kept[name]

    records: list[Record] = []
    given = problem(known, known, keep=keep, log=records.append)
    first, again = similarity_network(given), similarity_network(given)
    assert list(kept) == ["similarity"]
    assert len(records) == 3
    assert same_bits(first, again)


class InMemory:
    """Checkpoints of every epoch of one stage, in memory."""

    def __init__(self, kept: dict[int, dict[str, Tensor]]) -> None:
        self.kept = kept

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        return max(self.kept.items(), key=lambda pair: pair[0]) if self.kept else None

    def due(self) -> bool:
        return True

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        assert stage == "similarity"
        self.kept[epoch] = {name: value.detach().clone() for name, value in tensors.items()}


def test_it_goes_on_from_a_checkpoint_to_the_same_bits() -> None:
    known = pictures(np.repeat(np.arange(3), 4))
    kept: dict[int, dict[str, Tensor]] = {}
    whole = similarity_network(problem(known, known, similarity={"each": 2}, checkpoints=InMemory(kept)))
    assert sorted(kept) == [1, 2]
    records: list[Record] = []
    given = problem(known, known, similarity={"each": 2}, checkpoints=InMemory({1: kept[1]}), log=records.append)
    assert same_bits(similarity_network(given), whole)
    assert [record["epoch"] for record in records] == [1, 2]
