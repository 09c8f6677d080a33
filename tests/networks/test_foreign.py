"""Networks from elsewhere: what they are given, what is asked of them, and that only the user can have them run."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import made
import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor

from models import student
from newkinds.errors import DataError, UsageError
from newkinds.methods.registry import HEADS
from newkinds.networks import Network, build_network, is_foreign, open_foreign
from newkinds.networks.files import (
    load_plain,
    model_from_bytes,
    model_to_bytes,
    network_about,
    network_from_bytes,
    network_to_bytes,
)
from newkinds.networks.foreign import Foreign, check_admitted
from newkinds.tensors import to_bytes


def pictures(n: int, channels: int, size: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).random((n, channels, size, size), dtype=np.float32))


def built(name: str, channels: int = 3, size: int = 16, network_size: int | None = None) -> Network:
    return build_network(name, channels, size, seed=0, network_size=network_size, admitted=name).eval()


def saved(state: dict[str, Tensor]) -> bytes:
    return safetensors.torch.save({key: value.contiguous() for key, value in state.items()})


# Names


@pytest.mark.parametrize(
    "name",
    [
        "timm:resnet18",
        "timm:vit_base_patch16_224.augreg-in21k",
        "nets:build",
        "a.b_2:c",
        "efficientnet-lite0",
        "nets/my net.onnx",
    ],
)
def test_names_from_elsewhere(name: str) -> None:
    assert is_foreign(name)


NO_NAMES = ["resnet18", "auto", ":f", "m:", "m:f()", "m:f.g", "a..b:c", "os:system('ls')", "../m:f", "1m:f", "m:1f"]
NO_NAMES += [
    "efficientnet-lite9",
    "onnx",
    "a\n.onnx",
    "m:f\n",
    " m:f",
    "",
    "timm:",
    "timm:hf-hub:me/evil",
    "timm:local-dir:/tmp",
    "timm:a/b",
    "timm:réseau",
]


@pytest.mark.parametrize("name", NO_NAMES)
def test_names_that_are_none(name: str) -> None:
    assert not is_foreign(name)


# What goes in and what comes out


def test_pictures_come_normalised_and_at_the_network_s_own_size() -> None:
    network = built("made:tiny", size=8)
    assert (network.size, network.network_size, network.feature_dim) == (8, 16, 6)
    x = pictures(2, 3, 8)
    mean, std = torch.tensor([0.5, 0.25, 0.125]).view(1, 3, 1, 1), torch.tensor([0.5, 0.5, 0.25]).view(1, 3, 1, 1)
    large = F.interpolate((x - mean) / std, size=(16, 16), mode="bilinear")
    assert torch.allclose(network(x), network.backbone.module(large), atol=1e-6)


def test_another_size_can_be_asked_for() -> None:
    network = built("made:tiny", size=8, network_size=12)
    seen: list[tuple[int, ...]] = []
    network.backbone.module.register_forward_pre_hook(lambda module, inputs: seen.append(tuple(inputs[0].shape)))
    network(pictures(2, 3, 8))
    assert seen == [(2, 3, 12, 12)]


def test_networks_of_the_catalogue_can_be_given_another_size_too() -> None:
    network = build_network("vgg6-4-2-slim", 1, 8, seed=0, network_size=32).eval()
    assert torch.allclose(
        network(pictures(2, 1, 8)),
        build_network("vgg6-4-2-slim", 1, 32, seed=0).eval()(F.interpolate(pictures(2, 1, 8), 32, mode="bilinear")),
        atol=1e-5,
    )


def test_shrinking_does_not_alias() -> None:
    network = built("made:tiny", size=64, network_size=16)
    stripes = torch.zeros(1, 3, 64, 64)
    stripes[..., ::4] = 1  # every fourth column: without a filter all or none of them would be seen
    seen: list[Tensor] = []
    network.backbone.module.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    network(stripes)
    inner = seen[0][:, :, 2:-2, 2:-2] * network.std + network.mean
    assert torch.allclose(inner, torch.full_like(inner, 0.25), atol=0.05)


def test_one_that_says_nothing_sees_pictures_as_they_are_and_its_maps_are_averaged() -> None:
    network = built("made:silent", size=10)
    assert (network.network_size, network.feature_dim) == (10, 6)
    x = pictures(2, 3, 10)
    assert torch.allclose(network(x), network.backbone.module(x).mean(dim=(2, 3)))


@pytest.mark.parametrize("name", ["made:tiny", "made:silent"])
def test_grey_pictures_are_repeated_for_colour(name: str) -> None:
    network = built(name, channels=1)
    assert (network.channels, network.backbone.inputs) == (1, 3)
    x = pictures(2, 1, 16)
    assert torch.allclose(network(x), built(name)(x.repeat(1, 3, 1, 1)), atol=1e-6)


def test_grey_pictures_stay_grey_for_a_grey_network() -> None:
    assert built("made:grey", channels=1).backbone.inputs == 1


def test_only_batch_norm_trains_differently() -> None:
    network = built("made:silent").train()
    assert network.training
    assert network.backbone.module.norm.training
    assert not network.backbone.module.drop.training
    network.eval()
    assert not network.backbone.module.norm.training
    before = torch.get_rng_state()
    network.train()(pictures(2, 3, 16))
    assert torch.equal(torch.get_rng_state(), before)


def test_building_and_probing_change_nothing_but_what_the_seed_says() -> None:
    before = torch.get_rng_state()
    first, second = built("made:tiny"), built("made:tiny")
    assert torch.equal(torch.get_rng_state(), before)
    other = build_network("made:tiny", 3, 16, seed=1, admitted="made:tiny")
    weights = [network.backbone.module.conv.weight for network in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert int(first.backbone.module.norm.num_batches_tracked) == 0


def test_its_normalisation_is_kept_and_its_weights_can_be_trained() -> None:
    network = built("made:tiny")
    network.normalise_by(np.zeros((2, 3, 4, 4), dtype=np.uint8))
    assert network.mean.flatten().tolist() == [0.5, 0.25, 0.125]
    copied = copy.deepcopy(network)
    copied(pictures(2, 3, 16)).sum().backward()
    assert all(weight.grad is not None for weight in copied.parameters())
    names = {name for name, _ in student(network, 2, 2).named_parameters()}
    assert all(name.startswith(("network.backbone.module.", "head.bottleneck.", "head.centres")) for name in names)


# What is refused


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("made:text", "into a tuple, not into a tensor"),
        ("made:tokens", r"\(2, 3, 16, 16\) into \(2, 5, 3\); \(B, d\) or maps"),
        ("made:one_row", r"into \(1, 3\)"),
        ("made:half", "float16; torch.float32 is needed"),
        ("made:infinite", "not finite"),
        ("made:raises", "cannot be built: RuntimeError: no such file in my folder"),
        ("made:nothing", "returned a NoneType, not a torch.nn.Module"),
        ("made:absent", "'made' has no function 'absent'"),
        ("made:NOT_A_FUNCTION", "has no function"),
        ("no_such_module_here:build", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("made:grey", "does not take pictures"),
    ],
)
def test_what_does_not_keep_to_the_contract(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        built(name)
    assert caught.value.hint


def test_a_network_for_one_size_only_says_which() -> None:
    assert built("made:fixed", size=8).feature_dim == 3
    with pytest.raises(UsageError, match="AssertionError: expected 16, got 12") as caught:
        built("made:fixed", network_size=12)
    assert caught.value.hint == "Set network_size to 16."


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"input_size": (3, 224, 224)}, "input_size = "),
        ({"input_size": 0}, "input_size = 0"),
        ({"input_size": True}, "input_size = True"),
        ({"mean": (127, 127, 127)}, "mean = .* at most 1"),
        ({"mean": "half"}, "mean = 'half'"),
        ({"mean": ()}, "mean = "),
        ({"mean": (0.5, float("nan"), 0.5)}, "mean = "),
        ({"std": (0.5, 0, 0.5)}, "std = .* above 0"),
        ({"mean": (0.5, 0.5), "std": (1, 1, 1)}, "2 numbers in mean and 3 in std"),
    ],
)
def test_attributes_that_cannot_be_meant(attributes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Foreign("made:up", made.badly_said(**attributes))


def test_one_number_stands_for_all_channels() -> None:
    network = Network("made:up", 3, 8, foreign=Foreign("made:up", made.badly_said(mean=0.5, std=[0.25])))
    assert network.mean.flatten().tolist() == [0.5] * 3
    assert network.std.flatten().tolist() == [0.25] * 3


def test_colour_pictures_do_not_fit_a_network_of_another_number_of_channels() -> None:
    module = made.badly_said(mean=(0.5, 0.5, 0.5, 0.5))
    with pytest.raises(UsageError, match="takes pictures of 4 channels, these have 3"):
        Network("made:up", 3, 8, foreign=Foreign("made:up", module))


# Only the user can have it run


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that importing the module `trapped` leaves."""
    sprung = tmp_path / "sprung"
    (tmp_path / "trapped.py").write_text(
        f"import pathlib\npathlib.Path({str(sprung)!r}).touch()\nfrom made import tiny as build\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "trapped", raising=False)
    return sprung


@pytest.mark.parametrize("admitted", [None, "auto", "other:build", "trapped:buil", "timm:resnet18"])
def test_a_name_that_the_user_did_not_say_is_not_imported(trap: Path, admitted: str | None) -> None:
    with pytest.raises(UsageError, match="no file may run code") as caught:
        open_foreign("trapped:build", admitted=admitted)
    assert "--network trapped:build" in caught.value.hint
    with pytest.raises(UsageError):
        build_network("trapped:build", 3, 16, seed=0, admitted=admitted)
    assert not trap.exists()
    assert open_foreign("trapped:build", admitted="trapped:build").input_size == 16
    assert trap.exists()


def test_files_import_nothing(trap: Path) -> None:
    network = built("made:tiny", size=8)
    network.name = "trapped:build"
    model = student(network, 2, 2)
    plain, clustering = network_to_bytes(network), model_to_bytes(model, {})
    for admitted in (None, "made:tiny", "vgg6-4-2"):
        with pytest.raises(UsageError, match=r"here names the network 'trapped:build'") as caught:
            network_from_bytes(plain, "here", admitted=admitted)
        assert caught.value.hint == "If you trust it, say so: --network trapped:build"
        with pytest.raises(UsageError, match=r"here names the network 'trapped:build'"):
            model_from_bytes(clustering, "here", HEADS, admitted=admitted)
    assert network_about(clustering, "here")["network"] == "trapped:build"
    assert not trap.exists()
    assert network_from_bytes(plain, "here", admitted="trapped:build")[0].name == "trapped:build"
    assert trap.exists()


def test_files_of_another_network_than_the_one_named() -> None:
    data = network_to_bytes(build_network("vgg6-4-2-slim", 1, 8, seed=0))
    assert network_from_bytes(data, "here", admitted="vgg6-4-2-slim")[0].name == "vgg6-4-2-slim"
    with pytest.raises(UsageError, match="here is of the network 'vgg6-4-2-slim', not 'resnet18'"):
        network_from_bytes(data, "here", admitted="resnet18")
    check_admitted("timm:resnet18", None, "here")  # builds timm's own and nothing else


# Weights on disk


@pytest.mark.parametrize(("name", "channels"), [("made:tiny", 3), ("made:tiny", 1), ("made:tied", 3)])
def test_it_comes_back_from_a_file(name: str, channels: int) -> None:
    network = built(name, channels, size=8, network_size=12)
    with torch.no_grad():
        next(network.parameters()).add_(1)
    data = network_to_bytes(network, seen="ü")
    again, about = network_from_bytes(data, "here", admitted=name)
    assert about == {"network": name, "channels": channels, "size": 8, "network_size": 12, "seen": "ü"}
    assert (again.size, again.network_size) == (8, 12)
    assert torch.equal(again.eval()(pictures(2, channels, 8)), network(pictures(2, channels, 8)))
    assert network_to_bytes(again, seen="ü") == data


def test_files_from_before_there_was_a_network_size() -> None:
    network = build_network("vgg6-4-2-slim", 1, 8, seed=1)
    old = to_bytes(network.state_dict(), {"network": "vgg6-4-2-slim", "channels": 1, "size": 8})
    again, _ = network_from_bytes(old, "here")
    assert again.network_size == 8
    assert torch.equal(again.eval()(pictures(2, 1, 8)), network.eval()(pictures(2, 1, 8)))


@pytest.mark.parametrize("name", ["made:tiny", "vgg6-5-1-slim"])
def test_a_plain_state_dict_is_loaded(name: str) -> None:
    source = build_network(name, 3, 16, seed=5, admitted=name).eval()
    inner = source.backbone.module if isinstance(source.backbone, Foreign) else source.backbone
    network = built(name)
    assert load_plain(network, saved(inner.state_dict()), "here") is False
    assert torch.equal(network(pictures(2, 3, 16)), source(pictures(2, 3, 16)))
    other = built(name)
    source.mean.fill_(0.75)
    assert load_plain(other, saved(source.state_dict()), "here") is True
    assert torch.equal(other(pictures(2, 3, 16)), source(pictures(2, 3, 16)))


def test_a_plain_state_dict_must_match() -> None:
    state = made.tiny().state_dict()
    wrong = {key: value for key, value in state.items() if not key.startswith("norm.")}
    wrong |= {"fc.weight": torch.zeros(1), "conv.weight": torch.zeros(6, 3, 5, 5)}
    network = built("made:tiny")
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(DataError) as caught:
        load_plain(network, safetensors.torch.save(wrong), "my.safetensors")
    message = caught.value.message
    assert "my.safetensors do not fit the network 'made:tiny': 5 of the keys are missing: norm.weight" in message
    assert "1 of the keys is unexpected: fc.weight" in message
    assert "1 of the keys is of another shape: conv.weight" in message
    assert "the first is (6, 3, 5, 5), (6, 3, 3, 3) is needed" in message
    state["norm.bias"][0] = torch.nan
    with pytest.raises(DataError, match=r"1 of the keys is not finite: norm\.bias"):
        load_plain(network, safetensors.torch.save(state), "my.safetensors")
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
