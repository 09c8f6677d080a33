"""Several processes on one run, started by torchrun: how a batch is divided, and how the parts are gathered.

Every process holds all pictures and asks for the same batches. It computes its own part of each, and the outputs of the
network, which are small, are gathered before the loss: so the loss sees the whole batch, as with one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import imports
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.environment import variable, whole_number_from
from newkinds.errors import UsageError
from newkinds.parallel.devices import OVERRIDE, pick_device

T = TypeVar("T")


def make_accelerator(device: str | None = None) -> Accelerator:
    """Return the accelerator of this process, which joins the others that torchrun has started, if any.

    device: as in `pick_device`. A process has one device at a time: earlier accelerators move with it.
    """
    chosen = pick_device(device)
    if PartialState._shared_state and PartialState().device != chosen:
        AcceleratorState._reset_state(reset_partial_state=True)  # otherwise the first device is kept for good
    if find_spec("torch_xla"):  # where it is installed, accelerate would use XLA whatever is asked for
        imports._torch_xla_available = chosen.type == "xla"
        imports.is_torch_xla_available.cache_clear()
    if chosen.type in ("cuda", "xpu"):
        getattr(torch, chosen.type).set_device(chosen)  # collectives use the current device
    # accelerate shares work among CPUs only when told to.
    several = whole_number_from("WORLD_SIZE", 1, least=1) > 1
    for name in ("RANK", "LOCAL_RANK", "MASTER_PORT"):  # which accelerate and torch read
        whole_number_from(name, 0)
    cpus = several and chosen.type == "cpu"
    # A process may wait long while another counts kinds or draws the page.
    patience = InitProcessGroupKwargs(timeout=timedelta(days=1))
    with variable(OVERRIDE, str(chosen)):
        try:
            return Accelerator(cpu=cpus, kwargs_handlers=[patience])
        except ValueError as error:
            raise UsageError(
                f"accelerate, which runs the processes, does not understand an environment variable: {error}",
                hint="Look at those that begin with ACCELERATE_ and take the wrong one away.",
            ) from error


def processes() -> int:
    """Return the number of processes that work on the run."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return this process's number; the first, 0, is the one that writes."""
    return dist.get_rank() if processes() > 1 else 0


def is_writer() -> bool:
    """Return whether this process is the one that writes and prints."""
    return rank() == 0


def wait_for_all() -> None:
    """Block until every process has called this."""
    if processes() > 1:
        dist.barrier()


