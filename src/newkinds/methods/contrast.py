"""Contrastive learning on labelled and unsorted pictures together: the losses, the module and the task of the loop.

Two views of each picture; rows of the first view of all B pictures come first, then those of the second. Where f is
frozen, its features are what pictures are: a linear layer behind them learns in place of f's last block, and a view is
a picture's features with some of them left out.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import Self

from newkinds.features import apply, as_input
from newkinds.images.augment import augment, policy, suited_policy
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem
from newkinds.networks import Head, Network
from newkinds.parallel.devices import to_device
from newkinds.randomness import generator, seeded_torch, uniforms
from newkinds.settings import Optimiser, PolicyName
from newkinds.settings.base import LearningRate, Positive, Schedule, WeightDecay
from newkinds.training import Task


class Contrast(Optimiser):
    """What contrastive methods have in common."""

    epochs: int = Field(20, ge=0, description="Epochs of training, each as long as all pictures. Published: 200.")
    learning_rate: LearningRate = Field(
        1e-3,
        description="How far one step moves the weights, by Adam. Published: .1 by SGD, for the last block of a "
        "pretrained transformer.",
    )
    schedule: Schedule = "cosine"
    weight_decay: WeightDecay = 5e-5
    backbone_rate: float = Field(
        0.1,
        ge=0,
        description="The learning rate of f, or of the layer behind a frozen f, as a multiple of `learning_rate`. 0: "
        "it stays as it is.",
    )
    supervised: float = Field(
        0.35,
        ge=0,
        le=1,
        description="The weight lambda of what labelled pictures teach; what all pictures teach has the rest. "
        "Published: .35.",
    )
    temperature: float = Field(1.0, gt=0, description="Of the contrast between views of all pictures; published: 1.")
    supervised_temperature: float = Field(
        0.07, gt=0, description="Of the contrast between labelled pictures; published: .07."
    )
    projection: Annotated[tuple[Positive, ...], Field(min_length=1)] = Field(
        (256, 128),
        description="The widths of the layers behind f in which views are compared; they are left out afterwards. "
        "Published: 2048, 2048 and 256.",
    )
    dropout: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="Where f is frozen, the share of its features that a view leaves out.",
    )
    augmentation: PolicyName = "auto"


def info_nce(z: Tensor, temperature: float) -> Tensor:
    """Return InfoNCE of the rows of two views (2B, w), of length 1: each should be most like its other view."""
    others = z @ z.T / temperature
    others = others.masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), -math.inf)
    return F.cross_entropy(others, torch.arange(len(z), device=z.device).roll(len(z) // 2))


def sup_con(z: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return SupCon of rows (R, w), of length 1, with labels int64 (R,): the mean log-probability of its own kind's.

    Each row needs another one of its kind: its second view is one.
    """
    own = torch.eye(len(z), dtype=torch.bool, device=z.device)
    log_p = torch.log_softmax((z @ z.T / temperature).masked_fill(own, -math.inf), dim=1)
    alike = (labels[:, None] == labels[None, :]) & ~own
    return -(log_p.masked_fill(~alike, 0.0).sum(dim=1) / alike.sum(dim=1)).mean()


class DirectionsHead(Head):
    """A linear layer if f is frozen, features brought to length 1, and a softmax of -s |z - c_k|^2 over centres c_k."""

    name = "directions"

    def __init__(self, feature_dim: int, kinds: int, scale: float, adapted: bool) -> None:
        super().__init__()
        self.adapter = linear(feature_dim) if adapted else None
        self.centres = nn.Parameter(torch.zeros(kinds, feature_dim))
        self.scale = scale

    @property
    def kinds(self) -> int:
        """How many kinds there are."""
        return len(self.centres)

    def embed(self, features: Tensor) -> Tensor:
        """Return directions (B, d)."""
        return F.normalize(features if self.adapter is None else self.adapter(features), dim=1)

    def log_p(self, embedding: Tensor) -> Tensor:
        """Return the logarithm of the softmax; |z|^2 is the same for all kinds."""
        near = 2 * embedding @ self.centres.T - self.centres.square().sum(dim=1)
        return torch.log_softmax(self.scale * near, dim=1)

    def about(self) -> dict[str, Any]:
        """Return the number of kinds, the scale, and whether there is a linear layer."""
        return {"kinds": self.kinds, "scale": self.scale, "adapted": self.adapter is not None}

    @classmethod
    def build(cls, feature_dim: int, about: Mapping[str, Any]) -> Self:
        """Return one with centres at zero."""
        return cls(feature_dim, int(about["kinds"]), float(about["scale"]), bool(about["adapted"]))


def linear(wide: int) -> nn.Linear:
    """Return a linear layer (d, d) that changes nothing yet."""
    with seeded_torch(0, "adapter"):
        layer = nn.Linear(wide, wide, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(wide))
    return layer


