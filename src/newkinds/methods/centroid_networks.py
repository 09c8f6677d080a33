"""Centroid networks (Huang et al. 2019): features trained for clusters of equal size, and Sinkhorn k-means on them."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from newkinds.clustering.sinkhorn import EvenClustering, sinkhorn, sinkhorn_kmeans
from newkinds.equations import squared_distances
from newkinds.errors import DataError
from newkinds.features import extract_features
from newkinds.images.augment import suited_policy
from newkinds.images.imageset import ImageSet, group_of
from newkinds.methods.auxiliary import ViewsTask, first_network, weights_of
from newkinds.methods.base import Auxiliary, KnownProblem, Method, Problem, Solution, Tensors
from newkinds.methods.kmeans import from_centres
from newkinds.networks import Model, Network, SoftmaxHead
from newkinds.parallel.processes import from_writer
from newkinds.randomness import generator
from newkinds.settings import CoreSettings, Optimiser, PolicyName
from newkinds.settings.base import BatchSize, FirstWeights, NotNegative, Restarts
from newkinds.training import Phase

EPISODES = 10_000  # with fresh weights; the published number
BLURRED = 0.1  # of the way from p = 1 / K to certainty: below it there are no real clusters


class Centroids(Optimiser):
    """Centroid networks: Sinkhorn's assignment in training and in clustering (method centroid-networks)."""

    batch_size: BatchSize = Field(
        128, description="Not used by this method: a batch is `episode_kinds` times `each` pictures."
    )
    start: FirstWeights = "f"
    episode_kinds: int = Field(
        20,
        ge=2,
        description="The most kinds in an episode, all of one group of names. Published with those of one alphabet.",
    )
    each: int = Field(
        10,
        ge=2,
        description="Pictures of each kind in an episode, half of them for its prototype. Every known kind needs as "
        "many.",
    )
    episodes: NotNegative | Literal["auto"] = Field(
        "auto",
        description='How many episodes of known kinds the network is trained on. "auto": the published 10,000 from '
        "fresh weights, none from f, which has learnt the known kinds already; more made its new kinds worse.",
    )
    halve_every: int = Field(
        2_000,
        ge=1,
        description='Episodes after which the learning rate is halved, where schedule = "constant". Published with '
        "2,000.",
    )
    regulariser: float = Field(
        1.0,
        gt=0,
        description="How soft Sinkhorn's assignment is: the larger, the more kinds a picture is shared between. "
        "Published with 1.",
    )
    iterations: int = Field(10, ge=1, description="Iterations of Sinkhorn in training. Published with 10.")
    centre_weight: float = Field(
        0.1,
        ge=0,
        description="The weight, in training, of the mean squared distance between pictures and the prototype of their "
        "kind. Published with .1.",
    )
    steps: int = Field(20, ge=1, description="Steps of Sinkhorn k-means. Published with 20.")
    first_iterations: int = Field(
        20, ge=1, description="Iterations of Sinkhorn in the first step of Sinkhorn k-means. Published with 20."
    )
    later_iterations: int = Field(
        4,
        ge=1,
        description="Iterations of Sinkhorn in the later steps, which start where the one before ended. Published with "
        "4.",
    )
    restarts: Restarts = Field(
        5,
        description="How often Sinkhorn k-means begins anew; the cheapest outcome is kept. Published with 1.",
    )
    augmentation: PolicyName = "auto"


def centroid_networks(problem: Problem) -> Solution:
    """Train on episodes of known kinds, if any, then cluster the unsorted pictures' features by Sinkhorn k-means.

    p(k|i) is Sinkhorn's P, each row divided by its sum; the kind is where P is largest. With the centres c and the
    duals v that is softmax_k(v_k - |z - c_k|^2 / regulariser), in which |z|^2 cancels: a linear layer and a softmax. So
    the returned network gives the same p for these pictures, and for others the P that the same v implies.
    """
    chosen, seed = problem.settings.section(Centroids), problem.settings.seed
    network = _trained(problem)
    features = extract_features(network, problem.unsorted, progress=problem.progress)
    found = from_writer(
        lambda: sinkhorn_kmeans(
            features,
            problem.kinds,
            seed=seed,
            regulariser=chosen.regulariser,
            steps=chosen.steps,
            first_iterations=chosen.first_iterations,
            later_iterations=chosen.later_iterations,
            restarts=chosen.restarts,
        )
    )
    sure = float(found.probabilities.max(axis=1).mean())
    if (sure - 1 / problem.kinds) / (1 - 1 / problem.kinds) < BLURRED:
        problem.progress.warn(
            f"Sinkhorn k-means tells hardly any kinds apart: the mean probability of the own kind is {sure:.3f}, and "
            f"1/{problem.kinds} would be chance. The features lie closer together than centroids.regulariser = "
            f"{chosen.regulariser:g} can tell; try a lower one."
        )
    return replace(
        from_centres(problem, network, features, found.centres),
        model=as_softmax(network, found, chosen.regulariser),
        assignment=problem.assign(found.probabilities.astype(np.float32)),
    )