def share(items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return this process's part of a batch: a run of items, of nearly the same length for each process."""
    if len(items) < processes():
        raise UsageError(
            f"{processes()} processes cannot share a batch of {len(items)} pictures.",
            hint=f"Start at most {len(items)} processes, raise the batch size, or give more pictures.",
        )
    return np.array_split(items, processes())[rank()]


def gathered(outputs: Tensor, total: int, views: int = 1) -> Tensor:
    """Return the outputs of a whole batch, gathered from all processes; gradients flow back to each.

    outputs: (views * b, ...), this process's part, one view after the other; total: B, the size of the whole batch.

    Returns (views * B, ...). The gradient that each process gets is summed over the processes.
    """
    if processes() == 1:
        return outputs
    sizes = [len(part) for part in np.array_split(np.arange(total), processes())]
    parts = outputs.reshape(views, -1, *outputs.shape[1:])
    missing = max(sizes) - parts.shape[1]
    padded = torch.cat([parts, parts[:, :1].expand(-1, missing, *parts.shape[2:])], dim=1) if missing else parts
    everyone = _all_of(padded.contiguous())
    whole = torch.cat([part[:, :size] for part, size in zip(everyone, sizes, strict=True)], dim=1)
    return whole.reshape(-1, *outputs.shape[1:])


def gathered_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows of all processes, concatenated in the order of the processes."""
    if processes() == 1:
        return rows
    return np.concatenate(_everyones(rows))


def from_writer(make: Callable[[], T]) -> T:
    """Return on every process what `make` returns on the writer, the only one that calls it."""
    box = [make() if is_writer() else None]
    if processes() > 1:
        dist.broadcast_object_list(box, src=0)
    return cast(T, box[0])


def check_same(values: dict[str, Any]) -> None:
    """Raise an error on every process if they do not all have the same values."""
    everyone = _everyones(values)
    for number, theirs in enumerate(everyone):
        keys = sorted(everyone[0].keys() | theirs.keys())
        differing = [key for key in keys if everyone[0].get(key) != theirs.get(key)]
        if differing:
            key = differing[0]
            raise UsageError(
                f"The processes see different data or settings: {', '.join(differing)}; {key} is "
                f"{everyone[0].get(key)!r} in process 0 and {theirs.get(key)!r} in process {number}.",
                hint="Start every process with the same command, the same files and the same version.",
            )


def _everyones(value: T) -> list[T]:
    if processes() == 1:
        return [value]
    box: list[T | None] = [None] * processes()
    dist.all_gather_object(box, value)
    return cast(list[T], box)


@contextmanager
def shared_batch_norm(module: nn.Module) -> Iterator[None]:
    """Make batch norm use the statistics of the whole batch, not of each process's part, within the context."""
    replaced: list[tuple[nn.Module, str, nn.Module]] = []
    if processes() > 1:
        for parent in list(module.modules()):
            for name, layer in list(parent.named_children()):
                if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                    replaced.append((parent, name, layer))
                    setattr(parent, name, _SharedBatchNorm(layer))
    try:
        yield
    finally:
        for parent, name, layer in replaced:
            stand_in = getattr(parent, name)
            layer.train(stand_in.training)
            for statistic, value in stand_in.named_buffers():  # moving a module to its device creates new ones
                setattr(layer, statistic, value)
            setattr(parent, name, layer)


class _Sum(torch.autograd.Function):
    """The sum of all processes' tensors, with gradients: the gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradient)


class _Gather(torch.autograd.Function):
    """All processes' tensors of one shape (...), as (processes, ...); each gets the sum of its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x) for _ in range(processes())]
        dist.all_gather(parts, x)
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradient)[rank()]


def _summed(x: Tensor) -> Tensor:
    return cast(Tensor, _Sum.apply(x))  # type: ignore[no-untyped-call]


def _all_of(x: Tensor) -> Tensor:
    return cast(Tensor, _Gather.apply(x))  # type: ignore[no-untyped-call]


class _SharedBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over all processes; it shares the weights and the statistics of the layer that it replaces.

    torch's own works on GPUs only.
    """

    def __init__(self, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
        super().__init__(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
        self.weight, self.bias = layer.weight, layer.bias
        self.running_mean, self.running_var = layer.running_mean, layer.running_var
        self.num_batches_tracked = layer.num_batches_tracked
        self.train(layer.training)

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept whatever the layer accepted."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x (B, C, ...) normalised over the whole batch."""
        if not self.training:
            return super().forward(x)
        given, x = x.dtype, x.to(torch.promote_types(x.dtype, torch.float32))
        axes = [axis for axis in range(x.ndim) if axis != 1]
        # The mean first, then the squared deviations: E[x^2] - E[x]^2 in one pass loses digits.
        counted = torch.tensor(x.numel() // x.shape[1], device=x.device)
        dist.all_reduce(counted)
        count = int(counted)
        shape = [1, -1] + [1] * (x.ndim - 2)
        mean = _summed(x.sum(dim=axes)) / count
        centred = x - mean.view(shape)
        variance = _summed(centred.square().sum(dim=axes)) / count
        if self.running_mean is not None and self.running_var is not None:
            assert self.num_batches_tracked is not None
            self.num_batches_tracked.add_(1)
            momentum = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
            with torch.no_grad():
                self.running_mean.lerp_(mean.detach(), momentum)
                self.running_var.lerp_(variance.detach() * (count / (count - 1)), momentum)
        y: Tensor = centred * torch.rsqrt(variance + self.eps).view(shape)
        y = y * self.weight.view(shape) + self.bias.view(shape) if self.affine else y
        return y.to(given)
