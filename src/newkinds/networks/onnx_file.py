"""A network in an ONNX file, run by onnxruntime: frozen, and no code of the file's runs."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from newkinds.errors import DataError, UsageError, told
from newkinds.files import read_plain

SUFFIX = ".onnx"
MOST_BYTES = 1 << 31  # what the format allows in one file
SIDE = 224  # of the pictures, where the file takes any
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and standard deviation
_WANTED = "one input of float32 pictures (N, C, S, S), with C 1 or 3 and N open or 1"
_HINT = f"Export the network again with {_WANTED}, and features (N, d) or maps (N, d, h, w) as its output."


class _Session:
    """An open file. Copies of a module share it: nothing in it changes."""

    def __init__(self, session: Any, takes: str, gives: str) -> None:
        self.session, self.takes, self.gives = session, takes, gives

    def __deepcopy__(self, memo: dict[int, Any]) -> _Session:
        return self

    def run(self, pictures: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        output: np.ndarray[Any, Any] = self.session.run([self.gives], {self.takes: pictures})[0]
        return output


class OnnxFile(nn.Module):
    """Pictures float32 (B, C, S, S), normalised by `mean` and `std`, to the file's first output of 2 or 4 axes.

    It has no weights that torch knows of, so nothing in it is trained and no gradient passes through it.
    input_size: S. sha256: of the file. assumed: whether mean and std are ImageNet's because the file does not say them;
    it does by the metadata `mean` and `std`, JSON lists of a number a channel, of pictures in [0, 1].
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        data = _read(path)
        self.sha256 = hashlib.sha256(data).hexdigest()
        session = _opened(path, data)
        taken, given = _input(path, session), _output(path, session)
        _, channels, side, _ = taken.shape
        self.input_size = side if isinstance(side, int) else SIDE
        self.one_by_one = taken.shape[0] == 1
        said = session.get_modelmeta().custom_metadata_map
        self.assumed = not {"mean", "std"} <= said.keys()
        self.mean: Any  # whatever the file says; `Foreign` checks it
        self.std: Any
        self.mean, self.std = _imagenet(channels) if self.assumed else _said(path, said)
        self.session = _Session(session, taken.name, given.name)

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, d) or maps (B, d, h, w)."""
        pictures = x.detach().to("cpu", torch.float32).numpy()
        parts = np.split(pictures, len(pictures)) if self.one_by_one else [pictures]
        output = np.concatenate([self.session.run(np.ascontiguousarray(part)) for part in parts])
        return torch.from_numpy(output).to(x.device, x.dtype)


def is_onnx(name: str) -> bool:
    """Return whether the name of a network is the path of an ONNX file."""
    return name.endswith(SUFFIX) and name.isprintable()


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{path} has {size:,} bytes, more than the {MOST_BYTES:,} of an ONNX file.", hint=_HINT)
        return read_plain(path)
    except OSError as error:
        raise DataError(
            f"The network {path} cannot be read: {error.strerror}.", hint="Say where the file is: --network FILE.onnx"
        ) from None


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # beside a numpy or protobuf of another age they raise what they like
        raise UsageError(
            f"A network in an ONNX file needs {name}, which cannot be imported: {told(error)}.",
            hint="Install it with: pip install 'newkinds[onnx]'",
        ) from error


def _opened(path: Path, data: bytes) -> Any:
    """Return a session of onnxruntime. It has the operators of ONNX and its own, and no library with others."""
    onnx, runtime = _imported("onnx"), _imported("onnxruntime")
    try:
        graph = onnx.load_model_from_string(data).graph
    except Exception as error:
        raise DataError(f"{path} is not an ONNX file: {told(error)}.", hint=_HINT) from None
    outside = [one.name for one in graph.initializer if one.data_location == onnx.TensorProto.EXTERNAL]
    if outside:
        raise DataError(
            f"{path} keeps {len(outside)} of its tensors in other files, the first is {outside[0]!r}.",
            hint="Save it as one file: onnx.save(onnx.load(PATH), OTHER), in Python.",
        )
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    try:
        return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # an operator that is not there, types that do not fit
        raise DataError(f"onnxruntime {runtime.__version__} cannot run {path}: {told(error)}.", hint=_HINT) from None


def _input(path: Path, session: Any) -> Any:
    """Return the input for pictures, or say what the file takes instead."""
    inputs = session.get_inputs()
    shape = list(inputs[0].shape) if len(inputs) == 1 else []
    fits = (
        len(shape) == 4
        and inputs[0].type == "tensor(float)"
        and (shape[0] == 1 or not isinstance(shape[0], int))
        and (shape[1] in (1, 3) or not isinstance(shape[1], int))
        and (shape[2] == shape[3] or not (isinstance(shape[2], int) and isinstance(shape[3], int)))
    )
    if not fits:
        raise DataError(f"{path} takes {_described(inputs)}; {_WANTED} is needed.", hint=_HINT)
    return inputs[0]


def _output(path: Path, session: Any) -> Any:
    """Return the first output that may be features, or say what the file gives instead."""
    for output in session.get_outputs():
        if len(output.shape) in (2, 4) and output.type == "tensor(float)":
            return output
    given = _described(session.get_outputs())
    raise DataError(f"{path} gives {given}; float32 (N, d) or maps (N, d, h, w) are needed.", hint=_HINT)


def _described(values: Sequence[Any]) -> str:
    """Return inputs or outputs in words, such as "images (N, 3, 224, 224) of float"."""
    words = []
    for value in values:
        axes = ", ".join(str(axis) if isinstance(axis, int | str) else "?" for axis in value.shape)
        words.append(f"{value.name} ({axes}) of {value.type.removeprefix('tensor(').removesuffix(')')}")
    return "; ".join(words) or "nothing"


def _imagenet(channels: int | str | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    mean, std = IMAGENET
    return ((sum(mean) / 3,), (sum(std) / 3,)) if channels == 1 else (mean, std)


def _said(path: Path, metadata: Mapping[str, str]) -> tuple[Any, Any]:
    try:
        return json.loads(metadata["mean"]), json.loads(metadata["std"])
    except ValueError as error:
        raise DataError(
            f"The metadata mean = {metadata['mean']!r} or std = {metadata['std']!r} of {path} is not JSON: {error}.",
            hint="Write each as a list of a number a channel: [0.5, 0.5, 0.5]",
        ) from None
