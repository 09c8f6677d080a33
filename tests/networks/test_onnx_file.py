"""Networks in ONNX files: what is run, what is refused and why, and that a run finds its file again."""

from __future__ import annotations

import copy
import importlib
import json
import shutil
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import newkinds as nk
from newkinds.errors import DataError, NewkindsError, UsageError
from newkinds.networks import Network, build_network, onnx_file, open_foreign
from newkinds.networks.files import network_from_bytes, network_to_bytes
from newkinds.networks.onnx_file import IMAGENET
from newkinds.presets import combine
from newkinds.progress import Progress

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
WEIGHT = np.random.default_rng(0).normal(size=(6, 3, 3, 3)).astype(np.float32)
QUICK = {
    "rehearse.rehearsals": 1,
    "discover.epochs": 2,
    "discover.warmup_epochs": 1,
    "images.largest": 8,
    "network_size": 12,
}


def write(
    path: Path,
    taken: tuple[Any, ...] = ("N", 3, "H", "W"),
    weight: np.ndarray[Any, Any] = WEIGHT,
    metadata: dict[str, str] | None = None,
    pooled: bool = True,
    domain: str = "",
) -> Path:
    """Write a convolution, and the mean over its map if `pooled`, as an ONNX file; return it."""
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Conv", ["images", "weight"], ["maps"], domain=domain)]
    shape: list[Any] = ["N", len(weight), "h", "w"]
    if pooled:
        nodes += [
            helper.make_node("GlobalAveragePool", ["maps"], ["one"]),
            helper.make_node("Flatten", ["one"], ["out"]),
        ]
        shape = ["N", len(weight)]
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("images", real, list(taken))],
        [helper.make_tensor_value_info("out" if pooled else "maps", real, shape)],
        [onnx.numpy_helper.from_array(weight, "weight")],
    )
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


def pictures(n: int, channels: int, size: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).random((n, channels, size, size), dtype=np.float32))


def built(path: Path, channels: int = 3, size: int = 16, network_size: int | None = None) -> Network:
    return build_network(str(path), channels, size, seed=0, network_size=network_size).eval()


