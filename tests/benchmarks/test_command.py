"""`newkinds bench`: it finds the benchmarks where they are named or checked out, and nowhere else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import newkinds
from newkinds.cli.bench import HARNESS, VARIABLE, find_house
from newkinds.errors import UsageError
from newkinds_bench.house import HOUSE
from publishers import write_omniglot

SOURCES = Path(newkinds.__file__).parent


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def make_house(folder: Path, program: str = "") -> Path:
    (folder / HARNESS).mkdir(parents=True)
    (folder / HARNESS / "__init__.py").write_text(program)
    return folder


def test_the_checkout_of_an_editable_install_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_house() == HOUSE


def test_what_is_named_comes_before_the_variable_and_that_before_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (make_house(tmp_path / name) for name in ("first", "second"))
    monkeypatch.setenv(VARIABLE, str(second))
    assert find_house() == second
    assert find_house(first) == first
    monkeypatch.setenv(VARIABLE, "")
    assert find_house() == HOUSE


def test_an_installed_package_says_where_the_benchmarks_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "site-packages" / "newkinds"
    make_house(tmp_path / "lib" / "benchmarks")  # beside site-packages, but no checkout of ours
    make_house(tmp_path / "benchmarks")
    monkeypatch.chdir(tmp_path)  # a house in the current folder is not taken just because it is there
    with pytest.raises(UsageError, match="not part of the installed package") as caught:
        find_house(package=package)
    assert "Clone" in caught.value.hint
    assert "--house" in caught.value.hint
    assert VARIABLE in caught.value.hint


def test_a_folder_without_the_benchmarks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path} does not hold")):
        find_house(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nowhere does not hold"):
        find_house()


def command(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES.parent), **variables}
    line = [sys.executable, "-m", "newkinds", "bench", *words]
    return subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True)


def test_a_copy_of_the_package_measures_with_a_house_that_is_named(tmp_path: Path) -> None:
    """The package as it is installed, without a checkout around it; results, weights and workers are the house's."""
    installed = tmp_path / "site-packages"
    shutil.copytree(SOURCES, installed / "newkinds", ignore=shutil.ignore_patterns("__pycache__"))
    house = tmp_path / "elsewhere"
    shutil.copytree(HOUSE / HARNESS, house / HARNESS, ignore=shutil.ignore_patterns("__pycache__"))
    (house / "weights").mkdir()
    shutil.copy(HOUSE / "weights" / "omniglot-30-group.safetensors", house / "weights")
    here = tmp_path / "here"
    make_house(here, "raise SystemExit('code of the current folder was run')")
    write_omniglot(tmp_path / "data", characters=3, drawers=6)
    words = ["omniglot-imagenet", "--data", str(tmp_path / "data"), "--only", "omniglot:Tengwar", "--jobs", "2"]
    rows = ["--only", "kmeans-on-pixels", "--only", "lsc-on-pixels"]
    variables = {"PYTHONPATH": str(installed), VARIABLE: str(house)}
    found = command(*words, *rows, "--quiet", cwd=here, **variables)
    assert found.returncode == 0, found.stderr
    assert f"2 results in {house / 'results'}" in found.stdout
    assert (house / "results" / "omniglot.jsonl").is_file()
    assert sorted(path.name for path in here.iterdir()) == [HARNESS, "runs"]


def test_benchmarks_of_another_version_are_refused(tmp_path: Path) -> None:
    house = make_house(tmp_path / "benchmarks", "from newkinds import no_such_thing\n")
    found = command("--house", str(house), cwd=tmp_path)
    assert found.returncode == 2
    assert "do not match newkinds" in found.stderr
    assert "no_such_thing" in found.stderr
    assert f"pip install -e {tmp_path}" in found.stderr


def test_the_package_has_no_paths_of_a_checkout() -> None:
    for file in SOURCES.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        found = re.findall(r"\b(?:bench/|benchmarks/|weights/|docs/)\w+|Path\(\"(?:docs|weights|benchmarks)\"", text)
        assert not found, f"{file}: {found}"
