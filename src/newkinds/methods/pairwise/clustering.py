"""Clustering by KCL and MCL: a network learns kinds from the predictions of a similarity network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.equations import clustering_accuracy
from newkinds.features import apply, model_outputs
from newkinds.methods.auxiliary import ViewsTask, first_network
from newkinds.methods.base import Problem, Solution
from newkinds.methods.dtc.monitor import effective_kinds
from newkinds.methods.pairwise.settings import Pairs
from newkinds.methods.pairwise.similarity import SimilarityNetwork, similarity_network
from newkinds.networks import Model, SoftmaxHead
from newkinds.randomness import seeded_torch
from newkinds.settings import Optimiser
from newkinds.training import Phase, Record

PairLoss = Callable[[Tensor, Tensor], Tensor]


def kcl(problem: Problem) -> Solution:
    """Cluster by the constrained clustering loss of Hsu et al. (2018)."""
    margin = problem.settings.section(Pairs).margin
    return _clustered(problem, "kcl", lambda log_p, same: kcl_loss(log_p, same, margin))


def mcl(problem: Problem) -> Solution:
    """Cluster by the meta classification likelihood of Hsu et al. (2019)."""
    return _clustered(problem, "mcl", mcl_loss)


def kcl_loss(log_p: Tensor, same: Tensor, margin: float) -> Tensor:
    """Return the mean over all ordered pairs (i, j) of the contrastive divergence.

    KL(p_j* || p_i) for pairs of one kind, max(0, margin - KL(p_j* || p_i)) for others, where
    KL(p_j* || p_i) = sum_k p_jk (log p_jk - log p_ik), and no gradient flows into p_j*.

    log_p: float (B, K); same: bool (B, B).
    """
    fixed = log_p.detach()
    p = fixed.exp()
    divergence = (p * fixed).sum(dim=1) - log_p @ p.T
    return torch.where(same, divergence, torch.relu(margin - divergence)).mean()


def mcl_loss(log_p: Tensor, same: Tensor) -> Tensor:
    """Return the mean over all ordered pairs (i, j) of the negative log-likelihood of "same" and "different".

    -log s for pairs of one kind, -log(1 - s) for others, where s = sum_k p_ik p_jk and
    1 - s = sum_k p_ik (1 - p_jk): both sums are taken of logarithms, so that neither becomes the logarithm of 0.

    log_p: float (B, K), K at least 2; same: bool (B, B).
    """
    second = torch.where(same[:, :, None], log_p, _log_of_rest(log_p))
    return -torch.logsumexp(log_p[:, None] + second, dim=2).mean()


def _log_of_rest(log_p: Tensor) -> Tensor:
    """Return log(1 - p) of log p, float (B, K).

    1 - p of the most probable kind is computed as the sum of all others: it may be too small to survive a subtraction.
    """
    top = log_p.argmax(dim=1, keepdim=True)
    of_top = log_p.scatter(1, top, -torch.inf).logsumexp(dim=1, keepdim=True)
    return torch.log1p(-log_p.exp().scatter(1, top, 0.0)).scatter(1, top, of_top)


class TaughtNetwork(nn.Module):
    """The clustering network with its teacher, the similarity network; only the former is trained."""

    def __init__(self, student: Model, teacher: SimilarityNetwork) -> None:
        super().__init__()
        self.student = student
        self.teacher = teacher.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Return log p(k|i) and the teacher's features, concatenated: (B, K + n)."""
        return torch.cat([self.student(x), self.teacher(x)], dim=1)


