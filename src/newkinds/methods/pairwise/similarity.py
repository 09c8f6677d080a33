"""The similarity network of KCL and MCL: trained on the known kinds to say whether two pictures are of one kind."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.errors import DataError
from newkinds.images.imageset import ImageSet
from newkinds.methods.auxiliary import ViewsTask, first_network, weights_of
from newkinds.methods.base import KnownProblem, Problem, Tensors
from newkinds.methods.pairwise.settings import Similarity
from newkinds.networks import Network
from newkinds.parallel.devices import to_device
from newkinds.randomness import generator, seeded_torch
from newkinds.training import Phase

EPSILON = 1e-5  # in batch norm, torch's own
ROWS = 8  # pictures compared with the whole batch at a time: small blocks of memory are reused


class PairHead(nn.Module):
    """Linear(2n, 4n), batch norm, ReLU and Linear(4n, 2) on [z_i, z_j], for all ordered pairs of a batch.

    The first layer is a sum, W [z_i, z_j] = a_i + c_j. Over all pairs the mean of that is mean(a) + mean(c) and its
    variance var(a) + var(c): so batch norm needs the B pictures only, and the pairs are not written out before the
    ReLU, which takes a tenth of the time. The norm is always by the batch at hand, as the published network is never
    put into eval mode; it has no running statistics, and the layer before it no bias, which it would cancel.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * width, 4 * width, bias=False)
        self.scale = nn.Parameter(torch.ones(4 * width))
        self.shift = nn.Parameter(torch.zeros(4 * width))
        self.answer = nn.Linear(4 * width, 2)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of "different" and "same" for all ordered pairs of features (B, n): float (B, B, 2)."""
        first, second = (F.linear(features, weight) for weight in self.hidden.weight.chunk(2, dim=1))
        first, second = first - first.mean(dim=0), second - second.mean(dim=0)
        variance = first.square().mean(dim=0) + second.square().mean(dim=0)
        scale = self.scale * torch.rsqrt(variance + EPSILON)
        first, second = first * scale, second * scale + self.shift
        parts: list[Tensor] = [self.answer((part[:, None] + second).relu_()) for part in torch.split(first, ROWS)]
        return torch.cat(parts)


class SimilarityNetwork(nn.Module):
    """A backbone and the head that compares its features.

    With several processes, each has the features of its own pictures only. So `forward` returns features, and the head
    is applied to those of the whole batch.
    """

    def __init__(self, network: Network, seed: int) -> None:
        super().__init__()
        self.network = network
        with seeded_torch(seed, "pair head"):
            self.head = PairHead(network.feature_dim).to(network.device)

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, n)."""
        features: Tensor = self.network(x)
        return features

    @torch.no_grad()
    def same(self, features: Tensor) -> Tensor:
        """Return which ordered pairs of features (B, n) are of one kind, bool (B, B)."""
        logits: Tensor = self.head(features)
        return logits[..., 1] > logits[..., 0]


class SimilarityTask(ViewsTask):
    """Cross-entropy of same and different over all ordered pairs of a batch, including each picture with itself.

    A batch has `each` pictures of `episode_kinds` kinds: of fewer kinds if there are no more, and of a kind that has
    fewer pictures, all of them.
    """

    stage = "similarity"
    title = "Learning which pictures are of one kind"
    batch_setting = "episode_kinds"

    def __init__(self, module: SimilarityNetwork, known: ImageSet, settings: Similarity, seed: int) -> None:
        super().__init__(module, known, settings.augmentation, seed)
        self.head = module.head
        self.labels = _checked_labels(known)
        self.settings = settings
        self.batch_size = settings.episode_kinds * settings.each

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Cut random orders of all kinds into batches, until about as many pictures as there are have been drawn."""
        present = np.unique(self.labels)
        members = {kind: np.flatnonzero(self.labels == kind) for kind in present}
        rounds = max(1, round(len(self.labels) / len(present) / self.settings.each))
        # None has a single kind.
        n_batches = min(math.ceil(len(present) / self.settings.episode_kinds), len(present) // 2)
        found = []
        for number in range(rounds):
            random = generator(self.seed, "pairs of known kinds", epoch, number)
            for kinds in np.array_split(random.permutation(present), n_batches):
                drawn = [random.permutation(members[kind])[: self.settings.each] for kind in kinds]
                found.append(np.concatenate(drawn).astype(np.int64))
        return found

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the cross-entropy, and the accuracies on equal and on different pairs."""
        labels = to_device(self.labels[items], outputs.device)
        same = labels[:, None] == labels
        logits: Tensor = self.head(outputs)
        right = (logits.argmax(dim=2) == same.long()).to(logits)
        return {
            "loss": F.cross_entropy(logits.flatten(0, 1), same.long().flatten()),
            "same_right": right[same].mean(),
            "different_right": right[~same].mean(),
        }


def similarity_network(problem: Problem) -> SimilarityNetwork:
    """Return the similarity network of a run, trained on the known kinds first if it is not there yet."""
    model = SimilarityNetwork(copy.deepcopy(problem.network), problem.settings.seed)
    model.load_state_dict(problem.keep("similarity", lambda: learn_similarity(problem)))
    return model


def learn_similarity(problem: KnownProblem) -> Tensors:
    """Train a similarity network on the known kinds and return its weights."""
    chosen, seed = problem.settings.section(Similarity), problem.settings.seed
    network = first_network(problem.network, chosen.start, seed)
    task = SimilarityTask(SimilarityNetwork(network, seed), problem.known, chosen, seed)
    problem.train(task, Phase("main", chosen.epochs, chosen))
    return weights_of(task.module)


def _checked_labels(known: ImageSet) -> NDArray[np.int64]:
    """Return the labels of the known pictures, or refuse fewer than two kinds, or two pictures of one kind."""
    assert known.labels is not None
    counts = np.bincount(known.labels, minlength=2)
    if np.count_nonzero(counts) < 2 or counts.max() < 2:
        raise DataError(
            f"The {len(known)} known pictures are of {np.count_nonzero(counts)} kinds, at most {counts.max()} of one: "
            "to learn what is of one kind takes at least 2 kinds, one of them with 2 pictures.",
            hint="Give more known pictures, or use another --method.",
        )
    return known.labels
