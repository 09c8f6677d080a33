"""Networks of timm: what is asked of timm and of the hub, and what is said where either is out of reach."""

from __future__ import annotations

import importlib
import importlib.util
import re
import socket
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import made
import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from newkinds.configure import Settings
from newkinds.errors import DataError, UsageError
from newkinds.images.imageset import ImageSet
from newkinds.networks import FOREIGN, Network, build_network, hub, open_foreign
from newkinds.networks.files import load_plain, network_from_bytes, network_to_bytes
from newkinds.pipeline.backbone import open_pretrained, pretrained_network


def pictures(n: int, channels: int, size: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).random((n, channels, size, size), dtype=np.float32))


# A timm of our own


class FakeTimm(types.ModuleType):
    """Stands in timm's place; `asked` is what it is asked to create."""

    __version__ = "0.0"
    repository: str | None = "timm/tiny.in1k"
    fixed, side = False, 24

    def __init__(self) -> None:
        super().__init__("timm")
        self.asked: list[dict[str, Any]] = []

    def get_pretrained_cfg(self, name: str) -> Any:
        if name != "tiny.in1k":
            return None
        return types.SimpleNamespace(hf_hub_id=self.repository, license="mit", fixed_input_size=self.fixed)

    def create_model(self, name: str, **options: Any) -> torch.nn.Module:
        self.asked.append(options)
        if name != "tiny.in1k":
            raise RuntimeError(f"Unknown model ({name})")
        module = made.Tiny()
        if options["pretrained"]:
            module.load_state_dict(safetensors.torch.load_file(options["pretrained_cfg_overlay"]["file"]))
        module.pretrained_cfg = {"classifier": "fc"}
        return module

    def resolve_model_data_config(self, module: torch.nn.Module) -> dict[str, Any]:
        return {"input_size": (3, self.side, self.side), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.1)}


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> FakeTimm:
    fake = FakeTimm()
    monkeypatch.setitem(sys.modules, "timm", fake)
    monkeypatch.setitem(sys.modules, "timm.data", fake)
    return fake


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache of a hub that nothing can reach."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