class PairsTask(ViewsTask):
    """Learn kinds from the answers "same" and "different" to all ordered pairs of a batch.

    Both networks see the same augmented views. Both are in train mode: the teacher uses the statistics of the batch, as
    published. Its running statistics drift, but nothing reads them.

    truth: int64 (N,), -1 where not known, or None; used for the log only, never for training.
    """

    title = "Discovering new kinds by pairs"
    section = "pairs"

    def __init__(self, stage: str, module: TaughtNetwork, loss: PairLoss, problem: Problem) -> None:
        chosen = problem.settings.section(Pairs)
        super().__init__(module, problem.unsorted, chosen.augmentation, problem.settings.seed)
        self.stage = stage
        self.student = module.student
        self.teacher = module.teacher
        self.loss = loss
        self.truth = problem.truth
        self.batch_size = chosen.batch_size
        self.labels = np.full(len(self.names), -1, dtype=np.int64)  # of the last epoch's steps
        self.named = self.labels.copy()  # and this epoch's

    def parameter_groups(self, optimiser: Optimiser) -> list[dict[str, Any]]:
        """Train the weights of the clustering network only."""
        return [{"params": list(self.student.parameters()), "lr": optimiser.learning_rate}]

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the loss by the teacher's answers, and the share of pairs that it calls the same."""
        kinds = self.student.kinds
        log_p, features = outputs[:, :kinds], outputs[:, kinds:].detach()
        self.named[items] = log_p.detach().argmax(dim=1).cpu().numpy()
        same = self.teacher.same(features)
        return {"loss": self.loss(log_p, same), "same": same.to(log_p).mean()}

    def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
        """Log how many assignments changed, how many kinds there seem to be, and ACC where the truth is known."""
        record: Record = {
            "changed": float((self.named != self.labels).mean()),
            "effective_kinds": effective_kinds(self.named, self.student.kinds),
        }
        if self.truth is not None:
            known = self.truth >= 0
            record["acc"] = clustering_accuracy(self.named[known], self.truth[known])
        self.labels = self.named.copy()
        return record

    def state(self) -> dict[str, Tensor]:
        """Return the last epoch's assignments."""
        return {"labels": torch.from_numpy(self.labels)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the last epoch's assignments."""
        self.labels = state["labels"].numpy()


def _clustered(problem: Problem, stage: str, loss: PairLoss) -> Solution:
    """Train the similarity network, then the clustering network, and return the latter's solution."""
    problem.check_kinds()
    settings, chosen = problem.settings, problem.settings.section(Pairs)
    teacher = similarity_network(problem)
    network = first_network(problem.network, chosen.start, settings.seed)
    head = SoftmaxHead(network.feature_dim, problem.kinds)
    with seeded_torch(settings.seed, "kinds of pairs"):
        head.bottleneck.reset_parameters()
    student = Model(network, head)
    problem.train(
        PairsTask(stage, TaughtNetwork(student, teacher), loss, problem), Phase("main", chosen.epochs, chosen)
    )
    model = student.float().eval()
    if settings.kinds == "auto" and chosen.unknown == "drop":
        model = _without_small_kinds(model, problem)
    said = model_outputs(model, problem.unsorted)
    return Solution(problem.assign(np.exp(said.log_p)), said.embedding, model=model, features=said.features)


def large_kinds(labels: NDArray[np.int64], kinds: int, least: float) -> NDArray[np.int64]:
    """Return which of `kinds` kinds hold at least `least` times an even share N / K of the pictures, int64, sorted.

    The two largest always stay. labels: int64 (N,).
    """
    counts = np.bincount(labels, minlength=kinds)
    kept = counts >= least * len(labels) / kinds
    kept[np.argsort(-counts, kind="stable")[:2]] = True
    return np.flatnonzero(kept).astype(np.int64)


def _without_small_kinds(model: Model, problem: Problem) -> Model:
    """Return the network without the kinds that hold too few of the unsorted pictures.

    A softmax over the remaining logits is p of the remaining kinds, renormalised.
    """
    least = problem.settings.section(Pairs).least
    labels = apply(model, problem.unsorted).argmax(axis=1)
    kept = large_kinds(labels, model.kinds, least)
    problem.progress.say(
        f"{len(kept)} of {model.kinds} kinds hold at least {least:g} of an even share of the {len(labels)} pictures; "
        "the others are dropped."
    )
    layer = model.head.get_submodule("bottleneck")
    assert isinstance(layer, nn.Linear)
    head = SoftmaxHead(model.network.feature_dim, len(kept))
    with torch.no_grad():
        head.bottleneck.weight.copy_(layer.weight[torch.from_numpy(kept)])
        head.bottleneck.bias.copy_(layer.bias[torch.from_numpy(kept)])
    return Model(model.network, head).eval()
