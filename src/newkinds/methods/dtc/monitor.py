"""The monitor: measures of a clustering that need no labels, as self-training can end below its own start, unseen."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.equations import clustering_accuracy


def shared_information(first: NDArray[np.int64], second: NDArray[np.int64], kinds: int) -> float:
    """Return the mutual information of two namings of the same pictures, as a share of what `kinds` even kinds have.

    first, second: int64 (N,), the kind of each picture as it is and as a random view of it. The share is 1 when every
    view is named as its picture and all kinds are equally large; it falls when names waver under augmentation, and
    when kinds merge or die out, which agreement alone would reward.
    """
    joint = np.zeros((kinds, kinds))
    np.add.at(joint, (first, second), 1 / len(first))
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    present = joint > 0
    information = float((joint[present] * np.log(joint[present] / expected[present])).sum())
    return information / float(np.log(kinds))


def effective_kinds(labels: NDArray[np.int64], kinds: int) -> float:
    """Return the number of equally large kinds that are as diverse as those of `labels`: exp of their entropy."""
    shares = np.bincount(labels, minlength=kinds) / len(labels)
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def agreement(labels: NDArray[np.int64], start: NDArray[np.int64]) -> float:
    """Return the share of pictures that are still with the kind they started in, kinds matched one to one."""
    return clustering_accuracy(labels, start)


class BestState:
    """The weights at the epoch whose monitor was best so far; epoch -1 is the start."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.epoch = -1
        self.value = -math.inf
        self.weights: dict[str, Tensor] = {}

    def offer(self, module: nn.Module, epoch: int, value: float) -> None:
        """Keep the module's weights if their monitor is better than all before."""
        if self.wanted and value > self.value:
            self.epoch, self.value = epoch, value
            self.weights = {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """Return what is to be kept with a checkpoint."""
        if not self.weights:
            return {}
        about = {"epoch": torch.tensor(self.epoch), "value": torch.tensor(self.value, dtype=torch.float64)}
        return about | {f"weights.{name}": value for name, value in self.weights.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        if state:
            self.epoch, self.value = int(state["epoch"]), float(state["value"])
            prefix = "weights."
            self.weights = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
