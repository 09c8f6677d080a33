"""The cache that runs share: what is found in it, what is made anew, and that it never stands in the way."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

import newkinds as nk
from newkinds import cli
from newkinds.cache import Cache, emptied, open_cache, row_key, trim, usage
from newkinds.errors import UsageError
from newkinds.images import decoding
from newkinds.images.store import open_images
from newkinds.networks import build_network
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names

KEYS = [row_key(bytes([number])) for number in range(5)]
Make = Callable[[NDArray[np.int64]], NDArray[Any]]


def thrice(asked: list[int]) -> Make:
    """Return what makes three times its number in two columns, and notes what it was asked for."""

    def make(items: NDArray[np.int64]) -> NDArray[Any]:
        asked.extend(items.tolist())
        return np.stack([3 * items, items], axis=1).astype(np.float32)

    return make


EXPECTED = np.array([[0, 0], [3, 1], [6, 2], [9, 3], [12, 4]], np.float32)


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


def test_a_row_is_made_once(tmp_path: Path) -> None:
    asked: list[int] = []
    first = Cache(tmp_path).rows("features", "a", KEYS[:3], thrice(asked))
    again = Cache(tmp_path).rows("features", "a", KEYS[:3], thrice(asked))
    assert asked == [0, 1, 2]
    assert first.tobytes() == again.tobytes() == EXPECTED[:3].tobytes()


def test_only_new_rows_are_made_as_a_heap_grows(tmp_path: Path) -> None:
    asked: list[int] = []
    found: list[int] = []
    Cache(tmp_path).rows("features", "a", [KEYS[3], KEYS[1]], lambda items: EXPECTED[[3, 1]][items])
    rows = Cache(tmp_path).rows("features", "a", KEYS, thrice(asked), found=found.append)
    assert asked == [0, 2, 4]
    assert found == [2]
    assert rows.tobytes() == EXPECTED.tobytes()
    assert Cache(tmp_path).rows("features", "b", KEYS, thrice(asked)).shape == (5, 2)
    assert asked == [0, 2, 4, 0, 1, 2, 3, 4]  # another space


def test_rows_are_written_as_they_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["newkinds.cache"], "MOST_ROWS", 2)

    def make(items: NDArray[np.int64]) -> NDArray[Any]:
        if 4 in items:
            raise KeyboardInterrupt
        return EXPECTED[items]

    with pytest.raises(KeyboardInterrupt):
        Cache(tmp_path).rows("features", "a", KEYS, make)
    asked: list[int] = []
    assert Cache(tmp_path).rows("features", "a", KEYS, thrice(asked)).tobytes() == EXPECTED.tobytes()
    assert asked == [4]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "other space"])
def test_a_damaged_or_foreign_file_is_made_anew_and_said_once(tmp_path: Path, damage: str) -> None:
    Cache(tmp_path).rows("features", "a", KEYS, lambda items: EXPECTED[items])
    (file,) = files(tmp_path)
    good = file.read_bytes()
    foreign = safetensors.numpy.save({"keys": np.zeros((1, 16), np.uint8), "rows": np.zeros(1)})
    bad = {
        "cut": good[:-5],
        "flipped": good[:-1] + bytes([good[-1] ^ 1]),
        "empty": b"",
        "text": b"import os",
        "other space": foreign,
    }
    file.write_bytes(bad[damage])
    shown = io.StringIO()
    asked: list[int] = []
    kept = Cache(tmp_path, progress=Progress("plain", shown))
    assert kept.rows("features", "a", KEYS, thrice(asked)).tobytes() == EXPECTED.tobytes()
    assert asked == [0, 1, 2, 3, 4]
    assert shown.getvalue().count("Damaged files in the cache") == 1
    assert [path.read_bytes() for path in files(tmp_path)] == [good]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    Cache(tmp_path).rows("features", "a", KEYS, lambda items: EXPECTED[items])
    notes = [tmp_path / "notes.txt", files(tmp_path)[0].with_name("mine.safetensors")]
    for note in notes:
        note.write_text("mine")
    assert Cache(tmp_path).rows("features", "a", KEYS, lambda _: pytest.fail("made again")).shape == (5, 2)
    assert usage(tmp_path).files["features"] == 1
    assert emptied(tmp_path) > 0
    assert all(note.read_text() == "mine" for note in notes)
    assert sum(usage(tmp_path).sizes.values()) == 0


def test_without_a_folder_nothing_is_kept() -> None:
    asked: list[int] = []
    for _ in range(2):
        Cache().rows("features", "a", KEYS, thrice(asked))
    assert asked == [0, 1, 2, 3, 4] * 2


def test_a_cache_that_cannot_be_written_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    shown = io.StringIO()
    kept = Cache(tmp_path / "file" / "cache", progress=Progress("plain", shown))
    for about in ("a", "b"):
        assert kept.rows("features", about, KEYS, thrice([])).tobytes() == EXPECTED.tobytes()
    assert shown.getvalue().count("cannot be written") == 1

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["newkinds.cache"], "write_atomic", full)
    kept = Cache(tmp_path / "cache", progress=Progress("plain", shown))
    for about in ("a", "b"):
        assert kept.rows("features", about, KEYS, thrice([])).tobytes() == EXPECTED.tobytes()
    assert shown.getvalue().count("No space left on device") == 1


def test_what_was_used_last_stays(tmp_path: Path) -> None:
    def make(items: NDArray[np.int64]) -> NDArray[Any]:
        return np.zeros((len(items), 10_000), np.float32)

    for age, about in ((300, "a"), (200, "b"), (100, "c")):
        Cache(tmp_path).rows("features", about, KEYS[:1], make)
        newest = max(files(tmp_path), key=lambda file: file.stat().st_mtime)
        os.utime(newest, (newest.stat().st_mtime - age,) * 2)
    Cache(tmp_path).rows("features", "a", KEYS[:1], make)  # used now
    Cache(tmp_path, limit=130_000).rows("features", "d", KEYS[:1], make)
    assert sum(usage(tmp_path).sizes.values()) <= 130_000
    for about, is_there in (("a", True), ("b", False), ("c", True), ("d", True)):
        asked: list[int] = []
        with Cache(tmp_path).space("features", about) as space:
            assert (space.get(KEYS[0]) is not None) is is_there, (about, asked)
    trim(tmp_path, 0, kept=files(tmp_path)[0])
    assert len(files(tmp_path)) == 1


def test_a_limit_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWKINDS_CACHE_MB", "ten")
    with pytest.raises(UsageError, match="'ten' is not a number of megabytes"):
        open_cache()


def test_bytes_that_depend_on_nothing_else(tmp_path: Path) -> None:
    assert Cache(tmp_path).value("transfer", {"x": 1}, lambda: b"learnt") == b"learnt"
    assert Cache(tmp_path).value("transfer", {"x": 1}, lambda: pytest.fail("again")) == b"learnt"  # type: ignore[arg-type,return-value]
    assert Cache(tmp_path).value("transfer", {"x": 2}, lambda: b"other") == b"other"


# Pictures and runs


def test_large_pictures_are_decoded_once_whatever_they_are_called(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "LARGE", 12 * 12)
    plain = open_images(photos / "unsorted")
    first = open_images(photos / "unsorted", cache=Cache(tmp_path / "cache"))
    monkeypatch.setattr(decoding, "decode", lambda *_, **__: pytest.fail("decoded again"))
    again = open_images(photos / "unsorted", cache=Cache(tmp_path / "cache"))
    assert plain.fingerprint == first.fingerprint == again.fingerprint
    assert (plain.pixels == again.pixels).all()
    moved = tmp_path / "moved.jpg"
    moved.write_bytes(next(path for path in sorted((photos / "unsorted").rglob("*")) if path.is_file()).read_bytes())
    assert (open_images([moved], size=12, cache=Cache(tmp_path / "cache")).pixels[0] == plain.pixels[0]).all()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of how many pictures went through a pretrained network, which is a small one of ours."""
    from newkinds.networks import foreign
    from newkinds.networks.efficientnet import EfficientNetLite

    passed: list[int] = []

    class Counting(EfficientNetLite):
        def forward(self, x: Any) -> Any:
            passed.append(len(x))
            return super().forward(x)

    def small(name: str, features: str, pretrained: bool) -> EfficientNetLite:
        return Counting(0.1, 0.1, 16, features)

    monkeypatch.setattr(foreign, "open_lite", small)
    return passed


