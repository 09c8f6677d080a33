"""Names wherever a folder is taken: which part they mean, where the data is looked for, and runs over them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import newkinds as nk
from newkinds import cli
from newkinds.datasets import DATASETS, named
from newkinds.datasets.omniglot import EVALUATION
from newkinds.errors import DataError, UsageError
from pictures import write_pictures
from publishers import write_cifar10, write_omniglot, write_svhn

QUICK = {"pretrain": {"epochs": 1}, "rehearse": {"rehearsals": 1}, "discover": {"epochs": 1, "warmup_epochs": 1}}


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty folder, without a data root."""
    monkeypatch.delenv("NEWKINDS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def source(name: str, **options: object) -> str:
    images = named(name, **options)  # type: ignore[arg-type]
    assert images is not None
    return images.source


def test_bare_names_mean_the_papers_parts(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "data")
    write_svhn(tmp_path / "data" / "train_32x32.mat")
    assert source("cifar10", labelled=True, data="data") == "cifar10:labelled"
    assert source("cifar10", data="data") == "cifar10:unlabelled"
    assert source("svhn", labelled=True, data="data") == "svhn:labelled"
    assert source("digits", labelled=True) == "digits:known"
    assert source("digits") == "digits:unsorted"
    for dataset in DATASETS.values():
        assert dataset.known in dataset.parts
        assert dataset.unsorted in {None, *dataset.parts}


def test_a_folder_of_a_bare_name_comes_first_but_not_before_a_part(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits:known").mkdir()
    assert named("digits") is None
    assert source("digits:known") == "digits:known"
    assert named(tmp_path / "digits:known") is None


def test_where_the_data_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="--data ROOT or the variable NEWKINDS_DATA") as caught:
        named("cifar10")
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in caught.value.hint
    with pytest.raises(DataError, match=r"CIFAR-10 was looked for in nowhere, which is not a folder\."):
        named("cifar10", data="nowhere")
    write_cifar10(tmp_path / "data")
    monkeypatch.setenv("NEWKINDS_DATA", "")
    with pytest.raises(DataError, match="not the folder that it lies in"):
        named("cifar10")
    monkeypatch.setenv("NEWKINDS_DATA", str(tmp_path / "data"))
    assert source("cifar10") == "cifar10:unlabelled"
    with pytest.raises(DataError, match="CIFAR-10 is not in"):
        named("cifar10", data=tmp_path)  # what is said goes before the variable


def test_a_run_over_a_named_set_can_be_asked_again(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_omniglot(root, characters=3, drawers=3)
    found = nk.discover("omniglot:Greek", "omniglot:ULOG", out="run", kinds=3, data=root, settings=QUICK)
    assert found.names[0].startswith("ULOG/character01/")
    sources = json.loads((tmp_path / "run" / "run.json").read_text())["sources"]
    assert sources == {"known": "omniglot:Greek", "unsorted": "omniglot:ULOG"}
    assert nk.report("run", data=root).is_file()
    assert nk.evaluate("run", "folders", data=root)[0].n_true == 3
    assert len(nk.predict("run", "omniglot:Latin", data=root).names) == 9
    with pytest.raises(DataError, match="--data ROOT"):
        nk.report("run")
    with pytest.raises(UsageError, match="several parts"):
        nk.predict("run", "omniglot", data=root)


def test_arrays_are_taken_as_they_are_and_files_in_the_size_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_svhn(root / "svhn" / "train_32x32.mat")
    write_omniglot(root)
    small = {**QUICK, "images": {"size": 24}}
    with pytest.raises(DataError, match=r"svhn:labelled has pictures of 32 x 32 .* but size=24 was asked for"):
        nk.discover("svhn", "svhn", out="run", data=root, settings=small)
    with pytest.raises(DataError, match="Known and unsorted data must have the same shape"):
        nk.discover("svhn", "omniglot:ULOG", out="run", data=root, settings=QUICK)
    found = nk.discover("omniglot:Latin", "omniglot:ULOG", out="run", kinds=2, data=root, settings=small)
    assert found.n_kinds <= 2
    # A folder beside a data set is brought to the data set's shape.
    write_pictures(tmp_path / "folder", ("disc", "square"), each=3)
    mixed = nk.discover("omniglot:Latin", "folder", out="mixed", kinds=2, data=root, settings=QUICK)
    assert np.isfinite(mixed.probabilities).all()


def test_the_command_line_takes_data_and_lists_the_names(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(cli.app, ["datasets"], env={"COLUMNS": "300"})
    assert listed.exit_code == 0
    for dataset in DATASETS.values():
        assert dataset.address in listed.output
        assert dataset.needs in listed.output
        for part in dataset.parts:
            assert f"{dataset.name}:{part}" in listed.output
    for command in ("discover", "count", "predict", "evaluate", "report"):
        assert "--data" in runner.invoke(cli.app, [command, "--help"], env={"COLUMNS": "200"}).output
    result = runner.invoke(cli.app, ["discover", "cifar10", "cifar10", "--out", "run", "--data", str(tmp_path)])
    assert isinstance(result.exception, DataError)
    assert "looked for cifar-10-batches-py/data_batch_1" in result.exception.message


@pytest.mark.parametrize("page", ["docs/inputs.md", "docs/paper-to-code.md"])
def test_every_name_in_the_docs_exists(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    found = re.findall(rf"\b({'|'.join(DATASETS)}):([\w+-]+)", text)
    assert found
    for name, part in found:
        assert part in DATASETS[name].parts or part in EVALUATION, f"{name}:{part}"
