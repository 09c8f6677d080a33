"""A run that is killed at any moment and started again ends with the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

INTERRUPT = Path(__file__).with_name("interrupt.py")
MOMENTS = 10
KEPT = ("network.safetensors", "model/weights.safetensors", "count.json", "kinds.csv", "scores.json", "settings.toml")
SMALL = (
    "pretrain.epochs=5", "pretrain.held_out=0.2", "discover.warmup_epochs=4", "discover.epochs=5",
    "count.max_kinds=5", "count.splits=2", "count.restarts=2", "rehearse.rehearsals=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command's arguments but for --out, over two small files of pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    patterns = random.integers(0, 256, (7, 8, 8))
    for name, kinds in (("known", range(4)), ("unsorted", range(4, 7))):
        labels = np.repeat(np.array(kinds), 24)
        noise = random.normal(0, 25, (len(labels), 8, 8))
        images = np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8)
        np.savez(folder / f"{name}.npz", images=images, labels=labels)
    options = [part for setting in SMALL for part in ("--set", setting)]
    sources = [str(folder / "known.npz"), str(folder / "unsorted.npz")]
    return ["discover", *sources, "--truth", "folders", "--quiet", *options]


def interrupt(jobs: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Run jobs in forked children, see interrupt.py; every epoch is due for a checkpoint."""
    plan = folder / "plan.json"
    plan.write_text(json.dumps([{"kill": None, "global_random": False} | job for job in jobs]))
    # One thread: a child must be able to fork, and the runs are too small for two.
    environment = {**os.environ, "NEWKINDS_CHECKPOINT_SECONDS": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(INTERRUPT), str(plan)], env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def hashes(run: Path) -> dict[str, str]:
    """Return the hash of every file that a finished run keeps."""
    files = [run / name for name in KEPT] + sorted((run / "features").iterdir()) + sorted((run / "report").iterdir())
    return {str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def job(arguments: list[str], run: Path, **more: Any) -> dict[str, Any]:
    return {"arguments": [*arguments, "--out", str(run)], **more}


@pytest.fixture(scope="module")
def whole(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], float]:
    """Return the hashes of a run that nobody interrupts, and how long it takes."""
    folder = tmp_path_factory.mktemp("whole")
    (answer,) = interrupt([job(arguments, folder / "run")], folder)
    assert answer["code"] == 0
    assert not list((folder / "run" / "checkpoint").iterdir())
    return hashes(folder / "run"), answer["seconds"]


def test_the_installed_command_gives_the_same_bytes(
    arguments: list[str], whole: tuple[dict[str, str], float], tmp_path: Path
) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "newkinds", *arguments, "--out", str(tmp_path / "run")]
    subprocess.run(command, check=True, env=environment, timeout=300)
    assert hashes(tmp_path / "run") == whole[0]


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(
    arguments: list[str], whole: tuple[dict[str, str], float], tmp_path: Path
) -> None:
    moments = random.Random(0)
    jobs = []
    for number in range(MOMENTS):
        run = tmp_path / str(number) / "run"
        jobs.append(job(arguments, run, kill={"after": moments.uniform(0.0, 0.95) * whole[1]}))
        jobs.append(job(arguments, run))
    answers = interrupt(jobs, tmp_path)
    killed, finished = [a["code"] for a in answers[::2]], [a["code"] for a in answers[1::2]]
    assert killed.count(-9) >= MOMENTS // 2, killed  # a fast run may end before the last moments
    assert finished == [0] * MOMENTS
    for number in range(MOMENTS):
        assert hashes(tmp_path / str(number) / "run") == whole[0], f"moment {number}"


# Steps of writing a checkpoint: open, write (2 halves, each 2 steps), fsync, close, replace; open, fsync, close of the
# folder; unlink; the end.
BOUNDARIES = 14


@pytest.fixture(scope="module")
def training(arguments: list[str]) -> list[str]:
    """Return the arguments of a training alone, which writes the checkpoint that is interrupted as a discovery does."""
    return ["pretrain", arguments[1], "--quiet", "--set", "pretrain.epochs=5", "--set", "pretrain.held_out=0.2"]


def weights(run: Path) -> str:
    """Return the hash of what a training ends with."""
    return hashlib.sha256((run / "network.safetensors").read_bytes()).hexdigest()


def test_kills_at_every_boundary_of_a_checkpoint_change_nothing(training: list[str], tmp_path: Path) -> None:
    jobs = [job(training, tmp_path / "whole" / "run")]
    for number in range(BOUNDARIES):
        run = tmp_path / str(number) / "run"
        jobs += [job(training, run, kill={"boundary": number}), job(training, run)]
    answers = interrupt(jobs, tmp_path)
    assert [a["code"] for a in answers] == [0, *[-9, 0] * BOUNDARIES]
    for number in range(BOUNDARIES):
        assert weights(tmp_path / str(number) / "run") == weights(tmp_path / "whole" / "run"), f"boundary {number}"


@pytest.mark.parametrize(
    "boundaries",
    [
        pytest.param(range(7, 8), id="when it is moved into place"),
        pytest.param(range(BOUNDARIES), id="all", marks=pytest.mark.slow),
    ],
)
def test_kills_of_a_discovery_at_boundaries_of_a_checkpoint_change_nothing(
    boundaries: range, arguments: list[str], whole: tuple[dict[str, str], float], tmp_path: Path
) -> None:
    jobs = []
    for number in boundaries:
        run = tmp_path / str(number) / "run"
        jobs += [job(arguments, run, kill={"boundary": number}), job(arguments, run)]
    answers = interrupt(jobs, tmp_path)
    assert [a["code"] for a in answers] == [-9, 0] * len(boundaries)
    for number in boundaries:
        assert hashes(tmp_path / str(number) / "run") == whole[0], f"boundary {number}"


def test_control_a_generator_with_a_state_would_be_noticed(training: list[str], tmp_path: Path) -> None:
    """The comparison above can fail: with a global random generator, the same kill changes the result."""
    whole, killed = tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    answers = interrupt(
        [
            job(training, whole, global_random=True),
            job(training, killed, global_random=True, kill={"boundary": 1000}),
            job(training, killed, global_random=True),
        ],
        tmp_path,
    )
    assert [a["code"] for a in answers] == [0, -9, 0]
    assert weights(whole) != weights(killed)