QUICK: dict[str, Any] = {
    "rehearse": {"rehearsals": 1},
    "discover": {"warmup_epochs": 1, "epochs": 2},
    "transfer": {"steps": (5,)},
}


def discovered(photos: Path, out: Path, **options: Any) -> dict[str, bytes]:
    """Run discovery and return what the run keeps."""
    sources = (photos / "known", photos / "unsorted")
    settings = {**QUICK, "network_size": 16}
    nk.discover(*sources, out=out, network="efficientnet-lite0", settings=settings, page=False, **options)
    run = RunFolder.open(out)
    kept = (names.MODEL, names.TRANSFER, names.KINDS, names.PROBABILITIES, names.features("known-mirrored"))
    return {name: run.get(name) for name in kept}


def test_a_run_with_a_cache_gives_the_bytes_of_one_without(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    without = discovered(photos, tmp_path / "without", kinds=3)
    assert sum(seen) > 200
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "cache"))
    nk.discover(  # some of the pictures are there already
        photos / "known", photos / "today", out=tmp_path / "before", kinds=2, network="efficientnet-lite0",
        settings={**QUICK, "network_size": 16}, page=False,
    )  # fmt: skip
    assert discovered(photos, tmp_path / "cold", kinds=3) == without
    seen.clear()
    assert discovered(photos, tmp_path / "warm", kinds=3) == without
    assert discovered(photos, tmp_path / "four", kinds=4) != without
    tried = 2  # pictures with which a network is tried when it is built
    assert all(number == tried for number in seen)
    assert discovered(photos, tmp_path / "off", kinds=3, cache=False) == without
    assert max(seen) > tried


