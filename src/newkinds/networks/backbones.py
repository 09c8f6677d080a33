"""Backbones: the paper's feature extractors, at three widths, for pictures of any size and number of channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class Backbone(nn.Module):
    """A network from pictures float32 (B, C, H, W) in [0, 1] to features float32 (B, feature_dim)."""

    feature_dim: int

    def make_head(self, outputs: int) -> nn.Module:
        """Return a fresh classifier from features to `outputs` logits, as this architecture has it."""
        return nn.Linear(self.feature_dim, outputs)


class Identity(Backbone):
    """Ready-made embeddings: f is the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.feature_dim = width

    def forward(self, x: Tensor) -> Tensor:
        """Return the embeddings as they are."""
        return x


class Flat(Backbone):
    """Flattened pixels: nothing is learnt."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.feature_dim = width

    def forward(self, x: Tensor) -> Tensor:
        """Return the pixels (B, C H W)."""
        return x.flatten(1)


class Encoder(Backbone):
    """Linear layers with ReLU between them, over pixels or embeddings: the encoder of deep embedded clustering."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in widths:
            layers += [nn.Linear(inputs, width), nn.ReLU(True)]
            inputs = width
        self.layers = nn.Sequential(*layers[:-1])
        self.feature_dim = inputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the code (B, feature_dim)."""
        code: Tensor = self.layers(x.flatten(1))
        return code


class VGG6(Backbone):
    """Blocks of 3x3 convolution, batch norm, ReLU and 2x2 max-pooling, as in the paper's OmniGlot and CIFAR-100 runs.

    widths: channels of each block. grid: the side of the final feature map, which is flattened: 2 in the "4+2" layout
    (the head then has a hidden layer, `hidden` wide), 1 in "5+1". At 32 x 32 every block pools, as published; on
    smaller pictures the last blocks do not, and on larger ones the final map is averaged down to the grid.
    """

    def __init__(self, channels: int, size: int, widths: Sequence[int], grid: int, hidden: int = 0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in widths:
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
            if size // 2 >= grid:
                layers.append(nn.MaxPool2d(2))
                size //= 2
            layers.append(nn.ReLU(True))  # after the pooling: the same values, a quarter of the work
            channels = width
        if size != grid:
            layers.append(nn.AdaptiveAvgPool2d(grid))
        self.layers = nn.Sequential(*layers)
        self.hidden = hidden
        self.feature_dim = channels * grid * grid

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, feature_dim)."""
        features: Tensor = self.layers(x).flatten(1)
        return features

    def make_head(self, outputs: int) -> nn.Module:
        """Return the sixth layer, or in the "4+2" layout the fifth and the sixth."""
        if not self.hidden:
            return super().make_head(outputs)
        return nn.Sequential(
            nn.Linear(self.feature_dim, self.hidden, bias=False),
            nn.BatchNorm1d(self.hidden),
            nn.ReLU(True),
            nn.Linear(self.hidden, outputs),
        )


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != width:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, at 1/stride of the resolution."""
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.shortcut(x), inplace=True)


class ResNet18(Backbone):
    """ResNet18 with `width` channels in its first stage (64 in the paper).

    stem: "3x3", stride 1 and no pooling, for small pictures; or "imagenet", 7x7 with stride 2 and a max-pool.
    """

    def __init__(self, channels: int, width: int, stem: str) -> None:
        super().__init__()
        if stem == "imagenet":
            layers = [nn.Conv2d(channels, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)]
            layers.append(nn.MaxPool2d(3, 2, 1))
        else:
            layers = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True)]
        last = width
        for stage in range(4):
            for block in range(2):
                wide = width * 2**stage
                layers.append(ResidualBlock(last, wide, stride=2 if stage and not block else 1))
                last = wide
        self.layers = nn.Sequential(*layers)
        self.feature_dim = last
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, feature_dim): the mean over the last map."""
        features: Tensor = self.layers(x).mean(dim=(2, 3))
        return features
