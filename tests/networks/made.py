"""Networks from elsewhere, as a user's module would have them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Tiny(nn.Module):
    """One convolution to 6 maps, or to their means."""

    def __init__(self, channels: int = 3, maps: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.5)
        self.maps = maps

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, 6), or maps (B, 6, h, w)."""
        y: Tensor = self.drop(self.norm(self.conv(x)).relu())
        return y if self.maps else y.mean(dim=(2, 3))


def tiny() -> nn.Module:
    """Return a network that says what it was trained with."""
    network = Tiny()
    network.input_size, network.mean, network.std = 16, (0.5, 0.25, 0.125), (0.5, 0.5, 0.25)
    return network


def silent() -> nn.Module:
    """Return one that says nothing, and gives maps."""
    return Tiny(maps=True)


def grey() -> nn.Module:
    """Return one for one channel."""
    return Tiny(channels=1)


def tied() -> nn.Module:
    """Return one whose two layers are the same."""
    layer = nn.Conv2d(3, 3, 3)
    return nn.Sequential(layer, layer)


class Returns(nn.Module):
    """Return what is asked for, whatever the pictures are."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> object:
        """Return it."""
        return self.value


class Fixed(nn.Module):
    """Takes pictures of one size only, as transformers do."""

    input_size = 16

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, 3)."""
        assert x.shape[-1] == 16, f"expected 16, got {x.shape[-1]}"
        return x.mean(dim=(2, 3))


def text() -> nn.Module:
    """Return one that returns a tuple."""
    return Returns((torch.zeros(2, 3), None))


def tokens() -> nn.Module:
    """Return one that returns tokens."""
    return Returns(torch.zeros(2, 5, 3))


def one_row() -> nn.Module:
    """Return one that loses a picture."""
    return Returns(torch.zeros(1, 3))


def half() -> nn.Module:
    """Return one in half precision."""
    return Returns(torch.zeros(2, 3, dtype=torch.float16))


def infinite() -> nn.Module:
    """Return one whose features are not finite."""
    return Returns(torch.full((2, 3), torch.inf))


def fixed() -> nn.Module:
    """Return one for 16 pixels only."""
    return Fixed()


def raises() -> nn.Module:
    """Fail."""
    raise RuntimeError("no such file\nin my folder")


def nothing() -> None:
    """Return no module."""


def badly_said(**attributes: object) -> nn.Module:
    """Return one whose attributes are as given."""
    network = Tiny()
    for name, value in attributes.items():
        setattr(network, name, value)
    return network


NOT_A_FUNCTION = 3
