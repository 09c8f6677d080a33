"""SimGCD (Wen et al. 2023): prototypes of known and new kinds that learn from labels and from each other's views.

Logits l are cosines of features and prototypes, of all kinds at once. With p = softmax(l / .1) and the sharper
q = softmax(l' / tau) of a picture's other view, through which no gradient flows:

    (1 - lambda) [CE(q, p) + epsilon (log K - H(mean p))] + lambda CE(labels, p)

beside the contrastive losses of GCD. The kind of a picture is that of the largest logit.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from newkinds.clustering.neighbours import directions_float32
from newkinds.features import apply, model_outputs
from newkinds.methods.base import Method, Problem, Solution
from newkinds.methods.contrast import (
    Contrast,
    Contrasted,
    ContrastTask,
    DirectionsHead,
    own_network,
    suited_augmentation,
)
from newkinds.methods.semi_supervised import semi_supervised_centres
from newkinds.networks import Model
from newkinds.parallel.devices import to_device
from newkinds.parallel.processes import from_writer
from newkinds.randomness import generator
from newkinds.settings.base import Restarts
from newkinds.training import Phase

IMPOSSIBLE = -100.0  # in place of the cosine of a kind that a picture cannot be of


class SimGcd(Contrast):
    """Prototypes by self-distillation (method simgcd)."""

    start: Literal["centres", "random"] = Field(
        "centres",
        description='Where prototypes begin: at the centres of semi-supervised k-means, or at "random" directions, as '
        "published, which takes many more epochs.",
    )
    restarts: Restarts = Field(20, description="How often that k-means begins anew; the best outcome is kept.")
    sharpness: float = Field(0.1, gt=0, description="The temperature of predictions; published: .1.")
    first_target_sharpness: float = Field(
        0.07, gt=0, description="The temperature of targets at the start; published: .07."
    )
    target_sharpness: float = Field(
        0.04, gt=0, description="The temperature of targets after `sharpened_after`; published: .04."
    )
    sharpened_after: float = Field(
        0.15,
        ge=0,
        le=1,
        description="The share of the epochs in which that temperature falls; published: 30 epochs of 200.",
    )
    mean_entropy: float = Field(
        2.0,
        ge=0,
        description="The weight epsilon of how evenly kinds are used. Lower it where some kinds are rare, or too many "
        "were asked for. Published: 1 on most data sets, 2 on CUB, 4 on CIFAR-100.",
    )


def distillation(logits: Tensor, sharpness: float, target_sharpness: float) -> Tensor:
    """Return the mean cross-entropy of each row's prediction and its other view's target: logits (2B, K) to a scalar.

    Rows are those of the first view and then of the second; no gradient flows through the targets.
    """
    q = torch.softmax(logits.detach() / target_sharpness, dim=1).roll(len(logits) // 2, dims=0)
    return -(q * torch.log_softmax(logits / sharpness, dim=1)).sum(dim=1).mean()


def unevenness(logits: Tensor, sharpness: float) -> Tensor:
    """Return log K - H(mean p) of logits (R, K), from 0, where all kinds are used alike, to log K."""
    mean = torch.softmax(logits / sharpness, dim=1).mean(dim=0)
    return math.log(logits.shape[1]) + torch.xlogy(mean, mean).sum()


class Prototypes(nn.Module):
    """f with its projection, and a prototype of each kind: rows of both, side by side (B, w + C)."""

    def __init__(self, contrasted: Contrasted, first: NDArray[np.float32]) -> None:
        super().__init__()
        self.contrasted = contrasted
        self.prototypes = nn.Parameter(torch.from_numpy(first).to(contrasted.network.device))

    def forward(self, x: Tensor) -> Tensor:
        """Return projections and cosines."""
        features, projected = self.contrasted.directions(x)
        return torch.cat([projected, features @ F.normalize(self.prototypes, dim=1).T], dim=1)


class SimGcdTask(ContrastTask):
    """Self-distillation, even use of the kinds, labels, and the contrastive losses."""

    stage = "simgcd"
    title = "Learning prototypes"
    settings: SimGcd

    def __init__(self, problem: Problem, settings: SimGcd, first: NDArray[np.float32]) -> None:
        super().__init__(problem, settings)
        self.contrasted = Contrasted(own_network(problem), settings.projection, self.seed)
        self.prototypes = Prototypes(self.contrasted, first)
        self.module: nn.Module = self.prototypes
        self.new = problem.kinds
        self.only_new = problem.novelty is None

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return all losses of a batch, and their weighted sum."""
        kinds = len(self.prototypes.prototypes)
        chosen, z, logits = self.settings, outputs[:, :-kinds], outputs[:, -kinds:]
        rows, labels = self.labelled(items, z.device)
        of_labels = F.cross_entropy(logits[rows] / chosen.sharpness, self.new + labels)
        if self.only_new:  # then no unsorted picture is of a known kind
            unsorted = to_device(np.tile(items < len(self.unsorted), 2), z.device)
            known = torch.arange(kinds, device=z.device) >= self.new
            logits = logits.masked_fill(unsorted[:, None] & known, IMPOSSIBLE)
        distilled = distillation(logits, chosen.sharpness, self.target_sharpness(epoch))
        uneven = unevenness(logits, chosen.sharpness)
        found, share = self.contrast(z, items), chosen.supervised
        own = (1 - share) * (distilled + chosen.mean_entropy * uneven) + share * of_labels
        return {
            **found,
            "loss": found["loss"] + own,
            "distillation": distilled,
            "unevenness": uneven,
            "labels": of_labels,
        }

    def target_sharpness(self, epoch: int) -> float:
        """Return the temperature of targets in an epoch: it falls linearly and then stays."""
        chosen, falling = self.settings, self.settings.sharpened_after * self.settings.epochs
        done = min(1.0, epoch / falling) if falling else 1.0
        return chosen.first_target_sharpness + done * (chosen.target_sharpness - chosen.first_target_sharpness)


