"""k-means as a method, plain and with the known pictures as anchors, and a model made from its centres."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from newkinds.clustering import kmeans
from newkinds.methods.base import Method, Problem, Solution
from newkinds.networks import Model, Network, StudentHead, build_network
from newkinds.settings import CoreSettings, Section
from newkinds.settings.base import ClusteredOn, Restarts
from newkinds.start import embedded_start


class KMeans(Section):
    """k-means, plain or with the known pictures as anchors (methods kmeans and constrained-kmeans)."""

    on: ClusteredOn = "features"
    restarts: Restarts = Field(
        20,
        description="How often k-means begins anew; the best outcome is kept. The paper's authors have 20.",
    )


def plain_kmeans(problem: Problem) -> Solution:
    """Cluster the unsorted pictures alone."""
    chosen = problem.settings.section(KMeans)
    points = problem.points(chosen.on)
    found = kmeans(points, problem.kinds, seed=problem.settings.seed, restarts=chosen.restarts)
    return from_centres(problem, on_network(problem, chosen.on), points, found.centres)


def constrained_kmeans(problem: Problem) -> Solution:
    """Cluster unsorted and known pictures together, the known ones forced to their kinds' clusters.

    As in the paper, unsorted pictures are assumed to be of new kinds only: at the end each is assigned to the nearest
    of the new kinds' centres.
    """
    assert problem.known.labels is not None
    chosen, classes = problem.settings.section(KMeans), len(problem.known.classes)
    points = problem.points(chosen.on)
    everyone = np.concatenate([problem.known_points(chosen.on), points])
    anchors = np.concatenate([problem.known.labels, np.full(len(points), -1, dtype=np.int64)])
    found = kmeans(
        everyone, classes + problem.kinds, seed=problem.settings.seed, anchors=anchors, restarts=chosen.restarts
    )
    return from_centres(problem, on_network(problem, chosen.on), points, found.centres[classes:])


def on_network(problem: Problem, on: str) -> Network:
    """Return the network whose features are clustered: f, or the pixels themselves."""
    images = problem.unsorted
    if on == "features" or images.is_embedding:
        return problem.network
    return build_network("pixels", images.channels, images.size, seed=0).to(problem.network.device)


def from_centres(
    problem: Problem, network: Network, points: NDArray[np.float32], centres: NDArray[np.float64]
) -> Solution:
    """Return the solution of centres (K, d) among the features (N, d) of a network: the nearest one is the kind.

    Only the span of the centres decides which is nearest: the bottleneck projects onto it. Eq. 1 turns distances into
    probabilities, at the scale of [initialise].
    """
    start = embedded_start(points, centres, problem.settings.initialise)
    head = StudentHead(network.feature_dim, *start.centres.shape)
    start.into(head)
    embedding = points @ start.weight.T + start.bias
    return Solution(
        problem.assign(start.probabilities),
        embedding.astype(np.float32),
        model=Model(network, head).eval(),
        features=points,
    )


def _on_features(settings: CoreSettings) -> bool:
    return settings.section(KMeans).on == "features"


METHODS = (
    Method(
        "kmeans",
        "k-means on f's features, or on pixels (kmeans.on)",
        plain_kmeans,
        {"kmeans": KMeans},
        takes_features=_on_features,
        always_rehearsed=True,
    ),
    Method(
        "constrained-kmeans",
        "k-means with the known pictures in clusters of their own",
        constrained_kmeans,
        {"kmeans": KMeans},
        takes_features=_on_features,
    ),
)
