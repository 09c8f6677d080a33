"""A second device that needs no accelerator: it computes on the CPU, but its tensors do not mix with the CPU's.

    with second_device() as device:
        torch.ones(3, device=device) + torch.ones(3)  # RuntimeError: Expected all tensors to be on the same device

A tensor there is a wrapper around one on the CPU. Each operation on it is checked as CUDA checks it, then run on what
is inside. CUDA lets a few things pass, and so does this: CPU tensors of 0 dimensions in arithmetic, CPU indices into a
tensor there, and `copy_` in either direction.

The device is called "lazy:0". torch knows a fixed set of names, and autograd needs a guard for each: a CPU build has
none for "cuda", "xla" and the like, but has one for "lazy", on which nobody computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

SECOND = torch.device("lazy:0")
CPU = torch.device("cpu")

_aten = torch.ops.aten
_INDEXING = {_aten.index, _aten.index_put, _aten.index_put_, _aten._index_put_impl_, _aten._unsafe_index}
_ACROSS = {_aten.copy_, _aten.copy, _aten._to_copy}
_NO_SCALARS = {_aten.cat, _aten.stack}  # they refuse even CPU tensors of 0 dimensions

convolutions: Counter[str] = Counter()  # how many ran on each type of device: all of a network's belong on the second


@contextmanager
def second_device() -> Iterator[torch.device]:
    """Let tensors be made on the second device, or moved there, while the context lasts.

    `convolutions` counts from its beginning.
    """
    convolutions.clear()
    # A module's parameter stays the same object when it is moved, as on CUDA.
    swapped = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with _Made(), _Placement():
            yield SECOND
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swapped)


@contextmanager
def running_on(device: str) -> Iterator[None]:
    """Let newkinds compute on a device while the context lasts: "second", the one made up here, or one of torch's."""
    with pytest.MonkeyPatch.context() as patch, second_device() if device == "second" else nullcontext():
        patch.setenv("ACCELERATE_TORCH_DEVICE", str(SECOND) if device == "second" else device)
        AcceleratorState._reset_state(reset_partial_state=True)
        try:
            yield
        finally:
            AcceleratorState._reset_state(reset_partial_state=True)


class SecondTensor(Tensor):
    """A tensor on the second device; `inside` is the one on the CPU that has its values."""

    inside: Tensor

    @staticmethod
    def __new__(cls, inside: Tensor) -> SecondTensor:
        with torch.inference_mode(False):  # autograd refuses views of weights that are made in inference mode
            made: SecondTensor = torch.Tensor._make_wrapper_subclass(
                cls,
                inside.shape,
                strides=inside.stride(),
                storage_offset=inside.storage_offset(),
                dtype=inside.dtype,
                device=SECOND,
            )
        made.inside = inside
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with _Placement():
            return func(*args, **(kwargs or {}))

    def __repr__(self, **_: Any) -> str:
        return f"{self.inside!r} on {SECOND}"

    def __deepcopy__(self, memo: dict[int, Any]) -> SecondTensor:
        if id(self) not in memo:
            made = SecondTensor(self.inside.detach().clone()).requires_grad_(self.requires_grad)
            if isinstance(self, torch.nn.Parameter):
                made._is_param = True
            memo[id(self)] = made
        copied: SecondTensor = memo[id(self)]
        return copied

    def numpy(self, **_: Any) -> Any:
        """Refuse, as CUDA does."""
        raise TypeError(
            f"can't convert {SECOND} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first."
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        """Return the values, as CUDA does."""
        return self.inside.tolist()

    def data_ptr(self) -> int:
        """Return where the values lie."""
        return self.inside.data_ptr()


class _Made(TorchFunctionMode):
    """Takes care of `torch.tensor(..., device=...)`, which modes for single operations do not see."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.tensor and kwargs.get("device") is not None and torch.device(kwargs["device"]) == SECOND:
            del kwargs["device"]
            return func(*args, **kwargs).to(SECOND)
        return func(*args, **kwargs)


class _Placement(TorchDispatchMode):
    """Sees every operation of torch: which device its arguments are on, and which one its results belong to."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        there = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, SecondTensor)]
        asked = _asked_device(args, kwargs)
        if not there and asked != SECOND:
            convolutions["cpu"] += func.overloadpacket in (_aten.convolution, _aten.conv2d)
            return func(*args, **kwargs)
        if _is_composite(func):  # autograd takes these apart before they come here; inference mode does not
            with self:
                return func.decompose(*args, **kwargs)
        convolutions[SECOND.type] += func.overloadpacket is _aten.convolution
        _check(func, args, kwargs)
        target = asked or _device_of_result(func, args)
        return _run(func, args, kwargs, target)


def _asked_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Return the device that a call names, if any."""
    named = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)]
    assert all(device.type in (SECOND.type, "cpu", "meta") for device in named), named
    return named[0] if named else None


def _device_of_result(func: Any, args: tuple[Any, ...]) -> torch.device:
    """Return where the result of a call without a device belongs: for `copy_`, where it writes."""
    return CPU if func.overloadpacket in _ACROSS and not isinstance(args[0], SecondTensor) else SECOND


def _is_composite(func: Any) -> bool:
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: torch.device) -> Any:
    """Run an operation on what is inside of its arguments; what it writes into stays the tensor that it was."""
    wrappers: dict[int, Tensor] = {}

    def inside(leaf: Any) -> Any:
        if isinstance(leaf, SecondTensor):
            wrappers[id(leaf.inside)] = leaf
            return leaf.inside
        return CPU if isinstance(leaf, torch.device) else leaf

    plain_args, plain_kwargs = tree_map(inside, (args, kwargs))
    result = func(*plain_args, **plain_kwargs)

    def outside(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or target == CPU:
            return leaf
        return wrappers[id(leaf)] if id(leaf) in wrappers else SecondTensor(leaf)

    return tree_map(outside, result)


def _check(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise what CUDA raises when an operation has tensors of both devices, unless it is one that may."""
    if func.overloadpacket in _ACROSS:
        return
    if func.overloadpacket in _INDEXING:
        _check_indices(args[0], args[1])
        args = (args[0], *args[2:])  # the values that are put there
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if not any(isinstance(one, SecondTensor) for one in tensors):
        return
    written = [
        value
        for argument, value in zip(func._schema.arguments, args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    for one in tensors:
        scalar = one.ndim == 0 and func.overloadpacket not in _NO_SCALARS and all(one is not other for other in written)
        if not isinstance(one, SecondTensor) and not scalar:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {SECOND} and cpu! "
                f"(in {func})"
            )


def _check_indices(indexed: Tensor, indices: Any) -> None:
    if not isinstance(indexed, SecondTensor) and any(isinstance(leaf, SecondTensor) for leaf in tree_leaves(indices)):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