def simgcd(problem: Problem) -> Solution:
    """Train prototypes of all kinds on all pictures; f itself is left as it is."""
    problem.check_kinds()
    chosen = problem.settings.section(SimGcd)
    known = apply(problem.network, problem.known) if chosen.start == "centres" else problem.features[:0]
    first = from_writer(lambda: _first_prototypes(problem, known, chosen))
    task = SimGcdTask(problem, chosen, first)
    problem.train(task, Phase("main", chosen.epochs, chosen))
    columns = len(problem.columns)  # without the known kinds, which are last, in a heap of new ones alone
    centres = F.normalize(task.prototypes.float().prototypes.detach(), dim=1)[:columns].cpu().numpy()
    contrasted = task.contrasted.eval()
    # Of unit vectors, -s |z - c|^2 is 2 s cos - 2 s.
    model = Model(contrasted.network, contrasted.head(centres, 0.5 / chosen.sharpness)).eval()
    said = model_outputs(model, problem.unsorted)
    return Solution(problem.assign(np.exp(said.log_p)), said.embedding, model=model, features=said.features)


def _first_prototypes(problem: Problem, known: NDArray[np.float32], chosen: SimGcd) -> NDArray[np.float32]:
    """Return a prototype of each new and then of each known kind, float32 (K + L, d), at length 1."""
    assert problem.known.labels is not None
    classes, wide = len(problem.known.classes), problem.features.shape[1]
    if chosen.start == "random":
        drawn = generator(problem.settings.seed, "prototypes").normal(size=(problem.kinds + classes, wide))
        return directions_float32(drawn)
    turned = directions_float32(known)
    found = semi_supervised_centres(problem, directions_float32(problem.features), turned, chosen.restarts)
    if problem.novelty is None:
        means = [turned[problem.known.labels == kind].mean(axis=0) for kind in range(classes)]
        found = np.concatenate([found, np.stack(means)])
    return directions_float32(found)


METHODS = (
    Method(
        "simgcd",
        "prototypes of known and new kinds by self-distillation (Wen et al. 2023)",
        simgcd,
        {"simgcd": SimGcd},
        assigns="simgcd",
        resolve=lambda settings, known: suited_augmentation("simgcd", settings.section(SimGcd), known),
        takes_known=True,
        heads=(DirectionsHead,),
    ),
)
