"""Which device is taken, and what is said where it is not there or its memory does not suffice."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from newkinds.errors import NewkindsError, OutOfMemoryError, UsageError
from newkinds.features import extract_features
from newkinds.images.imageset import ImageSet
from newkinds.memory import explained
from newkinds.networks import Network, build_network
from newkinds.parallel import devices
from newkinds.parallel.devices import (
    available_devices,
    finish_step,
    pick_device,
    suited_precision,
    to_device,
)
from newkinds.parallel.processes import make_accelerator
from newkinds.pretrain.pretraining import pretrain
from newkinds.settings import Pretrain
from second_device import SECOND, running_on

CPU = torch.device("cpu")
FULL = "CUDA out of memory. Tried to allocate 2.00 GiB.\nMore lines on fragments."


@pytest.fixture(autouse=True)
def _nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCELERATE_TORCH_DEVICE", "PJRT_DEVICE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def machine(monkeypatch: pytest.MonkeyPatch, cuda: int = 0, xpu: int = 0, mps: bool = False) -> None:
    """Let torch find so many devices."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.xpu, "device_count", lambda: xpu)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


# Which there are


def test_the_best_device_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, cuda=2, xpu=1, mps=True)
    assert available_devices() == ["cuda:0", "cuda:1", "xpu:0", "mps", "cpu"]
    assert pick_device() == pick_device("auto") == torch.device("cuda:0")
    machine(monkeypatch, mps=True)
    assert pick_device() == torch.device("mps")
    machine(monkeypatch)
    assert available_devices() == ["cpu"]
    assert pick_device() == CPU


