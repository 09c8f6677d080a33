"""Files that are either whole or not there."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import newkinds.files as module
from newkinds.errors import RunError
from newkinds.files import digest, open_plain, remove_leftovers, replacing, sealed, unsealed, write_atomic


def test_writes_and_overwrites(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    for data in (b"first", b"", b"x" * 300_000):
        write_atomic(file, data)
        assert file.read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]
    assert file.stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_order_is_write_sync_move_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def spied(name: str) -> Callable[..., Any]:
        own = getattr(os, name)

        def spy(*given: Any, **options: Any) -> Any:
            calls.append(name)
            if calls == ["fsync"]:  # by then all is written
                assert os.fstat(given[0]).st_size == 4
            return own(*given, **options)

        return spy

    for name in ("fsync", "replace"):
        monkeypatch.setattr(module.os, name, spied(name))
    write_atomic(tmp_path / "a", b"data")
    assert calls == ["fsync", "replace", "fsync"]


def test_nothing_is_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    monkeypatch.setattr(module.secrets, "token_hex", lambda n: "guessed")
    (tmp_path / f"{module.TEMPORARY}{digest(b'a')[:16]}-guessed").symlink_to(precious)
    with pytest.raises(FileExistsError):
        write_atomic(tmp_path / "a", b"new")
    assert precious.read_bytes() == b"mine"


class Full(io.FileIO):
    """A file on a disk that is full."""

    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failure_leaves_the_old_file(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    write_atomic(file, b"old")

    def fail(*given: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    if step == "write":
        monkeypatch.setattr(module, "open", lambda *given: Full(*given), raising=False)
    else:
        monkeypatch.setattr(module.os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(file, b"new")
    assert file.read_bytes() == b"old"
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    write_atomic(file, b"new")
    assert file.read_bytes() == b"new"


def killed_while_writing(file: Path) -> Path:
    """Kill a process that has half written a file; return what it left."""
    before = set(file.parent.iterdir())
    child = os.fork()
    if child == 0:
        with replacing(file) as stream:
            stream.write(b"half")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (left,) = set(file.parent.iterdir()) - before
    return left


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "a"
    left, of_another = killed_while_writing(file), killed_while_writing(tmp_path / "b")
    mine = tmp_path / f"{left.name}-mine"
    mine.write_bytes(b"mine")
    linked = left.with_name(f"{left.name[:-16]}{'0' * 16}")
    linked.symlink_to(mine)
    with replacing(file) as stream:
        assert not left.exists()
        (being_written,) = set(tmp_path.iterdir()) - {of_another, mine, linked}
        write_atomic(file, b"another's")
        assert being_written.exists()  # of a process that lives
        stream.write(b"whole")
    assert file.read_bytes() == b"whole"
    assert set(tmp_path.iterdir()) == {file, of_another, mine, linked}


def test_a_file_that_was_taken_for_abandoned_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, calls = module.fcntl.flock, []

    def too_late(descriptor: int, how: int) -> None:
        if not calls:
            (left,) = tmp_path.iterdir()
            left.unlink()
        calls.append(how)
        own(descriptor, how)

    monkeypatch.setattr(module.fcntl, "flock", too_late)
    write_atomic(tmp_path / "a", b"new")
    assert len(calls) == 2
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]


def test_remove_leftovers_takes_nothing_else(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = tmp_path / "run"
    (folder / "deep").mkdir(parents=True)
    ours, mine = (
        f".tmp-newkinds-{'0123456789abcdef'}-{'0123456789abcdef'}",
        (".tmp-newkinds-a", ".tmp-a", "deep/kept.tmp", "tmp-kept", ".lock"),
    )
    for name in (ours, f"deep/{ours}", *mine):
        (folder / name).write_text("")
    (folder / f"{ours[:-1]}0").mkdir()
    (folder / f"{ours[:-1]}1").symlink_to(folder / "tmp-kept")
    (elsewhere / ours).write_text("")
    (folder / "linked").symlink_to(elsewhere)
    remove_leftovers(folder)
    left = {str(path.relative_to(folder)) for path in folder.rglob("*")} - {f"linked/{ours}"}
    assert left == {*mine, "deep", "linked", f"{ours[:-1]}0", f"{ours[:-1]}1"}
    assert (elsewhere / ours).exists()


def test_a_link_is_replaced_and_one_on_the_way_refused(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (elsewhere / "precious").write_bytes(b"mine")
    (root / "a").symlink_to(elsewhere / "precious")
    (root / "model").symlink_to(elsewhere)
    (root / "file").write_bytes(b"")
    write_atomic(root / "a", b"new", root=root)
    assert not (root / "a").is_symlink()
    for name in ("model/weights", "model/deep/weights", "file/weights"):
        with pytest.raises(RunError, match="through links") as caught:
            write_atomic(root / name, b"new", root=root)
        assert caught.value.hint
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == {"precious": b"mine"}
    write_atomic(root / "new" / "deep" / "b", b"new", root=root)
    assert (root / "new" / "deep" / "b").read_bytes() == b"new"
    # What the user gives may be a link.
    (tmp_path / "runs").symlink_to(root)
    write_atomic(tmp_path / "runs" / "c", b"new")
    assert (root / "c").read_bytes() == b"new"


def test_the_folder_is_opened_once(tmp_path: Path) -> None:
    root = tmp_path / "run"
    (root / "model").mkdir(parents=True)
    with replacing(root / "model" / "weights", root) as stream:
        stream.write(b"new")
        (root / "model").rename(tmp_path / "was")
        (tmp_path / "elsewhere").mkdir()
        (root / "model").symlink_to(tmp_path / "elsewhere")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [path.name for path in (tmp_path / "was").iterdir()] == ["weights"]


@pytest.mark.parametrize("what", ["link", "loose link", "pipe", "folder"])
def test_only_plain_files_are_opened_to_be_written(what: str, tmp_path: Path) -> None:
    file, precious = tmp_path / "log", tmp_path / "precious"
    precious.write_bytes(b"mine")
    if what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    else:
        file.symlink_to(precious if what == "link" else tmp_path / "nowhere")
    with pytest.raises((RunError, OSError)):
        open_plain(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    assert precious.read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_seal_notices_every_change_of_a_value() -> None:
    values = {"a": [1, 2.5, None], "b": {"c": "d"}}
    data = sealed(values)
    assert unsealed(data) == values
    assert unsealed(json.dumps(values).encode()) == values  # of an earlier version
    refused = 0
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            found = unsealed(changed)
        except ValueError:
            refused += 1
        else:
            assert {key: found.get(key) for key in values} == values
    assert refused > len(data) / 2
    for junk in (b"", b"[]", b"null", b"\xff", b"[" * 100_000):
        with pytest.raises(ValueError, match=r".*"):
            unsealed(junk)


def test_digest_is_sha256() -> None:
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest(b"abc") == hashlib.sha256(b"abc").hexdigest()


def test_what_is_no_file_is_left_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(RunError, match=f"{name} is a folder, a pipe or a device"):
            write_atomic(tmp_path / name, b"new")
    assert (tmp_path / "pipe").is_fifo()
