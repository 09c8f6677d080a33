"""k-means, plain and with the known pictures as anchors, and a model made of its centres."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.clustering import kmeans
from newkinds.methods.base import Found, Material
from newkinds.networks import ClusteringNetwork, Network, build_network
from newkinds.start import embedded_start


def plain_kmeans(material: Material) -> Found:
    """Cluster the unsorted pictures alone."""
    chosen = material.settings.kmeans
    points = material.points(chosen.on)
    found = kmeans(points, material.kinds, seed=material.settings.seed, restarts=chosen.restarts)
    return from_centres(material, on_network(material, chosen.on), points, found.centres)


def constrained_kmeans(material: Material) -> Found:
    """Cluster unsorted and known pictures together, the known ones forced to their kinds' clusters.

    The paper's assumption that unsorted pictures are of new kinds only holds here, too: at the end each goes to the
    nearest of the new kinds' centres.
    """
    assert material.known.labels is not None
    chosen, classes = material.settings.kmeans, len(material.known.classes)
    points = material.points(chosen.on)
    everyone = np.concatenate([material.known_points(chosen.on), points])
    anchors = np.concatenate([material.known.labels, np.full(len(points), -1, dtype=np.int64)])
    found = kmeans(
        everyone, classes + material.kinds, seed=material.settings.seed, anchors=anchors, restarts=chosen.restarts
    )
    return from_centres(material, on_network(material, chosen.on), points, found.centres[classes:])


def on_network(material: Material, on: str) -> Network:
    """Return the network whose features are clustered: f, or the pixels themselves."""
    images = material.unsorted
    if on == "features" or images.is_embedding:
        return material.network
    return build_network("pixels", images.channels, images.size, seed=0)


def from_centres(
    material: Material, network: Network, points: NDArray[np.float32], centres: NDArray[np.float64]
) -> Found:
    """Return what centres (K, d) among the features of a network say: the nearest one is the kind.

    Only what lies in the span of the centres tells which is nearest: the bottleneck keeps that. Eq. 1 makes
    probabilities of the distances, at a scale that the settings of the start of DTC say.
    """
    start = embedded_start(points, centres, material.settings.initialise)
    model = ClusteringNetwork(network, *start.centres.shape)
    with torch.no_grad():
        model.bottleneck.weight.copy_(torch.from_numpy(start.weight))
        model.bottleneck.bias.copy_(torch.from_numpy(start.bias))
        model.centres.copy_(torch.from_numpy(start.centres))
    embedding = points @ start.weight.T + start.bias
    return Found(model.eval(), start.probabilities, embedding.astype(np.float32))
