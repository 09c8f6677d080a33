"""Files that are either whole or not there."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import newkinds.files as module
from newkinds.files import digest, remove_leftovers, write_atomic


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

        def spy(*given: Any) -> Any:
            calls.append(name)
            if calls == ["fsync"]:  # by then all is written
                assert os.fstat(given[0]).st_size == 4
            return own(*given)

        return spy

    for name in ("fsync", "replace"):
        monkeypatch.setattr(module.os, name, spied(name))
    write_atomic(tmp_path / "a", b"data")
    assert calls == ["fsync", "replace", "fsync"]


def test_nothing_is_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    monkeypatch.setattr(module.secrets, "token_hex", lambda n: "guessed")
    (tmp_path / f"{module.TEMPORARY}guessed").symlink_to(precious)
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

    def fail(*given: Any) -> None:
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


def test_remove_leftovers_takes_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in (".tmp-newkinds-a", "deep/.tmp-newkinds-b", "deep/kept.tmp", "tmp-kept", ".lock"):
        (tmp_path / name).write_text("")
    (tmp_path / ".tmp-newkinds-folder").mkdir()
    remove_leftovers(tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == [".lock", ".tmp-newkinds-folder", "deep", "deep/kept.tmp", "tmp-kept"]


def test_digest_is_sha256() -> None:
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest(b"abc") == hashlib.sha256(b"abc").hexdigest()
