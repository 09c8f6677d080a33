"""A folder with everything that people and systems leave in folders."""

from __future__ import annotations

import builtins
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds.errors import DataError, UsageError
from newkinds.images.decode import encode
from newkinds.images.imageset import Skipped
from newkinds.images.scan import MAX_BYTES, in_threads, printable, read_file, scan
from newkinds.progress import QUIET, Progress, Step

GREY = encode(np.arange(48, dtype=np.uint8).reshape(1, 6, 8), "png")
COLOUR = encode(np.arange(60, dtype=np.uint8).reshape(3, 4, 5), "png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three pictures."""
    root = tmp_path / "pictures"
    (root / "cats" / "big").mkdir(parents=True)
    (root / "one.png").write_bytes(GREY)
    (root / "cats" / "two.png").write_bytes(COLOUR)
    (root / "cats" / "big" / "three.dat").write_bytes(COLOUR)  # what a file is called does not matter
    return root


def names(root: Path, **options: Any) -> list[str]:
    return [one.name for one in scan(root, **options).found]


def reasons(root: Path, **options: Any) -> dict[str, str]:
    skipped = scan(root, **options).skipped
    assert len({one.name for one in skipped}) == len(skipped)
    return {one.name: one.reason for one in skipped}


def test_what_is_found(folder: Path) -> None:
    result = scan(str(folder))
    assert result.root == folder
    assert result.skipped == ()
    assert [(one.name, one.width, one.height, one.channels) for one in result.found] == [
        ("cats/big/three.dat", 5, 4, 3),
        ("cats/two.png", 5, 4, 3),
        ("one.png", 8, 6, 1),
    ]
    assert result.found[0].path == folder / "cats" / "big" / "three.dat"


def test_the_order_is_that_of_code_points(folder: Path) -> None:
    for name in ("B.png", "a.png", "Z.png", "ä.png", "cats.png", "cats!.png", "10.png", "9.png"):
        (folder / name).write_bytes(GREY)
    found = names(folder)
    assert found == sorted(found)
    assert found[:3] == ["10.png", "9.png", "B.png"]
    assert found.index("cats!.png") < found.index("cats.png") < found.index("cats/two.png")
    assert found[-1] == "ä.png"
    for workers in (1, 3, 8):
        assert names(folder, workers=workers) == found


def test_hidden_and_system_files(folder: Path) -> None:
    (folder / ".git").mkdir()
    for name in (".git/picture.png", ".DS_Store", "._one.png", "Thumbs.db", "desktop.ini"):
        (folder / name).write_bytes(GREY)
    assert reasons(folder) == {
        ".git": "hidden folder",
        ".DS_Store": "hidden file",
        "._one.png": "hidden file",
        "Thumbs.db": "hidden file",
        "desktop.ini": "hidden file",
    }
    assert len(names(folder)) == 3


def test_files_that_are_not_pictures(folder: Path) -> None:
    (folder / "empty.png").touch()
    (folder / "notes.txt").write_text("buy milk")
    (folder / "named.jpg").write_bytes(b"GIF90a nonsense")
    assert reasons(folder) == {
        "empty.png": "empty file",
        "notes.txt": "not a JPEG, PNG, WebP, BMP, GIF or TIFF picture",
        "named.jpg": "not a JPEG, PNG, WebP, BMP, GIF or TIFF picture",
    }


def test_special_files_are_never_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "pipe.png")  # opening it would wait forever
    (folder / "to-pipe.png").symlink_to(folder / "pipe.png")
    monkeypatch.chdir(folder)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("door.png")
        found = reasons(folder)
    assert found == {
        "pipe.png": "not a file but a pipe",
        "to-pipe.png": "not a file but a pipe",
        "door.png": "not a file but a socket",
    }


def test_a_device_is_not_opened(folder: Path) -> None:
    (folder / "zero.png").symlink_to("/dev/zero")
    assert reasons(folder) == {"zero.png": "not a file but a device"}