def by_hand(x: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    x = (x - torch.tensor(mean).view(1, -1, 1, 1)) / torch.tensor(std).view(1, -1, 1, 1)
    return F.conv2d(x, torch.from_numpy(WEIGHT)).mean(dim=(2, 3))


# What is run


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("batch", ["N", 1])
def test_features_or_the_means_of_maps(tmp_path: Path, pooled: bool, batch: str | int) -> None:
    network = built(write(tmp_path / "net.onnx", (batch, 3, 16, 16), pooled=pooled))
    assert (network.network_size, network.feature_dim, network.has_weights) == (16, 6, False)
    x = pictures(5, 3, 16)
    assert torch.allclose(network(x), by_hand(x, *IMAGENET), atol=1e-5)
    assert not network(x.requires_grad_()).requires_grad  # frozen
    assert torch.equal(copy.deepcopy(network)(x), network(x))


def test_any_size_means_224(tmp_path: Path) -> None:
    file = write(tmp_path / "net.onnx")
    assert built(file, size=32).network_size == 224
    assert built(file, size=32, network_size=20).network_size == 20


def test_grey_pictures(tmp_path: Path) -> None:
    x = pictures(2, 1, 16)
    colour = built(write(tmp_path / "colour.onnx", ("N", 3, 16, 16)), channels=1)
    assert torch.allclose(colour(x), by_hand(x.repeat(1, 3, 1, 1), *IMAGENET), atol=1e-5)
    grey = built(write(tmp_path / "grey.onnx", ("N", 1, 16, 16), WEIGHT[:, :1]), channels=1)
    assert grey.backbone.inputs == 1
    with pytest.raises(UsageError, match=r"does not take pictures \(2, 3, 16, 16\)"):
        built(tmp_path / "grey.onnx", channels=3)


def test_the_file_may_say_its_mean_and_std(tmp_path: Path) -> None:
    file = write(tmp_path / "net.onnx", metadata={"mean": "[0.5, 0.25, 0]", "std": "[0.5]"})
    foreign = open_foreign(str(file), admitted=None)
    assert foreign.remarks == ()
    assert (foreign.pixel_mean, foreign.pixel_std) == ((0.5, 0.25, 0.0), (0.5,))
    remarks = open_foreign(str(write(tmp_path / "silent.onnx")), admitted=None).remarks
    assert remarks == (f"{tmp_path}/silent.onnx does not say the mean and std of its pixels: ImageNet's are taken.",)


# What is refused


@pytest.mark.parametrize(
    ("taken", "says"),
    [
        (("N", 16, 16, 3), r"net\.onnx takes images \(N, 16, 16, 3\) of float; one input of float32 pictures"),
        (("N", 3, 16, 12), r"takes images \(N, 3, 16, 12\)"),
        ((8, 3, 16, 16), r"takes images \(8, 3, 16, 16\)"),
        (("N", 7, 16, 16), r"takes images \(N, 7, 16, 16\)"),
    ],
)
def test_an_input_that_does_not_fit(tmp_path: Path, taken: tuple[Any, ...], says: str) -> None:
    weight = np.ones((6, taken[1], 1, 1), dtype=np.float32)
    with pytest.raises(DataError, match=says) as caught:
        built(write(tmp_path / "net.onnx", taken, weight))
    assert "(N, C, S, S)" in caught.value.hint


def test_several_inputs_and_other_types_and_outputs(tmp_path: Path) -> None:
    helper, types_ = onnx.helper, onnx.TensorProto

    def save(inputs: list[Any], node: Any, output: Any) -> Path:
        graph = helper.make_graph([node], "made", inputs, [output])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, tmp_path / "net.onnx")
        return tmp_path / "net.onnx"

    def value(name: str, kind: int, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, list(shape))

    real, add, relu = types_.FLOAT, helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Relu", ["a"], ["c"])
    a, b = value("a", real, "N", 3, 8, 8), value("b", real, "N", 3, 8, 8)
    with pytest.raises(DataError, match=r"takes a \(N, 3, 8, 8\) of float; b \(N, 3, 8, 8\) of float"):
        built(save([a, b], add, value("c", real, "N", 3, 8, 8)))
    half = value("a", types_.FLOAT16, "N", 3, 8, 8)
    with pytest.raises(DataError, match=r"takes a \(N, 3, 8, 8\) of float16"):
        built(save([half], relu, value("c", types_.FLOAT16, "N", 3, 8, 8)))
    tokens = helper.make_node("Reshape", ["a", "s"], ["c"])
    shape = helper.make_tensor("s", types_.INT64, [3], [0, 8, 24])
    graph = helper.make_graph([tokens], "made", [a], [value("c", real, "N", 8, 24)], [shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "t.onnx")
    with pytest.raises(DataError, match=r"t\.onnx gives c \(N, 8, 24\) of float; float32 \(N, d\) or maps"):
        built(tmp_path / "t.onnx")


def test_another_size_than_the_file_s(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not take pictures \(2, 3, 12, 12\)") as caught:
        built(write(tmp_path / "net.onnx", ("N", 3, 16, 16)), network_size=12)
    assert caught.value.hint == "Set network_size to 16."


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no\.onnx cannot be read: No such file"):
        built(tmp_path / "no.onnx")
    (tmp_path / "text.onnx").write_text("not a network")
    with pytest.raises(DataError, match=r"text\.onnx is not an ONNX file"):
        built(tmp_path / "text.onnx")
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(NewkindsError, match=r"empty\.onnx"):
        built(tmp_path / "empty.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(DataError, match=r"folder\.onnx cannot be read"):
        built(tmp_path / "folder.onnx")


def test_files_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "MOST_BYTES", 100)
    with pytest.raises(DataError, match=r"net\.onnx has [\d,]+ bytes, more than the 100 "):
        built(write(tmp_path / "net.onnx"))


def test_operators_of_others_do_not_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"onnxruntime [\d.]+ cannot run .*net\.onnx"):
        built(write(tmp_path / "net.onnx", domain="org.example"))


def test_weights_in_other_files_are_not_read(tmp_path: Path) -> None:
    model = onnx.load(write(tmp_path / "one.onnx"))
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    with pytest.raises(DataError, match=r"keeps 1 of its tensors in other files, the first is 'weight'"):
        built(tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"mean": "half", "std": "[1]"}, "is not JSON"),
        ({"mean": "[127]", "std": "[1]"}, r"mean = \[127\]; .* at most 1"),
    ],
)
def test_metadata_that_cannot_be_meant(tmp_path: Path, metadata: dict[str, str], says: str) -> None:
    with pytest.raises(NewkindsError, match=says):
        built(write(tmp_path / "net.onnx", metadata=metadata))