def as_softmax(network: Network, found: EvenClustering, regulariser: float) -> Model:
    """Return log p(k|z) = v_k - |z - c_k|^2 / regulariser, up to what does not depend on k, as a head of a network.

    With m, the mean of the centres: 2 (c_k - m) . z / regulariser + v_k - (|c_k|^2 - |m|^2) / regulariser, in which
    |c_k|^2 - |m|^2 = (c_k - m) . (c_k + m).
    """
    mean = found.centres.mean(axis=0)
    away = found.centres - mean
    bias = found.columns - (away * (found.centres + mean)).sum(axis=1) / regulariser
    head = SoftmaxHead(network.feature_dim, len(away))
    with torch.no_grad():
        head.bottleneck.weight.copy_(torch.from_numpy(2 * away / regulariser))
        head.bottleneck.bias.copy_(torch.from_numpy(bias))
    return Model(network, head).eval()


def query_assignment(embeddings: Tensor, support: int, regulariser: float, iterations: int) -> tuple[Tensor, Tensor]:
    """Return log p(w|i) of an episode's queries, and their squared distances to the prototypes, both (W Q, W).

    embeddings: float (W, S + Q, d), W kinds of which the first `support` = S pictures give the prototype, their mean.
    p(w|i) = P_iw / sum_w P_iw, P by Sinkhorn over all queries.
    """
    prototypes = embeddings[:, :support].mean(dim=1)
    queries = embeddings[:, support:].reshape(-1, embeddings.shape[2])
    distances = squared_distances(queries, prototypes)
    return sinkhorn(distances, regulariser, iterations).log_p.log_softmax(dim=1), distances


