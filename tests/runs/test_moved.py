"""Runs and pictures that moved, and run folders among the pictures."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import newkinds as nk
from newkinds.compare import compare
from newkinds.errors import NewkindsError, UsageError
from newkinds.runs import RunFolder

QUIET = nk.Progress("silent")
QUICK: dict[str, Any] = {
    "network": "pixels",
    "rehearse": {"rehearsals": 1},
    "discover": {"warmup_epochs": 1, "epochs": 1},
}
OPTIONS: dict[str, Any] = {"kinds": 3, "settings": QUICK, "page": False, "cache": False, "progress": QUIET}


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with shop/run and shop/photos, the run having been given relative paths from shop."""
    root = tmp_path_factory.mktemp("made") / "shop"
    shutil.copytree(photos, root / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        nk.discover("photos/known", "photos/unsorted", out="run", **OPTIONS)
    return root


@pytest.fixture
def shop(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return made


def sources(run: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((run / "run.json").read_text())["sources"]
    return found


def test_relative_paths_start_where_the_run_was_started(shop: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(shop / "run", tmp_path / "elsewhere"))  # the run moves, the pictures do not
    assert sources(run)["unsorted"] == "photos/unsorted"
    assert nk.report(run, progress=QUIET).is_file()
    assert nk.evaluate(run, "folders", progress=QUIET)
    out = nk.export(run, "folders", tmp_path / "sorted", link=True, progress=QUIET)
    assert {os.path.realpath(path.parent.parent) for path in map(Path.resolve, out.rglob("*.png"))} == {
        os.path.realpath(shop / "photos" / "unsorted")
    }


@pytest.mark.parametrize("command", ["report", "evaluate", "figures", "figures elsewhere", "export"])
def test_where_they_moved_is_said_once(command: str, shop: Path, tmp_path: Path) -> None:
    whole = Path(shutil.copytree(shop, tmp_path / "shop"))
    run, moved = whole / "run", whole / "moved"
    about = json.loads((run / "run.json").read_text())
    assert about["where"] == str(shop)
    (whole / "photos" / "unsorted").rename(moved)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "source", lambda self, which: str(whole / "photos" / which))  # where they were
        with pytest.raises(NewkindsError, match=r"not exist|not there"):
            asked(run, command, tmp_path / "a")
    asked(run, command, tmp_path / "b", images="shop/moved")
    assert sources(run) == {"known": "photos/known", "unsorted": str(moved)}
    asked(run, command, tmp_path / "c")


def asked(run: Path, command: str, out: Path, **options: Any) -> Any:
    if command == "report":
        return nk.report(run, progress=QUIET, **options)
    if command == "evaluate":
        return nk.evaluate(run, "folders", progress=QUIET, **options)
    if command == "export":
        return nk.export(run, "folders", out, progress=QUIET, **options)
    return nk.figures(run, out=None if command == "figures" else out, progress=QUIET, **options)


def test_what_does_not_fit_is_not_remembered(shop: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(shop / "run", tmp_path / "run"))
    before = (run / "run.json").read_bytes()
    for command in ("report", "evaluate", "export"):
        with pytest.raises(NewkindsError, match=r"those of the run|are not in") as caught:
            asked(run, command, tmp_path / "out", images=shop / "photos" / "known")
        assert caught.value.hint
    assert (run / "run.json").read_bytes() == before


@pytest.mark.parametrize("inside", ["photos/known/run", "photos/known/bolt/run", "photos/unsorted/run", "link/run"])
def test_a_run_folder_among_the_pictures_is_refused(inside: str, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "link").symlink_to(tmp_path / "photos" / "unsorted")
    known, heap, out = tmp_path / "photos" / "known", tmp_path / "photos" / "unsorted", tmp_path / inside
    calls: list[Any] = [
        lambda: nk.discover(known, heap, out=out, **OPTIONS),
        lambda: nk.count(known, heap, out=out, progress=QUIET),
        lambda: compare(known, heap, out=out, progress=QUIET),
    ]
    if "known" in inside:
        calls += [lambda: nk.pretrain(known, out=out, progress=QUIET)]
        calls += [lambda: nk.prepare(known, "similarity", out=out, progress=QUIET)]
    for call in calls:
        with pytest.raises(UsageError, match="among the pictures") as caught:
            call()
        assert "--out" in caught.value.hint
    assert not out.exists()


def test_a_hidden_folder_among_the_pictures_is_not_looked_into(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    out = tmp_path / "photos" / "unsorted" / ".runs" / "first"
    for _ in range(2):
        nk.discover(tmp_path / "photos" / "known", tmp_path / "photos" / "unsorted", out=out, **OPTIONS)
