"""States on the way from the start to the end of Algorithm 1, kept for pictures of how it got there."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from newkinds.equations import log_assignment
from newkinds.features import apply
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Moment, Watch
from newkinds.networks import ClusteringNetwork
from newkinds.randomness import generator

MOST = 5_000  # pictures that are looked at


class Moments:
    """Looks at some pictures at the start and after a few epochs, and hands what it sees to `watch`."""

    def __init__(self, watch: Watch | None, number: int, epochs: int, images: ImageSet, seed: int) -> None:
        self.watch = watch
        self.due = due_epochs(number, epochs) if watch else frozenset()
        drawn = generator(seed, "moments").permutation(len(images))[:MOST]
        self.items = np.sort(drawn).astype(np.int64)
        self.images = images

    def look(self, epoch: int, module: nn.Module, targets: Tensor) -> None:
        """Look at the state after `epoch` epochs, if that is one of those to look at."""
        if self.watch is None or epoch not in self.due:
            return
        assert isinstance(module, ClusteringNetwork)
        some = self.images.select(self.items)
        q = targets[torch.from_numpy(self.items)].cpu().float().numpy()
        embedding = apply(module, some, call=module.embed)
        centres = module.centres.detach().cpu().float()
        p = log_assignment(torch.from_numpy(embedding), centres, module.alpha).exp().numpy()
        self.watch(Moment(epoch, self.items, embedding, p, q))


def due_epochs(number: int, epochs: int) -> frozenset[int]:
    """Return after how many epochs to look, spread evenly over all: the start among them, and the last if it comes."""
    return frozenset(np.linspace(0, epochs, number).round().astype(int).tolist()) if number else frozenset()
