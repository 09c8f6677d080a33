"""Several commands on one run at once: no entry of run.json is lost, and readers see whole states."""

from __future__ import annotations

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import newkinds as nk
from newkinds.errors import RunError
from newkinds.runs import RunFolder, lock
from newkinds.runs.lock import FolderLock
from newkinds.settings import CoreSettings
from pictures import write_embeddings

QUIET = nk.Progress("silent")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Path, Path]]:
    root = tmp_path_factory.mktemp("made")
    sets = write_embeddings(root)
    settings = {"rehearse": {"rehearsals": 1}, "discover": {"warmup_epochs": 1, "epochs": 1}}
    nk.discover(*sets, out=root / "run", kinds=3, settings=settings, page=False, cache=False, progress=QUIET)
    return root / "run", sets


@pytest.fixture
def run(made: tuple[Path, tuple[Path, Path]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "run"))


def outputs(run: Path) -> set[str]:
    return set(json.loads((run / "run.json").read_text())["outputs"])


def test_report_and_evaluate_at_once_lose_nothing(run: Path) -> None:
    calls = [lambda: nk.report(run, progress=QUIET), lambda: nk.evaluate(run, "folders", progress=QUIET)] * 2
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()
    assert {"scores.json", "report/index.html"} <= outputs(run)
    found = RunFolder.open(run)
    assert found.has("scores.json")
    assert found.has("report/index.html")


def test_many_writers_lose_nothing(run: Path) -> None:
    before = outputs(run)

    def put(name: str) -> None:
        with RunFolder.open(run, writing=True) as opened:  # threads have locks of their own, as processes do
            opened.put(name, b"{}")

    names = {f"{number}.json" for number in range(40)}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, sorted(names)))
    assert outputs(run) == before | names


def test_a_command_that_writes_waits_a_while_and_then_says_so(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = FolderLock(run)
    threading.Timer(0.3, held.release).start()
    nk.evaluate(run, "folders", progress=QUIET)  # waits
    held = FolderLock(run)
    monkeypatch.setattr("newkinds.runs.folder.PATIENCE", 0.1)
    for call in (lambda: nk.report(run, progress=QUIET), lambda: nk.evaluate(run, "folders", progress=QUIET)):
        with pytest.raises(RunError, match="Another process is working in") as caught:
            call()
        assert caught.value.hint
    nk.load(run)  # reading is allowed
    held.release()


def test_a_failed_command_lets_go_of_the_folder(run: Path) -> None:
    with pytest.raises(nk.NewkindsError):
        nk.evaluate(run, run / "nowhere.csv", progress=QUIET)
    FolderLock(run).release()


def test_what_is_opened_for_reading_cannot_be_written(run: Path) -> None:
    with pytest.raises(AssertionError):
        RunFolder.open(run).put("scores.json", b"{}")


def test_a_reader_that_comes_between_a_file_and_its_hash_waits(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = RunFolder.open(run)
    monkeypatch.setattr("newkinds.runs.folder._SETTLED", 60.0)  # the writer may be slow where much else goes on
    content = b'{"k": 3}\n'
    (run / "known.json").write_bytes(content)  # the file is there, its hash is not yet

    def finish() -> None:
        with RunFolder.open(run, writing=True) as writer:
            writer.put("known.json", content)

    threading.Timer(0.3, finish).start()
    assert reader.get("known.json") == content
    monkeypatch.undo()
    (run / "known.json").write_bytes(b"damaged")
    with pytest.raises(RunError, match="its hash differs"):
        reader.get("known.json")


def test_nothing_is_locked_or_logged_through_a_link(run: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    for name in (".lock", "log.jsonl"):
        (run / name).unlink()
        (run / name).symlink_to(precious)
    with pytest.raises(RunError, match="through links"):
        RunFolder.open(run, writing=True)
    (run / ".lock").unlink()
    with RunFolder.open(run, writing=True) as opened, pytest.raises(RunError, match="through links"):
        opened.log({"stage": "discover", "epoch": 0})
    assert precious.read_bytes() == b"mine"


def test_no_output_is_written_into_a_linked_folder(made: tuple[Path, tuple[Path, Path]], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = tmp_path / "run"
    started = RunFolder.start(run, CoreSettings(), {}, {})
    for folder in ("features", "model", "report", "snapshots", "checkpoint"):
        (run / folder).symlink_to(elsewhere)
        with pytest.raises(RunError, match="through links"):
            started.put(f"{folder}/x", b"")
    with pytest.raises(RunError, match="through links"):
        started.checkpoints()
    started.close()
    assert not list(elsewhere.iterdir())


def test_patience_is_limited() -> None:
    assert 1 <= lock.PATIENCE <= 60
