"""The run folder: continued by the same run only, by one process at a time, and never half-written."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import newkinds.runs.folder as module
from newkinds.configure import Settings, make_settings
from newkinds.errors import RunError, UsageError
from newkinds.files import digest, sealed, unsealed
from newkinds.progress import Progress
from newkinds.runs import RunFolder
from newkinds.runs.about import LAYOUT
from newkinds.runs.claim import flat
from newkinds.runs.folder import CHECKPOINT_SECONDS
from newkinds.settings.files import read_toml
from newkinds.version import __version__

DATA = {"known": {"fingerprint": "k", "pictures": 9}, "unsorted": {"fingerprint": "u", "pictures": 7}, "weights": None}
LEFT = ".tmp-newkinds-0123456789abcdef"  # by a killed process
SOURCES = {"known": "photos/known", "unsorted": "photos/unsorted"}
LOCK_IT = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def start(path: Path, settings: Settings | None = None, data: dict[str, Any] | None = None, **given: Any) -> RunFolder:
    return RunFolder.start(path, settings or Settings(), data or DATA, given.pop("sources", SOURCES), **given)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    made = start(tmp_path / "run")
    yield made
    made.close()


def change_about(path: Path, **changes: Any) -> None:
    """Change values of run.json as its owner does; None takes one out."""
    about = unsealed((path / "run.json").read_bytes()) | changes
    (path / "run.json").write_bytes(sealed({key: value for key, value in about.items() if value is not None}))


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# A new run, and the same again


def test_a_new_run_keeps_all_settings(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run"
    chosen = Settings().with_changes({"seed": 5, "discover.epochs": 7})
    made = start(path, chosen)
    assert make_settings(read_toml(path / "settings.toml")) == chosen == made.settings
    about = unsealed((path / "run.json").read_bytes())
    assert about.pop("threads") == made.threads == torch.get_num_threads()
    assert about.pop("settings") == digest((path / "settings.toml").read_bytes())
    own = {"version": __version__, "layout": LAYOUT, "data": DATA, "sources": SOURCES}
    assert about == {**own, "outputs": {}, "log": {}}
    assert made.sources == SOURCES
    assert made.version == __version__
    assert {entry.name for entry in path.iterdir()} == {".lock", "settings.toml", "run.json"}
    made.close()


def test_the_same_again_goes_on(tmp_path: Path) -> None:
    first = start(tmp_path / "run")
    first.log({"stage": "discover", "epoch": 0, "loss": 1.0})
    first.put("kinds.csv", b"path,kind\n")
    first.close()
    before = everything(tmp_path / "run")
    second = start(tmp_path / "run")
    assert second.has("kinds.csv")
    assert second.get("kinds.csv") == b"path,kind\n"
    assert second.history() == [{"stage": "discover", "epoch": 0, "loss": 1.0}]
    second.close()
    assert everything(tmp_path / "run") == before


def test_the_data_may_have_moved(tmp_path: Path) -> None:
    start(tmp_path / "run").close()
    again = start(tmp_path / "run", sources={"known": "/elsewhere", "unsorted": "/there"})
    again.close()
    assert RunFolder.open(tmp_path / "run").sources == {"known": "/elsewhere", "unsorted": "/there"}


def test_other_settings_or_data_are_refused_with_the_keys(tmp_path: Path) -> None:
    start(tmp_path / "run").close()
    before = everything(tmp_path / "run")
    other = Settings().with_changes({"seed": 1, "discover.learning_rate": 0.5, "kinds": 4})
    data = {**DATA, "unsorted": {"fingerprint": "x", "pictures": 7}, "weights": "w"}
    with pytest.raises(UsageError) as caught:
        start(tmp_path / "run", other, data)
    message = caught.value.message
    rate = Settings().discover.learning_rate
    for part in (
        "seed (0 there, 1 now)",
        f"discover.learning_rate ({rate!r} there, 0.5 now)",
        "kinds ('auto' there, 4 now)",
        "data.unsorted.fingerprint ('u' there, 'x' now)",
        "data.weights (None there, 'w' now)",
    ):
        assert part in message
    assert message.count(" there, ") == 5  # and nothing that is equal
    assert "--out" in caught.value.hint
    assert everything(tmp_path / "run") == before


def test_every_setting_counts(tmp_path: Path) -> None:
    start(tmp_path / "run").close()
    for key, value in (("pretrain.milestones", (3,)), ("count.unit_length", False), ("images.fit", "squash")):
        with pytest.raises(UsageError, match=key.replace(".", r"\.")):
            start(tmp_path / "run", Settings().with_changes({key: value}))
    # Values that TOML and JSON write otherwise are still the same.
    chosen = Settings().with_changes({"pretrain.milestones": (3, 5)})
    start(tmp_path / "other", chosen).close()
    start(tmp_path / "other", chosen).close()


def test_a_run_of_another_version_goes_on_with_a_warning(tmp_path: Path) -> None:
    start(tmp_path / "run").close()
    change_about(tmp_path / "run", version="0.0.0")
    said = io.StringIO()
    again = start(tmp_path / "run", progress=Progress("quiet", said))
    again.close()
    assert "started by newkinds 0.0.0" in said.getvalue().replace("\n", " ")
    assert again.version == "0.0.0"


# One process at a time


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    start(path).close()
    command = [sys.executable, "-c", LOCK_IT, str(path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(RunError, match="Another process is working in") as caught:
            start(path)
        assert str(path) in caught.value.message
        assert caught.value.hint
        RunFolder.open(path)  # reading is allowed
        other.communicate()
    start(path).close()


def test_a_second_start_in_the_same_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    first = start(tmp_path / "run")
    with pytest.raises(RunError, match="Another process"):
        start(tmp_path / "run")
    first.close()
    first.close()  # twice does no harm
    start(tmp_path / "run").close()


def test_a_refused_start_lets_go_of_the_folder(tmp_path: Path) -> None:
    start(tmp_path / "run").close()
    with pytest.raises(UsageError) as caught:
        start(tmp_path / "run", Settings(seed=1))
    assert caught.value  # still held, with its traceback
    start(tmp_path / "run").close()


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "run"
    start(path).close()
    command = [sys.executable, "-c", LOCK_IT, str(path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        other.kill()
    start(path).close()


# Folders that are not a run's


def test_a_folder_of_others_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".tmp-precious").write_text("not ours")
    (tmp_path / "photo.jpg").write_text("not ours")
    with pytest.raises(RunError, match="is not empty and is not a run folder") as caught:
        start(tmp_path)
    assert "--out" in caught.value.hint
    assert everything(tmp_path) == {"photo.jpg": b"not ours", "sub/.tmp-precious": b"not ours"}


@pytest.mark.parametrize("name", ["settings.toml", ".tmp-mine", "log.jsonl"])
def test_a_lone_file_is_not_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("seed = 3\n")
    with pytest.raises(RunError, match="is not a run folder"):
        start(tmp_path)
    assert everything(tmp_path) == {name: b"seed = 3\n"}


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    start(tmp_path).close()
    assert (tmp_path / "run.json").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"version": "1"}', b"\xff\xfe", b"null"])
def test_a_damaged_run_json_is_refused(content: bytes, tmp_path: Path) -> None:
    start(tmp_path / "run").close()
    (tmp_path / "run" / "run.json").write_bytes(content)
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        start(tmp_path / "run")
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        RunFolder.open(tmp_path / "run")


def test_opening_what_is_no_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(RunError, match="is not a run folder") as caught:
            RunFolder.open(path)
        assert "--out RUN" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / "file" / "deep" / "run"):
        with pytest.raises(RunError, match="cannot be written") as caught:
            start(path)
        assert str(path) in caught.value.message
        assert "--out" in caught.value.hint
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    for path in (locked, locked / "run"):
        with pytest.raises(RunError, match="cannot be written"):
            start(path)


# Kills


def test_killed_between_settings_and_run_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"

    class Killed(BaseException):
        pass

    own = module.write_atomic

    def die_before_run_json(file: Path, data: bytes) -> None:
        if file.name == "run.json":
            file.with_name(LEFT).write_bytes(data[:5])
            raise Killed
        own(file, data)

    monkeypatch.setattr(module, "write_atomic", die_before_run_json)
    with pytest.raises(Killed):
        start(path, Settings(seed=3))
    assert {entry.name for entry in path.iterdir()} == {".lock", "settings.toml", LEFT}
    monkeypatch.undo()
    # Nothing was begun yet, so that other settings are no contradiction.
    made = start(path, Settings(seed=4))
    assert made.settings.seed == 4
    made.close()
    assert {entry.name for entry in path.iterdir()} == {".lock", "settings.toml", "run.json"}


def test_killed_before_anything_was_written(tmp_path: Path) -> None:
    for names in ([".lock"], [".lock", LEFT], [".lock", "settings.toml"]):
        path = tmp_path / str(len(names)) / names[-1]
        path.mkdir(parents=True)
        for name in names:
            (path / name).write_text("")
        start(path, Settings(seed=2)).close()
        assert RunFolder.open(path).settings.seed == 2


def test_leftovers_are_removed_when_the_run_goes_on(tmp_path: Path) -> None:
    first = start(tmp_path / "run")
    first.checkpoints()
    first.close()
    for name in (LEFT, f"checkpoint/{LEFT}"):
        (tmp_path / "run" / name).write_text("half")
    (tmp_path / "run" / ".tmp-mine").write_text("precious")
    start(tmp_path / "run").close()
    assert [path.name for path in (tmp_path / "run").rglob(".tmp-*")] == [".tmp-mine"]


def test_an_output_that_is_written_but_not_listed_is_redone(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_write_about", die)
    with pytest.raises(KeyboardInterrupt):
        run.put("count.json", b"{}")
    run.close()
    again = start(run.path)
    assert (run.path / "count.json").exists()
    assert not again.has("count.json")
    with pytest.raises(RunError, match="is not what the run wrote"):
        again.get("count.json")
    again.put("count.json", b"{}")
    assert again.has("count.json")
    again.close()


# Outputs


def test_outputs_come_back(run: RunFolder) -> None:
    run.put("kinds.csv", b"a,b\n")
    run.put_json("counted.json", {"k": 5, "curve": [0.1, None]})
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    run.put_array("features/unsorted.npy", array)
    for opened in (run, RunFolder.open(run.path)):
        assert all(opened.has(name) for name in ("kinds.csv", "counted.json", "features/unsorted.npy"))
        assert opened.get("kinds.csv") == b"a,b\n"
        assert opened.get_json("counted.json") == {"k": 5, "curve": [0.1, None]}
        again = opened.get_array("features/unsorted.npy")
        assert again.dtype == array.dtype
        assert (again == array).all()
    outputs = json.loads((run.path / "run.json").read_text())["outputs"]
    assert outputs["kinds.csv"] == digest(b"a,b\n")
    # Equal values give equal bytes.
    run.put_json("first.json", {"a": 1, "b": 2})
    run.put_json("second.json", {"b": 2, "a": 1})
    assert run.get("first.json") == run.get("second.json")


def test_tampered_outputs_are_noticed(run: RunFolder) -> None:
    run.put("kinds.csv", b"a,b\n")
    (run.path / "kinds.csv").write_bytes(b"a,c\n")
    assert not run.has("kinds.csv")
    with pytest.raises(RunError, match="its hash differs") as caught:
        run.get("kinds.csv")
    assert "again" in caught.value.hint
    run.put("kinds.csv", b"a,b\n")
    assert run.has("kinds.csv")


def test_outputs_that_are_missing(run: RunFolder) -> None:
    assert not run.has("kinds.csv")
    with pytest.raises(RunError, match=r"has no kinds\.csv yet"):
        run.get("kinds.csv")
    run.put("kinds.csv", b"")
    (run.path / "kinds.csv").unlink()
    assert not run.has("kinds.csv")
    with pytest.raises(RunError, match=r"kinds\.csv is missing") as caught:
        run.get("kinds.csv")
    assert "makes what is damaged anew" in caught.value.hint


def test_arrays_of_objects_are_neither_written_nor_read(run: RunFolder) -> None:
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        run.put_array("a.npy", np.array([{}], dtype=object))
    assert not run.has("a.npy")
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    run.put("a.npy", buffer.getvalue())
    with pytest.raises(RunError, match="allow_pickle"):
        run.get_array("a.npy")


# The log


def test_history_is_the_last_of_each_epoch_in_order(run: RunFolder) -> None:
    assert run.history() == []
    for stage, epoch, loss in (("pretrain", 0, 3.0), ("discover", 0, 1.0), ("discover", 1, 0.9), ("discover", 0, 0.5)):
        run.log({"stage": stage, "epoch": epoch, "loss": loss})
    assert [(record["stage"], record["epoch"], record["loss"]) for record in run.history()] == [
        ("pretrain", 0, 3.0),
        ("discover", 0, 0.5),
        ("discover", 1, 0.9),
    ]


@pytest.mark.parametrize(
    "torn", [b'{"stage": "disc', b'{"stage": "discover", "epoch": 2, "loss": 0.', b'{"kind": "\xe7']
)
def test_a_torn_line_does_not_spoil_the_next(torn: bytes, run: RunFolder) -> None:
    run.log({"stage": "discover", "epoch": 0})
    run.log({"stage": "discover", "epoch": 1})
    run.put("snapshots/0001.safetensors", b"")  # up to here the log is hashed
    run.close()
    log = run.path / "log.jsonl"
    log.write_bytes(log.read_bytes() + torn)
    assert [record["epoch"] for record in RunFolder.open(run.path).history()] == [0, 1]
    again = start(run.path)
    again.log({"stage": "discover", "epoch": 2})
    assert [record["epoch"] for record in again.history()] == [0, 1, 2]
    again.put("kinds.csv", b"")
    again.close()
    # A whole log is not touched.
    before = log.read_bytes()
    start(run.path).close()
    assert log.read_bytes() == before


# Odds and ends


def test_checkpoints_lie_in_the_folder_and_their_clock_can_be_set(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.checkpoints().folder == run.path / "checkpoint"
    assert not run.checkpoints().due()
    monkeypatch.setenv(CHECKPOINT_SECONDS, "0")
    assert run.checkpoints().due()


def test_flat() -> None:
    assert flat({"a": 1, "b": {"c": 2, "d": {"e": []}}, "f": {}}) == {"a": 1, "b.c": 2, "b.d.e": []}


@pytest.mark.parametrize("layout", [None, 1, 3])
def test_another_layout_is_refused_and_left_as_it_is(layout: int | None, tmp_path: Path) -> None:
    path = tmp_path / "run"
    start(path).close()
    change_about(path, version="0.0.9", layout=layout)
    before = everything(path)
    for call in (lambda: start(path), lambda: RunFolder.open(path)):
        with pytest.raises(RunError, match=rf"newkinds 0\.0\.9 in layout {layout or 1}; .* reads layout {LAYOUT}"):
            call()
    assert everything(path) == before


def test_an_array_is_memory_mapped_and_checked(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    run.put_array("features/x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    found = run.find_array("features/x.npy")
    assert found is not None
    assert isinstance(found.base, np.memmap)
    found[:] = 0  # reaches the file of neither this nor another run
    again = run.find_array("features/x.npy")
    assert again is not None
    assert again.tolist() == [[0, 1, 2], [3, 4, 5]]
    file = tmp_path / "run" / "features" / "x.npy"
    file.write_bytes(file.read_bytes()[:-4] + b"\1\2\3\4")
    assert run.find_array("features/x.npy") is None
    assert run.find_array("features/y.npy") is None
    run.close()
