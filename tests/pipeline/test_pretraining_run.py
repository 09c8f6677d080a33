"""What methods learn from the known kinds beside f: learnt once, kept in a file, given to any number of runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import newkinds as nk
from newkinds import prepare
from newkinds.api import pretrain
from newkinds.errors import DataError, UsageError
from newkinds.methods.registry import AUXILIARIES
from newkinds.runs import RunFolder
from newkinds.runs.checkpoints import DiskCheckpoints
from newkinds.runs.folder import CHECKPOINT_SECONDS
from newkinds.runs.names import NETWORK
from pictures import write_embeddings

EPOCHS = 5
SMALL: dict[str, Any] = {
    "rehearse": {"rehearsals": 1},
    "kinds": 3,
    "pretrain": {"epochs": 1},
    "similarity": {"epochs": EPOCHS, "milestones": [3]},
    "pairs": {"epochs": 5, "milestones": [4], "batch_size": 24},
    "centroids": {"start": "fresh", "episodes": 4, "each": 6},
}


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return embeddings of known kinds, and of three new ones."""
    return write_embeddings(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def similarity(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a similarity network."""
    return prepare(sets[0], "similarity", out=tmp_path_factory.mktemp("auxiliary") / "run", settings=SMALL)


def stages(run: Path) -> list[str]:
    """Return the stage of each line of a run's log."""
    return [record["stage"] for record in RunFolder.open(run).history()]


def found(run: Path) -> dict[str, bytes]:
    """Return what a run found."""
    opened = RunFolder.open(run)
    names = ("kinds.csv", "features/probabilities.npy", "features/embedding.npy", "model/weights.safetensors")
    return {name: opened.get(name) for name in names}


def test_it_is_learnt_once(sets: tuple[Path, Path], similarity: Path) -> None:
    run = similarity.parents[1]
    log = (run / "log.jsonl").read_bytes()
    before = (similarity.read_bytes(), similarity.stat().st_mtime_ns)
    assert stages(run) == ["similarity"] * EPOCHS
    assert prepare(sets[0], "similarity", out=run, settings=SMALL) == similarity
    assert (similarity.read_bytes(), similarity.stat().st_mtime_ns) == before
    assert (run / "log.jsonl").read_bytes() == log
    assert not list((run / "checkpoint").iterdir())


def test_another_folder_and_another_seed(sets: tuple[Path, Path], similarity: Path, tmp_path: Path) -> None:
    again = prepare(sets[0], "similarity", out=tmp_path / "again", settings=SMALL)
    assert again.read_bytes() == similarity.read_bytes()
    other = prepare(sets[0], "similarity", out=tmp_path / "other", settings={**SMALL, "seed": 1})
    assert other.read_bytes() != similarity.read_bytes()


@pytest.mark.parametrize("method", ["kcl", "mcl"])
def test_a_run_takes_it_and_finds_what_it_would_have_found(
    method: str, sets: tuple[Path, Path], similarity: Path, tmp_path: Path
) -> None:
    nk.discover(*sets, out=tmp_path / "alone", method=method, settings=SMALL, page=False)
    files = {"similarity": similarity}
    nk.discover(*sets, out=tmp_path / "taught", method=method, settings=SMALL, auxiliary=files, page=False)
    assert found(tmp_path / "taught") == found(tmp_path / "alone")
    assert stages(tmp_path / "alone") == ["similarity"] * EPOCHS + [method] * 5
    assert stages(tmp_path / "taught") == [method] * 5
    assert (tmp_path / "alone" / "model" / "similarity.safetensors").is_file()
    assert not (tmp_path / "taught" / "model" / "similarity.safetensors").exists()
    # It is this file that says what is of one kind: another one says something else.
    other = {"similarity": prepare(sets[0], "similarity", out=tmp_path / "other", settings={**SMALL, "seed": 1})}
    nk.discover(*sets, out=tmp_path / "otherwise", method=method, settings=SMALL, auxiliary=other, page=False)
    assert found(tmp_path / "otherwise") != found(tmp_path / "alone")
    with pytest.raises(UsageError, match=r"data\.auxiliary\.similarity"):
        nk.discover(*sets, out=tmp_path / "taught", method=method, settings=SMALL, auxiliary=other, page=False)


@pytest.mark.parametrize(("method", "name"), [("mcl", "similarity"), ("centroid-networks", "centroids")])
def test_on_pictures_with_an_f_that_is_given(method: str, name: str, photos: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "network": "vgg6-5-1-slim"}
    weights = pretrain(photos / "known", out=tmp_path / "f", settings=settings)
    file = prepare(photos / "known", name, out=tmp_path / "auxiliary", weights=weights, settings=settings)
    assert set(stages(tmp_path / "auxiliary")) == {name}  # f is taken as it is
    options: dict[str, Any] = {"method": method, "settings": settings, "weights": weights, "page": False}
    pictures = (photos / "known", photos / "unsorted")
    nk.discover(*pictures, out=tmp_path / "alone", **options)
    nk.discover(*pictures, out=tmp_path / "taught", auxiliary={name: file}, **options)
    assert found(tmp_path / "taught") == found(tmp_path / "alone")
    assert name not in stages(tmp_path / "taught")
    # Without weights f is learnt in the same folder first.
    whole = prepare(photos / "known", name, out=tmp_path / "whole", settings=settings)
    assert stages(tmp_path / "whole")[0] == "pretrain"
    assert whole.read_bytes() == file.read_bytes()


def test_two_auxiliary_networks_share_a_folder(photos: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "network": "vgg6-5-1-slim"}
    files = [prepare(photos / "known", name, out=tmp_path / "run", settings=settings) for name in AUXILIARIES]
    assert len(set(files)) == 2
    assert all(file.is_file() for file in files)
    assert stages(tmp_path / "run").count("pretrain") == 1


def test_there_is_nothing_to_learn_without_weights(sets: tuple[Path, Path], tmp_path: Path) -> None:
    file = prepare(sets[0], "centroids", out=tmp_path / "auxiliary", settings=SMALL)
    assert stages(tmp_path / "auxiliary") == []
    files = {"centroids": file}
    options: dict[str, Any] = {"method": "centroid-networks", "settings": SMALL, "page": False}
    nk.discover(*sets, out=tmp_path / "taught", auxiliary=files, **options)
    nk.discover(*sets, out=tmp_path / "alone", **options)
    assert found(tmp_path / "taught") == found(tmp_path / "alone")


# Interrupted


class Killed(Exception):
    """Somebody pulled the plug."""


@pytest.mark.parametrize("stage", ["pretrain", "similarity"])
def test_it_goes_on_and_ends_with_the_same_bytes(
    stage: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**SMALL, "network": "vgg6-5-1-slim", "pretrain": {"epochs": 3}}
    monkeypatch.setenv(CHECKPOINT_SECONDS, "0")
    whole = prepare(photos / "known", "similarity", out=tmp_path / "whole", settings=settings)
    save = DiskCheckpoints.save

    def fatal(self: DiskCheckpoints, name: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        save(self, name, epoch, tensors)
        if (name, epoch) == (stage, 2):
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(DiskCheckpoints, "save", fatal)
        with pytest.raises(Killed):
            prepare(photos / "known", "similarity", out=tmp_path / "killed", settings=settings)
    assert not (tmp_path / "killed" / "model").exists()
    done = (tmp_path / "killed" / "log.jsonl").read_text().splitlines()
    file = prepare(photos / "known", "similarity", out=tmp_path / "killed", settings=settings)
    assert file.read_bytes() == whole.read_bytes()
    # What was done is not done again.
    log = (tmp_path / "killed" / "log.jsonl").read_text().splitlines()
    assert 0 < len(done) < len(log)
    assert log == (tmp_path / "whole" / "log.jsonl").read_text().splitlines()


# What is refused


def refused(sets: tuple[Path, Path], out: Path, files: dict[str, Path]) -> DataError:
    """Return the error for files that a run does not take, before it has made anything."""
    with pytest.raises(DataError) as caught:
        nk.discover(*sets, out=out, method="kcl", settings=SMALL, auxiliary=files)
    assert not out.exists()
    return caught.value


def test_a_file_of_something_else(sets: tuple[Path, Path], similarity: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    other = prepare(sets[0], "centroids", out=tmp_path / "centroids", settings=SMALL)
    error = refused(sets, out, {"similarity": other})
    assert f"{other} is not the auxiliary network 'similarity'" in error.message
    assert "auxiliary is 'centroids', not 'similarity'." in error.message
    assert "leave it out" in error.hint
    network = {**SMALL, "network": "vgg6-5-1-slim"}
    pictures = prepare(photos / "known", "similarity", out=tmp_path / "pictures", settings=network)
    error = refused(sets, out, {"similarity": pictures})
    assert "network is 'vgg6-5-1-slim', not 'identity'" in error.message
    (tmp_path / "wide").mkdir()
    wide = write_embeddings(tmp_path / "wide", axes=9)
    assert "channels is 8, not 9" in refused(wide, out, {"similarity": similarity}).message
    plain = pictures.parents[1] / NETWORK
    assert "it does not give its auxiliary" in refused(sets, out, {"similarity": plain}).message


def test_no_file_and_no_safetensors(sets: tuple[Path, Path], tmp_path: Path) -> None:
    missing, broken = tmp_path / "missing.safetensors", tmp_path / "broken.safetensors"
    broken.write_bytes(b"what is this")
    assert "missing.safetensors cannot be read" in refused(sets, tmp_path / "run", {"similarity": missing}).message
    assert "not a safetensors file" in refused(sets, tmp_path / "run", {"similarity": broken}).message


def test_an_auxiliary_network_that_no_method_has(sets: tuple[Path, Path], similarity: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"auxiliary network 'similarty'.*Did you mean 'similarity'\?.*Valid: centroids, simil"
    ):
        prepare(sets[0], "similarty", out=tmp_path / "run", settings=SMALL)
    with pytest.raises(UsageError, match=r"auxiliary network 'pairs'.*Valid: centroids, similarity\."):
        nk.discover(*sets, out=tmp_path / "run", method="kcl", settings=SMALL, auxiliary={"pairs": similarity})
    assert not (tmp_path / "run").exists()


def test_other_settings_in_the_same_folder(sets: tuple[Path, Path], similarity: Path) -> None:
    with pytest.raises(UsageError, match=r"similarity\.epochs \(5 there, 9 now\)"):
        prepare(sets[0], "similarity", out=similarity.parents[1], settings={**SMALL, "similarity": {"epochs": 9}})
