"""Small pictures that every stage can be run on in seconds."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import hypothesis
import pytest
import torch

from pictures import KNOWN, UNSORTED, write_pictures

AXE = "axe-core@4.10.3"

# Two threads are slower than one on tensors as small as the tests', and many times so when the cores are busy. The
# variable is for the programs that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["NEWKINDS_CACHE"] = ""  # no test finds what another one kept, or leaves anything behind
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

# What tests write goes to memory, where there is room: a run waits until each of its files is on the disk, and on many
# disks all of them together wait for longer than they compute.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    own = MEMORY / f"newkinds-tests-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = str(own)
    tempfile.tempdir = None

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with photos/known, photos/unsorted and photos/today, to be read only."""
    root = tmp_path_factory.mktemp("shop")
    write_pictures(root / "photos" / "known", KNOWN)
    write_pictures(root / "photos" / "unsorted", UNSORTED)
    write_pictures(root / "photos" / "today", (KNOWN[0], UNSORTED[0]), each=3, seed=1)
    return root / "photos"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where torch finds none."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=f"torch {torch.__version__} finds no CUDA device"))


@pytest.fixture(scope="session")
def axe() -> str:
    """Return axe-core's script, from the npm registry or from the last time."""
    folder = Path(__file__).parents[1] / "test-output" / "axe"
    script = folder / "package" / "axe.min.js"
    if not script.exists():
        if not (npm := shutil.which("npm")):
            pytest.skip("axe-core is not there, nor npm to get it")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run([npm, "pack", AXE, "--silent"], cwd=folder, check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"axe-core cannot be had: {error}")
        with tarfile.open(next(folder.glob("axe-core-*.tgz"))) as archive:
            archive.extract("package/axe.min.js", folder, filter="data")
    return script.read_text(encoding="utf-8")
