"""SIGKILL at any moment of any command: the same line again ends with the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from children import in_turn
from commands import Commands, kept
from tallies import Tally

PROMISE = "A command that is killed at any moment, and typed again, ends with the same bytes"
FEW, MANY, DRAWS = 2, 2, 9  # kills of each command in a draw, and draws


def killed_and_typed_again(
    commands: Commands, chosen: Sequence[str], number: int, seed: int, folder: Path, tally: Tally
) -> None:
    """Kill each command `number` times, at random moments, and type it again."""
    dice, jobs = random.Random(seed), []
    for name in chosen:
        commands.ends(name)
        for one in range(number):
            kill = [[dice.uniform(0.0, 0.95) * commands.seconds[name], int(signal.SIGKILL)]]
            jobs.append(commands.job(name, fresh=True, signals=kill))
            jobs.append(commands.job(name, keep=str(folder / f"{name}-{one}")))
    answers = in_turn(jobs, folder)
    for one, (first, again) in enumerate(zip(answers[::2], answers[1::2], strict=True)):
        place, when = Path(jobs[2 * one + 1]["keep"]), jobs[2 * one]["signals"][0][0]
        name = place.name.rpartition("-")[0]
        assert first["code"] in (-9, 0), first["said"]
        if commands.lines()[name][0] == "export" and again["code"]:
            assert "exists" in again["said"], again["said"]  # it overwrites nothing, and was whole
        else:
            assert again["code"] == 0, again["said"]
        assert "Traceback" not in again["said"]
        assert kept(place) == commands.ends(name), f"{name} killed after {when:.2f} s"
        tally.add("killed, same bytes" if first["code"] == -9 else "ended before")
        shutil.rmtree(place)


@pytest.mark.promise(PROMISE)
def test_a_few_kills(commands: Commands, tmp_path: Path, tally: Tally) -> None:
    killed_and_typed_again(commands, ("predict",), FEW, 0, tmp_path, tally)


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("seed", range(1, DRAWS + 1))
def test_kills_of_all_commands(seed: int, commands: Commands, tmp_path: Path, tally: Tally) -> None:
    killed_and_typed_again(commands, list(commands.lines()), MANY, seed, tmp_path, tally)


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
def test_kills_while_it_is_imported(commands: Commands, tmp_path: Path, tally: Tally) -> None:
    """Of the real program, which imports torch for seconds."""
    dice, line = random.Random(0), commands.lines()["predict"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    jobs = []
    for number in range(20):
        place = Path(shutil.copytree(commands.root, tmp_path / str(number)))
        program = subprocess.Popen(
            [sys.executable, "-m", "newkinds", *line], cwd=place, env=environment, stderr=subprocess.PIPE, text=True
        )
        time.sleep(dice.uniform(0.0, 3.0))
        program.kill()
        said = program.communicate()[1]
        assert "Traceback" not in said
        jobs.append({"arguments": line, "cwd": str(place)})
        tally.add("killed, same bytes" if program.returncode == -9 else "ended before")
    assert [answer["code"] for answer in in_turn(jobs, tmp_path)] == [0] * len(jobs)
    for job in jobs:
        assert kept(Path(job["cwd"])) == commands.ends("predict")