class Contrasted(nn.Module):
    """f, a linear layer if f is frozen, and the projection: pictures (B, ...) to rows of length 1, (B, w)."""

    def __init__(self, network: Network, widths: tuple[int, ...], seed: int) -> None:
        super().__init__()
        self.network = network
        wide = network.feature_dim
        self.adapter = None if network.has_weights else linear(wide).to(network.device)
        layers: list[nn.Module] = []
        with seeded_torch(seed, "projection"):
            for inputs, outputs in zip((wide, *widths), widths, strict=False):
                layers += [nn.Linear(inputs, outputs), nn.GELU()]
        self.projection = nn.Sequential(*layers[:-1]).to(network.device)

    def directions(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features as they are learnt, (B, d), and their projection (B, w), at length 1."""
        features: Tensor = self.network(x)
        if self.adapter is not None:
            features = self.adapter(features)
        return F.normalize(features, dim=1), F.normalize(self.projection(features), dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the projection (B, w)."""
        return self.directions(x)[1]

    def head(self, centres: NDArray[Any], scale: float) -> DirectionsHead:
        """Return what the kinds are told apart by behind f: the linear layer and centres (K, d)."""
        head = DirectionsHead(self.network.feature_dim, len(centres), scale, self.adapter is not None)
        with torch.no_grad():
            head.centres.copy_(torch.from_numpy(np.asarray(centres, dtype=np.float32)))
            if head.adapter is not None and self.adapter is not None:
                head.adapter.weight.copy_(self.adapter.weight)
        return head


def suited_augmentation(table: str, settings: Contrast, known: ImageSet) -> dict[str, str]:
    """Return how pictures like the known ones are varied, by the dotted key of the section that this table holds."""
    return {f"{table}.augmentation": suited_policy(settings.augmentation, known)}


class ContrastTask(Task):
    """Two views of unsorted and labelled pictures, half a batch of each; what is learnt from them is the method's.

    Items are the unsorted pictures and then the labelled ones.
    """

    views = 2
    contrasted: Contrasted

    def __init__(self, problem: Problem, settings: Contrast) -> None:
        assert problem.known.labels is not None
        self.unsorted, self.known, self.labels = problem.unsorted, problem.known, problem.known.labels
        self.names = (*problem.unsorted.names, *problem.known.names)
        self.settings, self.batch_size, self.seed = settings, settings.batch_size, problem.settings.seed
        self.how = policy(suited_policy(settings.augmentation, problem.unsorted), problem.unsorted.size)

    def parameter_groups(self, optimiser: Optimiser) -> list[dict[str, Any]]:
        """Give what makes features a learning rate of its own."""
        slow = [self.contrasted.network, *([] if self.contrasted.adapter is None else [self.contrasted.adapter])]
        features = [weight for part in slow for weight in part.parameters()]
        others = {id(weight) for weight in features}
        rest = [weight for weight in self.module.parameters() if id(weight) not in others]
        rate = optimiser.learning_rate
        return [{"params": features, "lr": rate * self.settings.backbone_rate}, {"params": rest, "lr": rate}]

    def set_mode(self) -> None:
        """Put the module into train mode, but f into eval mode where part of it is frozen."""
        self.module.train()
        if not all(weight.requires_grad for weight in self.contrasted.network.parameters()):
            self.contrasted.network.eval()

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return batches of unsorted and labelled pictures, as many of each, that are together as long as all are.

        Published, each picture is drawn on its own with such a probability; here, in turn.
        """
        n, known = len(self.unsorted), len(self.known)
        half = max(1, self.batch_size // 2)
        number = max(1, math.ceil((n + known) / (2 * half)))
        parts = []
        for first, total, purpose in ((0, n, "unsorted"), (n, known, "labelled")):
            order = generator(self.seed, f"{purpose} pictures of {self.stage}", epoch).permutation(total)
            each = min(half, total)
            parts.append(first + np.resize(order, (number, each)))
        return list(np.concatenate(parts, axis=1).astype(np.int64))

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        """Return two views of some pictures, (2B, ...)."""
        own = items < len(self.unsorted)
        pixels = np.empty((len(items), *self.unsorted.pixels.shape[1:]), dtype=self.unsorted.pixels.dtype)
        pixels[own] = self.unsorted.pixels[items[own]]
        pixels[~own] = self.known.pixels[items[~own] - len(self.unsorted)]
        return torch.cat([self._view(pixels, items, epoch, view) for view in range(self.views)])

    def _view(self, pixels: NDArray[Any], items: NDArray[np.int64], epoch: int, view: int) -> Tensor:
        device = self.contrasted.network.device
        if not self.unsorted.is_embedding:
            return augment(to_device(pixels, device), items, self.how, seed=self.seed, epoch=epoch, view=view)
        x, share = as_input(pixels, device), self.settings.dropout
        if not share:
            return x
        kept = uniforms(self.seed, "features left out", epoch, items, pixels.shape[1], view) >= share
        return x * to_device(kept, device) / (1 - share)

    def labelled(self, items: NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the rows of labelled pictures in both views, int64 (2b,), and their labels."""
        rows = np.flatnonzero(items >= len(self.unsorted))
        labels = self.labels[items[rows] - len(self.unsorted)]
        both = np.concatenate([rows, rows + len(items)])
        return to_device(both, device), to_device(np.tile(labels, 2), device)

    def contrast(self, z: Tensor, items: NDArray[np.int64]) -> dict[str, Tensor]:
        """Return both contrastive losses of projections (2B, w), and their sum by their weights as "loss"."""
        rows, labels = self.labelled(items, z.device)
        everyone = info_nce(z, self.settings.temperature)
        of_kinds = sup_con(z[rows], labels, self.settings.supervised_temperature)
        share = self.settings.supervised
        return {"loss": (1 - share) * everyone + share * of_kinds, "views": everyone, "kinds": of_kinds}

    @abstractmethod
    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the loss of a batch as "loss", and the terms it consists of."""


def own_network(problem: Problem) -> Network:
    """Return f to be trained: a copy."""
    return copy.deepcopy(problem.network)


def learnt_directions(contrasted: Contrasted, problem: Problem) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the features of unsorted and of labelled pictures as they were learnt, at length 1: (N, d) and (L, d)."""
    unsorted, known = (
        apply(contrasted, images, call=lambda x: contrasted.directions(x)[0], progress=problem.progress)
        for images in (problem.unsorted, problem.known)
    )
    return unsorted, known
