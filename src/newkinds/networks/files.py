"""Networks and models as files: safetensors that say what they are the weights of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from newkinds.errors import DataError, UsageError, told
from newkinds.networks.foreign import Foreign, check_admitted, is_foreign
from newkinds.networks.heads import Head, Model
from newkinds.networks.network import Network, TransferLayer, build_network
from newkinds.networks.onnx_file import is_onnx
from newkinds.tensors import from_bytes, read_bytes, to_bytes

MOST = 1 << 24  # of channels (the width of embeddings), of a side and of features: beyond it a file is damaged
_OF_A_RUN = "Give the network.safetensors of a run, or say with --network which network the weights are of."


def network_to_bytes(network: Network, **about: Any) -> bytes:
    """Return f as bytes, with all that is needed to build it again."""
    return to_bytes(_untied(network.state_dict()), {**_shape(network), **about})


def network_from_bytes(data: bytes, where: str, admitted: str | None = None) -> tuple[Network, dict[str, Any]]:
    """Return f and what was said about it.

    admitted: the network that the user named, if any, which must be the file's. Only then may a `module:function` be
    imported: what stands in a file runs no code.
    """
    tensors, about = from_bytes(data, where)
    _check_about(about, where, {"network", "channels", "size"}, _OF_A_RUN)
    if not is_foreign(str(about["network"])):
        with torch.device("meta"):  # before memory is asked for, for whatever numbers stand there
            _check(_described(about, where, admitted), tensors, where)
    network = _described(about, where, admitted)
    _load(network, tensors, where)
    return network, about


def read_network(path: Path, admitted: str | None = None) -> tuple[Network, dict[str, Any]]:
    """Return f from a file; `admitted` as in `network_from_bytes`."""
    return network_from_bytes(read_bytes(path), str(path), admitted)


def is_plain(data: bytes, where: str) -> bool:
    """Return whether a safetensors file is a state dict alone, without words on its network."""
    return not from_bytes(data, where)[1]


def load_plain(network: Network, data: bytes, where: str) -> bool:
    """Load a state dict of the network, or of the module inside it, into it; every key and shape must match.

    Returns whether the file said the mean and the standard deviation of the pixels, too.
    """
    tensors = from_bytes(data, where)[0]
    backbone = network.backbone
    if {"mean", "std"} <= tensors.keys() and any(key.startswith("backbone.") for key in tensors):
        _load(network, tensors, where, repr(network.name))
        return True
    if isinstance(backbone, Foreign):
        heads = tuple(f"{name}." for name in backbone.head)
        tensors = {key: value for key, value in tensors.items() if not heads or not key.startswith(heads)}
    _load(backbone.module if isinstance(backbone, Foreign) else backbone, tensors, where, repr(network.name))
    return False


def model_to_bytes(model: Model, extra: Mapping[str, Tensor], **about: Any) -> bytes:
    """Return a model as bytes, beside `extra` tensors that belong to it."""
    tensors = {f"model.{name}": value for name, value in _untied(model.state_dict()).items()}
    tensors |= {f"extra.{name}": value for name, value in extra.items()}
    return to_bytes(tensors, {**_shape(model.network), "head": model.head.name, **model.head.about(), **about})


def model_from_bytes(
    data: bytes, where: str, heads: Mapping[str, type[Head]], admitted: str | None = None
) -> tuple[Model, dict[str, Tensor], dict[str, Any]]:
    """Return a model in eval mode, the extra tensors, and what was said about them.

    heads: those that may be built, by name. admitted: the network that the user named, if any; see
    `network_from_bytes`.
    """
    tensors, about = from_bytes(data, where)
    _check_about(about, where, {"network", "channels", "size", "head"})
    if not is_foreign(str(about["network"])):
        with torch.device("meta"):  # as of a network
            _check(_model(about, where, heads, admitted), _part(tensors, "model."), where)
    model = _model(about, where, heads, admitted)
    _load(model, _part(tensors, "model."), where)
    return model.eval(), _part(tensors, "extra."), about


def _model(about: Mapping[str, Any], where: str, heads: Mapping[str, type[Head]], admitted: str | None) -> Model:
    """Return a fresh model as a file describes it."""
    network = _described(about, where, admitted)
    try:
        return Model(network, heads[about["head"]].build(network.feature_dim, about))
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise DataError(
            f"{where} does not describe a head that this version has ({', '.join(heads)}): {told(error)}.",
            hint="Run `newkinds discover` again.",
        ) from None


def network_about(data: bytes, where: str) -> dict[str, Any]:
    """Return what is said about a network; nothing is built."""
    about = from_bytes(data, where)[1]
    _check_about(about, where, {"network", "channels", "size"})
    return about


def _check_about(
    about: Mapping[str, Any], where: str, needed: set[str], hint: str = "Run `newkinds discover` again."
) -> None:
    missing = needed - about.keys()
    if missing:
        raise DataError(f"{where} does not say its {', '.join(sorted(missing))}: newkinds did not write it.", hint=hint)
    for key in ("channels", "size", "network_size"):
        value = about.get(key, 1)
        if type(value) is not int or not 1 <= value <= MOST:
            raise DataError(
                f"{where} does not describe a network: {key} = {value!r:.60} should be 1 to {MOST:,}.", hint=hint
            )


def _shape(network: Network) -> dict[str, Any]:
    """Return what a network is built from. Of an ONNX file that is its path and hash: the file is not kept again."""
    shape: dict[str, Any] = {"network": network.name, "channels": network.channels, "size": network.size}
    shape["network_size"] = network.network_size
    if network.transfer is not None:
        shape["transfer"] = None if network.transfer.matrix is None else network.feature_dim
    if network.features != "last":
        shape["features"] = network.features
    if isinstance(network.backbone, Foreign) and network.backbone.sha256 is not None:
        shape["sha256"] = network.backbone.sha256
    return shape


def _described(about: Mapping[str, Any], where: str, admitted: str | None) -> Network:
    """Return a fresh network as a file describes it, without loading weights that the file has."""
    name = str(about["network"])
    check_admitted(name, admitted, where)
    if is_onnx(name) and admitted is not None and is_onnx(admitted):
        name = admitted  # it may have moved; the hash says whether it is the same
    if admitted not in (None, name):
        raise UsageError(f"{where} is of the network {name!r}, not {admitted!r}.", hint="Leave --network out.")
    try:
        channels, size = about["channels"], about["size"]
        side = about.get("network_size", size)  # older files do not say it
        network = None if is_foreign(name) else build_network(name, channels, size, seed=0, network_size=side)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise DataError(
            f"{where} does not describe a network: {error}", hint="Give the network.safetensors of a run."
        ) from None
    options: dict[str, Any] = {"network_size": side, "admitted": admitted, "pretrained": False}
    network = network or build_network(
        name, channels, size, seed=0, features=str(about.get("features", "last")), **options
    )
    if isinstance(network.backbone, Foreign) and network.backbone.sha256 != about.get("sha256"):
        raise DataError(
            f"{where} is of another file than {name} is now: their SHA-256 differ.",
            hint="Put the file back as it was, or say where it is: --network FILE.onnx",
        )
    width = about.get("transfer")
    if width is not None and (type(width) is not int or not 1 <= width <= MOST):
        raise DataError(
            f"{where} does not describe a network: transfer = {width!r:.60} should be 1 to {MOST:,}.",
            hint="The file is damaged.",
        )
    if "transfer" in about:
        network.transfer = TransferLayer(network.feature_dim, width)
    return network


def _untied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict in which no two tensors share memory, as the format asks; layers may share weights."""
    seen: set[int] = set()
    untied = {}
    for name, value in state.items():
        untied[name] = value.clone() if value.data_ptr() in seen else value
        seen.add(value.data_ptr())
    return untied


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _load(module: torch.nn.Module, tensors: Mapping[str, Tensor], where: str, network: str = "they name") -> None:
    """Load tensors into a module if names and shapes are the module's, all of them."""
    _check(module, tensors, where, network)
    module.load_state_dict(dict(tensors))


