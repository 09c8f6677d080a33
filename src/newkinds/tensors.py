"""Tensors as safetensors files with a line of JSON as metadata: no code in them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from newkinds.errors import DataError
from newkinds.files import read_plain


def to_bytes(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """Return tensors and their metadata as the bytes of a safetensors file.

    Equal tensors and metadata give equal bytes: names are sorted.
    """
    plain = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    return safetensors.torch.save(plain, metadata={"newkinds": json.dumps(about, sort_keys=True)})


def from_bytes(data: bytes, where: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the metadata of a safetensors file; `where` is its name in an error."""
    try:
        tensors = safetensors.torch.load(data)
        (length,) = struct.unpack("<Q", data[:8])
        about = json.loads(json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("newkinds", "{}"))
        if not isinstance(about, dict):
            raise ValueError("its words are no table")
    except (SafetensorError, struct.error, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(
            f"{where} is not a safetensors file ({type(error).__name__}: {error}).",
            hint="Give the network.safetensors of a run; other formats can run code when they are opened.",
        ) from None
    return tensors, about


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file of weights."""
    try:
        return read_plain(path)
    except OSError as error:
        raise DataError(f"The weights {path} cannot be read: {error.strerror}.", hint="Check the path.") from None
