"""The training loop: pretraining and every method that trains are tasks that it runs.

The loop owns the optimiser, the learning rate, the check for values that are not finite, the checkpoints and the log.
A task owns its network and says what a batch is, what its loss is, and what happens at the end of an epoch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.errors import NumericsError
from newkinds.memory import explained
from newkinds.networks import bfloat16
from newkinds.parallel.devices import finish_step, suited_precision
from newkinds.parallel.processes import gathered, is_writer, make_accelerator, share, shared_batch_norm
from newkinds.progress import QUIET, Progress, Step
from newkinds.randomness import generator
from newkinds.settings import Optimiser

Record = dict[str, Any]
NAMES_SHOWN = 5


@dataclass(frozen=True)
class Phase:
    """A part of a stage with its own optimiser."""

    name: str
    epochs: int
    optimiser: Optimiser

    def rate(self, epoch: int) -> float:
        """Return the factor on the learning rates in `epoch` of this phase."""
        if self.optimiser.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * epoch / self.epochs))
        if self.optimiser.schedule == "steps":
            return self.optimiser.decay ** sum(epoch >= milestone for milestone in self.optimiser.milestones)
        return 1.0


class Task(ABC):
    """A training task: a network, its batches, its loss."""

    stage: str  # the name in the log and of the checkpoints
    section: str = ""  # of the settings, if its name is not that of the stage
    title: str  # shown beside the progress bar
    module: nn.Module
    names: Sequence[str]  # of the items, for errors
    batch_size: int
    batch_setting: str = "batch_size"  # the setting in that section that limits the batch size
    seed: int
    views: int = 1  # inputs per item

    def parameter_groups(self, optimiser: Optimiser) -> list[dict[str, Any]]:
        """Return the optimiser's parameter groups, each with its learning rate."""
        return [{"params": list(self.module.parameters()), "lr": optimiser.learning_rate}]

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Cut a random order of all items into batches of nearly equal size: none has a single item."""
        order = generator(self.seed, f"order of {self.stage}", epoch).permutation(len(self.names)).astype(np.int64)
        n_batches = min(math.ceil(len(order) / self.batch_size), len(order) // 2)
        return np.array_split(order, max(1, n_batches))

    @abstractmethod
    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        """Return the network's inputs for some items, (views * B, ...): the first view of all items, then the next."""

    @abstractmethod
    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return the loss of a batch as "loss", and the terms it consists of.

        outputs: the network's outputs for all inputs of the batch, (views * B, ...).
        """

    def set_mode(self) -> None:
        """Put the network into its training mode."""
        self.module.train()

    def epoch_done(self, phase: Phase, epoch: int, last_of_phase: bool) -> Record:
        """Finish an epoch (counted over all phases) and return what to log."""
        return {}

    def settled(self) -> bool:
        """Return whether training has converged, so that the remaining epochs can be skipped."""
        return False

    def state(self) -> dict[str, Tensor]:
        """Return the state that a checkpoint needs beside the network's weights."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        return


