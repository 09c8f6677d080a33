"""Snapshots of Algorithm 1 between its start and its end, for the figures and the page."""

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

MOST = 5_000  # pictures in a snapshot


class Snapshots:
    """Take snapshots of some pictures at the start and after a few epochs, and pass them to `watch`."""

    def __init__(
        self, watch: Callable[[Snapshot], None] | None, number: int, epochs: int, images: ImageSet, seed: int
    ) -> None:
        self.watch = watch
        self.due = due_epochs(number, epochs) if watch else frozenset()
        drawn = generator(seed, "moments").permutation(len(images))[:MOST]
        self.items = np.sort(drawn).astype(np.int64)
        self.images = images

    def look(self, epoch: int, model: Model, targets: Tensor) -> None:
        """Take a snapshot after `epoch` epochs, if one is due."""
        if self.watch is None or epoch not in self.due:
            return
        some = self.images.select(self.items)
        q = targets[torch.from_numpy(self.items)].cpu().float().numpy()
        said = model_outputs(model, some)
        p = torch.from_numpy(said.log_p).exp().numpy()
        self.watch(Snapshot(epoch, self.items, said.embedding, p, q))


def due_epochs(number: int, epochs: int) -> frozenset[int]:
    """Return after which epochs to take a snapshot, evenly spaced: from the start to the last, if that is reached."""
    return frozenset(np.linspace(0, epochs, number).round().astype(int).tolist()) if number else frozenset()
