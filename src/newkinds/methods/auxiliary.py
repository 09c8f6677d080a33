"""What methods share that train networks of their own: the first weights, the augmented views, what is kept."""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.features import as_input, device_of
from newkinds.images.augment import augment, policy, suited_policy
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Tensors
from newkinds.networks import Network, build_network
from newkinds.parallel.devices import to_device
from newkinds.training import Task


class ViewsTask(Task):
    """A task that sees an augmented view of each picture, or ready-made embeddings as they are."""

    def __init__(self, module: nn.Module, images: ImageSet, augmentation: str, seed: int) -> None:
        self.module = module
        self.images = images
        self.names = images.names
        self.seed = seed
        self.how = policy(suited_policy(augmentation, images), images.size)

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        """Return a view of each picture, another one in each epoch."""
        pixels, device = self.images.pixels[items], device_of(self.module)
        if self.images.is_embedding:
            return as_input(pixels, device)
        return augment(to_device(pixels, device), items, self.how, seed=self.seed, epoch=epoch)


def first_network(network: Network, start: str, seed: int) -> Network:
    """Return a copy of f, or, if `start` is "fresh", a network of its name with weights that depend on the seed only.

    A fresh one has f's mean and deviation of the pixels.
    """
    if start == "f":
        return copy.deepcopy(network)
    fresh = build_network(
        network.name,
        network.channels,
        network.size,
        seed,
        network_size=network.network_size,
        admitted=network.name,
        pretrained=False,
    )
    fresh.mean.copy_(network.mean)
    fresh.std.copy_(network.std)
    return fresh.to(network.device)


def weights_of(module: nn.Module) -> Tensors:
    """Return a module's weights as they are kept: float32, on the CPU, on their own."""
    return {name: value.cpu().clone() for name, value in module.float().state_dict().items()}
