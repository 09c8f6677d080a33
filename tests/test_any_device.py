"""Every stage on another device than the CPU: one made up that refuses to mix, and a GPU where there is one.

A stage runs once on the CPU and once there. The made-up device does the CPU's arithmetic, so that both runs must end
with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds import api
from newkinds.configure import Settings
from newkinds.features import apply, averaged_features, extract_features
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem
from newkinds.methods.dtc import VARIANTS, cluster
from newkinds.methods.registry import METHODS
from newkinds.networks import Network, build_network
from newkinds.parallel.processes import make_accelerator
from newkinds.pretrain.pretraining import pretrain
from newkinds.pretrain.tasks import TASKS
from newkinds.randomness import one_thread
from newkinds.report.run import report_data
from newkinds.runs import RunFolder
from newkinds.settings import Pretrain
from newkinds.tensors import from_bytes
from newkinds.training import Record
from second_device import SECOND, convolutions, running_on

SIZE, KINDS, EACH = 8, 3, 8
NETWORK = "vgg6-4-2-slim"
DEVICES = ["second", pytest.param("cuda", marks=pytest.mark.gpu)]
Arrays = dict[str, NDArray[Any]]

SETTINGS: dict[str, Any] = {
    "network": NETWORK,
    "pretrain": {"epochs": 1, "batch_size": 16, "support": 2, "query": 2, "quarter_turns": True, "keep": "best"},
    "rehearse": {"rehearsals": 1},
    "discover": {"warmup_epochs": 1, "epochs": 1, "batch_size": 8, "snapshots": 3},
    "dec": {"widths": (20, 5), "autoencoder_epochs": 1, "epochs": 1, "batch_size": 8},
    "similarity": {"epochs": 1, "episode_kinds": 2, "each": 4},
    "pairs": {"epochs": 1, "batch_size": 8},
    "centroids": {"episodes": 2, "episode_kinds": 2, "each": 4},
    "initialise": {"restarts": 2},
    "kmeans": {"restarts": 2},
    "lpnmf": {"restarts": 1, "max_iterations": 20},
    "pim": {"steps": 5, "restarts": 2},
    "gcd": {"epochs": 1, "batch_size": 16, "restarts": 2, "projection": (8, 4)},
    "simgcd": {"epochs": 1, "batch_size": 16, "restarts": 2, "projection": (8, 4)},
    "nearest_known": {"restarts": 2},
    "count": {"max_kinds": 4, "splits": 2, "restarts": 1},
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def pictures(bright: list[tuple[int, int]], seed: int) -> ImageSet:
    """Return grey pictures with noise, of as many kinds as there are places that are bright."""
    labels = np.repeat(np.arange(len(bright)), EACH)
    pixels = np.random.default_rng(seed).integers(0, 60, (len(labels), 1, SIZE, SIZE), dtype=np.uint8)
    for picture, label in zip(pixels, labels, strict=True):
        top, left = bright[label]
        picture[0, top : top + 3, left : left + 3] += 150
    names = tuple(f"{seed}-{i}.png" for i in range(len(labels)))
    classes = tuple(f"kind {label}" for label in range(len(bright)))
    return ImageSet(pixels, names, labels, classes, f"made up {seed}", f"mark {seed}")


KNOWN = pictures([(0, 0), (0, 5), (5, 0), (5, 5)], seed=1)
UNSORTED = pictures([(0, 3), (3, 0), (3, 3)], seed=2)


def settings(**changes: Any) -> Settings:
    """Return short settings of all stages."""
    return Settings(**SETTINGS).with_changes(changes)


def check(stage: Callable[[], Arrays], device: str) -> None:
    """Check that a stage comes to the same on a device as on the CPU, with all of its convolutions there."""
    with running_on("cpu"):
        expected = stage()
    with running_on(device):
        found = stage()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape == value.shape, name
        assert np.isfinite(found[name]).all(), name
    if device == "second":
        assert convolutions["cpu"] == 0 < convolutions[SECOND.type]
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def f(seed: int = 0) -> Network:
    """Return a network on the device that is asked for."""
    network = build_network(NETWORK, 1, SIZE, seed)
    network.normalise_by(KNOWN.pixels)
    return network.to(make_accelerator().device)


def weights(network: torch.nn.Module) -> Arrays:
    """Return a module's weights, which must all be on the device that is asked for."""
    wanted = make_accelerator().device
    found = dict(network.state_dict())
    assert {value.device for value in found.values()} == {wanted}
    return {name: value.detach().cpu().numpy() for name, value in found.items()}


