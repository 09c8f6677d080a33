"""Training f on the known kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.images.augment import Augmentation
from newkinds.images.imageset import ImageSet
from newkinds.networks import build_network
from newkinds.pretrain import pretrain
from newkinds.pretrain.pretraining import ClassifierTask, split_held_out
from newkinds.randomness import one_thread
from newkinds.settings import Pretrain
from newkinds.training import Record

RESOLVED = {"epochs": 3, "augmentation": "none", "quarter_turns": False, "batch_size": 16, "learning_rate": 0.01}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def labelled(labels: NDArray[Any], size: int = 8, pixels: NDArray[Any] | None = None) -> ImageSet:
    """Grey pictures with noise, each kind bright in a corner of its own."""
    labels = np.asarray(labels, dtype=np.int64)
    if pixels is None:
        pixels = np.random.default_rng(0).integers(0, 60, (len(labels), 1, size, size), dtype=np.uint8)
        half = size // 2
        for picture, label in zip(pixels, labels, strict=True):
            top, left = divmod(int(label), 2)
            picture[0, top * half : (top + 1) * half, left * half : (left + 1) * half] += 150
    classes = tuple(f"kind {c}" for c in range(int(labels.max()) + 1))
    names = tuple(f"{i}.png" for i in range(len(labels)))
    return ImageSet(pixels, names, labels, classes, "made up", "no mark")


class Recorder(nn.Module):
    """Stands for the network: keeps what it is shown and answers with fixed logits."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)
        self.shown: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.shown.append(x)
        return self.logits[: len(x)]


# The part kept back


@settings(deadline=None)
@given(st.lists(st.integers(2, 40), min_size=2, max_size=6), st.floats(0.01, 0.99), st.integers(0, 10))
def test_held_out_is_a_share_of_every_kind(sizes: list[int], share: float, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    known = labelled(labels, pixels=np.zeros((len(labels), 1, 4, 4), dtype=np.uint8))
    kept, held_out = split_held_out(known, share, seed)
    assert sorted([*kept.tolist(), *held_out.tolist()]) == list(range(len(labels)))
    assert (np.diff(kept) > 0).all()
    assert (np.diff(held_out) > 0).all()
    for label, size in enumerate(sizes):
        aside = int((labels[held_out] == label).sum())
        assert 1 <= aside <= size - 1
        assert abs(aside - share * size) <= 1
    again = split_held_out(known, share, seed)
    assert (again[0] == kept).all()
    assert (again[1] == held_out).all()


def test_held_out_depends_on_the_seed_and_on_the_kind() -> None:
    known = labelled(np.repeat([0, 1], 40))
    first, second = split_held_out(known, 0.25, 0)[1], split_held_out(known, 0.25, 1)[1]
    assert len(first) == len(second) == 20
    assert first.tolist() != second.tolist()
    assert first[:10].tolist() != (first[10:] - 40).tolist()  # kinds of equal size are not cut alike


# Learning


@pytest.mark.parametrize("network", ["vgg6-4-2-slim", "resnet18-slim"])
def test_learns_what_is_trivial(network: str) -> None:
    known = labelled(np.repeat([0, 1], 32))
    records: list[Record] = []
    found = pretrain(known, Pretrain(**RESOLVED), network=network, seed=0, log=records.append)
    assert found.held_out_accuracy == 1.0
    assert records[-1]["held_out_accuracy"] == 1.0
    assert records[-1]["loss"] < 0.5 * records[0]["loss"]
    assert len(found.held_out) == 6
    assert found.epochs == len(records) == 3
    assert found.network.name == network
    # The normalisation is that of the pictures trained on, without those kept back.
    kept = np.setdiff1d(np.arange(64), found.held_out)
    assert found.network.mean.item() == pytest.approx(known.pixels[kept].mean() / 255, rel=1e-5)


def test_the_same_seed_gives_the_same_weights() -> None:
    known, chosen = labelled(np.repeat([0, 1], 8)), Pretrain(**{**RESOLVED, "epochs": 1, "augmentation": "crop"})

    def weights(seed: int) -> dict[str, Tensor]:
        return pretrain(known, chosen, network="vgg6-4-2-slim", seed=seed).network.state_dict()

    first = weights(0)
    torch.rand(7)
    second, other = weights(0), weights(1)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["backbone.layers.0.weight"], other["backbone.layers.0.weight"])


def test_held_out_pictures_are_not_trained_on() -> None:
    labels = np.repeat([0, 1], 10)
    known = labelled(labels)
    _, held_out = split_held_out(known, 0.1, 0)
    altered = known.pixels.copy()
    altered[held_out] = 255 - altered[held_out]
    chosen = Pretrain(**{**RESOLVED, "epochs": 1})
    first = pretrain(known, chosen, network="vgg6-4-2-slim").network.state_dict()
    second = pretrain(labelled(labels, pixels=altered), chosen, network="vgg6-4-2-slim").network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_embeddings_need_no_training() -> None:
    known = labelled(np.repeat([0, 1], 5), pixels=np.random.default_rng(0).normal(size=(10, 6)).astype(np.float32))
    records: list[Record] = []
    found = pretrain(known, Pretrain(**RESOLVED), network="identity", log=records.append)
    assert found.network.name == "identity"
    assert found.epochs == 0
    assert np.isnan(found.held_out_accuracy)
    assert records == []


