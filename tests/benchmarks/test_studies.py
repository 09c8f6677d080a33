"""Studies: each can be started, and starts from a network that is kept or has a recipe."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import study
from newkinds import api
from newkinds_bench.house import HOUSE
from newkinds_bench.starts import Where, opened
from publishers import write_omniglot
from studies import ablation, recipes, starts
from studies.tools import networks


@pytest.mark.parametrize("name", list(study.STUDIES))
def test_every_study_can_be_started(name: str) -> None:
    if name == "sweep":
        pytest.importorskip("faiss")
    assert callable(import_module(f"studies.{name}").main)


def test_the_networks_that_studies_name_have_a_recipe() -> None:
    named = {ablation.F, *recipes.FULL_WIDTH, *(f for _, f, _ in starts.TRIES)}
    assert named <= networks.NETWORKS.keys()
    for f in networks.NETWORKS.values():
        assert api.combine(None, f.recipe).network == f.recipe["network"]


def test_a_network_that_is_not_kept_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.cache_clear()
    write_omniglot(tmp_path / "data", characters=3, drawers=6)
    (own,) = (f for f in networks.OWN if f.weights == "omniglot-25")
    small = type(own)(own.weights, own.known, {**own.recipe, "network": "vgg6-4-2-slim", "pretrain.epochs": 1})
    monkeypatch.setitem(networks.NETWORKS, own.weights, small)
    monkeypatch.setattr(networks, "RUNS", tmp_path / "runs")
    file = networks.network_file("omniglot-25", tmp_path / "data")
    assert file.parent == tmp_path / "runs" / "omniglot-25"
    made = file.stat().st_mtime_ns
    assert networks.network_file("omniglot-25", tmp_path / "data") == file
    assert file.stat().st_mtime_ns == made
    kept = networks.network_file("omniglot-25-group", tmp_path / "data")
    assert kept == Where().weights / "omniglot-25-group.safetensors"


def test_the_runner_lists_the_studies_from_anywhere(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, str(HOUSE / "study.py"), *words]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)

    listed = run()
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == sorted(study.STUDIES)
    wrong = run("ablations")
    assert wrong.returncode == 1
    assert "'ablations'" in wrong.stderr
    asked = run("demo_seeds", "--help")
    assert asked.returncode == 0
    assert "--seeds" in asked.stdout
