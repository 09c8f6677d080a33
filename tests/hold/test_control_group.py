"""Commands in a control group of little memory: they work, or say what was needed; none is killed without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_attacks import MEMORY

GROUPS = Path("/sys/fs/cgroup")
SETTINGS = ("discover.warmup_epochs=1", "discover.epochs=1", "discover.snapshots=2", "rehearse.rehearsals=0")
SET = [part for setting in SETTINGS for part in ("--set", setting)]
LARGE = (70_000, 512)  # in each of two sets: 287 MB, of which working takes several times as much
SMALL = (1_000, 64)


def made(root: Path, limit: str, most: int) -> Path:
    """Make a control group that may have so many bytes, or raise an OSError."""
    group = root / f"newkinds-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").read_bytes()  # no plain folder, such as what holds the controllers of version 1
        (group / limit).write_text(str(most))
    except OSError:
        group.rmdir()
        raise
    return group


@pytest.fixture
def group() -> Iterator[Path]:
    """Make a control group of 1 GB, where this machine allows it."""
    for root, limit in ((GROUPS, "memory.max"), (GROUPS / "memory", "memory.limit_in_bytes")):
        try:
            found = made(root, limit, 10**9)
        except OSError:
            continue
        yield found
        found.rmdir()
        return
    pytest.skip("no control group of our own can be made here")


def embeddings(folder: Path, rows: int, width: int) -> None:
    """Write known and unsorted embeddings of six kinds each."""
    dice = np.random.default_rng(0)
    centres = 3 * dice.normal(size=(12, width)).astype(np.float32)
    for name, first in (("known", 0), ("unsorted", 6)):
        labels = dice.integers(0, 6, rows)
        points = centres[labels + first] + dice.normal(size=(rows, width)).astype(np.float32)
        np.savez(folder / f"{name}.npz", embeddings=points, labels=labels)


def inside(group: Path, folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a control group."""
    script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    command = ["sh", "-c", script, str(group), sys.executable, "-m", "newkinds", *line]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "NEWKINDS_CACHE": str(folder / "cache")}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=500, env=environ)


LINES = {
    "discover": ["discover", "known.npz", "unsorted.npz", "--out", "run", "--kinds", "6", *SET],
    "discover new": ["discover", "known.npz", "unsorted.npz", "--out", "run", "--kinds", "6", "--heap", "new", *SET],
    "count": ["count", "known.npz", "unsorted.npz", "--out", "run"],
    "rehearse": ["rehearse", "known.npz", "--out", "run"],
}


@pytest.mark.slow
@pytest.mark.promise(MEMORY)
@pytest.mark.parametrize("name", LINES)
def test_what_does_not_fit_is_refused_before_it_is_killed(name: str, group: Path, tmp_path: Path) -> None:
    embeddings(tmp_path, *LARGE)
    done = inside(group, tmp_path, *LINES[name])
    assert done.returncode == 1, done.stderr
    assert "of memory or more" in done.stderr
    assert "are free (the limit of its control group)" in done.stderr
    assert "Give fewer" in done.stderr
    assert not list((tmp_path / "run").glob("*.npy"))


@pytest.mark.slow
@pytest.mark.promise(MEMORY)
def test_what_fits_works(group: Path, tmp_path: Path) -> None:
    embeddings(tmp_path, *SMALL)
    done = inside(group, tmp_path, *LINES["discover"])
    assert done.returncode == 0, done.stderr
    after = (
        ["predict", "run", "unsorted.npz", "--to", "a.csv"],
        ["report", "run"],
        ["export", "run", "--to", "csv", "--out", "b.csv"],
    )
    for line in after:
        done = inside(group, tmp_path, *line)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.promise(MEMORY)
@pytest.mark.parametrize("megabytes", [60, 200, 470, 520])
def test_however_little_there_is(megabytes: int, group: Path, tmp_path: Path) -> None:
    """Also where no stage could know: what cannot be had is said, and not taken."""
    limit = group / ("memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes")
    limit.write_text(str(megabytes * 10**6))
    embeddings(tmp_path, 6_000, 256)
    done = inside(group, tmp_path, *LINES["discover"])
    assert done.returncode in (0, 1), done.stderr
    assert done.returncode == 0 or "are free (the limit of its control group)" in done.stderr
