"""`newkinds pretrain`: what it leaves, what `discover` makes of it, and that it goes on when it is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from newkinds import api
from newkinds.errors import DataError, UsageError
from newkinds.files import digest
from newkinds.networks import Network
from newkinds.networks.files import network_from_bytes

INTERRUPT = Path(__file__).parents[1] / "resume" / "interrupt.py"
METRIC = ("pretrain.loss=prototypical", "pretrain.keep=best", "pretrain.epochs=6", "pretrain.learning_rate=0.003")
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
BOUNDARIES = (0, 7, 1000)  # of the third checkpoint: before it, amid it and after it


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with known.npz and unsorted.npz."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    patterns = random.integers(0, 256, (7, 8, 8))
    for name, kinds in (("known", range(4)), ("unsorted", range(4, 7))):
        labels = np.repeat(np.array(kinds), 16)
        images = np.clip(patterns[labels] + random.normal(0, 60, (len(labels), 8, 8)), 0, 255)
        np.savez(folder / f"{name}.npz", images=images.astype(np.uint8), labels=labels)
    return folder


def options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="module")
def made(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Return a folder with a run that the installed command has made, and what it printed."""
    folder = tmp_path_factory.mktemp("runs")
    command = [
        sys.executable,
        "-m",
        "newkinds",
        "pretrain",
        str(pictures / "known.npz"),
        "--out",
        str(folder / "whole"),
    ]
    line = [*command, *options(*METRIC)]
    done = subprocess.run(line, env=ONE_THREAD, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def killed(pictures: Path, made: tuple[Path, Any]) -> tuple[Path, list[int]]:
    """Return the folder where runs have been killed and continued, and a discovery has been made; all exit codes."""
    folder = made[0]
    jobs = []
    for number in BOUNDARIES:
        line = ["pretrain", str(pictures / "known.npz"), "--out", str(folder / str(number)), "-q", *options(*METRIC)]
        jobs += [{"arguments": line, "kill": {"boundary": number}}, {"arguments": line, "kill": None}]
    line = ["discover", str(pictures / "known.npz"), str(pictures / "unsorted.npz"), "--out", str(folder / "found")]
    line += ["--weights", str(folder / "whole" / "network.safetensors"), "--kinds", "3", "--truth", "folders", "-q"]
    jobs.append({"arguments": [*line, *options("discover.epochs=3", "discover.warmup_epochs=2")], "kill": None})
    plan = folder / "plan.json"
    plan.write_text(json.dumps([{"global_random": False, **job} for job in jobs]))
    environment = {**ONE_THREAD, "NEWKINDS_CHECKPOINT_SECONDS": "0"}
    done = subprocess.run(
        [sys.executable, str(INTERRUPT), str(plan)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder, [answer["code"] for answer in json.loads(done.stdout)]


def opened(run: Path) -> tuple[Network, dict[str, Any]]:
    file = run / "network.safetensors"
    return network_from_bytes(file.read_bytes(), str(file), admitted=None)


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_it_says_what_it_does_and_where_the_weights_are(made: tuple[Path, Any]) -> None:
    folder, done = made
    assert done.stdout.splitlines() == [str(folder / "whole" / "network.safetensors")]
    assert "64 pictures, 8x8 of 4 kinds" in done.stderr
    assert (
        "prototypical loss: asked for; 4 known kinds of typically 16 pictures would suit the cross-entro" in done.stderr
    )
    assert "Shown a few pictures of each of 4 known kinds, the network names" in done.stderr
    assert "of 8 held-out pictures correctly; guessing would get 25% right" in done.stderr


def test_the_file_says_how_it_was_made(made: tuple[Path, Any]) -> None:
    run = made[0] / "whole"
    network, about = opened(run)
    assert (network.name, network.channels, network.size) == ("vgg6-4-2-slim", 1, 8)
    scores = [record["few_shot_accuracy"] for record in records(run)]
    assert len(scores) == 6
    assert about["few_shot_accuracy"] == max(scores) > 0.5
    assert (about["loss"], about["epochs"], about["held_out"], about["seed"]) == ("prototypical", 6, 8, 0)
    assert about["classes"] == ["0", "1", "2", "3"]


def test_a_killed_training_goes_on_to_the_same_bytes(made: tuple[Path, Any], killed: tuple[Path, list[int]]) -> None:
    folder, codes = killed
    assert codes[:-1] == [-9, 0] * len(BOUNDARIES)
    whole = (folder / "whole" / "network.safetensors").read_bytes()
    for number in BOUNDARIES:
        assert (folder / str(number) / "network.safetensors").read_bytes() == whole, number
        # An epoch that was done but not kept is done, and logged, again: the last record of each counts.
        last = {record["epoch"]: record for record in records(folder / str(number))}
        assert list(last.values()) == records(folder / "whole")
        assert not list((folder / str(number) / "checkpoint").iterdir())  # nothing is left to go on with


def test_discover_takes_the_weights(made: tuple[Path, Any], killed: tuple[Path, list[int]]) -> None:
    folder, codes = killed
    assert codes[-1] == 0
    found = folder / "found"
    theirs, given = opened(found)[0].state_dict(), opened(folder / "whole")[0].state_dict()
    assert all((theirs[name] == value).all() for name, value in given.items())
    assert {record["stage"] for record in records(found)} == {"discover"}  # nothing was pretrained again
    assert len((found / "kinds.csv").read_text().splitlines()) == 49


def test_the_same_call_again_does_nothing_new(made: tuple[Path, Any], pictures: Path) -> None:
    run, known = made[0] / "whole", pictures / "known.npz"
    weights, log = run / "network.safetensors", run / "log.jsonl"
    before = weights.stat().st_mtime_ns, log.read_bytes()
    chosen = {"loss": "prototypical", "keep": "best", "epochs": 6, "learning_rate": 0.003}
    assert api.pretrain(known, out=run, settings={"pretrain": chosen}) == weights
    assert (weights.stat().st_mtime_ns, log.read_bytes()) == before
    with pytest.raises(UsageError, match=r"pretrain\.epochs \(6 there, 7 now\)"):
        api.pretrain(known, out=run, settings={"pretrain": {**chosen, "epochs": 7}})


def test_a_trained_network_goes_on_learning(made: tuple[Path, Any], pictures: Path, tmp_path: Path) -> None:
    first = made[0] / "whole" / "network.safetensors"
    known = tmp_path / "more.npz"  # brighter, and so of another mean: the network keeps its own
    with np.load(pictures / "known.npz") as some:
        np.savez(known, images=255 - some["images"] // 4, labels=some["labels"])

    def trained(name: str, epochs: int, weights: Path | None) -> Network:
        file = api.pretrain(known, out=tmp_path / name, settings={"pretrain": {"epochs": epochs}}, weights=weights)
        return opened(file.parent)[0]

    given, still, taught = opened(first.parent)[0], trained("still", 0, first), trained("taught", 1, first)
    for name, value in given.state_dict().items():
        assert torch.equal(still.state_dict()[name], value), name
    assert torch.equal(taught.mean, given.mean)
    change = torch.linalg.vector_norm(flattened(taught) - flattened(given)) / torch.linalg.vector_norm(flattened(given))
    assert 0 < change < 0.5  # a fresh one would be about 1.4 away
    assert opened(tmp_path / "taught")[1]["after"] == digest(first.read_bytes())
    with pytest.raises(UsageError, match=r"data\.weights"):
        trained("taught", 1, None)


def flattened(network: Network) -> torch.Tensor:
    return torch.cat([value.flatten() for value in network.parameters()])


def test_weights_for_other_pictures_cannot_go_on(made: tuple[Path, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "larger.npz", images=np.zeros((8, 16, 16), np.uint8), labels=np.repeat([0, 1], 4))
    with pytest.raises(UsageError, match="The weights are for pictures of 1x8x8, these are 1x16x16"):
        api.pretrain(tmp_path / "larger.npz", out=tmp_path / "run", weights=made[0] / "whole" / "network.safetensors")


def test_an_episode_too_large_leaves_no_weights(pictures: Path, tmp_path: Path) -> None:
    settings = {"pretrain": {"loss": "triplet", "support": 10, "query": 5, "epochs": 1}}
    with pytest.raises(DataError, match=r"takes 15 pictures of each kind \(10 support \+ 5 query\).*'0' has 14"):
        api.pretrain(pictures / "known.npz", out=tmp_path / "run", settings=settings)
    assert not (tmp_path / "run" / "network.safetensors").exists()


def test_by_default_few_kinds_are_learned_by_name(pictures: Path, tmp_path: Path) -> None:
    weights = api.pretrain(pictures / "known.npz", out=tmp_path / "run", settings={"pretrain": {"epochs": 1}})
    about = opened(weights.parent)[1]
    assert about["loss"] == "cross-entropy"
    assert about["held_out_accuracy"] == records(weights.parent)[-1]["held_out_accuracy"]
    assert "few_shot_accuracy" not in about