def put(cache: Path, repository: str, state: dict[str, Tensor]) -> Path:
    """Put weights into the hub's cache, as its library lays it out."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    file = folder / "snapshots" / "abc" / "model.safetensors"
    file.parent.mkdir(parents=True)
    safetensors.torch.save_file({name: value.contiguous() for name, value in state.items()}, file)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    return file


def test_weights_in_the_cache_are_taken_and_nothing_is_fetched(timm: FakeTimm, cache: Path) -> None:
    state = made.Tiny().state_dict()
    file = put(cache, "timm/tiny.in1k", state)
    network = build_network("timm:tiny.in1k", 3, 8, seed=0).eval()
    overlay = {"file": str(file), "custom_load": False}
    assert timm.asked == [{"pretrained": True, "num_classes": 0, "pretrained_cfg_overlay": overlay}]
    assert torch.equal(network.backbone.module.conv.weight, state["conv.weight"])
    assert (network.network_size, network.feature_dim) == (24, 6)
    assert network.mean.flatten().tolist() == pytest.approx([0.5, 0.4, 0.3])
    assert network.std.flatten().tolist() == pytest.approx([0.2, 0.2, 0.1])
    assert network.backbone.remarks == ("The weights of timm:tiny.in1k have the licence mit.",)


def test_a_file_fetches_no_weights(timm: FakeTimm, cache: Path) -> None:
    network = build_network("timm:tiny.in1k", 3, 8, seed=0, pretrained=False).eval()
    again, _ = network_from_bytes(network_to_bytes(network), "here")
    assert [options["pretrained"] for options in timm.asked] == [False, False]
    assert torch.equal(again.eval()(pictures(2, 3, 8)), network(pictures(2, 3, 8)))


def test_the_classifier_in_timm_s_files_is_left_out(timm: FakeTimm) -> None:
    network = build_network("timm:tiny.in1k", 3, 8, seed=0, pretrained=False)
    state = {**made.Tiny().state_dict(), "fc.weight": torch.zeros(9, 6), "fc.bias": torch.zeros(9)}
    load_plain(network, safetensors.torch.save(state), "here")
    with pytest.raises(DataError, match=r"unexpected: head\.weight"):
        load_plain(network, safetensors.torch.save({**state, "head.weight": torch.zeros(1)}), "here")


@pytest.mark.parametrize(("fixed", "side", "expected"), [(True, 518, 224), (True, 384, 384), (False, 518, 518)])
def test_transformers_of_large_pictures_see_smaller_ones(timm: FakeTimm, fixed: bool, side: int, expected: int) -> None:
    timm.fixed, timm.side = fixed, side
    assert open_foreign("timm:tiny.in1k", admitted=None, pretrained=False).input_size == expected
    assert timm.asked[0].get("dynamic_img_size", False) is fixed


def test_one_that_takes_a_single_size_keeps_it(timm: FakeTimm, monkeypatch: pytest.MonkeyPatch) -> None:
    timm.fixed, timm.side = True, 518
    plain = timm.create_model

    def create_model(name: str, **options: Any) -> torch.nn.Module:
        if "dynamic_img_size" in options:
            raise TypeError("unexpected keyword argument 'dynamic_img_size'")
        return plain(name, **options)

    monkeypatch.setattr(timm, "create_model", create_model)
    assert open_foreign("timm:tiny.in1k", admitted=None, pretrained=False).input_size == 518


# What is out of reach


@pytest.mark.parametrize("pretrained", [True, False])
def test_timm_does_not_know_the_name(timm: FakeTimm, cache: Path, pretrained: bool) -> None:
    said = r"'timm:huge' cannot be built by timm 0.0: RuntimeError: Unknown model \(huge\)"
    with pytest.raises(UsageError, match=said) as caught:
        build_network("timm:huge", 3, 8, seed=0, pretrained=pretrained)
    assert "list_pretrained" in caught.value.hint


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ModuleNotFoundError("No module named 'timm'", name="timm"), "which is not installed"),
        (RuntimeError("torchvision::nms is missing"), "which cannot be imported: RuntimeError: torchvision::nms"),
    ],
)
def test_where_timm_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, error: Exception, says: str) -> None:
    def fail(name: str) -> types.ModuleType:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(UsageError, match=says) as caught:
        build_network("timm:resnet18", 3, 8, seed=0)
    assert "pip install 'newkinds[timm]'" in caught.value.hint
    assert "newkinds[timm]" in FOREIGN["timm:NAME"]


def test_a_network_that_the_hub_does_not_have(timm: FakeTimm, cache: Path) -> None:
    timm.repository = None
    with pytest.raises(UsageError, match=r"timm knows no weights of 'timm:tiny.in1k'") as caught:
        build_network("timm:tiny.in1k", 3, 8, seed=0)
    assert "--weights FILE.safetensors --network timm:tiny.in1k" in caught.value.hint


def refusal(cache: Path, offline: bool = False) -> UsageError:
    """Return how weights that are not in the cache are refused, which must not take longer than 10 s."""
    begun = time.monotonic()
    with pytest.raises(UsageError) as caught:
        open_foreign("timm:tiny.in1k", admitted=None, offline=offline)
    assert time.monotonic() - begun < 10
    assert f"not in the cache, {cache}/models--timm--tiny.in1k" in caught.value.message
    assert "/timm/tiny.in1k/resolve/main/model.safetensors" in caught.value.hint
    assert "--network timm:tiny.in1k --weights model.safetensors" in caught.value.hint
    return caught.value


def test_a_hub_that_refuses(timm: FakeTimm, cache: Path) -> None:
    assert "http://127.0.0.1:9 cannot be reached ([Errno 111] Connection refused)" in refusal(cache).message
    assert not timm.asked


def test_a_hub_that_never_answers(timm: FakeTimm, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub.HUB_SECONDS <= 5
    monkeypatch.setattr(hub, "HUB_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        assert f"{address} cannot be reached (" in refusal(cache).message


def test_a_hub_whose_file_cannot_be_fetched(timm: FakeTimm, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> str:
        raise OSError("No space left on device")

    monkeypatch.setattr(hub, "_unreachable", lambda address: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    assert "it cannot be downloaded (OSError: No space left on device)" in refusal(cache).message


@pytest.mark.parametrize("by_variable", [True, False])
def test_offline_nothing_is_fetched(
    timm: FakeTimm, cache: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    monkeypatch.setattr(hub, "_unreachable", lambda address: pytest.fail("the hub was asked"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", by_variable)
    assert "nothing may be downloaded" in refusal(cache, offline=not by_variable).message
    put(cache, "timm/tiny.in1k", made.Tiny().state_dict())
    assert open_foreign("timm:tiny.in1k", admitted=None, offline=True).input_size == 24


# The real timm


@pytest.fixture(scope="module")
def real_timm() -> Iterator[Any]:
    """Return timm. Beside a CPU build of torch its torchvision lacks operators, which are declared here, empty."""
    spec = importlib.util.find_spec("torchvision")
    if importlib.util.find_spec("timm") is None or spec is None or not spec.submodule_search_locations:
        pytest.skip("timm and torchvision are not installed")
    library = None
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        text = (Path(spec.submodule_search_locations[0]) / "_meta_registrations.py").read_text()
        library = torch.library.Library("torchvision", "DEF")
        for name in sorted(set(re.findall(r'register_meta\("(\w+)"|"torchvision::(\w+)"', text))):
            library.define(f"{''.join(name)}() -> ()")
        for loaded in [one for one in sys.modules if one.split(".")[0] == "torchvision"]:
            del sys.modules[loaded]
    yield importlib.import_module("timm")
    del library


@pytest.mark.parametrize(("name", "width"), [("test_resnet.r160_in1k", 96), ("test_vit.r160_in1k", 64)])
def test_tiny_networks_with_weights_in_the_cache(real_timm: Any, cache: Path, name: str, width: int) -> None:
    source = real_timm.create_model(name, pretrained=False).eval()
    put(cache, f"timm/{name}", source.state_dict())
    network = Network(f"timm:{name}", 3, 32, None, open_foreign(f"timm:{name}", admitted=None, offline=True)).eval()
    assert (network.network_size, network.feature_dim) == (160, width)
    x = (pictures(2, 3, 160) - network.mean) / network.std
    with torch.no_grad():
        expected = source.forward_head(source.forward_features(x), pre_logits=True)
        assert torch.allclose(network.backbone(x), expected, atol=1e-5)
        again, _ = network_from_bytes(network_to_bytes(network), "here")
        assert torch.equal(again.eval()(pictures(2, 3, 32)), network(pictures(2, 3, 32)))


def test_a_transformer_takes_other_sizes(real_timm: Any) -> None:
    foreign = open_foreign("timm:test_vit", admitted=None, pretrained=False)
    assert Network("timm:test_vit", 1, 32, 96, foreign).eval()(pictures(2, 1, 32)).shape == (2, 64)


def test_dinov2_is_given_pictures_of_224(real_timm: Any) -> None:
    foreign = open_foreign(hub.DINOV2, admitted=None, pretrained=False)
    assert foreign.input_size == 224
    assert foreign.remarks == (f"The weights of {hub.DINOV2} have the licence apache-2.0.",)
    network = Network(hub.DINOV2, 3, 64, None, foreign).eval()
    assert network.feature_dim == 384
    assert tuple(network.backbone.module.pos_embed.shape) == (1, 1370, 384)  # as in its file


def test_a_local_file_of_weights(real_timm: Any, tmp_path: Path) -> None:
    source = real_timm.create_model("test_vit", pretrained=False)  # with its classifier, as in the hub's files
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file({name: value.contiguous() for name, value in source.state_dict().items()}, file)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
    known = ImageSet(pixels, tuple("abcd"), np.arange(4) % 2, ("a", "b"), "made up", "no mark")
    settings = Settings(network="timm:test_vit")
    network = pretrained_network(settings, known, file, open_pretrained(settings, file, offline=True))
    assert network is not None
    assert torch.equal(network.backbone.module.pos_embed, source.pos_embed)


def test_an_unknown_name_of_the_real_timm(real_timm: Any, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"Unknown model \(tset_vit\)"):
        open_foreign("timm:tset_vit.r160_in1k", admitted=None)
    for name in ("timm:test_vit.no_such_tag", "timm:gcvit_tiny.in1k"):  # no such name; no weights on the hub
        with pytest.raises(UsageError, match=r"no weights of|Invalid pretrained tag"):
            open_foreign(name, admitted=None)