class Checkpoints(Protocol):
    """Where the loop saves its state; `newkinds.runs` has the implementation on disk."""

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        """Return the last epoch's number and tensors kept for `stage`, if any."""

    def due(self) -> bool:
        """Return whether it is time to write one."""

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep the state after `epoch`."""


def train(
    task: Task,
    phases: Sequence[Phase],
    *,
    accelerator: Accelerator | None = None,
    checkpoints: Checkpoints | None = None,
    log: Callable[[Record], None] = lambda record: None,
    progress: Progress = QUIET,
    precision: str = "float32",
) -> None:
    """Run all phases of a task, from its last checkpoint if there is one, until the last epoch or until it settles.

    precision: "float32"; "float64", in which another order of summation (another number of threads or processes) does
    not change the result, and in which the module is left; "bfloat16", which is float32 except for f's products in the
    steps; "auto": what suits the device.
    """
    accelerator = accelerator or make_accelerator()
    precision = suited_precision(precision, accelerator.device)
    # The task keeps its own module; what accelerate wraps it in is used in the steps only.
    task.module.to(dtype=torch.float64 if precision == "float64" else torch.float32)
    with shared_batch_norm(task.module):
        forward = accelerator.prepare_model(task.module)
        kept = checkpoints.load(task.stage) if checkpoints else None
        done = kept[0] if kept else 0
        total = sum(phase.epochs for phase in phases)
        n_batches = len(task.batches(0))
        with progress.step(task.title, total * n_batches, done=done * n_batches) as step:
            first = 0
            for phase in phases:
                optimiser = make_optimiser(phase.optimiser, task.parameter_groups(phase.optimiser))
                if kept and first < done <= first + phase.epochs:
                    _restore(task, optimiser, kept[1])
                for epoch in range(max(first, done), first + phase.epochs):
                    for group in optimiser.param_groups:
                        group["lr"] = group["base"] * phase.rate(epoch - first)
                    record = _epoch(task, forward, optimiser, accelerator, epoch, step, precision)
                    record |= task.epoch_done(phase, epoch, last_of_phase=epoch + 1 == first + phase.epochs)
                    _check_weights(task, epoch)
                    log({"stage": task.stage, "phase": phase.name, "epoch": epoch, **record})
                    step.advance(0, note=f"epoch {epoch + 1}/{total}, {_note(record)}")
                    if task.settled():
                        return
                    if checkpoints and is_writer() and checkpoints.due() and epoch + 1 < total:
                        checkpoints.save(task.stage, epoch + 1, _capture(task, optimiser))
                first += phase.epochs


def _epoch(
    task: Task,
    forward: nn.Module,
    optimiser: torch.optim.Optimizer,
    accelerator: Accelerator,
    epoch: int,
    step: Step,
    precision: str = "float32",
) -> Record:
    """Train for one epoch and return the mean losses."""
    task.set_mode()
    sums: dict[str, Tensor] = {}
    count = 0
    for items in task.batches(epoch):
        setting = f"{task.section or task.stage}.{task.batch_setting}"
        with explained(f"a step of {task.stage} on {len(items)} pictures", setting):
            losses = _step(task, forward, optimiser, accelerator, epoch, items, precision)
        step.advance()
        count += len(items)
        for name, value in losses.items():
            weighted = value.detach() * len(items)
            sums[name] = sums[name] + weighted if name in sums else weighted
        finish_step(accelerator.device)
    return {name: float(value) / count for name, value in sums.items()}


def _step(
    task: Task,
    forward: nn.Module,
    optimiser: torch.optim.Optimizer,
    accelerator: Accelerator,
    epoch: int,
    items: NDArray[np.int64],
    precision: str,
) -> dict[str, Tensor]:
    """Take one optimiser step on a batch, and return its losses."""
    inputs = task.inputs(share(items), epoch)
    with bfloat16(task.module, precision == "bfloat16"):
        outputs = gathered(forward(inputs), len(items), task.views)
    losses = task.losses(outputs, items, epoch)
    if not torch.isfinite(losses["loss"]):
        raise _not_finite(task, f"The loss of a batch in epoch {epoch} is {losses['loss'].item()}", items)
    optimiser.zero_grad(set_to_none=True)
    accelerator.backward(losses["loss"])
    optimiser.step()
    return losses


def make_optimiser(settings: Optimiser, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """Return the optimiser that the settings name; each group keeps its own rate as "base"."""
    groups = [{**group, "base": group["lr"]} for group in groups if group["params"]]
    if settings.optimiser == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum, weight_decay=settings.weight_decay)
    return torch.optim.Adam(groups, weight_decay=settings.weight_decay)


def _not_finite(task: Task, what: str, items: NDArray[np.int64]) -> NumericsError:
    shown = ", ".join(task.names[i] for i in items[:NAMES_SHOWN])
    more = f" and {len(items) - NAMES_SHOWN} more" if len(items) > NAMES_SHOWN else ""
    return NumericsError(
        f"{what}; its pictures: {shown}{more}. Nothing of this step was kept.",
        hint=f"Lower {task.section or task.stage}.learning_rate and start the run in a new folder.",
    )


def _check_weights(task: Task, epoch: int) -> None:
    """Raise an error, naming the last batch's pictures, before weights that are not finite reach a checkpoint."""
    finite = [torch.isfinite(value).all() for value in task.module.state_dict().values()]
    if finite and not torch.stack(finite).all():  # one test for all: each would wait for the device
        raise _not_finite(task, f"A weight is not finite after epoch {epoch}", task.batches(epoch)[-1])


def _note(record: Record) -> str:
    shown = [f"{name} {value:.3f}" for name, value in record.items() if isinstance(value, float)]
    return ", ".join(shown[:1] + shown[-1:] if len(shown) > 1 else shown)


def _capture(task: Task, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return everything that resuming needs: the weights, the task's own state, the optimiser's."""
    tensors = {f"module.{name}": value for name, value in task.module.state_dict().items()}
    tensors |= {f"task.{name}": value for name, value in task.state().items()}
    for number, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": torch.as_tensor(v) for name, v in state.items() if v is not None}
    return tensors


def _restore(task: Task, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore what `_capture` returned."""
    parts: dict[str, dict[str, Tensor]] = {"module": {}, "task": {}, "optimiser": {}}
    for name, value in tensors.items():
        part, rest = name.split(".", 1)
        parts[part][rest] = value
    task.module.load_state_dict(parts["module"])
    task.load_state(parts["task"])
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in parts["optimiser"].items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    for weights, values in optimiser.state.items():
        for key, value in values.items():
            # In the weights' own memory layout, as before: other strides may round differently.
            if isinstance(value, Tensor) and value.shape == weights.shape:
                values[key] = torch.empty_like(weights).copy_(value)