def test_other_weights_have_other_features(photos: Path, tmp_path: Path, seen: list[int]) -> None:
    images = open_images(photos / "today")
    kept = Cache(tmp_path)
    one, other = (
        build_network("efficientnet-lite0", 3, images.size, seed=seed, network_size=16, pretrained=False)
        for seed in (0, 1)
    )
    first = nk.extract_features(one, images, cache=kept)
    assert not np.allclose(first, nk.extract_features(other, images, cache=kept))
    assert not np.allclose(first, nk.extract_features(one, images, view="mirrored", cache=kept))
    seen.clear()
    assert nk.extract_features(one, images, cache=kept).tobytes() == first.tobytes()
    assert seen == []


def test_features_do_not_depend_on_the_pictures_beside(photos: Path, seen: list[int]) -> None:
    images = open_images(photos / "unsorted")
    network = build_network("efficientnet-lite0", 3, images.size, seed=0, network_size=16, pretrained=False)
    alone = [nk.extract_features(network, images.select([item])) for item in (0, 7, len(images) - 1)]
    together = nk.extract_features(network, images)[[0, 7, -1]]
    assert np.concatenate(alone).tobytes() == together.tobytes()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["newkinds", "cache", *words])
        with pytest.raises(SystemExit):
            cli.main()
        return capsys.readouterr().out

    assert "There is no cache" in told()
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path))
    Cache(tmp_path).rows("features", "a", KEYS, thrice([]))
    assert f"{tmp_path}: 0.0 MB of 10,000.0 MB" in told()
    assert "features   0.0 MB in 1 files" in told()
    assert "deleted" in told("--clear")
    assert files(tmp_path) == []


def test_nothing_is_kept_through_a_link(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / "features").symlink_to(elsewhere)
    said = io.StringIO()
    cache = Cache(folder, progress=Progress("quiet", said))
    rows = cache.rows("features", {}, [b"k" * 16], lambda items: np.ones((len(items), 2), np.float32))
    assert rows.tolist() == [[1, 1]]
    assert not list(elsewhere.rglob("*"))
    assert "through links" in said.getvalue().replace("\n", " ")