def groups_of(classes: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return the groups of kinds, by number: kinds that share the part of their name before the first "/".

    Kinds without a "/" are one group, and so are those that would be alone; a single kind that still remains is left
    out, unless it is the only one.
    """
    named: dict[str, list[int]] = {}
    for number, name in enumerate(classes):
        named.setdefault(group_of(name), []).append(number)
    several = [group for name, group in named.items() if name and len(group) > 1]
    others = [kind for name, group in named.items() if not name or len(group) == 1 for kind in group]
    if len(others) > 1 or not several:
        several.append(others)
    return [np.array(group, dtype=np.int64) for group in several]


class CentroidTask(ViewsTask):
    """Prototypical episodes in which Sinkhorn's P, with equal shares for all kinds, says which query is of which kind.

    loss = -mean_i log p(y_i|i) + centre_weight x mean_i |z_i - c_{y_i}|^2.

    An episode is of up to `episode_kinds` kinds of one group; published, it is of a whole alphabet. An epoch goes over
    all groups, and over large ones in several episodes. There are as many episodes as the settings say: the last epoch
    may be shorter. The learning rate is halved at the beginning of the first epoch after every `halve_every` episodes;
    a schedule other than "constant" replaces that.
    """

    stage = "centroids"
    title = "Learning to cluster the known kinds"
    batch_setting = "episode_kinds"

    def __init__(self, network: Network, known: ImageSet, settings: Centroids, seed: int) -> None:
        assert known.labels is not None
        super().__init__(network, known, settings.augmentation, seed)
        self.settings = settings
        self.batch_size = settings.episode_kinds * settings.each
        self.support = settings.each // 2
        self.episodes = episodes_of(settings)
        self.groups = groups_of(known.classes)
        self.members = [np.flatnonzero(known.labels == kind) for kind in range(len(known.classes))]
        # Of two kinds or more each, and of nearly `episode_kinds`.
        self.parts = [max(1, min(round(len(one) / settings.episode_kinds), len(one) // 2)) for one in self.groups]

    def phase(self) -> Phase:
        """Return all episodes as a phase of the training loop, with a learning rate for each whole epoch."""
        episodes, every, size = self.episodes, self.settings.halve_every, sum(self.parts)
        optimiser = self.settings
        if optimiser.schedule == "constant":
            milestones = tuple(math.ceil(done / size) for done in range(every, episodes, every))
            optimiser = optimiser.model_copy(update={"schedule": "steps", "milestones": milestones, "decay": 0.5})
        return Phase("main", math.ceil(episodes / size), optimiser)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the episodes of an epoch, kind after kind, the support pictures first."""
        found = []
        for number, (group, parts) in enumerate(zip(self.groups, self.parts, strict=True)):
            random = generator(self.seed, "centroid episodes", epoch, number)
            for kinds in np.array_split(random.permutation(group), parts):
                some = kinds[: self.settings.episode_kinds]
                drawn = [random.choice(self.members[kind], self.settings.each, replace=False) for kind in some]
                found.append(np.concatenate(drawn))
        order = generator(self.seed, "order of centroid episodes", epoch).permutation(len(found))
        left = self.episodes - epoch * len(found)
        return [found[i] for i in order[:left]]

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the loss of an episode, its two parts, and the accuracy of P on the queries."""
        chosen = self.settings
        episode = outputs.view(-1, chosen.each, outputs.shape[1])
        log_p, distances = query_assignment(episode, self.support, chosen.regulariser, chosen.iterations)
        own = torch.arange(len(episode), device=outputs.device).repeat_interleave(chosen.each - self.support)
        likelihood, centre = F.nll_loss(log_p, own), distances.gather(1, own[:, None]).mean()
        right = (log_p.detach().argmax(dim=1) == own).to(outputs.dtype).mean()
        loss = likelihood + chosen.centre_weight * centre
        return {"loss": loss, "likelihood": likelihood, "centre": centre, "accuracy": right}


def _trained(problem: Problem) -> Network:
    """Return the network, trained on the known kinds unless the run has it; f itself is left as it is."""
    network = copy.deepcopy(problem.network)
    if network.has_weights:
        network.load_state_dict(problem.keep("centroids", lambda: learn_centroids(problem)))
    return network


def learn_centroids(problem: KnownProblem) -> Tensors:
    """Train f, or a network with fresh weights, on episodes of the known kinds and return its weights.

    With no episodes, the default when starting from f, f is returned as it is; so is a network without weights.
    """
    chosen, seed = problem.settings.section(Centroids), problem.settings.seed
    network = first_network(problem.network, chosen.start, seed)
    if episodes_of(chosen) and network.has_weights:
        _check_episodes(problem.known, chosen)
        task = CentroidTask(network, problem.known, chosen, seed)
        problem.train(task, task.phase())
    return weights_of(network)


def episodes_of(settings: Centroids) -> int:
    """Return how many episodes of known kinds the network is trained on, where "auto" depends on the start."""
    if settings.episodes != "auto":
        return settings.episodes
    return EPISODES if settings.start == "fresh" else 0


def _check_episodes(known: ImageSet, chosen: Centroids) -> None:
    """Refuse episodes that need more pictures of a kind than it has, and known pictures of one kind only."""
    assert known.labels is not None
    counts = np.bincount(known.labels, minlength=len(known.classes))
    if len(counts) < 2:
        raise DataError(f"{len(counts)} known kind makes no episode: 2 are needed.", hint="Give more known kinds.")
    smallest = int(counts.argmin())
    if counts[smallest] < chosen.each:
        raise DataError(
            f"An episode takes {chosen.each} pictures of each kind, but the kind {known.classes[smallest]!r} has "
            f"{counts[smallest]}.",
            hint=f"Lower centroids.each to {counts[smallest]} or less, or leave that kind out."
            if counts[smallest] > 1
            else "Give more pictures of it, or leave that kind out.",
        )


def _resolve(settings: CoreSettings, known: ImageSet) -> Mapping[str, Any]:
    chosen = settings.section(Centroids)
    return {
        "centroids.episodes": episodes_of(chosen),
        "centroids.augmentation": suited_policy(chosen.augmentation, known),
    }


METHODS = (
    Method(
        "centroid-networks",
        "Sinkhorn k-means on features trained for it, kinds of equal size (Huang et al. 2019)",
        centroid_networks,
        {"centroids": Centroids},
        stages={"centroids": "Loss of centroid networks"},
        auxiliary=Auxiliary("centroids", learn_centroids),
        resolve=_resolve,
    ),
)
