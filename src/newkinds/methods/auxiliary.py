"""What methods that train auxiliary networks share: initial weights, augmented views, saved weights."""

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
    """A task that trains on augmented views of pictures, or on ready-made embeddings as they are."""

    def __init__(self, module: nn.Module, images: ImageSet, augmentation: str, seed: int) -> None:
        self.module = module
        self.images = images
        self.names = images.names
        self.seed = seed
        self.how = policy(suited_policy(augmentation, images), images.size)

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        """Return a random view of each picture, a different one in each epoch."""
        pixels, device = self.images.pixels[items], device_of(self.module)
        if self.images.is_embedding:
            return as_input(pixels, device)
        return augment(to_device(pixels, device), items, self.how, seed=self.seed, epoch=epoch)


def first_network(network: Network, start: str, seed: int) -> Network:
    """Return a copy of f, or, if `start` is "fresh", the same architecture with weights that depend on the seed only.

    A fresh one has f's pixel mean and standard deviation.
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
    """Return a copy of a module's weights, float32 on the CPU."""
    return {name: value.cpu().clone() for name, value in module.float().state_dict().items()}
