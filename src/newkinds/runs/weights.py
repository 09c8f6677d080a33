"""Networks as safetensors: tensors and a line of JSON, no code."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from newkinds.errors import DataError
from newkinds.networks import ClusteringNetwork, Network, build_network


def to_bytes(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """Return tensors and what is to be said about them as the bytes of a safetensors file.

    Equal tensors and words give equal bytes: names are sorted.
    """
    plain = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    return safetensors.torch.save(plain, metadata={"newkinds": json.dumps(about, sort_keys=True)})


def from_bytes(data: bytes, where: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the words of a safetensors file; `where` is its name in an error."""
    try:
        tensors = safetensors.torch.load(data)
        (length,) = struct.unpack("<Q", data[:8])
        about = json.loads(json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("newkinds", "{}"))
        if not isinstance(about, dict):
            raise ValueError("its words are no table")
    except (SafetensorError, struct.error, ValueError, KeyError, AttributeError) as error:
        raise DataError(
            f"{where} is not a safetensors file ({type(error).__name__}: {error}).",
            hint="Give the network.safetensors of a run; other formats can run code when they are opened.",
        ) from None
    return tensors, about


def network_to_bytes(network: Network, **about: Any) -> bytes:
    """Return f as bytes, with all that is needed to build it again."""
    shape = {"network": network.name, "channels": network.channels, "size": network.size}
    return to_bytes(network.state_dict(), {**shape, **about})


def network_from_bytes(data: bytes, where: str) -> tuple[Network, dict[str, Any]]:
    """Return f and what was said about it."""
    tensors, about = from_bytes(data, where)
    missing = {"network", "channels", "size"} - about.keys()
    if missing:
        raise DataError(
            f"{where} does not say its {', '.join(sorted(missing))}: newkinds did not write it.",
            hint="Give the network.safetensors of a run.",
        )
    network = _described(about, where)
    _load(network, tensors, where)
    return network, about


def read_network(path: Path) -> tuple[Network, dict[str, Any]]:
    """Return f from a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"The weights {path} cannot be read: {error.strerror}.", hint="Check the path.") from None
    return network_from_bytes(data, str(path))


def clustering_to_bytes(model: ClusteringNetwork, extra: Mapping[str, Tensor], **about: Any) -> bytes:
    """Return f, bottleneck and centres as bytes, beside `extra` tensors that belong to them."""
    kinds, width = model.centres.shape
    network = model.network
    shape = {"network": network.name, "channels": network.channels, "size": network.size}
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"extra.{name}": value for name, value in extra.items()}
    return to_bytes(tensors, {**shape, "kinds": kinds, "width": width, "alpha": model.alpha, **about})


def clustering_from_bytes(data: bytes, where: str) -> tuple[ClusteringNetwork, dict[str, Tensor], dict[str, Any]]:
    """Return f with bottleneck and centres, the extra tensors, and what was said about them."""
    tensors, about = from_bytes(data, where)
    missing = {"network", "channels", "size", "kinds", "width", "alpha"} - about.keys()
    if missing:
        raise DataError(
            f"{where} does not say its {', '.join(sorted(missing))}: newkinds did not write it.",
            hint="Run `newkinds discover` again.",
        )
    model = ClusteringNetwork(_described(about, where), about["kinds"], about["width"], about["alpha"])
    _load(model, _part(tensors, "model."), where)
    return model.eval(), _part(tensors, "extra."), about


def _described(about: Mapping[str, Any], where: str) -> Network:
    """Return a fresh network as a file describes it."""
    try:
        return build_network(str(about["network"]), int(about["channels"]), int(about["size"]), seed=0)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{where} does not describe a network: {error}", hint="Give the network.safetensors of a run."
        ) from None


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _load(module: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    try:
        module.load_state_dict(dict(tensors))
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise DataError(
            f"The weights in {where} do not fit the network they name: {first}", hint="The file is damaged."
        ) from None
