"""Train f on the known kinds, with a share of each kept back to say how well it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.features import apply, device_of
from newkinds.images.augment import augment, policy
from newkinds.images.imageset import ImageSet
from newkinds.networks import Network, build_network, default_network
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator, seeded_torch
from newkinds.resolve import resolved_pretrain
from newkinds.settings import Pretrain
from newkinds.training import Checkpoints, Phase, Record, Task, train


@dataclass(frozen=True)
class Pretraining:
    """A trained f, and its accuracy on the pictures of the known kinds that were kept back."""

    network: Network
    held_out_accuracy: float
    held_out: NDArray[np.int64]  # which pictures of the known set those are
    epochs: int


class Classifier(nn.Module):
    """f and a head of logits over the known kinds."""

    def __init__(self, network: Network, classes: int) -> None:
        super().__init__()
        self.network = network
        self.head = network.backbone.make_head(classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, classes)."""
        logits: Tensor = self.head(self.network(x))
        return logits


class ClassifierTask(Task):
    """Cross-entropy on augmented pictures of the known kinds.

    With `quarter_turns`, each kind turned by 90, 180 and 270 degrees is a kind of its own: with few known kinds, f
    otherwise forgets what it does not need to tell them apart, which is what new kinds are told apart by. Item i is
    then picture i % N, turned i // N times, and its label is its kind's number + i // N times the number of kinds.
    """

    stage = "pretrain"
    title = "Learning the known kinds"

    def __init__(
        self,
        network: Network,
        images: ImageSet,
        kept: NDArray[np.int64],
        held_out: NDArray[np.int64],
        settings: Pretrain,
        seed: int,
    ) -> None:
        assert images.labels is not None
        turns = 4 if settings.quarter_turns else 1
        self.classes = len(images.classes)
        with seeded_torch(seed, "head"):
            self.module: nn.Module = Classifier(network, self.classes * turns)
        self.images = images
        self.kept = kept  # which pictures are trained on; a copy of them would double the memory
        self.held_out = images.select(held_out)
        self.names = tuple(images.names[i] for i in kept) * turns
        self.labels = torch.from_numpy(images.labels[kept])
        self.smoothing = settings.label_smoothing
        self.how = policy(settings.augmentation, images.size)
        self.batch_size = settings.batch_size
        self.seed = seed

    def losses(self, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the cross-entropy of a batch."""
        device = device_of(self.module)
        pictures, turns = items % len(self.kept), items // len(self.kept)
        pixels = torch.from_numpy(self.images.pixels[self.kept[pictures]]).to(device)
        views = augment(pixels, items, self.how, seed=self.seed, epoch=epoch)
        for turn in np.unique(turns[turns > 0]):
            turned = torch.from_numpy(turns == turn).to(device)
            views[turned] = torch.rot90(views[turned], int(turn), dims=(2, 3))
        logits = self.module(views)
        labels = (self.labels[torch.from_numpy(pictures)] + self.classes * torch.from_numpy(turns)).to(device)
        return {"loss": F.cross_entropy(logits, labels, label_smoothing=self.smoothing)}

    def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
        """Measure the accuracy on the pictures kept back."""
        return {"held_out_accuracy": self.accuracy()}

    def accuracy(self) -> float:
        """Return the share of kept-back pictures, upright, whose kind is found right among the known ones."""
        logits = apply(self.module, self.held_out)[:, : self.classes]
        return float((logits.argmax(axis=1) == self.held_out.labels).mean())


def pretrain(
    known: ImageSet,
    settings: Pretrain,
    *,
    network: str = "auto",
    seed: int = 0,
    accelerator: Accelerator | None = None,
    checkpoints: Checkpoints | None = None,
    log: Callable[[Record], None] = lambda record: None,
    progress: Progress = QUIET,
) -> Pretraining:
    """Train the network called `network` on the known kinds and return it with its held-out accuracy."""
    accelerator = accelerator or Accelerator()
    settings = resolved_pretrain(settings, known)
    if network == "auto":
        network = default_network(known.channels, known.size, known.is_embedding, accelerator.device.type != "cpu")
    kept, held_out = split_held_out(known, settings.held_out, seed)
    model = build_network(network, known.channels, known.size, seed)
    if not model.has_weights:
        return Pretraining(model, float("nan"), held_out, epochs=0)
    model.normalise_by(known.pixels, kept)
    task = ClassifierTask(model, known, kept, held_out, settings, seed)
    assert isinstance(settings.epochs, int)
    phases = [Phase("main", settings.epochs, settings)]
    train(task, phases, accelerator=accelerator, checkpoints=checkpoints, log=log, progress=progress)
    return Pretraining(model, task.accuracy(), held_out, settings.epochs)


def split_held_out(known: ImageSet, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split picture numbers into those to train on and those kept back: at least one of each kind in either part."""
    assert known.labels is not None
    kept: list[int] = []
    held_out: list[int] = []
    for label in range(len(known.classes)):
        members = np.flatnonzero(known.labels == label)
        order = generator(seed, "held out", label).permutation(members)
        aside = min(max(1, round(share * len(members))), len(members) - 1)
        held_out += order[:aside].tolist()
        kept += order[aside:].tolist()
    return np.sort(np.array(kept, dtype=np.int64)), np.sort(np.array(held_out, dtype=np.int64))