def test_without_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = importlib.import_module

    def fail(name: str) -> types.ModuleType:
        if name == "onnxruntime":
            raise ImportError("No module named 'onnxruntime'")
        return plain(name)

    file = write(tmp_path / "net.onnx")
    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(UsageError, match="needs onnxruntime, which cannot be imported") as caught:
        built(file)
    assert "pip install 'newkinds[onnx]'" in caught.value.hint


# A run keeps the path and the hash, not the file


def test_the_file_is_found_again_by_its_hash(tmp_path: Path) -> None:
    file = write(tmp_path / "net.onnx")
    network = built(file, network_size=16)
    data = network_to_bytes(network)
    assert len(data) < 1000
    x = pictures(2, 3, 16)
    assert torch.equal(network_from_bytes(data, "here")[0].eval()(x), network(x))
    moved = shutil.move(file, tmp_path / "moved.onnx")
    with pytest.raises(DataError, match=r"net\.onnx cannot be read") as caught:
        network_from_bytes(data, "here")
    assert "--network FILE.onnx" in caught.value.hint
    again, _ = network_from_bytes(data, "here", admitted=str(moved))
    assert torch.equal(again.eval()(x), network(x))
    write(file, weight=-WEIGHT)
    with pytest.raises(DataError, match=r"here is of another file than .*net\.onnx is now"):
        network_from_bytes(data, "here")


def test_a_run_and_a_prediction(photos: Path, tmp_path: Path) -> None:
    file, said = write(tmp_path / "net.onnx"), []
    progress = Progress("quiet")
    progress.say = said.append  # type: ignore[method-assign]
    options = {"kinds": 3, "truth": "folders", "network": str(file), "settings": combine(None, QUICK)}
    found = nk.discover(photos / "known", photos / "unsorted", out=tmp_path / "run", progress=progress, **options)
    assert any("ImageNet's are taken" in line for line in said)
    assert found.scores is not None
    stages = {json.loads(line)["stage"] for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()}
    assert stages == {"discover"}
    assert len(found.predict(photos / "today").names) == 6
    write(file, weight=-WEIGHT)
    with pytest.raises(UsageError, match=r"data\.weights"):
        nk.discover(photos / "known", photos / "unsorted", out=tmp_path / "run", **options)


def test_what_newkinds_exports_says_its_mean_and_std(photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    settings = combine(None, {**QUICK, "pretrain.epochs": 1, "network_size": "auto"})
    nk.discover(photos / "known", photos / "unsorted", out=tmp_path / "run", kinds=3, settings=settings)
    file = nk.export(tmp_path / "run", "onnx", tmp_path / "kinds.onnx")
    network = built(Path(file), size=8)
    assert (network.network_size, network.feature_dim, network.backbone.remarks) == (8, 3, ())
    assert torch.allclose(network(pictures(4, 3, 8)).sum(dim=1), torch.ones(4), atol=1e-4)  # probabilities of kinds
