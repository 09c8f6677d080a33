"""What `test_parallel.py` compares between one process and several: a helper of it, also run as a program.

    python -m torch.distributed.run --standalone --nproc-per-node 2 processes.py FOLDER

Each process leaves what it found in FOLDER/RANK.json, and its arrays in FOLDER/RANK.npz.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from newkinds.configure import Settings
from newkinds.datasets import named
from newkinds.errors import NewkindsError
from newkinds.features import extract_features
from newkinds.images.imageset import ImageSet
from newkinds.methods.dtc import cluster
from newkinds.networks import build_network
from newkinds.parallel.processes import (
    check_same,
    from_writer,
    gathered,
    gathered_rows,
    is_writer,
    make_accelerator,
    processes,
    rank,
    share,
    shared_batch_norm,
)
from newkinds.pretrain.tasks import TASKS
from newkinds.randomness import seeded_torch, uniforms
from newkinds.runs import RunFolder
from newkinds.settings import Optimiser, Pretrain
from newkinds.training import Phase, Task, train

Arrays = dict[str, NDArray[Any]]
LOSSES = {
    "cross-entropy": {"batch_size": 33},
    "prototypical": {"support": 2, "query": 1},  # 5 kinds x 3 pictures
    "triplet": {"support": 2, "query": 1, "margin": 1.0},
}
STEPS = 12
DISCOVERIES = {"pi": ("pi", False), "pi, mixed": ("pi", True), "te, mixed": ("te", True)}


class Views(Task):
    """Two views of seven items, in batches of 4 and 3, that a small network is to give the same answer for."""

    stage, title, views, batch_size, seed = "views", "Two views", 2, 4, 0
    names = tuple("abcdefg")

    def __init__(self) -> None:
        with seeded_torch(0, "views"):
            # No bias before batch norm: its gradient is 0 but for rounding, and Adam would blow the rounding up.
            first = nn.Linear(3, 5, bias=False)
            self.module = nn.Sequential(first, nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2)).double()

    def inputs(self, items: NDArray[np.int64], epoch: int) -> Tensor:
        return torch.from_numpy(np.concatenate([uniforms(0, "x", epoch, items, 3, view=view) for view in (0, 1)]))

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        first, second = outputs.chunk(2)
        wanted = torch.from_numpy(uniforms(0, "wanted", 0, items, 2))
        return {"loss": (first - wanted).square().mean() + (first - second).square().mean()}


def digits() -> ImageSet:
    images = named("digits:known")
    assert images is not None
    return images


def trained(loss: str, frozen: bool) -> Arrays:
    """Return the weights after a dozen steps of Adam in float64, and the loss of the epoch."""
    images = digits()
    settings = Pretrain(
        loss=loss, epochs=1, quarter_turns=False, augmentation="affine", learning_rate=1e-3, **LOSSES[loss]
    )
    everything = np.arange(len(images))
    network = build_network("vgg6-4-2-slim", 1, 8, seed=0)
    task = TASKS[loss](network, images, everything, everything[:50], settings, seed=0)
    task.module.double()
    batches, inputs = task.batches, task.inputs
    task.batches = lambda epoch: batches(epoch)[:STEPS]  # type: ignore[method-assign]
    task.inputs = lambda items, epoch: inputs(items, epoch).double()  # type: ignore[method-assign]
    task.epoch_done = lambda *_, **__: {}  # type: ignore[method-assign]
    if frozen:
        task.set_mode = lambda: task.module.eval() and None  # type: ignore[method-assign, func-returns-value]
    return run(task, settings, epochs=1)


def run(task: Task, optimiser: Optimiser, epochs: int) -> Arrays:
    records: list[dict[str, Any]] = []
    phases = [Phase("main", epochs, optimiser)]
    train(task, phases, accelerator=make_accelerator(), log=records.append, precision="float64")
    weights = {name: value.numpy() for name, value in task.module.state_dict().items()}
    return {**weights, "loss": np.array([record["loss"] for record in records])}


def discovered(variant: str, mixed: bool) -> Arrays:
    """Return what a variant of DTC finds and logs in two epochs; where pictures are mixed, steps see a view more."""
    chosen = {"variant": variant, "mixed": mixed, "warmup_epochs": 1, "epochs": 1, "batch_size": 21, "guard": "off"}
    settings = Settings(precision="float64", discover=chosen, initialise={"restarts": 1})
    network = build_network("vgg6-4-2-slim", 1, 8, seed=0)
    records: list[dict[str, Any]] = []
    images = digits().select(np.arange(63))
    found = cluster(network, images, 3, settings, accelerator=make_accelerator(), log=records.append)
    return {"p": found.assignment.probabilities, "loss": np.array([record["loss"] for record in records])}


def normalised(make: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Arrays:
    """Return what a batch norm layer gives for two batches, its gradients and its statistics afterwards."""
    layer_type = torch.float32 if dtype == torch.bfloat16 else dtype
    layer = make().to(layer_type)
    module = nn.Sequential(layer)
    found: Arrays = {}
    with shared_batch_norm(module):
        assert (module[0] is layer) == (processes() == 1)
        for number in range(2):
            x = torch.from_numpy(np.random.default_rng(number).normal(3, 2, shape)).to(dtype).requires_grad_()
            weights = torch.from_numpy(np.random.default_rng(9).normal(size=shape))
            mine = torch.from_numpy(share(np.arange(len(x))))
            y = module(x[mine])
            assert y.dtype == dtype
            y = gathered(y.to(layer_type), len(x))
            (y * weights).sum().backward()
            assert x.grad is not None
            # Each process has the gradient of the sum over all processes, for its own share.
            found[f"x.{number}"] = gathered_rows(x.grad[mine].to(layer_type).numpy() / processes())  # type: ignore[arg-type]
            found[f"y.{number}"] = y.detach().numpy()
        module.eval()
        if layer.running_mean is not None:  # without statistics, a layer's answers hang on the batch even in eval mode
            found["eval"] = gathered_rows(module(x[mine]).detach().to(layer_type).numpy())
    assert module[0] is layer
    assert not layer.training
    return found | {f"statistic.{name}": value.numpy() for name, value in layer.named_buffers()}


NORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "1d": (lambda: nn.BatchNorm1d(4), (7, 4)),
    "2d": (lambda: nn.BatchNorm2d(3), (5, 3, 2, 2)),
    "no weights": (lambda: nn.BatchNorm2d(3, affine=False), (5, 3, 2, 2)),
    "mean of all batches": (lambda: nn.BatchNorm1d(4, momentum=None), (7, 4)),
    "no statistics": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (7, 4)),
}


def restored() -> dict[str, bool]:
    """Return whether layers that lie deep, and have been trained, are put back, also after an error."""
    inner = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    module = nn.Sequential(inner, nn.BatchNorm1d(3))
    before = list(module.modules())
    names, weights = list(module.state_dict()), [id(weight) for weight in module.parameters()]
    found = {}
    with shared_batch_norm(module):
        found["replaced"] = not isinstance(inner[1], nn.BatchNorm1d) and not isinstance(module[1], nn.BatchNorm1d)
        found["same names"] = list(module.state_dict()) == names
        found["same weights"] = [id(weight) for weight in module.parameters()] == weights
        module(torch.randn(4, 2))
    found["put back"] = list(map(id, module.modules())) == list(map(id, before))
    try:
        with shared_batch_norm(module):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        found["put back after an error"] = list(map(id, module.modules())) == list(map(id, before))
    return found


def error_of(call: Callable[[], object]) -> list[str]:
    try:
        call()
    except NewkindsError as error:
        return [type(error).__name__, error.message, error.hint]
    return []


def arrays() -> dict[str, Arrays]:
    """Return all that must not depend on the number of processes."""
    torch.set_num_threads(1)
    make_accelerator()
    found = {
        f"{loss}, frozen" if frozen else loss: trained(loss, frozen) for loss in LOSSES for frozen in (False, True)
    }
    found |= {name: discovered(*case) for name, case in DISCOVERIES.items()}
    found["views"] = run(Views(), Optimiser(learning_rate=0.01), epochs=8)
    found |= {f"batch norm, {name}": normalised(*how) for name, how in NORMS.items()}
    found["batch norm in bfloat16"] = normalised(*NORMS["2d"], torch.bfloat16)
    network = build_network("vgg6-4-2-slim", 1, 8, seed=0)
    network.train()
    found["features"] = {str(n): extract_features(network, digits().select(np.arange(n))) for n in (2, 7, 301)}
    # Items 0 to 6, two views and two numbers each: 100 v + 10 i and one more.
    items = share(np.arange(7))
    outputs = torch.tensor([[100.0 * view + 10 * i, 100.0 * view + 10 * i + 1] for view in (0, 1) for i in items])
    found["gathered"] = {"views": gathered(outputs, 7, views=2).numpy()}
    found["gathered"]["one"] = gathered(outputs[: len(items)], 7).numpy()
    return found


def main(folder: Path) -> None:
    found = arrays()
    calls: list[int] = []

    def make() -> dict[str, int]:
        calls.append(rank())
        return {"made by": rank()}

    said = {
        "processes": processes(),
        "writer": is_writer(),
        "share": share(np.arange(7)).tolist(),
        "too few": error_of(lambda: share(np.arange(1))),
        "same": error_of(lambda: check_same({"seed": 0, "pretrain.epochs": 5})),
        "other value": error_of(lambda: check_same({"seed": 0, "pretrain.epochs": 5 + rank()})),
        "missing value": error_of(lambda: check_same({"seed": 0} | ({"weights": "0a"} if rank() else {}))),
        "run folder": error_of(lambda: RunFolder.start(folder / "run", Settings(seed=rank()), {}, {})),
        "from writer": from_writer(make),
        "called": calls,
        "restored": restored(),
    }
    (folder / f"{rank()}.json").write_text(json.dumps(said))
    flat = {f"{name}/{key}": value for name, some in found.items() for key, value in some.items()}
    np.savez(folder / f"{rank()}.npz", **flat)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