def test_links(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.png").write_bytes(GREY)
    (folder / "linked.png").symlink_to(tmp_path / "elsewhere.png")
    (folder / "nowhere.png").symlink_to(tmp_path / "missing.png")
    (folder / "circle.png").symlink_to(folder / "circle.png")
    (folder / "dogs").symlink_to(folder / "cats")
    (folder / "cats" / "up").symlink_to(folder)
    assert reasons(folder) == {
        "nowhere.png": "link that leads nowhere",
        "circle.png": "link that leads nowhere",
        "dogs": "link to a folder, not followed",
        "cats/up": "link to a folder, not followed",
    }
    assert names(folder) == ["cats/big/three.dat", "cats/two.png", "linked.png", "one.png"]


def test_a_root_that_is_a_link_is_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert len(names(tmp_path / "link")) == 3


def test_names_that_are_not_utf_8(folder: Path) -> None:
    raw = os.path.join(os.fsencode(folder), b"caf\xe9.png")
    with open(raw, "wb") as stream:
        stream.write(GREY)
    with open(os.path.join(os.fsencode(folder), b"bad\xff.txt"), "wb") as stream:
        stream.write(b"text")
    (folder / "line\nbreak\x1b.png").write_bytes(GREY)
    result = scan(folder)
    assert [one.name for one in result.found] == [
        "caf\\xe9.png",
        "cats/big/three.dat",
        "cats/two.png",
        "line\\x0abreak\\x1b.png",
        "one.png",
    ]
    assert os.fsencode(result.found[0].path) == raw
    assert [one.name for one in result.skipped] == ["bad\\xff.txt"]
    for name in [one.name for one in result.found] + [one.name for one in result.skipped]:
        name.encode("utf-8")


def test_names_that_are_the_same_in_print(folder: Path) -> None:
    with open(os.path.join(os.fsencode(folder), b"caf\xe9.png"), "wb") as stream:
        stream.write(GREY)
    (folder / "caf\\xe9.png").write_bytes(GREY)
    assert names(folder).count("caf\\xe9.png") == 1
    assert reasons(folder) == {"caf\\xe9.png": "another file has the same name in print"}


def test_printable() -> None:
    assert printable("Grüße 日本\u3000.png") == "Grüße 日本\u3000.png"
    assert printable("a\tb\x7f\udcff\ud800") == "a\\x09b\\x7f\\xff\\ud800"


def test_a_tree_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    limit = sys.getrecursionlimit()
    folders = [str(tmp_path / "deep")]
    for _ in range(500):
        os.mkdir(folders[-1])
        folders.append(folders[-1] + "/d")
    picture = Path(folders.pop()).with_name("x.png")
    picture.write_bytes(GREY)
    try:
        sys.setrecursionlimit(450)
        assert names(tmp_path / "deep", workers=1) == ["d/" * 499 + "x.png"]
    finally:
        sys.setrecursionlimit(limit)


def test_verify_finds_what_the_header_hides(folder: Path) -> None:
    (folder / "cut.png").write_bytes(GREY[:-30])
    assert "cut.png" in names(folder)
    result = scan(folder, verify=True)
    assert "cut.png" not in [one.name for one in result.found]
    assert [(one.name, one.reason[:9]) for one in result.skipped] == [("cut.png", "cut short")]
    assert len(result.found) == 3


def test_the_pixel_limit_is_passed_on(folder: Path) -> None:
    assert names(folder, max_pixels=20) == ["cats/big/three.dat", "cats/two.png"]
    assert reasons(folder, max_pixels=20) == {"one.png": "8 x 6 is 48 pixels, over the limit of 20"}


def test_enormous_files_are_not_read(folder: Path) -> None:
    with open(folder / "film.png", "wb") as stream:
        stream.truncate(MAX_BYTES + 1)  # takes no room on the disk
    assert reasons(folder) == {"film.png": "larger than 1,073,741,824 bytes"}


def test_roots_that_cannot_be_scanned(folder: Path) -> None:
    with pytest.raises(DataError, match="does not exist") as caught:
        scan(folder / "missing")
    assert caught.value.hint
    with pytest.raises(DataError, match="is a file, not a folder") as caught:
        scan(folder / "one.png")
    assert caught.value.hint


def test_an_empty_folder_is_not_an_error(tmp_path: Path) -> None:
    assert scan(tmp_path).found == ()


def deny(monkeypatch: pytest.MonkeyPatch, module: Any, function: str, denied: Path) -> None:
    """Let `module.function` fail for one path as it does without permission, which the superuser always has."""
    original: Callable[..., Any] = getattr(module, function)

    def denying(path: Any, *args: Any, **options: Any) -> Any:
        if isinstance(path, (str, Path)) and Path(path) == denied:
            raise PermissionError(13, "Permission denied", str(path))
        return original(path, *args, **options)

    monkeypatch.setattr(module, function, denying)


def test_without_permission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deny(monkeypatch, builtins, "open", folder / "one.png")
    deny(monkeypatch, os, "scandir", folder / "cats" / "big")
    assert names(folder) == ["cats/two.png"]
    assert reasons(folder) == {
        "one.png": "cannot be read (Permission denied)",
        "cats/big": "folder cannot be read (Permission denied)",
    }
    deny(monkeypatch, os, "scandir", folder)
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)") as caught:
        scan(folder)
    assert str(folder) in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_without_permission_for_real(folder: Path) -> None:
    (folder / "one.png").chmod(0)
    (folder / "cats" / "big").chmod(0)
    try:
        assert set(reasons(folder)) == {"one.png", "cats/big"}
    finally:
        (folder / "cats" / "big").chmod(0o700)


