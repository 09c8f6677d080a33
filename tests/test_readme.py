"""What the README says is true: its examples run, and its figures are those of the result file."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from newkinds import cli
from newkinds.methods.registry import METHODS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
# Pages that it leads to, whose lines can be typed, too.
PAGES = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("inputs", "methods", "devices", "tutorial"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def shop(photos: Path, tmp_path: Path) -> Path:
    """Return a folder in which the README's `photos` exist."""
    shutil.copytree(photos, tmp_path / "photos")
    return tmp_path


def test_the_shell_examples_run(shop: Path) -> None:
    (script,) = blocks("sh")
    done = subprocess.run(["sh", "-ex", "-c", script], cwd=shop, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (shop / "runs" / "shop" / "report" / "index.html").is_file()
    assert (shop / "today.csv").read_text().startswith("path,kind,probability,runner_up\nbolt/00.png,known:bolt,")
    for name in re.findall(r"^\| (`.*?) \|", README, flags=re.MULTILINE):
        for path in re.findall(r"`(.+?)`", name):
            assert (shop / "runs" / "shop" / path).exists(), path


def test_the_python_example_runs(shop: Path) -> None:
    (program,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", program], cwd=shop, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 [")
    assert (shop / "kinds.csv").is_file()
    assert (shop / "report" / "index.html").is_file()


@pytest.mark.parametrize(
    "line", re.findall(r"^ {4}(?:PYTHONPATH=\. )?newkinds (.+)$", README + PAGES, flags=re.MULTILINE)
)
def test_other_lines_can_be_typed(line: str) -> None:
    name, *arguments = shlex.split(line)
    commands: Any = typer.main.get_command(cli.app)
    command = commands.commands[name]
    given = command.make_context(name, arguments).params
    if given.get("method"):
        assert given["method"] in METHODS
    if given.get("methods"):
        assert set(given["methods"].split(",")) <= METHODS.keys()


def test_the_figures_are_those_of_the_result_file() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "studies" / "demo.json").read_text())
    mean = result["mean"]
    shown = re.search(r"<!-- figures: demo -->\n(.*?)\n\n", README, flags=re.DOTALL)
    assert shown is not None
    assert f"| {mean['acc']:.3f} |" in shown[1]
    assert f"| {mean['kmeans_acc']:.3f} |" in shown[1]
    assert f"| {mean['gain']:.3f} ± {mean['gain_standard_error']:.3f} |" in shown[1]
    runs = len(result["runs"])
    assert f"(truly {result['kinds']}) | right with {result['k_right']} of {runs} seeds," in shown[1]
    assert f"in the range that is said with {result['in_range']} of {runs} |" in shown[1]


def test_the_figures_of_photographs_are_those_of_the_result_file() -> None:
    runs = json.loads((ROOT / "benchmarks" / "results" / "studies" / "photographs.json").read_text())["runs"]
    some = [runs[f"grocery-{draw}-{seed}"] for draw in range(3) for seed in range(3)]
    ours, theirs = (100 * sum(run[key] for run in some) / len(some) for key in ("acc", "kmeans_acc"))
    words = " ".join(README.split())
    assert (
        f"{ours:.0f} % of the pictures come into the right kind (k-means on the same features: {theirs:.0f} %)" in words
    )


def test_the_gain_of_discovery_is_larger_than_its_standard_error() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "studies" / "demo.json").read_text())
    assert len(result["runs"]) == 10
    assert result["mean"]["gain"] > result["mean"]["gain_standard_error"]


def test_the_commands_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^    make ([a-z-]+)", README, flags=re.MULTILINE)) <= targets
    assert {"demo", "test"} <= targets


def test_what_it_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert target.startswith("https://") or (ROOT / target.partition("#")[0]).is_file(), target
