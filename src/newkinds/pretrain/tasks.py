"""Training tasks for f on the known kinds: classification and metric learning."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.features import apply, device_of
from newkinds.images.augment import augment, policy, quarter_turned
from newkinds.images.imageset import ImageSet, group_of, numbered
from newkinds.networks import Network
from newkinds.parallel.devices import to_device
from newkinds.pretrain.losses import prototypical_loss, triplet_loss
from newkinds.randomness import generator, seeded_torch
from newkinds.settings import Pretrain
from newkinds.training import Phase, Record, Task

TRIALS = 10  # few-shot trials that a score is averaged over


class KnownTask(Task):
    """Train f on augmented pictures of the known kinds, scored after each epoch on held-out pictures.

    With `quarter_turns`, each kind rotated by 90, 180 and 270 degrees is a further kind: with few known kinds, f would
    otherwise discard what it does not need to tell them apart, which new kinds are told apart by. Item i is then
    picture i % N, turned i // N times, and its label is its kind's number + i // N times the number of kinds.
    """

    stage = "pretrain"
    title = "Learning the known kinds"
    measure: str  # the name of the score in the log

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
        self.network = network
        self.turns = 4 if settings.quarter_turns else 1
        self.classes = len(images.classes)
        self.images = images
        self.kept = kept  # the training pictures, by number: a copy would double the memory
        self.held_out = images.select(held_out)
        self.names = tuple(images.names[i] for i in kept) * self.turns
        self.picture_labels = images.labels[kept]
        self.settings = settings
        self.how = policy(settings.augmentation, images.size)
        self.batch_size = settings.batch_size
        self.seed = seed
        self.module: nn.Module = network
        self.best_score = -math.inf
        self.best: dict[str, Tensor] = {}

    def labels(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each item's kind, int64 (B,), rotated kinds after the others."""
        numbers: NDArray[np.int64] = self.picture_labels[items % len(self.kept)]
        return numbers + self.classes * (items // len(self.kept))

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        """Return an augmented view of each item, turned as its number says."""
        device = device_of(self.module)
        pictures, turns = items % len(self.kept), items // len(self.kept)
        pixels = to_device(self.images.pixels[self.kept[pictures]], device)
        views = augment(pixels, items, self.how, seed=self.seed, epoch=epoch)
        return views if self.turns == 1 else quarter_turned(views, turns)

    def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
        """Score f on the held-out pictures, and keep its weights if they are the best and the settings want them."""
        score = self.score()
        if self.settings.keep == "best" and score > self.best_score:
            self.best_score = score
            self.best = {name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()}
        return {self.measure: score}

    @abstractmethod
    def score(self) -> float:
        """Return the score of f on the held-out pictures, 0 to 1."""

    def finish(self) -> float:
        """Load the weights that the settings ask for, and return their score."""
        if self.best:
            self.network.load_state_dict(self.best)
            return self.best_score
        return self.score()

    def state(self) -> dict[str, Tensor]:
        """Return the best weights so far."""
        if not self.best:
            return {}
        score = torch.tensor(self.best_score, dtype=torch.float64)
        return {"best_score": score, **{f"best.{name}": value for name, value in self.best.items()}}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the best weights so far."""
        if state:
            self.best_score = float(state["best_score"])
            self.best = {name.removeprefix("best."): value for name, value in state.items() if name != "best_score"}


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


class ClassifierTask(KnownTask):
    """Cross-entropy over the known kinds."""

    measure = "held_out_accuracy"

    def __init__(
        self,
        network: Network,
        images: ImageSet,
        kept: NDArray[np.int64],
        held_out: NDArray[np.int64],
        settings: Pretrain,
        seed: int,
    ) -> None:
        super().__init__(network, images, kept, held_out, settings, seed)
        with seeded_torch(seed, "head"):
            self.module = Classifier(network, self.classes * self.turns)

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the cross-entropy of a batch's logits."""
        labels = to_device(self.labels(items), outputs.device)
        return {"loss": F.cross_entropy(outputs, labels, label_smoothing=self.settings.label_smoothing)}

    def score(self) -> float:
        """Return the accuracy on held-out pictures, upright, among the known kinds."""
        logits = apply(self.module, self.held_out)[:, : self.classes]
        return float((logits.argmax(axis=1) == self.held_out.labels).mean())


class EpisodeTask(KnownTask):
    """Train on episodes: batches of several kinds with the same number of pictures of each, kind after kind."""

    measure = "few_shot_accuracy"
    batch_setting = "episode_kinds"

    @property
    def each(self) -> int:
        """How many pictures of a kind are in a batch."""
        assert isinstance(self.settings.support, int)
        assert isinstance(self.settings.query, int)
        return self.settings.support + self.settings.query

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Cut random orders of all kinds into episodes, until about as many pictures as there are have been drawn."""
        kinds = self.classes * self.turns
        rounds = max(1, round(len(self.kept) / self.classes / self.each))
        n_episodes = min(math.ceil(kinds / self.settings.episode_kinds), kinds // 2)  # none has a single kind
        members = [np.flatnonzero(self.picture_labels == label) for label in range(self.classes)]
        found = []
        for number in range(rounds):
            random = generator(self.seed, "episodes", epoch, number)
            for episode in np.array_split(self._order(random), n_episodes):
                drawn = [self._draw(random, members[kind % self.classes], kind // self.classes) for kind in episode]
                found.append(np.concatenate(drawn).astype(np.int64))
        return found

    def _order(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Return all kinds in a random order, those of one group and one rotation together if the settings say so."""
        kinds = random.permutation(self.classes * self.turns)
        if self.settings.episodes_of == "any":
            return kinds
        group, groups = numbered([group_of(name) for name in self.images.classes])
        place = random.permutation(len(groups) * self.turns)
        return kinds[np.argsort(place[group[kinds % self.classes] * self.turns + kinds // self.classes], kind="stable")]

    def _draw(self, random: np.random.Generator, members: NDArray[np.int64], turn: int) -> NDArray[np.int64]:
        """Return the items of a kind in an episode: different pictures, turned `turn` times."""
        return random.choice(members, self.each, replace=False) + len(self.kept) * turn

    def score(self) -> float:
        """Return the few-shot accuracy: held-out pictures by the nearest mean of `support` pictures of each kind.

        The mean over trials of up to `episode_kinds` kinds, drawn at random but the same ones after each epoch.
        """
        assert self.held_out.labels is not None
        assert isinstance(self.settings.support, int)
        shots = self.settings.support
        chosen = [self._trial(number, shots) for number in range(TRIALS)]
        # Only pictures that some trial needs are passed through f.
        asked = np.flatnonzero(np.isin(self.held_out.labels, np.concatenate([kinds for kinds, _ in chosen])))
        labels, queries = self.held_out.labels[asked], apply(self.network, self.held_out.select(asked))
        needed = np.unique(np.concatenate([support for _, support in chosen]))
        features = apply(self.network, self.images.select(self.kept[needed]))
        right = []
        for kinds, support in chosen:
            prototypes = features[np.searchsorted(needed, support)].reshape(len(kinds), shots, -1).mean(axis=1)
            these = np.isin(labels, kinds)
            distances = np.square(prototypes).sum(axis=1) - 2 * queries[these] @ prototypes.T
            right.append(kinds[distances.argmin(axis=1)] == labels[these])
        return float(np.concatenate(right).mean())

    def _trial(self, number: int, shots: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the kinds of a few-shot trial, and the training pictures that represent them."""
        random = generator(self.seed, "few-shot trial", number)
        n_kinds = min(self.settings.episode_kinds, self.classes)
        kinds = random.choice(self.classes, n_kinds, replace=False).astype(np.int64)
        members = [np.flatnonzero(self.picture_labels == kind) for kind in kinds]
        return kinds, np.concatenate([random.choice(some, shots, replace=False) for some in members])


class PrototypicalTask(EpisodeTask):
    """Prototypical loss: queries are classified by the nearest mean of their episode's support."""

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the prototypical loss of an episode."""
        assert isinstance(self.settings.support, int)
        return {"loss": prototypical_loss(outputs.view(-1, self.each, outputs.shape[1]), self.settings.support)}


class TripletTask(EpisodeTask):
    """Batch-hard triplet loss."""

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the triplet loss of a batch."""
        labels = to_device(self.labels(items), outputs.device)
        return {"loss": triplet_loss(outputs, labels, self.settings.margin)}


TASKS: dict[str, type[KnownTask]] = {
    "cross-entropy": ClassifierTask,
    "prototypical": PrototypicalTask,
    "triplet": TripletTask,
}
