"""Whole networks: f with its input normalisation, and f with the bottleneck and the centres behind it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.equations import log_assignment
from newkinds.networks.backbones import Backbone
from newkinds.networks.catalogue import build_backbone
from newkinds.randomness import seeded_torch


class Network(nn.Module):
    """The feature extractor f: pictures float32 (B, C, H, W) in [0, 1] to features (B, feature_dim).

    The mean and the standard deviation of its training pixels are part of it, so that weights on disk are complete.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, name: str, channels: int, size: int) -> None:
        super().__init__()
        self.name = name
        self.channels = channels
        self.size = size
        self.backbone: Backbone = build_backbone(name, channels, size)
        shape = (1, channels) if name == "identity" else (1, channels, 1, 1)
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("std", torch.ones(shape))

    @property
    def feature_dim(self) -> int:
        """The width of the features."""
        return self.backbone.feature_dim

    @property
    def has_weights(self) -> bool:
        """Whether there is anything to train."""
        return any(True for _ in self.parameters())

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, feature_dim)."""
        features: Tensor = self.backbone((x - self.mean) / self.std)
        return features

    def normalise_by(self, pixels: NDArray[np.uint8], items: NDArray[np.int64] | None = None) -> None:
        """Take the mean and the standard deviation of each channel from uint8 pixels (N, C, H, W), all or `items`."""
        items = np.arange(len(pixels)) if items is None else items
        count, total, squares = 0, np.zeros(self.channels), np.zeros(self.channels)
        for start in range(0, len(items), 1024):
            chunk = pixels[items[start : start + 1024]].astype(np.float64) / 255
            count += chunk.size // self.channels
            total += chunk.sum(axis=(0, 2, 3))
            squares += np.square(chunk).sum(axis=(0, 2, 3))
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 0))
        self.mean.copy_(torch.from_numpy(mean).view_as(self.mean))
        self.std.copy_(torch.from_numpy(np.maximum(std, 1e-3)).view_as(self.std))


class ClusteringNetwork(nn.Module):
    """f with the bottleneck (A, b) and the centres U: pictures to log p(k|i).

    The bottleneck maps features (B, d) to (B, c); the centres are (K, c).
    """

    def __init__(self, network: Network, kinds: int, width: int, alpha: float = 1.0) -> None:
        super().__init__()
        self.network = network
        with seeded_torch(0, "bottleneck"):  # only to leave torch's global generator alone: the start replaces it
            self.bottleneck = nn.Linear(network.feature_dim, width)
        self.centres = nn.Parameter(torch.zeros(kinds, width))
        self.alpha = alpha

    def embed(self, x: Tensor) -> Tensor:
        """Return the embeddings z (B, c): f and the bottleneck."""
        embedding: Tensor = self.bottleneck(self.network(x))
        return embedding

    def forward(self, x: Tensor) -> Tensor:
        """Return log p(k|i), float32 (B, K) (Eq. 1)."""
        return log_assignment(self.embed(x), self.centres, self.alpha)


def build_network(name: str, channels: int, size: int, seed: int) -> Network:
    """Return a network with fresh weights that depend on `seed` only."""
    with seeded_torch(seed, "weights"):
        return Network(name, channels, size)