def test_label_smoothing_reaches_the_loss() -> None:
    known = labelled([0, 1, 0, 1])
    losses = []
    for smoothing in (0.0, 0.2):
        task = make_task(known, label_smoothing=smoothing)
        task.module = Recorder(torch.tensor([[10.0, -10.0]] * 4))
        losses.append(float(task.losses(np.array([0, 2]), 0)["loss"].detach()))
    assert losses == pytest.approx([0, 0.1 * 20], abs=1e-4)  # half of 0.2 goes to the other kind, at a distance of 20


# Quarter turns


def make_task(images: ImageSet, **changes: Any) -> ClassifierTask:
    network = build_network("vgg6-4-2-slim", images.channels, images.size, seed=0)
    everything = np.arange(len(images))
    return ClassifierTask(network, images, everything, everything, Pretrain(**{**RESOLVED, **changes}), seed=0)


def test_quarter_turns_by_hand() -> None:
    pixels = np.zeros((2, 1, 4, 4), dtype=np.uint8)
    pixels[:, 0, 0] = 255  # a bar at the top
    task = make_task(labelled([0, 1], pixels=pixels), quarter_turns=True)
    assert task.names == ("0.png", "1.png") * 4
    assert task.module.head[-1].out_features == 8
    assert sorted(np.concatenate(task.batches(0)).tolist()) == list(range(8))
    # Item 2 t + i is picture i turned t times: anticlockwise the bar goes left, down, right.
    items = np.array([0, 3, 4, 7])
    bars = {0: np.s_[0, :], 1: np.s_[:, 0], 2: np.s_[3, :], 3: np.s_[:, 3]}
    task.module = Recorder(torch.zeros(4, 8))
    task.losses(items, 0)
    for turn, view in enumerate(task.module.shown[0]):
        expected = torch.zeros(4, 4)
        expected[bars[turn]] = 1
        assert torch.equal(view[0], expected), turn


def test_quarter_turns_have_labels_of_their_own() -> None:
    task = make_task(labelled([0, 1, 2]), quarter_turns=True)
    items = np.array([1, 3, 8, 10])
    labels = [1, 3 + 0, 6 + 2, 9 + 1]  # kind + 3 x turns
    logits = torch.full((4, 12), -50.0)
    logits[range(4), labels] = 50.0
    task.module = Recorder(logits)
    assert float(task.losses(items, 0)["loss"].detach()) == pytest.approx(0)
    for row in range(4):
        wrong = logits.roll(1, dims=1) if row == 0 else logits.clone()
        wrong[row] = logits[row].roll(1)
        task.module = Recorder(wrong)
        assert float(task.losses(items, 0)["loss"].detach()) > 20


def test_turned_pictures_are_augmented_first_and_apart() -> None:
    images = labelled([0, 1], size=8)
    task = make_task(images, quarter_turns=True)
    task.how = Augmentation(border=3)
    task.module = Recorder(torch.zeros(4, 8))
    task.losses(np.array([0, 2, 4, 6]), epoch=0)
    upright = [torch.rot90(view, -turn, dims=(1, 2)) for turn, view in enumerate(task.module.shown[0])]
    assert not all(torch.equal(upright[0], other) for other in upright[1:])


def test_without_quarter_turns_nothing_is_turned() -> None:
    images = labelled([0, 1, 1])
    task = make_task(images)
    assert task.names == images.names
    task.module = Recorder(torch.zeros(3, 2))
    task.losses(np.array([2, 0, 1]), 0)
    assert torch.equal(task.module.shown[0], torch.from_numpy(images.pixels[[2, 0, 1]]).float() / 255)


def test_held_out_accuracy_counts_upright_kinds_only() -> None:
    task = make_task(labelled([0, 1, 1, 0]), quarter_turns=True)
    logits = torch.zeros(4, 8)
    logits[:, 2:] = 9.0  # turned kinds are the likeliest everywhere, and do not count
    logits[range(4), [0, 1, 1, 1]] = 1.0
    task.module = Recorder(logits)
    assert task.accuracy() == 0.75


def test_quarter_turns_learn() -> None:
    # Two pictures that differ by a turn only: a turned one of the first kind is not the second kind's.
    pixels = np.random.default_rng(0).integers(0, 80, (48, 1, 8, 8), dtype=np.uint8)
    labels = np.repeat([0, 1], 24)
    pixels[labels == 0, :, :3] += 150
    pixels[labels == 1, :, 2:6, 2:6] += 150
    chosen = Pretrain(**{**RESOLVED, "quarter_turns": True, "epochs": 4})
    found = pretrain(labelled(labels, pixels=pixels), chosen, network="vgg6-4-2-slim")
    assert found.held_out_accuracy == 1.0
