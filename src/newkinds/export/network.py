"""The model of a run as an ONNX file, for programs without newkinds or torch.

The input `images` is float32 (N, C, H, W) in [0, 1], for any N, with the C, H and W of the run; after embeddings it is
(N, d). The output `p` is p(k|i), float32 (N, K), as `predict` gives it among the kinds that the model tells apart: the
new ones, and the known ones if the heap held them; and, where the run tells pictures that are of no kind, none of
these, as the last column. The normalisation of the pixels is included. The metadata has everything else.
"""

from __future__ import annotations

import importlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from newkinds.assignment import NONE, sort_of
from newkinds.corrections.corrected import current_column
from newkinds.corrections.imports import kind_title
from newkinds.errors import DataError, NumericsError, UsageError
from newkinds.export.formats import Sorted
from newkinds.export.none_of_these import NoneOfThese
from newkinds.methods.registry import HEADS
from newkinds.networks import Model
from newkinds.networks.files import model_from_bytes
from newkinds.predict import columns_of
from newkinds.progress import Progress
from newkinds.rehearsal.calibration import of_other_pictures
from newkinds.runs import RunFolder, names
from newkinds.runs.following import Answer
from newkinds.runs.results import method_of
from newkinds.unlike import Unlike
from newkinds.version import __version__

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
LARGEST_DIFFERENCE = 1e-4  # of a probability between the file and the network
_TRIED = (1, 5)  # batch sizes of the comparison: the file takes any


class Probabilities(nn.Module):
    """Pictures float32 (N, C, H, W) in [0, 1] to p(k|i), float32 (N, K).

    into: which kind each of the model's is by now, float32 (K, K'), a 1 in each row; None where nothing was merged.
    none: what adds the column of pictures that are of no kind, if any.
    """

    def __init__(
        self,
        model: Model,
        calibration: Tensor | None = None,
        into: Tensor | None = None,
        none: NoneOfThese | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.calibration = calibration
        self.into = into
        self.none = none

    def forward(self, images: Tensor) -> Tensor:
        """Return p(k|i)."""
        features, _, log_p = self.model.outputs(images)
        p: Tensor = log_p.exp()
        p = p if self.calibration is None else of_other_pictures(p, self.calibration)
        p = p if self.into is None else p @ self.into
        return p if self.none is None else self.none(features, p)


def onnx_bytes(run: RunFolder, answer: Answer, what: Sorted, network: str | None, progress: Progress) -> bytes:
    """Return a run's model as an ONNX file, after comparing the outputs of both.

    answer, what: the run's, and what is exported of it. network: as in `newkinds.predict`.
    """
    onnx, runtime = _packages()
    if not run.lists(names.MODEL):
        raise UsageError(
            f"The run in {run.path}, by the method {method_of(run)!r}, keeps no network.",
            hint="Use --to csv, jsonl or folders, or discover with another --method: some keep no network.",
        )
    where = str(run.path / names.MODEL)
    model, extra, about = model_from_bytes(run.get(names.MODEL), where, HEADS, admitted=network)
    head = columns_of(model, about, where)
    counts = [sum(sort_of(one) == "new" for one in columns) for columns in (head, answer.machine.columns)]
    if counts[0] != counts[1] and not answer.is_again:
        raise DataError(
            f"{where} tells {counts[0]} new kinds apart, the run has {counts[1]}.",
            hint="Run `newkinds discover` again with another --out.",
        )
    called, into = _as_now(head, answer, what, progress)
    with run.understood(names.MODEL):
        unlike = Unlike.from_tensors(extra, model.network.feature_dim) if run.settings.none else None
    none = None if unlike is None or NONE in called else NoneOfThese(unlike, run.settings.none)
    called = called if none is None else (*called, NONE)
    module = Probabilities(model.float(), extra.get("calibration"), into, none).eval()
    with progress.step("Writing the network", 2) as step:
        proto = _converted(module, _pictures(model, 2))
        _without_traces(proto.graph)
        _describe(onnx, proto, run, model, called)
        content: bytes = proto.SerializeToString(deterministic=True)
        step.advance()
        _compare(runtime, content, module, model)
        step.advance()
    return content


def _as_now(
    head: Sequence[str], answer: Answer, what: Sorted, progress: Progress
) -> tuple[tuple[str, ...], Tensor | None]:
    """Return what the kinds of the file are called, and which of them each of the model's is; None if all are as made.

    A file cannot tell the parts of a kind that was split: they stay one in it.
    """
    title = dict(zip(what.found.columns, what.called, strict=True))
    now = list(head)
    if answer.state is not None:
        now = [current_column(answer.state, column) for column in head]
        made = [kind for kind in what.found.columns if sort_of(kind) == "new" and kind not in head]
        if made:
            told = ", ".join(title[kind] for kind in made[:5])
            progress.warn(f"The network does not tell kinds that were made since: {told}. `newkinds predict` does.")
    called = [title.get(column) or kind_title(column, answer.called) for column in now]
    kinds = list(dict.fromkeys(called))
    if len(kinds) == len(head):
        return tuple(called), None
    into = torch.zeros(len(head), len(kinds))
    into[torch.arange(len(head)), torch.tensor([kinds.index(name) for name in called])] = 1
    return tuple(kinds), into


def _packages() -> tuple[Any, Any]:
    """Return the modules onnx and onnxruntime."""
    onnx, _, runtime = map(_imported, PACKAGES)
    return onnx, runtime


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # with an incompatible numpy or protobuf they may raise anything
        raise UsageError(
            f"An ONNX file needs {name}, which cannot be imported: {type(error).__name__}: {error}.",
            hint="Install it with: pip install 'newkinds[onnx]'",
        ) from error


def _pictures(model: Model, number: int) -> Tensor:
    """Return synthetic pictures, or embeddings, of the shape that a model takes."""
    network = model.network
    shape = (network.channels,) if network.size == 1 else (network.channels, network.size, network.size)
    values = np.random.default_rng(0).random((number, *shape), dtype=np.float32)
    return torch.from_numpy(values)


def _converted(module: Probabilities, example: Tensor) -> Any:
    """Return the network as onnx.ModelProto, by the exporter of torch that traces with torch.export.

    The older one (dynamo=False) supports neither an antialiased resize nor pooling to a side that does not divide.
    """
    try:
        with _silence():
            program = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                input_names=["images"],
                output_names=["p"],
                dynamic_shapes=({0: torch.export.Dim("N")},),
                verbose=False,
            )
    except Exception as error:  # the exporter, and a network from elsewhere, may raise anything
        text = " ".join(str(error).split())
        raise DataError(
            f"The network {module.model.network.name!r} cannot be written as ONNX by torch {torch.__version__}: "
            f"{type(error).__name__}: {text[:300]}",
            hint="Another version of torch or onnxscript may do it, or discover with another --network.",
        ) from error
    assert program is not None
    return program.model_proto


