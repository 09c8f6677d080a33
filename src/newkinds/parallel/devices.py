"""Devices: which there are, which one to use, and the few things that some of them need done differently."""

from __future__ import annotations

import importlib
import importlib.util
import os
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.environment import whole_number_from
from newkinds.errors import UsageError

AUTO = "auto"
OVERRIDE = "ACCELERATE_TORCH_DEVICE"  # accelerate's own variable: its device is used without a check


def available_devices() -> list[str]:
    """Return the names of the devices that torch can compute on here, the best first."""
    found = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    found += [f"xpu:{number}" for number in range(torch.xpu.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    if not _has_xla():
        return [*found, "cpu"]
    # On a CPU, XLA is for trying things out: compiling takes longer than computing.
    return [*found, "cpu", "xla"] if os.environ["PJRT_DEVICE"].upper() == "CPU" else [*found, "xla", "cpu"]


def _has_xla() -> bool:
    """Return whether torch_xla is installed and PJRT_DEVICE says what to compute on."""
    return bool(os.environ.get("PJRT_DEVICE")) and importlib.util.find_spec("torch_xla") is not None


def pick_device(asked: str | None = None) -> torch.device:
    """Return the device that is asked for by its name ("cpu", "cuda", "cuda:1", "mps", "xla"), or the best there is.

    asked: None or "auto" for the best. Several processes on one machine each get their own GPU.
    """
    if asked is None and os.environ.get(OVERRIDE):
        try:
            return torch.device(os.environ[OVERRIDE])
        except RuntimeError as error:
            raise UsageError(
                f"The environment variable {OVERRIDE} = {os.environ[OVERRIDE]!r} is no device: "
                f"{str(error).splitlines()[0]}",
                hint=f"Take it away: unset {OVERRIDE}. --device chooses one.",
            ) from None
    there = available_devices()
    name = there[0].split(":")[0] if asked in (None, AUTO) else str(asked)
    fitting = [one for one in there if name in (one, one.split(":")[0])]
    if not fitting:
        built = name.startswith("cuda") and torch.version.cuda is None
        raise UsageError(
            f"There is no device {name!r} here: torch {torch.__version__} can compute on {', '.join(there)}.",
            hint="This torch was built without CUDA: install one with it, or name another device."
            if built
            else "Name one of these, or none to have the first.",
        )
    return _device(_own(fitting))


def _own(fitting: list[str]) -> str:
    """Return this process's device among those that fit: its own GPU, or the CPU, which processes share."""
    processes = whole_number_from("LOCAL_WORLD_SIZE", 1, least=1)
    if ":" not in fitting[0] or processes == 1:
        return fitting[0]
    if processes > len(fitting):
        raise UsageError(
            f"{processes} processes on this machine cannot each have one of {', '.join(fitting)} to itself.",
            hint=f"Start at most {len(fitting)} processes a machine, or ask for the device cpu.",
        )
    rank = whole_number_from("LOCAL_RANK", 0)
    if rank >= len(fitting):
        raise UsageError(
            f"The environment variable LOCAL_RANK = {rank} should be below {len(fitting)}.",
            hint="Start processes with torchrun, which sets it.",
        )
    return fitting[rank]


def _device(name: str) -> torch.device:
    if name == "xla":
        device: torch.device = importlib.import_module("torch_xla").device()
        return device
    return torch.device(name)


def suited_precision(precision: str, device: torch.device) -> str:
    """Return the precision of training on a device; float64 is refused where the device has none.

    "auto" is bfloat16 on GPUs that multiply in it, which gain most from it, and float32 elsewhere.
    """
    if precision == AUTO:
        return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    if precision == "float64" and device.type == "mps":
        raise UsageError(
            f"precision = 'float64' is not possible on {device}, which has no such numbers.",
            hint="Use float32, or ask for the device cpu.",
        )
    return precision


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device; to CUDA it is copied from pinned memory, asynchronously."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def no_gradients(device: torch.device) -> AbstractContextManager[None]:
    """Return a context without gradients: inference mode, or on XLA `torch.no_grad`."""
    return torch.no_grad() if device.type == "xla" else torch.inference_mode()


def finish_step(device: torch.device) -> None:
    """Run what a lazy device (XLA) has recorded so far; other devices have already run it."""
    if device.type == "xla":
        importlib.import_module("torch_xla").sync()
