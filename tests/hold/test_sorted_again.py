"""`discover --again`, killed at any write and typed again, sorts once: with the bytes of one that nobody killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from damage import QUIET, Killed, contents, discover

import newkinds as nk
from newkinds.runs.folder import RunFolder
from newkinds.runs.journal import Journal
from pictures import write_embeddings

PROMISE = "A command that is killed at any moment, and typed again, ends with the same bytes"


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run that somebody has moved a picture in."""
    folder = tmp_path_factory.mktemp("spoken")
    again(folder, again=False)
    found = nk.load(folder / "run")
    said = {"do": "move", "pictures": list(found.names[:3]), "to": "new:2"}
    nk.journal(folder / "run", say=said, progress=QUIET)
    return folder


def again(folder: Path, *, again: bool = True) -> None:
    discover(write_embeddings(folder), folder / "run", kinds=3, rehearsals=0, page=False, again=again)


def ended(run: Path) -> dict[str, Any]:
    """Return the files of a run, but of the journal what was said and not when, and of run.json its outputs."""
    files: dict[str, Any] = dict(contents(run))
    files["journal.jsonl"] = [json.loads(line).get("said") for line in files["journal.jsonl"].splitlines()]
    about = json.loads(files["run.json"])
    files["run.json"] = {key: about[key] for key in ("outputs", "follows", "said") if key in about}
    return files


def killed_at(write: int, folder: Path) -> bool:
    """Sort again, killed just before a write (from 0) or, where there are fewer, not at all; return whether it was."""
    done = 0

    def counted(real: Any) -> Any:
        def one(*given: Any) -> Any:
            nonlocal done
            if done == write:
                raise Killed
            done += 1
            return real(*given)

        return one

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "_write", counted(RunFolder._write))
        patch.setattr(Journal, "_append", counted(Journal._append))
        try:
            again(folder)
        except Killed:
            return True
    return False


@pytest.mark.promise(PROMISE)
def test_again_sorts_once_whenever_it_is_killed(spoken: Path, tmp_path: Path) -> None:
    run = spoken / "run"
    shutil.copytree(run, tmp_path / "begun")
    again(spoken)
    whole, write = ended(run), 0
    assert whole["kinds.csv"] != contents(tmp_path / "begun")["kinds.csv"]
    again(spoken)
    assert ended(run) == whole  # nothing was said since
    while True:
        shutil.rmtree(run)
        shutil.copytree(tmp_path / "begun", run)
        if not killed_at(write, spoken):
            break
        again(spoken)
        assert ended(run) == whole, f"killed before write {write}"
        write += 1
    assert write > 5
