"""Snapshots: states between the start and the end of Algorithm 1, kept for pictures of how it got there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from newkinds.features import model_outputs
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Snapshot
from newkinds.networks import Model
from newkinds.randomness import generator

MOST = 5_000  # pictures that are looked at


class Snapshots:
    """Takes a snapshot of some pictures at the start and after a few epochs, and hands it to `watch`."""

    def __init__(
        self, watch: Callable[[Snapshot], None] | None, number: int, epochs: int, images: ImageSet, seed: int
    ) -> None:
        self.watch = watch
        self.due = due_epochs(number, epochs) if watch else frozenset()
        drawn = generator(seed, "moments").permutation(len(images))[:MOST]
        self.items = np.sort(drawn).astype(np.int64)
        self.images = images

    def look(self, epoch: int, model: Model, targets: Tensor) -> None:
        """Take one of the state after `epoch` epochs, if that is due."""
        if self.watch is None or epoch not in self.due:
            return
        some = self.images.select(self.items)
        q = targets[torch.from_numpy(self.items)].cpu().float().numpy()
        said = model_outputs(model, some)
        p = torch.from_numpy(said.log_p).exp().numpy()
        self.watch(Snapshot(epoch, self.items, said.embedding, p, q))


def due_epochs(number: int, epochs: int) -> frozenset[int]:
    """Return after how many epochs to look, spread evenly over all: the start among them, and the last if it comes."""
    return frozenset(np.linspace(0, epochs, number).round().astype(int).tolist()) if number else frozenset()
