"""PIM (Chiaroni et al. 2023): a linear classifier on fixed features that is certain of each picture and uses all kinds.

It minimises

    lambda mean_i H(p_i) - H(mean_i p_i),    p_i = softmax(s W x_i),

where x_i are features of length 1, s is a scale and H the entropy: the negative mutual information of pictures and
kinds, with a weight on how certain each picture is. W starts at the centres of k-means.

In a mixed heap it is the published method: i runs over the unsorted pictures in the first term and over labelled ones,
too, in the second, the cross-entropy of the labelled ones' kinds is added, and the k-means is semi-supervised. In a
heap of new kinds alone, labelled pictures are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import Self

from newkinds.clustering import kmeans
from newkinds.clustering.neighbours import directions_float32
from newkinds.errors import NumericsError
from newkinds.features import apply
from newkinds.methods.base import Method, Problem, Solution
from newkinds.methods.semi_supervised import semi_supervised_centres
from newkinds.networks import Head, Model
from newkinds.parallel.devices import finish_step, to_device
from newkinds.parallel.processes import from_writer
from newkinds.settings import Section

SURENESS, MIXED_SURENESS = 0.5, 0.2  # lambda in a heap of new kinds alone, and in a mixed one


class Pim(Section):
    """Mutual information of pictures and kinds, on f's features (method pim)."""

    sureness: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        "auto",
        description="The weight lambda of how sure each picture is of its kind. Small values hold kinds to one size, "
        'ones near 1 suit kinds of very different sizes. "auto": .5, and .2 in a mixed heap. Published: chosen between '
        ".05 and 1 by the known kinds.",
    )
    scale: float = Field(25.0, gt=0, description="The factor s on the cosines; the published one.")
    steps: int = Field(1000, ge=0, description="Steps of Adam, each on all pictures at once; the published number.")
    learning_rate: float = Field(1e-3, gt=0, description="Of Adam; the published one.")
    weight_decay: float = Field(1e-2, ge=0, description="Of Adam; the published one.")
    restarts: int = Field(20, ge=1, description="Tries of the k-means that W starts from; published: 100.")


class CosineHead(Head):
    """Scaled cosines of features and K vectors, and a softmax."""

    name = "cosine"

    def __init__(self, feature_dim: int, kinds: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(kinds, feature_dim))
        self.scale = scale

    @property
    def kinds(self) -> int:
        """How many kinds there are."""
        return len(self.weight)

    def embed(self, features: Tensor) -> Tensor:
        """Return the logits (B, K)."""
        return self.scale * F.linear(F.normalize(features, dim=1), self.weight)

    def log_p(self, embedding: Tensor) -> Tensor:
        """Return the logarithm of the softmax."""
        return torch.log_softmax(embedding, dim=1)

    def about(self) -> dict[str, Any]:
        """Return the number of kinds and the scale."""
        return {"kinds": self.kinds, "scale": self.scale}

    @classmethod
    def build(cls, feature_dim: int, about: Mapping[str, Any]) -> Self:
        """Return one with vectors of zeros."""
        return cls(feature_dim, int(about["kinds"]), float(about["scale"]))


def pim_loss(log_p: Tensor, sureness: float) -> Tensor:
    """Return sureness x mean_i H(p_i) - H(mean_i p_i) of log p (N, K): a scalar, >= -log K."""
    p = log_p.exp()
    mean = p.mean(dim=0)
    return torch.xlogy(mean, mean).sum() - sureness * (p * log_p).sum(dim=1).mean()


def mixed_pim_loss(log_p: Tensor, labels: Tensor, sureness: float) -> Tensor:
    """Return the loss of a mixed heap: log p (N + L, C) of unsorted and then of labelled pictures, labels int64 (L,).

    sureness x mean_i H(p_i) over the unsorted ones - H(mean_i p_i) over all + the cross-entropy of the labelled ones.
    """
    unsorted, labelled = log_p[: -len(labels)], log_p[-len(labels) :]
    mean = log_p.exp().mean(dim=0)
    unsure = -(unsorted.exp() * unsorted).sum(dim=1).mean()
    return torch.xlogy(mean, mean).sum() + sureness * unsure + F.nll_loss(labelled, labels)


def pim(problem: Problem) -> Solution:
    """Train the classifier on the pictures' features; f stays as it is."""
    problem.check_kinds()
    known = None if problem.novelty is None else directions_float32(apply(problem.network, problem.known))
    device = problem.network.device
    head = CosineHead(problem.features.shape[1], len(problem.columns), problem.settings.section(Pim).scale).to(device)
    weight = from_writer(lambda: _trained(problem, head, known))
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weight))
        embedding = head.embed(to_device(problem.features, device))
        p = head.log_p(embedding).exp()
    model = Model(problem.network, head).eval()
    return Solution(problem.assign(p.cpu().numpy()), embedding.cpu().numpy(), model=model, features=problem.features)


def _trained(problem: Problem, head: CosineHead, known: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return W, float32 (C, d), after all steps from the centres of k-means.

    known: directions of the labelled pictures, (L, d); None in a heap of new kinds alone.
    """
    chosen = problem.settings.section(Pim)
    turned = directions_float32(problem.features)
    device = head.weight.device
    sureness = (SURENESS if known is None else MIXED_SURENESS) if chosen.sureness == "auto" else chosen.sureness
    loss_of: Callable[[Tensor], Tensor]
    if known is None:
        centres = kmeans(turned, problem.kinds, seed=problem.settings.seed, restarts=chosen.restarts).centres
        x, loss_of = to_device(turned, device), partial(pim_loss, sureness=sureness)
    else:
        assert problem.known.labels is not None
        centres = semi_supervised_centres(problem, turned, known, chosen.restarts)
        x = to_device(np.concatenate([turned, known]), device)
        labels = to_device(problem.kinds + problem.known.labels, device)
        loss_of = partial(mixed_pim_loss, labels=labels, sureness=sureness)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(centres))
    optimiser = torch.optim.Adam(head.parameters(), lr=chosen.learning_rate, weight_decay=chosen.weight_decay)
    with problem.progress.step("Maximising mutual information", chosen.steps) as bar:
        for number in range(chosen.steps):
            loss = loss_of(head(x))
            if not torch.isfinite(loss):
                raise NumericsError(
                    f"The loss of step {number} is {loss.item()}.", hint="Lower pim.learning_rate or pim.scale."
                )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            finish_step(device)
            bar.advance()
    return head.weight.detach().cpu().numpy()


METHODS = (
    Method(
        "pim",
        "mutual information of pictures and kinds on f's features (Chiaroni et al. 2023)",
        pim,
        {"pim": Pim},
        takes_known=True,
        heads=(CosineHead,),
    ),
)
