"""The cache file: when pictures go to one, when it is used, and what becomes of a damaged one."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import picture, shop
from numpy.typing import NDArray

from newkinds.cache import cache_folder
from newkinds.errors import DataError
from newkinds.images import decoding, imageset
from newkinds.images.decode import decode
from newkinds.images.decoding import Decoding
from newkinds.images.scan import scan
from newkinds.images.store import Shape, load, open_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two classes of three pictures, a broken one among them, and strays."""
    return shop(tmp_path)


def test_a_set_over_the_limit_is_memory_mapped(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    in_memory = open_images(folder, labelled=True, cache_dir=cache)
    assert not cache.exists()
    mapped = open_images(folder, labelled=True, memory_mb=0, cache_dir=cache)
    assert isinstance(mapped.pixels.base, np.memmap)
    assert (mapped.pixels == in_memory.pixels).all()
    assert replace(mapped, pixels=in_memory.pixels, labels=None) == replace(in_memory, labels=None)
    assert [path.suffix for path in cache.iterdir()] == [".pixels"]


def test_the_limit_is_in_megabytes(folder: Path, tmp_path: Path) -> None:
    for size, mapped in ((295, False), (296, True)):  # four files of 3 * 295 * 295 bytes are just under 2^20
        images = open_images(folder / "mugs", size=size, memory_mb=1, cache_dir=tmp_path / "cache")
        assert isinstance(images.pixels.base, np.memmap) == mapped


def test_a_present_cache_is_used_without_decoding(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_images(folder, labelled=True, memory_mb=0, cache_dir=tmp_path / "cache")
    monkeypatch.setattr(decoding, "decode", lambda *_, **__: pytest.fail("decoded again"))
    monkeypatch.setattr(imageset, "pixel_digest", lambda _: pytest.fail("all pixels read again"))
    second = open_images(folder, labelled=True, memory_mb=0, cache_dir=tmp_path / "cache")
    assert (first.pixels == second.pixels).all()
    assert (first.names, first.skipped, first.fingerprint) == (second.names, second.skipped, second.fingerprint)


def cache_files(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()}


def test_the_cache_depends_on_content_names_and_options(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    options: dict[str, Any] = {"memory_mb": 0, "cache_dir": cache}
    open_images(folder, **options)
    open_images(folder, **options)
    assert len(cache_files(cache)) == 1
    for change in ({"size": 9}, {"channels": 1}, {"fit": "squash"}, {"labelled": True}, {"max_pixels": 10_000}):
        before = cache_files(cache)
        open_images(folder, **options, **change)
        assert len(cache_files(cache) - before) == 1, change
    before = cache_files(cache)
    (folder / "mugs" / "0.png").write_bytes(picture(77))
    changed = open_images(folder, **options)
    assert len(cache_files(cache) - before) == 1
    assert (changed.pixels[3] == decode(picture(77), size=12, channels=3)).all()
    before = cache_files(cache)
    (folder / "mugs" / "0.png").rename(folder / "mugs" / "00.png")
    open_images(folder, **options)
    assert len(cache_files(cache) - before) == 1


@pytest.mark.parametrize("damage", ["cut", "grown", "empty", "magic", "key", "length", "pixel", "digest", "dropped"])
def test_a_damaged_cache_is_written_again(folder: Path, tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    expected = np.array(open_images(folder, memory_mb=0, cache_dir=cache).pixels)
    (path,) = cache.iterdir()
    good = path.read_bytes()
    path.write_bytes(
        {
            "cut": good[: len(good) // 2],
            "grown": b"x" + good,
            "empty": b"",
            "magic": good[:-8] + b"oldkinds",
            "key": good.replace(path.stem.encode(), b"0" * 32),
            "length": good[:-16] + b"\xff" * 8 + good[-8:],
            "pixel": bytes([good[0] ^ 1]) + good[1:],
            "digest": good.replace(b'"digest": "', b'"digest": "0', 1)[: len(good)],
            "dropped": good.replace(b"broken.png", b"bro&en.png"),
        }[damage]
    )
    assert (open_images(folder, memory_mb=0, cache_dir=cache).pixels == expected).all()
    assert path.read_bytes() == good


def test_writing_to_mapped_pixels_does_not_reach_the_file(folder: Path, tmp_path: Path) -> None:
    images = open_images(folder, memory_mb=0, cache_dir=tmp_path / "cache")
    images.pixels[:] = 0
    assert open_images(folder, memory_mb=0, cache_dir=tmp_path / "cache").pixels.any()


def test_a_failure_leaves_no_partial_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> NDArray[np.uint8]:
        raise KeyboardInterrupt

    monkeypatch.setattr(decoding, "decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_images(folder, memory_mb=0, cache_dir=tmp_path / "cache", workers=1)
    assert cache_files(tmp_path / "cache") == set()


def test_partial_files_of_killed_processes_are_removed_after_a_day(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    old, new, mine = f".tmp-newkinds-{'a' * 16}", f".tmp-newkinds-{'b' * 16}", ".tmp-newkinds-mine"
    for name, age in ((old, 100_000), (new, 100), (mine, 100_000)):
        (cache / name).write_bytes(b"x")
        os.utime(cache / name, (time.time() - age, time.time() - age))
    open_images(folder, memory_mb=0, cache_dir=cache)
    assert not (cache / old).exists()
    assert (cache / new).exists()
    assert (cache / mine).exists()


def test_a_cache_that_cannot_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="over memory_mb=0, and the cache") as caught:
        open_images(folder, memory_mb=0, cache_dir=tmp_path / "file" / "cache")
    assert "NEWKINDS_CACHE" in caught.value.hint
    monkeypatch.setattr(decoding.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 5}))
    with pytest.raises(DataError, match="it has room for 0 MB"):
        open_images(folder, memory_mb=0, cache_dir=tmp_path / "cache")


def test_a_file_that_changes_while_it_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Decoding.hash_all

    def then_changed(self: Any) -> list[str]:
        hashes: list[str] = original(self)
        (folder / "mugs" / "1.png").write_bytes(picture(5))
        return hashes

    monkeypatch.setattr(Decoding, "hash_all", then_changed)
    with pytest.raises(DataError, match=r"1\.png changed while it was read"):
        open_images(folder, memory_mb=0, cache_dir=tmp_path / "cache")
    assert cache_files(tmp_path / "cache") == set()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NEWKINDS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "newkinds"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/xdg")
    assert cache_folder() == Path("/var/xdg/newkinds")
    monkeypatch.setenv("NEWKINDS_CACHE", "/var/mine")
    assert cache_folder() == Path("/var/mine")
    monkeypatch.setenv("NEWKINDS_CACHE", "")
    assert cache_folder() is None


def test_the_default_cache_is_used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "mine"))
    load(scan(folder), Shape(8, 3), sorted_into_folders=False, memory_mb=0)
    assert len(cache_files(tmp_path / "mine")) == 1
