"""Sorting again from the page: in the background, the same as by the command, and safe with two windows."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from windows import Window

import newkinds as nk
from growing import FEW, OPTIONS, first_week, grow, of_kind, say, write_week
from newkinds.app.again import Again
from newkinds.app.serving import Serving, open_workbench
from newkinds.errors import UsageError
from newkinds.pipeline.reopening import reopened
from newkinds.runs import RunFolder, names

FILES = (names.KINDS, names.PROBABILITIES, names.ASSIGNMENT, names.AGAIN, names.TRUST, names.UNCALIBRATED)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run that was rehearsed, and what people said about it."""
    folder = tmp_path_factory.mktemp("again")
    few = {**FEW, "rehearse": {"rehearsals": 1, "pictures": 200}}
    run = first_week(folder, settings=few, rehearsals=None)
    new = of_kind(run, "new:0")
    say(run, {"do": "name", "kind": "new:1", "name": "gasket"}, {"do": "move", "pictures": new[:6], "to": "new:1"})
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "again"))


@pytest.fixture
def window(folder: Path) -> Iterator[Window]:
    serving = Serving(open_workbench(folder / "run-1"), log=lambda text: None)
    thread = threading.Thread(target=serving.run, daemon=True)
    thread.start()
    yield Window(serving).enter()
    serving.stop()
    thread.join(10)


def kept(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in FILES}


def test_it_is_the_same_as_by_the_command(made: Path, folder: Path, window: Window) -> None:
    before = window.asked("/api/state")
    assert before["spoken"] is True
    assert before["again"] is None
    answer = window.post("/api/again", {})
    assert answer.status_code == 200
    assert answer.json()["again"]["running"] in (True, False)
    window.serving.bench.again.wait(60)
    after = window.asked("/api/state")
    assert after["again"]["error"] == ""
    assert "Sorted again, using what people said" in after["again"]["words"]
    assert after["version"] == before["version"] + 1  # the journal notes it, and nothing else
    assert window.asked("/api/state", since=after["version"])["again"]["running"] is False
    assert next(one for one in after["kinds"] if one["kind"] == "new:1")["called"] == "gasket"
    assert Window(window.serving).http.get("/api/state").status_code == 403  # nobody else may ask
    other = Path(shutil.copytree(made, folder.parent / "other"))
    few: dict[str, Any] = {**FEW, "rehearse": {"rehearsals": 1, "pictures": 200}}
    given = {**OPTIONS, "rehearsals": None, "settings": few, "page": False, "kinds": 4, "heap": "mixed"}
    nk.discover(other / "week-0.npz", other / "week-1.npz", out=other / "run-1", again=True, **given)
    assert kept(other / "run-1") == kept(folder / "run-1")


def test_once_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()
    again = Again(folder / "run-1")
    monkeypatch.setattr(Again, "_work", lambda self: going.wait(30))
    again.start()
    assert again.told() == {"running": True, "words": "Opening the pictures", "error": "", "times": 0}
    with pytest.raises(UsageError, match="already"):
        again.start()
    going.set()
    again.wait(10)
    again.start()
    again.wait(10)


def test_what_is_wrong_is_said_and_changes_nothing(folder: Path, window: Window) -> None:
    with RunFolder.open(folder / "run-1", writing=True) as run:
        run.remember("unsorted", str(folder / "moved.npz"))
    before = (folder / "run-1" / names.JOURNAL).read_bytes()
    window.post("/api/again", {})
    window.serving.bench.again.wait(60)
    assert "does not exist" in window.asked("/api/state")["again"]["error"]
    assert (folder / "run-1" / names.JOURNAL).read_bytes() == before
    window.say(do="name", kind="new:2", name="still alive")


def test_a_grown_run_is_sorted_again_from_its_folder_alone(folder: Path) -> None:
    heap = write_week(folder, 2, {9: 6, 12: 8})
    out = folder / "run-2"
    grow(folder / "run-1", heap, out)
    moved = nk.load(out).names[-1]
    say(out, {"do": "move", "pictures": [moved], "to": "new:1"})
    shutil.rmtree(folder / "run-1")  # it is not needed any more
    heap.unlink()
    found = reopened(out).result(page=False, again=True)
    assert found.kinds[-1] == "new:1"
    assert found.called == {"new:1": "gasket"}
