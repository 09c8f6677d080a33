"""`torchrun --nproc-per-node 2 -m newkinds discover ...`: the kinds of one process, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# In float64, because in float32 the last bits differ with the order of sums, and training makes much of little.
LINE = [
    "discover",
    "digits:known",
    "digits:unsorted",
    "--kinds",
    "5",
    "--truth",
    "folders",
    "--rehearsals",
    "1",
    "--quiet",
]
for setting in ("precision=float64", "pretrain.epochs=2", "discover.warmup_epochs=2", "discover.epochs=4"):
    LINE += ["--set", setting]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "newkinds"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NEWKINDS_CHECKPOINT_SECONDS": "0"}
RESULTS = ("kinds.csv", "scores.json")
SECONDS = 300


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run by one process."""
    out = tmp_path_factory.mktemp("alone") / "run"
    subprocess.run([sys.executable, "-m", "newkinds", *LINE, "--out", str(out)], check=True, env=ENVIRONMENT)
    return out


def started(out: Path) -> subprocess.Popen[str]:
    """Start two processes, in a group of their own so that all can be killed at once."""
    line = [*TORCHRUN, *LINE, "--out", str(out)]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, env=ENVIRONMENT, text=True, stdout=pipe, stderr=pipe, start_new_session=True)


def test_the_kinds_of_one_process_also_after_a_kill(alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    killed = started(out)
    until = time.monotonic() + SECONDS
    # In the middle of discovery: its first checkpoint is there, its result is not.
    while not list(out.glob("checkpoint/discover-*")) and killed.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    assert killed.poll() is None, killed.communicate()
    os.killpg(killed.pid, signal.SIGKILL)
    for worker in workers_of(out):
        os.kill(worker, signal.SIGKILL)
    killed.communicate()
    assert not (out / "kinds.csv").exists()

    again = started(out)
    words, errors = again.communicate(timeout=SECONDS)
    assert again.returncode == 0, errors
    for name in RESULTS:
        assert (out / name).read_bytes() == (alone / name).read_bytes(), name
    assert words.count("new kinds") == 1  # one process speaks
    epochs = [line for line in (out / "log.jsonl").read_text().splitlines() if '"discover"' in line]
    assert len(epochs) >= 6  # one writer: each epoch once, and those after the checkpoint again
    assert len(epochs) <= 8


def workers_of(out: Path) -> list[int]:
    """Return the processes that work in a run folder: torchrun starts each in a session of its own."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(out).encode() in words:
                found.append(int(folder.name))
    return found


def test_an_error_comes_through(tmp_path: Path) -> None:
    line = [*TORCHRUN, "discover", "digits:known", "digits:nothing", "--out", str(tmp_path / "run")]
    ended = subprocess.run(line, env=ENVIRONMENT, text=True, capture_output=True)
    assert ended.returncode != 0
    assert "Error: Unknown part of the digits 'nothing'" in ended.stderr