def _check(module: torch.nn.Module, tensors: Mapping[str, Tensor], where: str, network: str = "they name") -> None:
    """Raise a DataError unless tensors have the names and shapes of a module's, and are finite."""
    wanted = module.state_dict()
    shapes = [key for key in wanted if key in tensors and wanted[key].shape != tensors[key].shape]
    bad = [key for key, value in tensors.items() if value.is_floating_point() and not value.float().isfinite().all()]
    types = [
        key for key in wanted if key in tensors and wanted[key].is_floating_point() != tensors[key].is_floating_point()
    ]
    complaints = [
        _complaint("missing", [key for key in wanted if key not in tensors]),
        _complaint("unexpected", [key for key in tensors if key not in wanted]),
        _complaint("of another shape", shapes),
        _complaint("of another type", types),
        _complaint("not finite", bad),
    ]
    said = "; ".join(text for text in complaints if text)
    if shapes:
        first = shapes[0]
        said += f" (the first is {tuple(tensors[first].shape)}, {tuple(wanted[first].shape)} is needed)"
    if said:
        hint = "The file is damaged." if network == "they name" else "Give its weights, or say another --network."
        raise DataError(f"The weights in {where} do not fit the network {network}: {said}.", hint=hint)


def _complaint(what: str, keys: list[str]) -> str:
    """Return how many keys have something wrong with them, and the first of them."""
    if not keys:
        return ""
    shown = ", ".join(keys[:3]) + (", ..." if len(keys) > 3 else "")
    return f"{len(keys)} of the keys {'is' if len(keys) == 1 else 'are'} {what}: {shown}"
