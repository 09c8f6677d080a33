"""f, the feature extractor: a backbone with its input normalisation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.networks.backbones import Backbone
from newkinds.networks.catalogue import build_backbone
from newkinds.networks.foreign import Foreign, is_foreign, open_foreign
from newkinds.randomness import seeded_torch


class TransferLayer(nn.Module):
    """Features (B, d) to what the known kinds make of them, (B, w): unit length, moved, multiplied, unit length.

    Without `outputs`, brought to unit length and no more.
    """

    mean: Tensor
    matrix: Tensor | None

    def __init__(self, inputs: int, outputs: int | None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("matrix", None if outputs is None else torch.zeros(inputs, outputs))

    def forward(self, features: Tensor) -> Tensor:
        """Return transferred features."""
        unit = F.normalize(features, dim=1)
        return unit if self.matrix is None else F.normalize((unit - self.mean) @ self.matrix, dim=1)

    @property
    def width(self) -> int:
        """The width of what comes out."""
        return len(self.mean) if self.matrix is None else self.matrix.shape[1]


class Network(nn.Module):
    """The feature extractor f: pictures float32 (B, C, H, W) in [0, 1] to features (B, feature_dim).

    The mean and the standard deviation of its training pixels are part of it, so that weights on disk are complete.
    Pictures of `channels` x `size` x `size` are scaled to the side `network_size` before they enter the backbone, on
    the device; without one, to the size that a `foreign` network was trained with, or not at all. A network that is not
    trained further may have a transfer behind its backbone.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, name: str, channels: int, size: int, network_size: int | None = None, foreign: Foreign | None = None
    ) -> None:
        super().__init__()
        self.name = name
        self.channels = channels
        self.size = size
        self.in_bfloat16 = False  # set by `bfloat16`
        self.transfer: TransferLayer | None = None
        self.network_size = network_size or (None if foreign is None else foreign.input_size) or size
        inputs = (1, channels) if size == 1 else (1, channels, 1, 1)
        if foreign is None:
            self.backbone: Backbone = build_backbone(name, channels, self.network_size)
            self.register_buffer("mean", torch.zeros(inputs))
            self.register_buffer("std", torch.ones(inputs))
            # 1.3 to 1.8 times as fast on a CPU.
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        else:  # keeps the usual memory format, which code from elsewhere may rely on
            foreign.fit(channels, self.network_size)
            self.backbone = foreign
            self.register_buffer("mean", _spread(foreign.pixel_mean, foreign.inputs))
            self.register_buffer("std", _spread(foreign.pixel_std, foreign.inputs))

    @property
    def feature_dim(self) -> int:
        """The width of the features."""
        return self.backbone.feature_dim if self.transfer is None else self.transfer.width

    def with_transfer(self, mean: NDArray[np.float32], matrix: NDArray[np.float32] | None) -> Network:
        """Return a copy with a transfer behind its backbone: mean (d,), matrix (d, w) or None."""
        copied = copy.deepcopy(self)
        layer = TransferLayer(len(mean), None if matrix is None else matrix.shape[1])
        layer.mean.copy_(torch.from_numpy(mean))
        if layer.matrix is not None and matrix is not None:
            layer.matrix.copy_(torch.from_numpy(matrix))
        copied.transfer = layer.to(self.device)
        return copied

    @property
    def features(self) -> str:
        """Which of its layers the features are of, as the setting `network_features` says it."""
        return self.backbone.features if isinstance(self.backbone, Foreign) else "last"

    @property
    def device(self) -> torch.device:
        """The device that it is on."""
        return self.mean.device

    @property
    def has_weights(self) -> bool:
        """Whether there is anything to train."""
        return any(True for _ in self.parameters())

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, feature_dim)."""
        x = (x - self.mean) / self.std  # broadcasts a grey picture to as many channels as there are means
        if x.ndim == 4 and x.shape[-1] != self.network_size:
            x = resized(x, self.network_size)
        if x.ndim == 4 and not isinstance(self.backbone, Foreign):
            x = x.contiguous(memory_format=torch.channels_last)
        if self.in_bfloat16:
            with torch.autocast(x.device.type, torch.bfloat16):
                features: Tensor = self.backbone(x)
            features = features.float()
        else:
            features = self.backbone(x)
        return features if self.transfer is None else self.transfer(features)

    def normalise_by(self, pixels: NDArray[np.uint8], items: NDArray[np.int64] | None = None) -> None:
        """Set the mean and the standard deviation of each channel from uint8 pixels (N, C, H, W), all or `items`.

        A network from elsewhere keeps those that it was trained with.
        """
        if isinstance(self.backbone, Foreign):
            return
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


@contextmanager
def bfloat16(module: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Make every f in a module multiply in bfloat16 within the context, if that is wanted.

    Weights, gradients, features and everything computed from features keep their precision: distances and logarithms of
    small probabilities need more than three digits.
    """
    networks = [part for part in module.modules() if isinstance(part, Network)] if wanted else []
    for network in networks:
        network.in_bfloat16 = True
    try:
        yield
    finally:
        for network in networks:
            network.in_bfloat16 = False


def build_network(
    name: str,
    channels: int,
    size: int,
    seed: int,
    *,
    network_size: int | None = None,
    admitted: str | None = None,
    pretrained: bool = True,
    features: str = "auto",
) -> Network:
    """Return a network called `name` for pictures of `channels` x `size` x `size`.

    One of the catalogue has fresh weights that depend on `seed` only; one from elsewhere has its own. `admitted`,
    `pretrained` and `features` are as in `open_foreign`.
    """
    foreign = None
    if is_foreign(name):
        foreign = open_foreign(name, admitted=admitted, seed=seed, pretrained=pretrained, features=features)
    with seeded_torch(seed, "weights"):
        return Network(name, channels, size, network_size, foreign)


def resized(x: Tensor, side: int) -> Tensor:
    """Return pictures (B, C, H, W) resized to (B, C, side, side): bilinear, antialiased if they shrink."""
    return F.interpolate(x, size=(side, side), mode="bilinear", antialias=side < x.shape[-1])


def _spread(values: tuple[float, ...], channels: int) -> Tensor:
    """Return one value a channel, or one for all, as float32 (1, channels, 1, 1)."""
    return torch.tensor(values, dtype=torch.float32).expand(channels).reshape(1, -1, 1, 1).clone()
