"""The monitor: measures of a clustering without labels, because self-training can end below its own start unnoticed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.equations import clustering_accuracy


def shared_information(first: NDArray[np.int64], second: NDArray[np.int64], kinds: int) -> float:
    """Return the mutual information of two labellings of the same pictures, as a share of its maximum for even kinds.

    first, second: int64 (N,), the kind of each picture as it is and of a random view of it. The share is 1 if every
    view has the label of its picture and all kinds are equally large; it falls when labels change under augmentation,
    and when kinds merge or die out, which agreement alone would reward.
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
    """Return the share of pictures that are still in the kind they started in, kinds matched one to one."""
    return clustering_accuracy(labels, start)


class BestState:
    """The weights of the epoch with the best monitor so far; epoch -1 is the start."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.epoch = -1
        self.value = -math.inf
        self.weights: dict[str, Tensor] = {}

    def offer(self, module: nn.Module, epoch: int, value: float) -> None:
        """Keep the module's weights if their monitor is the best so far."""
        if self.wanted and value > self.value:
            self.epoch, self.value = epoch, value
            self.weights = {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint."""
        if not self.weights:
            return {}
        about = {"epoch": torch.tensor(self.epoch), "value": torch.tensor(self.value, dtype=torch.float64)}
        return about | {f"weights.{name}": value for name, value in self.weights.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        if state:
            self.epoch, self.value = int(state["epoch"]), float(state["value"])
            prefix = "weights."
            self.weights = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
