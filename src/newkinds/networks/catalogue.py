"""The catalogue of networks by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from newkinds.errors import UsageError, unknown_name
from newkinds.networks.backbones import VGG6, Backbone, Encoder, Flat, Identity, ResNet18


@dataclass(frozen=True)
class Entry:
    """A network that can be asked for by name: what it is, and how to build it for (channels, size)."""

    description: str
    build: Callable[[int, int], Backbone]


def _vgg42(width: int) -> Callable[[int, int], Backbone]:
    widths = (width, 2 * width, 4 * width, 4 * width)
    return lambda channels, size: VGG6(channels, size, widths, grid=2, hidden=8 * width)


def _vgg51(width: int) -> Callable[[int, int], Backbone]:
    widths = (width, 2 * width, 4 * width, 8 * width, 8 * width)
    return lambda channels, size: VGG6(channels, size, widths, grid=1)


def _resnet(width: int, stem: str) -> Callable[[int, int], Backbone]:
    return lambda channels, size: ResNet18(channels, width, stem)


NETWORKS = {
    "vgg6-4-2": Entry("VGG6, 4 convolutions + 2 linear layers, 1024-d features (the paper's for OmniGlot)", _vgg42(64)),
    "vgg6-4-2-half": Entry("the same at half the width, 512-d features", _vgg42(32)),
    "vgg6-4-2-slim": Entry("the same at a quarter of the width, 256-d features", _vgg42(16)),
    "vgg6-5-1": Entry("VGG6, 5 convolutions + 1 linear layer, 512-d features (the paper's for CIFAR-100)", _vgg51(64)),
    "vgg6-5-1-half": Entry("the same at half the width, 256-d features", _vgg51(32)),
    "vgg6-5-1-slim": Entry("the same at a quarter of the width, 128-d features", _vgg51(16)),
    "resnet18": Entry("ResNet18, 3x3 stem, 512-d features (the paper's for CIFAR-10 and SVHN)", _resnet(64, "3x3")),
    "resnet18-half": Entry("the same at half the width, 256-d features", _resnet(32, "3x3")),
    "resnet18-slim": Entry("the same at a quarter of the width, 128-d features", _resnet(16, "3x3")),
    "resnet18-imagenet": Entry("ResNet18, 7x7 stem, 512-d features (the paper's ImageNet)", _resnet(64, "imagenet")),
    "resnet18-imagenet-half": Entry("the same at half the width, 256-d features", _resnet(32, "imagenet")),
    "resnet18-imagenet-slim": Entry("the same at a quarter of the width, 128-d features", _resnet(16, "imagenet")),
    "pixels": Entry("no network: the pixels themselves", lambda channels, size: Flat(channels * size * size)),
    "identity": Entry("no network: for ready-made embeddings", lambda channels, size: Identity(channels)),
}

UNTRAINED = ("pixels", "identity")  # they have no weights


ENCODER = re.compile(r"encoder((-\d{1,5}){1,9})")  # with the widths of its layers, such as encoder-500-10


def build_backbone(name: str, channels: int, size: int) -> Backbone:
    """Return a fresh backbone called `name` for pictures of `channels` x `size` x `size`."""
    if encoder := ENCODER.fullmatch(name):
        return Encoder(channels * size * size, [int(width) for width in encoder[1].split("-")[1:]])
    if name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    if size < 4 and name != "identity":
        raise UsageError(
            f"Pictures of {size}x{size} are too small for the network {name!r}: at least 4x4 are needed.",
            hint="Give larger pictures, or ready-made embeddings.",
        )
    return NETWORKS[name].build(channels, size)


def default_network(channels: int, size: int, embeddings: bool, accelerator: bool) -> str:
    """Choose a network from the data, and its width from the machine: slim if there is only a CPU."""
    if embeddings:
        return "identity"
    if channels == 1:
        name = "vgg6-4-2"
    elif size <= 48:
        name = "resnet18" if accelerator else "vgg6-5-1"  # a sixth of the time
    else:
        name = "resnet18-imagenet"
    return name if accelerator else f"{name}-slim"
