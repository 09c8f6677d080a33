"""The public names: imported when used, never hidden by a module, and one for each command."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import newkinds as nk
from newkinds.cli import app
from newkinds.datasets import DATASETS
from newkinds.errors import UsageError
from newkinds.methods.registry import METHODS
from newkinds.networks import FOREIGN, NETWORKS
from newkinds.presets import all_presets, find_preset
from newkinds.progress import QUIET, Progress

SOURCE = Path(str(nk.__file__))
COMMANDS: dict[str, Any] = {
    name: command
    for name, command in get_command(app).commands.items()  # type: ignore[attr-defined]
    if name != "bench"  # measures the paper's tables in a checkout
}
SHADOWED = [name for name in nk.__all__ if find_spec(f"newkinds.{name}") is not None]


def python(program: str) -> str:
    """Run a program in a process of its own and return what it printed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "pydantic", "matplotlib", "sklearn", "scipy", "PIL", "rich", "typer", "joblib"}
    loaded = python(
        "import sys, newkinds as nk; dir(nk), nk.__version__, nk.__all__, nk.NewkindsError, nk.methods; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    assert not heavy & set(loaded.split())


def test_every_public_name_is_there_and_nothing_else() -> None:
    assert nk.__all__ == sorted(nk.__all__)
    assert set(nk.__all__) <= set(dir(nk))
    for name in nk.__all__:
        found = getattr(nk, name)
        assert not inspect.ismodule(found), name
        assert name == "__version__" or found.__name__ == name
    with pytest.raises(AttributeError, match="module 'newkinds' has no attribute 'discovr'"):
        nk.discovr  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_what_is_imported_on_first_use() -> None:
    body = ast.parse(SOURCE.read_text()).body
    (checked,) = (one for one in body if isinstance(one, ast.If))
    seen = {alias.name: one.module for one in checked.body if isinstance(one, ast.ImportFrom) for alias in one.names}
    assert seen == nk._HOMES
    assert {*seen, "__version__"} == set(nk.__all__)


def test_some_functions_are_called_like_a_module() -> None:
    assert {"report", "export", "count", "compare", "methods", "networks", "datasets", "settings"} <= set(SHADOWED)


@pytest.mark.parametrize("first", ["importlib.import_module(f'newkinds.{name}')", "getattr(newkinds, name)"])
def test_a_function_is_never_hidden_by_a_module_of_its_name(first: str) -> None:
    python(
        "import importlib, inspect, newkinds, sys\n"
        f"for name in {SHADOWED!r}:\n"
        f"    {first}\n"
        f"for name in {SHADOWED!r}:\n"
        "    module = importlib.import_module(f'newkinds.{name}')\n"
        "    assert inspect.ismodule(module) and module is sys.modules[f'newkinds.{name}'], name\n"
        "    assert inspect.isfunction(getattr(newkinds, name)), name\n"
        "from newkinds import report\n"
        "import newkinds.report\n"
        "from newkinds.report import write_report\n"
        "assert newkinds.report is report and inspect.isfunction(report) and inspect.isfunction(write_report)\n"
    )


def test_what_a_user_sets_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nk, "discover", len)
    assert nk.discover is len  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_twin_that_takes_the_same(name: str) -> None:
    assert name in nk.__all__
    takes = set(inspect.signature(getattr(nk, name)).parameters)
    # --set is a part of `settings`, --quiet is `progress`, and what `predict` returns writes itself.
    # `import` is a word of Python's own: there it is `take`. What a journal's lines are printed as is the command's.
    otherwise = {"help", "set", "quiet", *({"predict": ("to",), "journal": ("import", "json")}.get(name, ()))}
    for one in COMMANDS[name].params:
        called = {opt.lstrip("-") for opt in one.opts} if one.param_type_name == "option" else {one.name}
        assert called & (takes | otherwise), called


def test_the_twins_of_commands_that_list_return_plain_data() -> None:
    assert nk.methods() == {name: method.line for name, method in METHODS.items()}
    assert list(nk.networks()) == [*NETWORKS, *FOREIGN]
    assert list(nk.datasets()) == list(DATASETS)
    assert nk.datasets()["digits"]["parts"].keys() >= {"known", "unsorted"}
    assert nk.presets() == {name: preset.about for name, preset in all_presets().items()}
    assert nk.presets("omniglot-paper") == find_preset("omniglot-paper").text
    with pytest.raises(UsageError, match="omniglot-paper"):
        nk.presets("omniglot")
    assert "kinds = " in nk.settings()
    assert "evenness" in nk.settings("evenness")
    assert len(nk.settings(all=True)) > len(nk.settings())


def test_scan_says_what_is_broken(tmp_path: Path, photos: Path) -> None:
    good = next((photos / "known").rglob("*.png")).read_bytes()
    (tmp_path / "good.png").write_bytes(good)
    (tmp_path / "half.png").write_bytes(good[: len(good) // 2])
    assert [one.name for one in nk.scan(tmp_path).found] == ["good.png"]
    assert [one.name for one in nk.scan(tmp_path).skipped] == ["half.png"]
    assert [one.name for one in nk.scan(tmp_path, quick=True).found] == ["good.png", "half.png"]


def test_functions_that_take_long_show_their_progress_by_default(
    photos: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, command in COMMANDS.items():
        if any("--quiet" in one.opts for one in command.params):
            assert inspect.signature(getattr(nk, name)).parameters["progress"].default is None, name
    stepped: list[str] = []
    step = Progress.step

    def watched(self: Progress, title: str, *arguments: Any, **options: Any) -> Any:
        if self is not QUIET:
            stepped.append(title)
        return step(self, title, *arguments, **options)

    monkeypatch.setattr(Progress, "step", watched)
    nk.scan(photos / "known")
    assert not stepped
    monkeypatch.setattr("newkinds.progress._suited", lambda stream: "plain" if stream else "bars")
    nk.scan(photos / "known")
    assert stepped == ["Checking pictures"]
