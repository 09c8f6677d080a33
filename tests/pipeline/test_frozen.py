"""Discovery on frozen features: the transfer helps, is kept with the model, and is chosen without the probes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import newkinds as nk
from newkinds.features import MOST_FILLED
from newkinds.methods.registry import HEADS
from newkinds.networks.files import model_from_bytes
from newkinds.pipeline.frozen import in_words
from newkinds.runs import RunFolder, names
from newkinds.transfer import Transfer

QUICK: dict[str, Any] = {"discover": {"warmup_epochs": 2, "epochs": 3}, "transfer": {"steps": (10,)}}


def embeddings(kinds: int, each: int, seed: int) -> tuple[Any, Any]:
    """Return kinds that differ in 6 directions and vary far more, inside kinds, in 6 others."""
    random = np.random.default_rng(seed)
    means = np.concatenate([random.normal(size=(kinds, 6)), np.zeros((kinds, 6))], axis=1)
    labels = np.repeat(np.arange(kinds), each)
    points = means[labels] + random.normal(size=(len(labels), 12)) * ([0.2] * 6 + [3.0] * 6) + 4
    return points.astype(np.float32), labels


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> nk.Discovery:
    known, heap = embeddings(20, 12, seed=0), embeddings(6, 20, seed=1)
    out = tmp_path_factory.mktemp("frozen") / "run"
    return nk.discover(known, heap, out=out, kinds=6, rehearsals=0, truth="folders", settings=QUICK)


def test_the_known_kinds_help(found: nk.Discovery) -> None:
    assert found.scores is not None
    assert found.kmeans_scores is not None
    assert found.scores.acc > found.kmeans_scores.acc + 0.2  # which is on the features as they were given
    run = RunFolder.open(found.path)
    assert run.has(names.TRANSFER)
    assert run.settings.tune == "none"
    assert run.settings.initialise.bottleneck == "directions"


def test_the_model_takes_what_the_backbone_gives(found: nk.Discovery) -> None:
    heap = embeddings(6, 20, seed=1)[0]
    run = RunFolder.open(found.path)
    model = model_from_bytes(run.get(names.MODEL), "", HEADS)[0]
    assert model.network.transfer is not None
    told = found.predict(heap, among="new")
    assert (told.labels == found.labels).all()
    np.testing.assert_allclose(told.probabilities, found.probabilities, atol=1e-4)


def test_what_was_said_stays(tmp_path: Path) -> None:
    known, heap = embeddings(5, 8, seed=0), embeddings(3, 8, seed=1)[0]
    settings = {**QUICK, "initialise": {"bottleneck": "pca", "neighbours": 0}, "tune": "all", "profile": "none"}
    nk.discover(known, heap, out=tmp_path / "run", kinds=3, settings=settings, page=False)
    run = RunFolder.open(tmp_path / "run")
    assert not run.has(names.TRANSFER)
    assert (run.settings.initialise.bottleneck, run.settings.initialise.neighbours) == ("pca", 0)
    assert run.settings.with_changes({}).discover.neighbours == 0  # type: ignore[attr-defined]


def test_the_number_of_kinds_is_estimated_without_the_probes(tmp_path: Path) -> None:
    known, heap = embeddings(24, 12, seed=0), embeddings(6, 20, seed=1)[0]
    settings = {**QUICK, "count": {"estimator": "paper", "max_kinds": 12, "splits": 2, "restarts": 2}}
    counted = nk.count(known, heap, out=tmp_path / "run", settings=settings)
    assert 0 < len(counted["probes"]) < 24
    assert 4 <= counted["k"] <= 8


def test_a_second_run_gives_the_same_bytes(found: nk.Discovery, tmp_path: Path) -> None:
    known, heap = embeddings(20, 12, seed=0), embeddings(6, 20, seed=1)
    again = nk.discover(known, heap, out=tmp_path / "run", kinds=6, rehearsals=0, settings=QUICK, page=False)
    assert again.probabilities.tobytes() == found.probabilities.tobytes()


def test_pictures_go_through_a_frozen_network_once_and_mirrored(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    class Means(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(len(x))
            return x.mean(dim=3).flatten(1)

    module = type(sys)("frozennet")
    module.build = Means  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "frozennet", module)
    sources = (photos / "known", photos / "unsorted")
    found = nk.discover(*sources, out=tmp_path / "run", kinds=3, network="frozennet:build", settings=QUICK, page=False)
    sizes = (len(nk.open_images(sources[0]).names), len(found.names))
    tried = 2  # made-up pictures with which the network is tried when it is built
    batches = sum(-(-pictures // MOST_FILLED) for pictures in sizes)
    assert [number for number in seen if number > tried] == [MOST_FILLED] * 2 * batches  # as they are, and mirrored
    assert (tmp_path / "run" / "features" / "known-mirrored.npy").is_file()


def test_the_last_state_is_kept_beside_the_best(tmp_path: Path) -> None:
    settings = {**QUICK, "discover": {"warmup_epochs": 1, "epochs": 3, "learning_rate": 3.0, "guard_tolerance": 0.0}}
    known, heap = embeddings(8, 8, seed=0), embeddings(3, 8, seed=1)[0]
    found = nk.discover(known, heap, out=tmp_path / "run", kinds=3, settings=settings, choose="off", page=False)
    assert found.choice is not None
    assert found.choice["kept"] == "best"
    run = RunFolder.open(found.path)
    last = model_from_bytes(run.get(names.LAST_MODEL), "", HEADS)[0]
    assert last.network.transfer is not None
    with torch.no_grad():
        told = last(torch.from_numpy(heap)).exp().numpy()
    np.testing.assert_allclose(told, run.get_array(names.LAST_PROBABILITIES), atol=1e-4)


@pytest.mark.parametrize(
    ("chosen", "tried", "told"),
    [
        (
            "whiten-0.1",
            {"none": (0.86, 0.01), "whiten-0.1": (0.94, 0.01)},
            "94% of the pictures most similar to a hidden one were of its",
        ),
        (
            "none",
            {"none": (0.86, 0.01), "whiten-0.1": (0.8, 0.01)},
            "teach nothing that helps with new ones",
        ),
        ("none", {}, "the known kinds change nothing"),
        ("project-75", {}, "as was asked for (project-75)"),
        ("whiten-0.1", {"whiten-0.1": (0.94, 0.01), "whiten-0.3": (0.9, 0.01)}, "to the known kinds (whiten-0.1)"),
    ],
)
def test_what_the_known_kinds_teach_in_words(chosen: str, tried: dict[str, tuple[float, float]], told: str) -> None:
    said = in_words(Transfer(np.zeros(2, np.float32), None, chosen, tried))
    assert told in said
    assert ("against 86% without this" in said) is (chosen == "whiten-0.1" and "none" in tried)
