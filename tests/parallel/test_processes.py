"""Several processes on one run: they come to what one process comes to."""

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
from processes import DISCOVERIES, LOSSES, NORMS, Arrays, arrays
from torch import nn

from newkinds.parallel.processes import (
    check_same,
    from_writer,
    gathered,
    is_writer,
    processes,
    rank,
    share,
    shared_batch_norm,
)

PROCESSES = Path(__file__).with_name("processes.py")


@pytest.fixture(scope="module")
def one() -> dict[str, Arrays]:
    """Return what this process alone comes to."""
    threads = torch.get_num_threads()
    found = arrays()
    torch.set_num_threads(threads)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder where two processes have left what they came to."""
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(PROCESSES), str(folder)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def two(folder: Path) -> list[dict[str, Arrays]]:
    """Return the arrays of both processes."""
    both: list[dict[str, Arrays]] = []
    for number in range(2):
        found: dict[str, Arrays] = {}
        for name, value in np.load(folder / f"{number}.npz").items():
            case, key = name.split("/")
            found.setdefault(case, {})[key] = value
        both.append(found)
    return both


@pytest.fixture(scope="module")
def said(folder: Path) -> list[dict[str, Any]]:
    """Return what else both processes have left."""
    return [json.loads((folder / f"{number}.json").read_text()) for number in range(2)]


def difference(first: Arrays, second: Arrays) -> float:
    assert first.keys() == second.keys()
    assert all(first[key].shape == second[key].shape for key in first)
    return max(float(np.abs(first[key].astype(float) - second[key]).max()) for key in first)


# The same as one process


@pytest.mark.parametrize("frozen", [False, True], ids=["batch norm", "frozen batch norm"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_training(loss: str, frozen: bool, one: dict[str, Arrays], two: list[dict[str, Arrays]]) -> None:
    case = f"{loss}, frozen" if frozen else loss
    for theirs in two:
        assert difference(one[case], theirs[case]) < 1e-11
    # The test can fail: a dozen steps have moved the weights by far more, and statistics only where they may.
    moved = {key for key in one[loss] if np.abs(one[loss][key] - one[f"{loss}, frozen"][key]).max() > 1e-4}
    assert any(key.endswith("running_var") for key in moved)
    assert any(key.endswith("weight") for key in moved)
    statistics = [value for key, value in one[f"{loss}, frozen"].items() if key.endswith("num_batches_tracked")]
    assert statistics
    assert not np.any(statistics)


@pytest.mark.parametrize("case", list(DISCOVERIES))
def test_discovery(case: str, one: dict[str, Arrays], two: list[dict[str, Arrays]]) -> None:
    for theirs in two:
        assert difference(one[case], theirs[case]) < 1e-5
    assert difference(one["pi"], one["pi, mixed"]) > 1e-3


def test_training_on_two_views(one: dict[str, Arrays], two: list[dict[str, Arrays]]) -> None:
    for theirs in two:
        assert difference(one["views"], theirs["views"]) < 1e-11
    assert one["views"]["1.num_batches_tracked"] == 16
    assert one["views"]["loss"][-1] < one["views"]["loss"][0]


def test_processes_have_the_same_weights_to_the_bit(two: list[dict[str, Arrays]]) -> None:
    for case in ("cross-entropy", "prototypical", "triplet", "views", "features"):
        assert difference(two[0][case], two[1][case]) == 0


def test_features(one: dict[str, Arrays], two: list[dict[str, Arrays]]) -> None:
    assert [len(features) for features in one["features"].values()] == [2, 7, 301]
    for theirs in two:
        assert difference(one["features"], theirs["features"]) < 1e-5 * np.abs(one["features"]["301"]).max()
    assert all(features.dtype == np.float32 for features in two[1]["features"].values())


@pytest.mark.parametrize("name", list(NORMS))
def test_batch_norm(name: str, one: dict[str, Arrays], two: list[dict[str, Arrays]]) -> None:
    # One process has torch's own layer.
    for theirs in two:
        assert difference(one[f"batch norm, {name}"], theirs[f"batch norm, {name}"]) < 1e-12
    tracked = one[f"batch norm, {name}"].get("statistic.num_batches_tracked")
    assert tracked == (None if name == "no statistics" else 2)


def test_batch_norm_in_bfloat16(one: dict[str, Arrays], two: list[dict[str, Arrays]]) -> None:
    mine = one["batch norm in bfloat16"]
    for theirs in (of["batch norm in bfloat16"] for of in two):
        outputs = [key for key in mine if not key.startswith("statistic")]
        # Numbers up to 4 have steps of 1/64; statistics are kept in float32.
        assert difference({key: mine[key] for key in outputs}, {key: theirs[key] for key in outputs}) < 0.04
        assert (
            difference(
                {key: mine[key] for key in mine if key not in outputs},
                {key: theirs[key] for key in theirs if key not in outputs},
            )
            < 1e-5
        )


def test_batch_norm_is_put_back(said: list[dict[str, Any]]) -> None:
    for theirs in said:
        assert theirs["restored"] == dict.fromkeys(theirs["restored"], True)
        assert len(theirs["restored"]) == 5


def test_gathered_outputs_keep_the_order_of_items_and_views(two: list[dict[str, Arrays]]) -> None:
    for theirs in two:
        assert theirs["gathered"]["one"].tolist() == [[10 * i, 10 * i + 1] for i in range(7)]
        assert theirs["gathered"]["views"][:, 0].tolist() == [100 * view + 10 * i for view in (0, 1) for i in range(7)]


# Who does what


def test_shares(said: list[dict[str, Any]]) -> None:
    assert [theirs["processes"] for theirs in said] == [2, 2]
    assert [theirs["writer"] for theirs in said] == [True, False]
    assert [theirs["share"] for theirs in said] == [[0, 1, 2, 3], [4, 5, 6]]
    assert [theirs["from writer"] for theirs in said] == [{"made by": 0}] * 2
    assert [theirs["called"] for theirs in said] == [[0], []]


def test_more_processes_than_pictures(said: list[dict[str, Any]]) -> None:
    for theirs in said:
        kind, message, hint = theirs["too few"]
        assert kind == "UsageError"
        assert message == "2 processes cannot share a batch of 1 pictures."
        assert "at most 1 processes" in hint
        assert "batch size" in hint


def test_processes_with_different_settings(said: list[dict[str, Any]], folder: Path) -> None:
    for theirs in said:  # every process stops, so that none waits for the other
        assert theirs["same"] == []
        kind, message, hint = theirs["other value"]
        assert kind == "UsageError"
        assert "pretrain.epochs is 5 in process 0 and 6 in process 1" in message
        assert "seed" not in message
        assert "the same command" in hint
        assert "weights is None in process 0 and '0a' in process 1" in theirs["missing value"][1]
        assert "seed is 0 in process 0 and 1 in process 1" in theirs["run folder"][1]
    assert not (folder / "run").exists()


# Alone


def test_one_process_needs_nobody() -> None:
    assert (processes(), rank(), is_writer()) == (1, 0, True)
    items = np.arange(3)
    assert share(items).tolist() == [0, 1, 2]
    outputs = torch.ones(6, 2)
    assert gathered(outputs, 3, views=2) is outputs
    assert from_writer(lambda: 7) == 7
    check_same({"seed": 0})
    module = nn.Sequential(nn.BatchNorm1d(3))
    layer = module[0]
    with shared_batch_norm(module):
        assert module[0] is layer