# Before clustering


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", list(TASKS))
def test_pretraining(loss: str, device: str) -> None:
    def stage() -> Arrays:
        records: list[Record] = []
        chosen = Pretrain(**SETTINGS["pretrain"], loss=loss)
        found = pretrain(KNOWN, chosen, network=NETWORK, accelerator=make_accelerator(), log=records.append)
        return {**weights(found.network), "loss": np.array(records[-1]["loss"]), "score": np.array(found.score)}

    check(stage, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("augmentation", ["crop-flip", "affine"])
def test_features(augmentation: str, device: str) -> None:
    def stage() -> Arrays:
        network = f()
        plain = extract_features(network, UNSORTED)
        averaged = averaged_features(network, UNSORTED, plain, 2, augmentation, seed=0)
        assert (plain != averaged).any()
        return {"plain": plain, "averaged": averaged}

    check(stage, device)


# Clustering


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "changes",
    [
        *({"variant": name} for name in VARIANTS),
        {"variant": "te", "warmup_epochs": 2},
        {"variant": "pi", "mixed": True},
        {"variant": "baseline", "p_from": "pass", "neighbours": 3, "targets": "eq3", "batch_norm": "frozen"},
        {"variant": "pi", "guard_tolerance": 0.0, "learning_rate": 0.3},  # ends worse than it began: weights go back
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_dtc(changes: dict[str, Any], device: str) -> None:
    def stage() -> Arrays:
        chosen = settings(**{f"discover.{name}": value for name, value in changes.items()})
        network, looked = f(), []
        before = weights(network)
        truth = UNSORTED.labels
        accelerator = make_accelerator()
        found = cluster(network, UNSORTED, KINDS, chosen, truth=truth, accelerator=accelerator, watch=looked.append)
        assert all((value == before[name]).all() for name, value in weights(network).items())
        assert len(looked) == 3
        if "guard_tolerance" in changes:
            assert found.choice.kept == "best"
            assert found.last is not None
            weights(found.last)
        return {
            **weights(found.model),
            "p": found.assignment.probabilities,
            "embedding": found.embedding,
            "q": looked[-1].q,
        }

    check(stage, device)


class Checkpoints:
    """Keeps what it is given after every epoch on the CPU, as files do."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, dict[str, Tensor]]] = []

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        return self.kept[-1] if self.kept else None

    def due(self) -> bool:
        return True

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        self.kept.append((epoch, {name: value.detach().cpu().clone() for name, value in tensors.items()}))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_going_on_from_a_checkpoint(optimiser: str, device: str) -> None:
    chosen = settings(**{"discover.variant": "tep", "discover.epochs": 2, "discover.optimiser": optimiser})

    def stage() -> Arrays:
        whole, rest = Checkpoints(), Checkpoints()
        run = partial(cluster, f(), UNSORTED, KINDS, chosen, accelerator=make_accelerator())
        found = run(checkpoints=whole)
        rest.kept = whole.kept[:-1]
        assert len(rest.kept) == 1
        again = run(checkpoints=rest)
        if device == "second":
            assert (found.assignment.probabilities == again.assignment.probabilities).all()
        return {"p": again.assignment.probabilities}

    check(stage, device)


def by_method(name: str, changes: dict[str, Any], novelty: NDArray[np.float32] | None = None) -> Arrays:
    """Return what a method finds, and what its network says of the known pictures."""
    network = f()
    features = extract_features(network, UNSORTED)
    problem = Problem(
        network,
        KNOWN,
        settings(**changes),
        unsorted=UNSORTED,
        kinds=KINDS,
        features=features,
        accelerator=make_accelerator(),
        novelty=novelty,
    )
    found = METHODS[name].run(problem)
    answer = {"p": found.assignment.probabilities, "embedding": found.embedding}
    if found.model is None:
        return answer
    return {**answer, "of others": apply(found.model, KNOWN), **weights(found.model)}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in METHODS if name != "dtc"),
        ("kmeans", {"kmeans.on": "pixels"}),
        ("constrained-kmeans", {"kmeans.on": "pixels"}),
        ("mcl", {"similarity.start": "fresh", "pairs.start": "fresh"}),
        ("kcl", {"pairs.unknown": "drop", "pairs.most": 6}),
        ("centroid-networks", {"centroids.start": "fresh"}),
    ],
    ids=str,
)
def test_other_methods(name: str, changes: dict[str, Any], device: str) -> None:
    check(partial(by_method, name, changes), device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.takes_known])
def test_mixed_heaps(name: str, device: str) -> None:
    novelty = np.linspace(0, 1, len(UNSORTED)).astype(np.float32)
    check(partial(by_method, name, {}, novelty), device)


# A whole run


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kinds", [KINDS, "auto"])
def test_a_run_to_its_end(kinds: int | str, device: str, tmp_path: Path) -> None:
    def stage() -> Arrays:
        out = tmp_path / make_accelerator().device.type
        page = kinds == "auto"
        found = api.discover(KNOWN, UNSORTED, out=out, kinds=kinds, settings=SETTINGS, truth="folders", page=page)
        near = report_data(RunFolder.open(out), UNSORTED).nearest_known
        assert near is not None
        return {"p": found.probabilities, "known": near.known_distances, "new": near.new_distances}

    check(stage, device)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_learnt_from_known_kinds_alone(device: str, tmp_path: Path) -> None:
    def stage() -> Arrays:
        out = tmp_path / make_accelerator().device.type
        file = api.prepare(KNOWN, "similarity", out=out, settings=SETTINGS)
        return {name: value.numpy() for name, value in from_bytes(file.read_bytes(), str(file))[0].items()}

    check(stage, device)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that was made on the CPU."""
    out = tmp_path_factory.mktemp("finished") / "run"
    with running_on("cpu"), one_thread():
        api.discover(KNOWN, UNSORTED, out=out, kinds=KINDS, settings=SETTINGS, page=False)
    return out


@pytest.mark.parametrize("device", DEVICES)
def test_predict(device: str, finished: Path) -> None:
    def stage() -> Arrays:
        return {"p": api.predict(finished, KNOWN).probabilities}

    check(stage, device)
