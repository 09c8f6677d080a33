"""Runs with a pretrained f; and only a network that the user names is imported."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import newkinds as nk
from newkinds.api import pretrain
from newkinds.configure import Settings
from newkinds.errors import DataError, UsageError
from newkinds.images.imageset import ImageSet
from newkinds.networks import build_network
from newkinds.networks.files import network_to_bytes, read_network
from newkinds.pipeline.backbone import largest_side, open_pretrained, pretrained_network
from newkinds.presets import combine
from pictures import write_pictures

MODULE = '''"""A user's network: the mean colour of each cell of a grid, through a layer of weights."""
import pathlib
import torch
from torch import nn

pathlib.Path(__file__).with_suffix(".imported").touch()


def build():
    layer = nn.Conv2d(3, 24, 4, stride=4)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 1, layer.weight.numel()).cos().view_as(layer.weight))
        layer.bias.zero_()
    network = nn.Sequential(layer, nn.AdaptiveAvgPool2d(3), nn.Flatten())
    network.input_size, network.mean, network.std = 16, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    return network
'''
NAME = "shopnet:build"
QUICK = {"rehearse.rehearsals": 1, "discover.epochs": 2, "discover.warmup_epochs": 1, "images.largest": 8}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that importing the user's module leaves."""
    (tmp_path / "shopnet.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shopnet", raising=False)
    return tmp_path / "shopnet.imported"


def known(channels: int = 3, size: int = 8, embeddings: bool = False) -> ImageSet:
    shape = (8, channels) if embeddings else (8, channels, size, size)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pixels = pixels.astype(np.float32) if embeddings else pixels
    return ImageSet(pixels, tuple(map(str, range(8))), np.arange(8) % 2, ("a", "b"), "made up", "no mark")


def discovered(photos: Path, out: Path, **options: object) -> nk.Discovery:
    settings = combine(None, QUICK)
    return nk.discover(
        photos / "known", photos / "unsorted", out=out, kinds=3, truth="folders", settings=settings, **options
    )  # type: ignore[arg-type]


# Whole runs


def test_a_run_goes_straight_to_features_and_discovery(photos: Path, module: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    found = discovered(photos, out, network=NAME)
    assert found.scores is not None
    assert found.scores.acc > 0.85
    stages = {json.loads(line)["stage"] for line in (out / "log.jsonl").read_text().splitlines()}
    assert stages == {"discover"}
    settings = (out / "settings.toml").read_text()
    # Large pictures are decoded to what f takes, not to images.largest; these are smaller, and stay at 12.
    assert f'network = "{NAME}"' in settings
    assert "network_size = 16" in settings
    assert "size = 12" in settings
    assert set(found.predict(photos / "today", among="new").kinds) <= {"new:0", "new:1", "new:2"}
    before = (out / "kinds.csv").stat().st_mtime_ns
    assert discovered(photos, out, network=NAME).n_kinds == found.n_kinds
    assert (out / "kinds.csv").stat().st_mtime_ns == before


def test_a_function_that_returns_other_weights_does_not_go_on(photos: Path, module: Path, tmp_path: Path) -> None:
    discovered(photos, tmp_path / "run", network=NAME)
    sys.modules["shopnet"].build = lambda: _shifted(sys.modules["shopnet"])  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"data\.weights"):
        discovered(photos, tmp_path / "run", network=NAME)


def _shifted(module: object) -> torch.nn.Module:
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 24, 4), torch.nn.Flatten())
    network.input_size = 16  # type: ignore[assignment]
    return network


def test_the_weights_of_a_run_start_another(photos: Path, module: Path, tmp_path: Path) -> None:
    first = discovered(photos, tmp_path / "run", network=NAME)
    weights = tmp_path / "run" / "network.safetensors"
    with pytest.raises(UsageError, match=r"network\.safetensors names the network 'shopnet:build'"):
        discovered(photos, tmp_path / "other", weights=weights)
    found = discovered(photos, tmp_path / "other", weights=weights, network=NAME)
    assert np.array_equal(found.probabilities, first.probabilities)


def test_some_known_kinds_are_probes_that_the_transfer_has_not_seen(photos: Path, module: Path, tmp_path: Path) -> None:
    settings = {"count": {"max_kinds": 5, "restarts": 2, "enough": 4}}
    counted = nk.count(photos / "known", photos / "unsorted", out=tmp_path / "run", network=NAME, settings=settings)
    assert counted["probes"] == ["bolt", "nut"]
    assert counted["k"] >= 1


def test_it_can_be_trained_on_the_known_kinds_first(photos: Path, module: Path, tmp_path: Path) -> None:
    settings = combine(None, {"pretrain.epochs": 1, "network_size": 12})
    weights = pretrain(photos / "known", out=tmp_path / "tuned", network=NAME, settings=settings)
    network, _ = read_network(weights, admitted=NAME)
    fresh = build_network(NAME, 3, 12, seed=0, network_size=12, admitted=NAME)
    assert network.network_size == 12
    assert torch.equal(network.mean, fresh.mean)
    assert not torch.equal(next(network.parameters()), next(fresh.parameters()))


def test_it_stays_as_it_is_for_other_methods(photos: Path, module: Path, tmp_path: Path) -> None:
    short = {"epochs": 1, "milestones": ()}
    settings = {"network": NAME, "kinds": 3, "similarity": short, "pairs": short}
    pictures = (photos / "known", photos / "unsorted")
    found = nk.compare(*pictures, out=tmp_path / "all", methods=["kmeans", "mcl"], seeds=1, settings=settings)
    assert list(found.learnt) == ["similarity"]
    plain, taught = (read_network(found.path / run / "network.safetensors", admitted=NAME)[0] for run in
                     ("kmeans-0", "similarity"))  # fmt: skip
    fresh = build_network(NAME, 3, 12, seed=0, network_size=16, admitted=NAME)
    for network in (plain, taught):
        assert all(torch.equal(fresh.state_dict()[name], value) for name, value in network.state_dict().items())
    # A function that returns another network the next time does not go on.
    sys.modules["shopnet"].build = lambda: _shifted(sys.modules["shopnet"])  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"data\.weights"):
        nk.prepare(photos / "known", "similarity", out=tmp_path / "all" / "similarity", settings=settings)


def test_a_plain_state_dict_for_other_methods(photos: Path, tmp_path: Path) -> None:
    file, name = tmp_path / "weights.safetensors", "vgg6-5-1-slim"
    state = build_network(name, 3, 12, seed=9).backbone.state_dict()
    file.write_bytes(safetensors.torch.save({key: value.contiguous() for key, value in state.items()}))
    settings = combine(None, {"network": name, "kinds": 3, "similarity.epochs": 1, "pairs.epochs": 1})
    found = nk.compare(
        photos / "known", photos / "unsorted", out=tmp_path / "all", methods=["kmeans", "mcl"], seeds=1,
        weights=file, settings=settings,
    )  # fmt: skip
    for run in ("kmeans-0", "mcl-0", "similarity"):
        network = read_network(found.path / run / "network.safetensors")[0]
        assert all(torch.equal(state[key], value) for key, value in network.backbone.state_dict().items()), run


# Nothing but the user's word


def files(photos: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Return a finished run of the user's network and its settings file, made in a process of its own."""
    program = (
        "import newkinds as nk, sys; from newkinds.api import combine; "
        f"nk.discover(sys.argv[1] + '/known', sys.argv[1] + '/unsorted', out=sys.argv[2], kinds=3, network={NAME!r}, "
        f"settings=combine(None, {QUICK!r}))"
    )
    out = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program, str(photos), str(out)], check=True, env=environment)
    (tmp_path / "shopnet.imported").unlink()
    return out, out / "settings.toml"


def test_files_import_nothing(photos: Path, module: Path, tmp_path: Path) -> None:
    run, settings = files(photos, tmp_path)
    arguments = {"known": photos / "known", "unsorted": photos / "unsorted", "out": tmp_path / "other"}
    for call in (nk.discover, nk.count):
        with pytest.raises(UsageError, match="which is code, and no file may run code") as caught:
            call(**arguments, settings=settings)  # type: ignore[operator]
        assert str(settings) in caught.value.message
        assert f"--network {NAME}" in caught.value.hint
    with pytest.raises(UsageError, match="no file may run code"):
        nk.discover(**arguments, weights=run / "network.safetensors")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"weights\.safetensors names the network"):
        nk.predict(run, photos / "today")
    with pytest.raises(UsageError, match=r"weights\.safetensors names the network"):
        nk.predict(run, photos / "today", network="other:build")
    # These look at what the run holds, and need no network.
    assert nk.report(run).is_file()
    assert nk.evaluate(run, "folders")[0].n_found <= 3
    assert not module.exists()
    assert len(nk.predict(run, photos / "today", network=NAME).names) == 6
    assert module.exists()


def test_a_settings_file_is_taken_where_the_user_names_a_network(module: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'network = "{NAME}"\nseed = 3\n')
    with pytest.raises(UsageError, match="no file may run code"):
        combine(file, {"seed": 4})
    assert combine(str(file), {"network": NAME}).network == NAME
    assert combine(file, {"network": "resnet18"}).network == "resnet18"
    assert combine({"network": NAME}, {}).network == NAME  # a value in Python code is the user's
    assert not module.exists()
    file.write_text('network = "timm:resnet18"\n')
    assert combine(file, {}).network == "timm:resnet18"


def test_from_the_shell(photos: Path, module: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}

    def newkinds(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "newkinds", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=photos)

    out = tmp_path / "run"
    changes = [word for key, value in QUICK.items() for word in ("--set", f"{key}={value}")]
    line = ["discover", photos / "known", photos / "unsorted", "--kinds", 3, *changes]
    done = newkinds(*line, "--out", out, "--network", NAME)
    assert done.returncode == 0, done.stderr
    module.unlink()
    refused = newkinds(*line, "--out", tmp_path / "other", "--settings", out / "settings.toml")
    assert refused.returncode == 2
    assert refused.stderr.strip().splitlines()[-1] == f"If you trust it, say so: --network {NAME}"
    refused = newkinds("predict", out, photos / "today")
    assert refused.returncode == 2
    assert refused.stderr.strip().splitlines()[-1] == f"If you trust it, say so: --network {NAME}"
    assert not module.exists()
    predicted = newkinds("predict", out, photos / "today", "--network", NAME, "-q")
    assert len(list(csv.DictReader(predicted.stdout.splitlines()))) == 6


# The parts


def test_pictures_are_decoded_to_what_the_network_takes(module: Path, tmp_path: Path) -> None:
    foreign = open_pretrained(Settings(network=NAME), None)
    assert open_pretrained(Settings(network="resnet18"), None) is None
    assert largest_side(combine(None, {"images.largest": 8}), foreign) == 16
    assert largest_side(combine(None, {"images.largest": 8, "network_size": 12}), foreign) == 12
    assert largest_side(Settings(), foreign) == 64
    assert largest_side(combine(None, {"network_size": 96}), None) == 96
    for part, kinds in (("known", ("bolt", "nut")), ("unsorted", ("hinge", "spring"))):
        write_pictures(tmp_path / part, kinds, each=4, size=24)
    nk.count(
        tmp_path / "known", tmp_path / "unsorted", out=tmp_path / "run", network=NAME,
        settings=combine(None, {"images.largest": 8, "count.max_kinds": 2}),
    )  # fmt: skip
    assert "\nsize = 16\n" in (tmp_path / "run" / "settings.toml").read_text()


def test_grey_pictures_and_other_sizes(module: Path) -> None:
    settings = Settings(network=NAME, network_size=12)
    network = pretrained_network(settings, known(channels=1, size=10), None, open_pretrained(settings, None))
    assert network is not None
    assert (network.channels, network.size, network.network_size) == (1, 10, 12)


def test_embeddings_need_no_network(module: Path) -> None:
    settings = Settings(network=NAME)
    with pytest.raises(UsageError, match="does not take ready-made embeddings"):
        pretrained_network(settings, known(embeddings=True), None, open_pretrained(settings, None))


@pytest.mark.parametrize("name", [NAME, "vgg6-5-1-slim"])
def test_a_plain_state_dict_of_the_network_named(name: str, module: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    source = build_network(name, 3, 8, seed=9, admitted=name)
    inner = source.backbone.module if name == NAME else source.backbone
    state = {key: (value + 1).contiguous() for key, value in inner.state_dict().items()}
    file.write_bytes(safetensors.torch.save(state))
    settings = Settings(network=name)
    network = pretrained_network(settings, known(), file, open_pretrained(settings, file))
    assert network is not None
    inner = network.backbone.module if name == NAME else network.backbone
    assert all(torch.equal(state[key], value) for key, value in inner.state_dict().items())
    # A network of the catalogue takes the pixels' mean from the known pictures, one from elsewhere has its own.
    expected = known().pixels.mean(axis=(0, 2, 3)) / 255 if name != NAME else np.full(3, 0.5)
    assert network.mean.flatten().numpy() == pytest.approx(expected, rel=1e-5)
    with pytest.raises(DataError, match="newkinds did not write it") as caught:
        pretrained_network(Settings(), known(), file, None)
    assert "--network" in caught.value.hint
    with pytest.raises(DataError, match="do not fit the network 'vgg6-4-2-slim'"):
        pretrained_network(Settings(network="vgg6-4-2-slim"), known(), file, None)


def test_own_files_bring_their_network(module: Path, tmp_path: Path) -> None:
    file = tmp_path / "network.safetensors"
    file.write_bytes(network_to_bytes(build_network("vgg6-5-1-slim", 3, 8, seed=1, network_size=16)))
    network = pretrained_network(Settings(), known(), file, None)
    assert network is not None
    assert (network.name, network.network_size) == ("vgg6-5-1-slim", 16)
    with pytest.raises(UsageError, match="is of the network 'vgg6-5-1-slim', not 'resnet18'"):
        pretrained_network(Settings(network="resnet18"), known(), file, None)
    assert pretrained_network(Settings(), known(), None, None) is None