@contextmanager
def _silence() -> Iterator[None]:
    """Hide the exporter's messages about torchvision and its own internals."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _without_traces(graph: Any) -> None:
    """Remove the paths of the files that each step was traced in: they are private, and differ between machines."""
    for part in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs:
                _without_traces(inner)


def _describe(onnx: Any, proto: Any, run: RunFolder, model: Model, called: Sequence[str]) -> None:
    network = model.network
    about = {
        "kinds": str(len(called)),
        "names": json.dumps(list(called), ensure_ascii=False),
        "size": str(network.size),
        "mean": "[0.0]",  # of the pixels it takes, as `--network FILE.onnx` reads it: it normalises them itself
        "std": "[1.0]",
        "channels": str(network.channels),
        "version": __version__,
        "run": run.path.resolve().name,
        "method": method_of(run),
        "network": network.name,
        "fit": run.settings.images.fit,
    }
    onnx.helper.set_model_props(proto, about)
    proto.producer_name, proto.producer_version = "newkinds", __version__
    proto.doc_string = "images: float32 pixels in [0, 1]. p: the probability of each kind, in the order of `names`."


def _compare(runtime: Any, content: bytes, module: Probabilities, model: Model) -> None:
    """Raise an error if the outputs of the file and of the network differ."""
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for number in _TRIED:
        images = _pictures(model, number)
        (theirs,) = session.run(["p"], {"images": images.numpy()})
        with torch.inference_mode():
            difference = float(np.abs(theirs - module(images).numpy()).max())
        if not difference <= LARGEST_DIFFERENCE:
            raise NumericsError(
                f"The ONNX file would differ from the network by up to {difference:.2g} in a probability; "
                f"{LARGEST_DIFFERENCE:g} is allowed.",
                hint="Try another version of torch, onnxscript or onnxruntime.",
            )