def test_xla_is_there_where_it_is_installed_and_told_what_to_compute_on(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert available_devices() == ["cpu"]
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert available_devices() == ["xla", "cpu"]
    monkeypatch.setenv("PJRT_DEVICE", "CPU")  # there to try things out, not to be chosen
    assert available_devices() == ["cpu", "xla"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert available_devices() == ["cpu"]


# Which is taken


@pytest.mark.parametrize(
    ("asked", "device"), [("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("mps", "mps"), ("cpu", "cpu")]
)
def test_a_device_by_its_name(asked: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, cuda=2, mps=True)
    assert pick_device(asked) == torch.device(device)


@pytest.mark.parametrize("asked", ["cuda", "cuda:0", "xla", "gpu", "cpu:1", ""])
def test_a_device_that_is_not_there(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, mps=True)
    with pytest.raises(UsageError, match=rf"There is no device '{asked}' here: torch .* can compute on mps, cpu\."):
        pick_device(asked)


@pytest.mark.parametrize(("built", "hint"), [(None, "built without CUDA"), ("12.8", "Name one of these")])
def test_a_torch_without_cuda_is_told_from_a_machine_without_it(
    built: str | None, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch)
    monkeypatch.setattr(torch.version, "cuda", built)
    with pytest.raises(UsageError, match=hint):
        pick_device("cuda")


@pytest.mark.parametrize("asked", [None, "auto", "cuda"])
def test_each_process_has_a_gpu_of_its_own(asked: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    machine(monkeypatch, cuda=2)
    assert pick_device(asked) == torch.device("cuda:1")
    assert pick_device("cpu") == CPU
    machine(monkeypatch, cuda=1)
    with pytest.raises(UsageError, match=r"2 processes on this machine cannot each have one of cuda:0 to itself\."):
        pick_device(asked)
    with pytest.raises(UsageError, match="Start at most 1 processes a machine, or ask for the device cpu"):
        pick_device("cuda:0")


def test_a_second_accelerator_does_not_keep_the_device_of_the_first() -> None:
    assert make_accelerator("cpu").device == CPU
    with running_on("second"):
        assert pick_device() == make_accelerator().device == SECOND
        assert make_accelerator("cpu").device == CPU
        assert make_accelerator().device == SECOND
    assert make_accelerator("cpu").device == CPU
    assert devices.OVERRIDE not in os.environ


@pytest.mark.parametrize("precision", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("device", ["cpu", "cuda:0", "mps"])
def test_float64_is_refused_where_there_is_none(precision: str, device: str) -> None:
    if (precision, device) == ("float64", "mps"):
        with pytest.raises(UsageError, match="not possible on mps"):
            suited_precision(precision, torch.device(device))
    else:
        assert suited_precision(precision, torch.device(device)) == precision


# What goes there


def test_pictures_travel_to_cuda_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorder:
        """Stands for a tensor, and says what was asked of it."""

        def __init__(self, *said: Any) -> None:
            self.said = said

        def pin_memory(self) -> Recorder:
            return Recorder(*self.said, "pinned")

        def to(self, device: torch.device, **options: Any) -> tuple[Any, ...]:
            return (*self.said, str(device), options)

    numbers = np.arange(6).reshape(2, 3)
    assert to_device(numbers.T, CPU).tolist() == [[0, 3], [1, 4], [2, 5]]
    monkeypatch.setattr(torch, "from_numpy", lambda array: Recorder(array.tolist()))
    expected: tuple[Any, ...] = (numbers.tolist(), "pinned", "cuda:1", {"non_blocking": True})
    assert to_device(numbers, torch.device("cuda:1")) == expected  # type: ignore[comparison-overlap]


def test_only_xla_is_told_that_a_step_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Xla:
        """Stands for torch_xla."""

        synced = 0

        def sync(self) -> None:
            self.synced += 1

    xla = Xla()
    monkeypatch.setattr(devices.importlib, "import_module", {"torch_xla": xla}.__getitem__)
    finish_step(CPU)
    finish_step(torch.device("cuda:0"))
    assert xla.synced == 0
    finish_step(torch.device("xla:0"))
    assert xla.synced == 1


# Memory that does not suffice


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError(FULL),
        RuntimeError("MPS backend out of memory (MPS allocated: 9.0 GB)"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: ..."),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123 bytes."),
    ],
)
def test_running_out_of_memory_names_the_settings_to_lower(error: RuntimeError) -> None:
    with pytest.raises(OutOfMemoryError) as raised, explained("a step on 128 pictures", "dec.batch_size"):
        raise error
    assert isinstance(raised.value, NewkindsError)
    assert raised.value.message.startswith(
        f"There is not enough memory for a step on 128 pictures: {str(error).splitlines()[0].rstrip('.')}."
    )
    assert raised.value.hint.startswith("Lower dec.batch_size, images.size or network_size, name a narrower --network")
    assert raised.value.__cause__ is error


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^mat1 and mat2") as raised, explained("a step"):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    assert not isinstance(raised.value, NewkindsError)


KNOWN = ImageSet(
    np.random.default_rng(0).integers(0, 256, (16, 1, 8, 8), dtype=np.uint8),
    tuple(map(str, range(16))),
    np.arange(16) % 2,
    ("a", "b"),
    "made up",
    "no mark",
)


def full(self: Network, x: Tensor) -> Tensor:
    raise torch.cuda.OutOfMemoryError(FULL)


@pytest.mark.parametrize(
    ("loss", "setting"),
    [("cross-entropy", "batch_size"), ("prototypical", "episode_kinds"), ("triplet", "episode_kinds")],
)
def test_a_step_without_enough_memory(loss: str, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "forward", full)
    chosen = Pretrain(loss=loss, epochs=1, support=2, query=2, quarter_turns=False)
    words = (
        rf"a step of pretrain on \d+ pictures: CUDA out of memory\. Tried .* GiB\. Lower pretrain\.{setting}, images"
    )
    with pytest.raises(OutOfMemoryError, match=words):
        pretrain(KNOWN, chosen, network="vgg6-4-2-slim", accelerator=make_accelerator("cpu"))


def test_features_without_enough_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "forward", full)
    with pytest.raises(
        OutOfMemoryError, match=r"a network on 16 pictures: .* Lower images\.size or network_size, name a"
    ):
        extract_features(build_network("vgg6-4-2-slim", 1, 8, seed=0), KNOWN)


def test_the_precision_follows_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("cpu", "mps"):
        assert suited_precision("auto", torch.device(device)) == "float32"
    for multiplies, precision in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda multiplies=multiplies: multiplies)
        assert suited_precision("auto", torch.device("cuda:0")) == precision
