"""The start of Algorithm 1: PCA for the bottleneck, k-means for the centres, and the first predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import nn

from newkinds.clustering import Clustering, kmeans
from newkinds.clustering.kmeans import nearest
from newkinds.clustering.neighbours import directions_float32, neighbours_averaged
from newkinds.equations import assignment
from newkinds.errors import UsageError
from newkinds.memory import row_blocks
from newkinds.networks import StudentHead
from newkinds.randomness import one_thread, seeded_torch
from newkinds.settings import Initialise

TIGHTEST = 1e-6  # of the total variance: the least that the variance within kinds counts as
# Range of the search for the scale, in units of the distances within kinds: beyond it, p hardly changes.
SMALLEST_SCALE, LARGEST_SCALE, SEARCH = 0.1, 8.0, 30


@dataclass(frozen=True)
class Start:
    """The initial state of clustering.

    weight, bias: A float32 (c, d) and b float32 (c,) of the bottleneck. centres: U float32 (K, c).
    probabilities: p float32 (N, K), from which the first targets are made. labels: of k-means, int64 (N,).
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    centres: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    labels: NDArray[np.int64]

    def into(self, head: StudentHead) -> None:
        """Copy the bottleneck and the centres into a head."""
        with torch.no_grad():
            head.bottleneck.weight.copy_(torch.from_numpy(self.weight))
            head.bottleneck.bias.copy_(torch.from_numpy(self.bias))
            head.centres.copy_(torch.from_numpy(self.centres))


def initialise(
    features: NDArray[np.float32],
    kinds: int,
    settings: Initialise,
    *,
    alpha: float = 1.0,
    seed: int = 0,
    near: NDArray[np.int64] | None = None,
) -> Start:
    """Return the bottleneck, the centres and the predictions for features (N, d) of the unsorted pictures.

    PCA keeps min(width, d, N) components, where the paper's width is K. With `scale="auto"` the embedding is scaled so
    that the mean probability of the most probable kind is `certainty`, as far as it can be: Eq. 1 compares distances
    with 1, and features may have any scale. With `bottleneck="random"` the centres and the predictions are the same,
    but the layer in front of them is fresh. With "centres" k-means comes first, among the features themselves, and the
    bottleneck keeps the span of its centres, at most K - 1 dimensions; with "directions" it comes first, too, among
    features brought to length 1, and the centres are the means of what it puts together. All that comes after the
    averaging over neighbours. near: the nearest of each picture, int64 (N, at least `settings.neighbours`), if they are
    there already.
    """
    n_samples, wide = features.shape
    if not 2 <= kinds <= n_samples:
        raise UsageError(
            f"{kinds} kinds were asked for, but there are {n_samples} unsorted pictures: kinds should be between 2 "
            f"and {n_samples}.",
            hint="Ask for fewer with --kinds, or give more pictures.",
        )
    features = neighbours_averaged(features, settings.neighbours, near)
    width = min(kinds if settings.width == "kinds" else settings.width, wide, n_samples)
    if settings.bottleneck == "centres":
        found = kmeans(features, kinds, seed=seed, restarts=settings.restarts, overseed=settings.overseed)
        return embedded_start(features, found.centres, settings, alpha=alpha, width=width)
    if settings.bottleneck == "directions":
        turned = directions_float32(features)
        found = kmeans(turned, kinds, seed=seed, restarts=settings.restarts, overseed=settings.overseed)
        length = np.linalg.norm(features, axis=1).mean()
        centres = found.centres * length  # of kinds without a picture, where many pictures are equal
        for kind in np.unique(found.labels):
            centres[kind] = features[found.labels == kind].mean(axis=0, dtype=np.float64)
        return embedded_start(features, centres, settings, alpha=alpha, width=width)
    with one_thread():
        # A full decomposition: the randomised one would draw from its own generator.
        pca = PCA(n_components=width, svd_solver="full").fit(features.astype(np.float64))
        weight, bias = pca.components_, -pca.components_ @ pca.mean_
        embedded = features.astype(np.float64) @ weight.T + bias
    found = kmeans(embedded, kinds, seed=seed, restarts=settings.restarts, overseed=settings.overseed)
    with one_thread():
        scale, p = _scale(embedded, found, settings, alpha)
    if settings.bottleneck == "random":
        weight, bias = _random_layer(wide, width, seed)
    return Start(
        weight=(scale * weight).astype(np.float32),
        bias=(scale * bias).astype(np.float32),
        centres=(scale * found.centres).astype(np.float32),
        probabilities=p.astype(np.float32),
        labels=found.labels,
    )


