"""What is asked of a damaged run says so; and what is asked of strange pictures is refused, never NaN."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from damage import QUIET, contents, discover, harm, killed

import newkinds as nk
from newkinds.errors import NumericsError, RunError
from newkinds.progress import Warnings
from newkinds.runs import RunFolder
from newkinds.runs.checkpoints import DiskCheckpoints
from pictures import write_embeddings


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_embeddings(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def made(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return discover(sets, tmp_path_factory.mktemp("made") / "run").path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


# The page


@pytest.mark.parametrize("way", ["changed", "deleted"])
@pytest.mark.parametrize(
    "name",
    [
        "count.json",
        "choice.json",
        "scores.json",
        "known-quality.json",
        "rehearsal.json",
        "trust.json",
        "features/nearest-known.safetensors",
        "log.jsonl",
        "snapshots/0000.safetensors",
    ],
)
def test_the_page_names_what_is_damaged(name: str, way: str, run: Path) -> None:
    assert 'id="damaged"' not in (run / "report" / "index.html").read_text()
    harm(run, name, way, run, random.Random(0))
    page = nk.report(run, progress=QUIET).read_text()
    start = page.index('id="damaged"')
    assert f"<code>{name}</code>" in page[start : start + 600]
    assert "no rehearsals were made" not in page


@pytest.mark.parametrize("name", ["kinds.csv", "features/embedding.npy", "known.json", "settings.toml"])
def test_the_old_page_stays_where_no_new_one_can_be_made(name: str, run: Path) -> None:
    before = (run / "report" / "index.html").read_bytes()
    harm(run, name, "changed", run, random.Random(0))
    with pytest.raises(RunError, match="is not what the run wrote") as caught:
        nk.report(run, progress=QUIET)
    assert "makes what is damaged anew" in caught.value.hint
    assert (run / "report" / "index.html").read_bytes() == before


def test_a_damaged_page_is_replaced(run: Path, made: Path) -> None:
    (run / "report" / "index.html").write_bytes(b"")
    assert nk.report(run, progress=QUIET).read_bytes() == (made / "report" / "index.html").read_bytes()


# The model


def test_a_damaged_model_is_called_so(run: Path, sets: tuple[Path, Path], tmp_path: Path) -> None:
    harm(run, "model/weights.safetensors", "changed", run, random.Random(0))
    for call in (
        lambda: nk.predict(run, sets[1], progress=QUIET),
        lambda: nk.export(run, "onnx", tmp_path / "model.onnx", progress=QUIET),
    ):
        with pytest.raises(RunError, match=r"weights\.safetensors is not what the run wrote"):
            call()
    discover(sets, run)
    assert len(nk.predict(run, sets[1], progress=QUIET)) == 48


@pytest.fixture(scope="module")
def by_distance(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run whose model measures distances, of embeddings as they are."""
    path = tmp_path_factory.mktemp("dec") / "run"
    return discover(sets, path, method="dec", kinds=3, page=False).path


@pytest.mark.parametrize("among", ["all", "new", "known"])
@pytest.mark.parametrize("scale", [1e25, 1e38])
def test_predict_never_gives_nan(scale: float, among: str, made: Path, by_distance: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    rows[3] *= np.float32(scale)
    with pytest.raises(NumericsError, match=r"1 of 5 pictures .* the first is '3'") as caught:
        nk.predict(by_distance, rows, among=among, progress=QUIET)
    assert caught.value.hint
    for found in (
        nk.predict(by_distance, rows[:3], among=among, progress=QUIET),
        nk.predict(made, rows, among=among, progress=QUIET),  # by directions
    ):
        assert np.allclose(found.probabilities.sum(axis=1), 1, atol=1e-5)


# Checkpoints


def test_a_checkpoint_of_another_run_is_refused(sets: tuple[Path, Path], made: Path, tmp_path: Path) -> None:
    ours, other = killed(sets, tmp_path / "ours" / "run"), killed(sets, tmp_path / "other", seed=1)
    shutil.rmtree(ours / "checkpoint")
    shutil.copytree(other / "checkpoint", ours / "checkpoint")
    warned = Warnings()
    discover(sets, ours, progress=warned)
    assert any("not of this run" in text for text in warned.texts)
    assert contents(ours) == contents(made)


@pytest.mark.parametrize("part", ["stage", "epoch"])
def test_a_checkpoint_under_another_name_is_refused(part: str, tmp_path: Path) -> None:
    kept = DiskCheckpoints(tmp_path, run="this")
    kept.save("discover", 3, {"x": torch.ones(2)})
    (file,) = tmp_path.iterdir()
    other = file.name.replace("000003", "000009") if part == "epoch" else file.name.replace("discover", "pretrain")
    file.rename(tmp_path / other)
    assert kept.load("discover" if part == "epoch" else "pretrain") is None
    assert DiskCheckpoints(tmp_path, run="that").load("discover") is None


def test_a_checkpoint_whose_log_is_another_is_refused(tmp_path: Path) -> None:
    run = RunFolder.start(tmp_path / "run", nk.Settings(), {}, {})
    run.log({"stage": "discover", "epoch": 0})
    run.checkpoints().save("discover", 1, {"x": torch.ones(2)})
    run.log({"stage": "discover", "epoch": 1})
    assert run.checkpoints().load("discover") is not None
    log = tmp_path / "run" / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"epoch": 0', b'"epoch": 7'))
    assert run.checkpoints().load("discover") is None
    run.close()
