"""The start of Algorithm 1: PCA into the bottleneck, k-means into the centres, and the first predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import nn

from newkinds.clustering import kmeans
from newkinds.equations import assignment
from newkinds.errors import UsageError
from newkinds.randomness import one_thread, seeded_torch
from newkinds.settings import Initialise

TIGHTEST = 1e-6  # of the whole variance: what is left inside kinds counts as at least this


@dataclass(frozen=True)
class Start:
    """Where clustering starts.

    weight, bias: A float32 (c, d) and b float32 (c,) of the bottleneck. centres: U float32 (K, c).
    probabilities: p float32 (N, K), of which the first targets are made. labels: what k-means says, int64 (N,).
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    centres: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    labels: NDArray[np.int64]


def initialise(
    features: NDArray[np.float32], kinds: int, settings: Initialise, *, alpha: float = 1.0, seed: int = 0
) -> Start:
    """Return the bottleneck, the centres and the predictions for features (N, d) of the unsorted pictures.

    PCA keeps min(width, d, N) components, where the paper's width is K. With `scale="auto"` the embedding is scaled so
    that the mean squared distance to the own centre is `spread`: Eq. 1 compares distances with 1. With
    `bottleneck="random"` the centres and the predictions are the same, but the layer in front of them is fresh.
    """
    n_samples, wide = features.shape
    if not 2 <= kinds <= n_samples:
        raise UsageError(
            f"{kinds} kinds were asked for, but there are {n_samples} unsorted pictures: kinds should be between 2 "
            f"and {n_samples}.",
            hint="Ask for fewer with --kinds, or give more pictures.",
        )
    width = min(kinds if settings.width == "kinds" else settings.width, wide, n_samples)
    with one_thread():
        # A full decomposition: the randomised one would draw from a generator of its own.
        pca = PCA(n_components=width, svd_solver="full").fit(features.astype(np.float64))
        weight, bias = pca.components_, -pca.components_ @ pca.mean_
        embedded = features.astype(np.float64) @ weight.T + bias
    found = kmeans(embedded, kinds, seed=seed, restarts=settings.restarts)
    scale = _scale(embedded, embedded - found.centres[found.labels], settings)
    with one_thread():
        z = torch.from_numpy(scale * embedded)
        p = assignment(z, torch.from_numpy(scale * found.centres), alpha)
    if settings.bottleneck == "random":
        weight, bias = _random_layer(wide, width, seed)
    return Start(
        weight=(scale * weight).astype(np.float32),
        bias=(scale * bias).astype(np.float32),
        centres=(scale * found.centres).astype(np.float32),
        probabilities=p.numpy().astype(np.float32),
        labels=found.labels,
    )


def _random_layer(wide: int, width: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight (width, wide) and the bias (width,) of a fresh layer, as torch starts one."""
    with seeded_torch(seed, "bottleneck"):
        layer = nn.Linear(wide, width)
    return layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()


def _scale(embedded: NDArray[np.float64], residual: NDArray[np.float64], settings: Initialise) -> float:
    """Return the factor on the embedding (N, c); residual: (N, c), what the own centre leaves of it."""
    if settings.scale == "none":
        return 1.0
    if settings.scale != "auto":
        return settings.scale
    # Where kinds are single points, the rounding between equal pictures must not be blown up to the spread.
    least = TIGHTEST * float(np.square(embedded).sum(axis=1).mean())
    mean_squared_distance = max(float(np.square(residual).sum(axis=1).mean()), least)
    return float(np.sqrt(settings.spread / mean_squared_distance)) if mean_squared_distance > 0 else 1.0