def initialise_mixed(
    features: NDArray[np.float32],
    kinds: int,
    settings: Initialise,
    *,
    known: NDArray[np.float32],
    labels: NDArray[np.int64],
    novelty: NDArray[np.float32],
    alpha: float = 1.0,
    seed: int = 0,
    near: NDArray[np.int64] | None = None,
) -> Start:
    """Return the start for a heap that holds known kinds, too: centres of `kinds` new kinds and then of the known ones.

    features: of the unsorted pictures, (N, d). known, labels: of the labelled ones, (L, d) and int64 (L,), numbered
    without gaps. novelty: how probably each unsorted picture is of a new kind, float32 (N,). Rows of the result are the
    unsorted pictures and then the labelled ones, whose nearest `near` (N + L, n) are, if they are there already.

    The centres of known kinds are the means of their labelled pictures; those of new kinds are found by k-means among
    the pictures that are probably new. Predictions share out what novelty says among the new kinds and among the known
    ones, as Eq. 1 does.
    """
    everyone = neighbours_averaged(np.concatenate([features, known]), settings.neighbours, near)
    n, classes = len(features), int(labels.max()) + 1
    turned = directions_float32(everyone)
    # At least as many of the newest pictures as there are new kinds, whatever novelty says.
    newest = np.argsort(-novelty, kind="stable")[: max(kinds, int((novelty >= 0.5).sum()))]
    found = kmeans(turned[np.sort(newest)], kinds, seed=seed, restarts=settings.restarts, overseed=settings.overseed)
    centres = np.empty((kinds + classes, everyone.shape[1]))
    centres[:kinds] = found.centres * float(np.linalg.norm(everyone, axis=1).mean())
    for kind in np.unique(found.labels):
        centres[kind] = everyone[np.sort(newest)[found.labels == kind]].mean(axis=0, dtype=np.float64)
    for kind in range(classes):
        centres[kinds + kind] = everyone[n:][labels == kind].mean(axis=0, dtype=np.float64)
    start = embedded_start(everyone, centres, settings, alpha=alpha)
    p = start.probabilities.astype(np.float64)
    p[:n] = shared_by_novelty(p[:n], novelty, kinds)
    p[n:] = np.eye(classes + kinds)[kinds + labels]
    return replace(start, probabilities=p.astype(np.float32), labels=p.argmax(axis=1))


def shared_by_novelty(p: NDArray[np.float64], novelty: NDArray[np.float32], kinds: int) -> NDArray[np.float64]:
    """Return p (N, K + L) such that the first K kinds, the new ones, have as much in all as novelty (N,) says."""
    new = novelty.astype(np.float64)[:, None]
    parts = (p[:, :kinds], new), (p[:, kinds:], 1 - new)
    return np.concatenate(
        [part / np.maximum(part.sum(axis=1, keepdims=True), 1e-30) * all_ for part, all_ in parts], axis=1
    )


def embedded_start(
    features: NDArray[np.float32],
    centres: NDArray[np.float64],
    settings: Initialise,
    *,
    alpha: float = 1.0,
    width: int | None = None,
) -> Start:
    """Return a start at given centres (K, d): a bottleneck that keeps what decides which of them is nearest.

    That is the part of the features in the span of the centres, moved to their mean; it has min(K - 1, d) dimensions,
    of which a smaller `width` keeps those in which the centres are furthest apart.
    """
    with one_thread():
        mean = centres.mean(axis=0)
        most = max(1, min(len(centres) - 1, centres.shape[1]))
        basis = np.linalg.svd(centres - mean, full_matrices=False)[2][: min(most, width or most)]
        embedded, placed = np.empty((len(features), len(basis))), (centres - mean) @ basis.T
        for rows in row_blocks(*features.shape):
            embedded[rows] = (features[rows].astype(np.float64) - mean) @ basis.T
        labels = nearest(embedded, placed)
        scale, p = _scale(embedded, Clustering(placed, labels, 0.0), settings, alpha)
    return Start(
        weight=(scale * basis).astype(np.float32),
        bias=(-scale * basis @ mean).astype(np.float32),
        centres=(scale * placed).astype(np.float32),
        probabilities=p.astype(np.float32),
        labels=labels,
    )


def _random_layer(wide: int, width: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight (width, wide) and the bias (width,) of a fresh layer, as torch starts one."""
    with seeded_torch(seed, "bottleneck"):
        layer = nn.Linear(wide, width)
    return layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()


def _scale(
    embedded: NDArray[np.float64], found: Clustering, settings: Initialise, alpha: float
) -> tuple[float, NDArray[np.float64]]:
    """Return the factor on the embedding (N, c), and p (N, K) with it."""
    z, centres = torch.from_numpy(embedded), torch.from_numpy(found.centres)

    def probabilities(scale: float) -> NDArray[np.float64]:
        return assignment(scale * z, scale * centres, alpha).numpy()

    if settings.scale == "none":
        return 1.0, probabilities(1.0)
    if settings.scale != "auto":
        return settings.scale, probabilities(settings.scale)
    # In units in which the mean squared distance to the own centre is 1. Where kinds are single points, rounding errors
    # between equal pictures must not be magnified.
    least = TIGHTEST * float(np.square(embedded).sum(axis=1).mean())
    inside = max(float(np.square(embedded - found.centres[found.labels]).sum(axis=1).mean()), least)
    unit = 1 / math.sqrt(inside) if inside > 0 else 1.0
    low, high = math.log(SMALLEST_SCALE), math.log(LARGEST_SCALE)
    for _ in range(SEARCH):  # the mean grows with the scale
        middle = (low + high) / 2
        surer = probabilities(math.exp(middle) * unit).max(axis=1).mean() > settings.certainty
        low, high = (low, middle) if surer else (middle, high)
    scale = math.exp(high) * unit
    return scale, probabilities(scale)