def test_a_file_that_goes_away_while_it_is_read(folder: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read \(No such file"):
        read_file(folder / "gone.png")


def test_nothing_is_changed(folder: Path) -> None:
    def state() -> list[tuple[str, int, int, bytes]]:
        files = sorted(path for path in folder.rglob("*"))
        return [
            (str(path), path.stat().st_mtime_ns, path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in files
        ]

    (folder / "cut.png").write_bytes(GREY[:-30])
    before = state()
    scan(folder, verify=True)
    assert state() == before


class Recorder(Progress):
    """Remember what was shown."""

    def __init__(self) -> None:
        super().__init__("quiet")
        self.seen: list[tuple[str, int, int]] = []

    def _shown(self, step: Step) -> None:
        self.seen.append((step.title, step.done, step.total))


def test_progress_is_shown(folder: Path) -> None:
    recorder = Recorder()
    scan(folder, progress=recorder)
    assert recorder.seen[-1] == ("Reading headers", 3, 3)
    scan(folder, verify=True, progress=recorder)
    assert recorder.seen[-1] == ("Checking pictures", 3, 3)


def test_in_threads_keeps_the_order_and_stays_a_bounded_way_ahead() -> None:
    started, lock = 0, threading.Lock()

    def work(item: int) -> int:
        nonlocal started
        with lock:
            started += 1
        return item * item

    results = in_threads(work, range(1000), 2, "work", QUIET)
    assert next(results) == 0
    time.sleep(0.2)  # long enough for all of it, were all of it submitted
    assert started <= 200
    assert [0, *results] == [item * item for item in range(1000)]
    assert list(in_threads(work, [], 2, "work", QUIET)) == []


def test_in_threads_passes_errors_on() -> None:
    def work(item: int) -> int:
        if item == 40:
            raise DataError("forty")
        return item

    with pytest.raises(DataError, match="forty"):
        list(in_threads(work, range(1000), 3, "work", QUIET))
    with pytest.raises(UsageError, match="workers=0"):
        list(in_threads(work, range(10), 0, "work", QUIET))


def test_skipped_is_the_sets_own_class(folder: Path) -> None:
    (folder / "notes.txt").write_text("x")
    assert isinstance(scan(folder).skipped[0], Skipped)
