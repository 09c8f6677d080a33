"""Folders and array files as ImageSets: what is in them, what is kept between runs, what is refused in which words."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from newkinds import images as package
from newkinds.errors import DataError, UsageError
from newkinds.images import imageset
from newkinds.images.decode import decode, encode
from newkinds.images.imageset import ImageSet, Skipped, fingerprint, pixel_digest
from newkinds.images.scan import Found, Scan, scan
from newkinds.images.store import (
    Shape,
    check_known,
    check_unsorted,
    default_cache,
    infer_shape,
    load,
    load_npz,
    open_images,
    open_pair,
)

store = sys.modules["newkinds.images.store"]


def picture(seed: int, height: int = 12, width: int = 12, channels: int = 3) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (channels, height, width), dtype=np.uint8)
    return encode(pixels, "png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two classes of three pictures, a broken one among them, and strays."""
    root = tmp_path / "shop"
    for kind, first in (("mugs", 0), ("caps", 10)):
        (root / kind).mkdir(parents=True)
        for number in range(3):
            (root / kind / f"{number}.png").write_bytes(picture(first + number))
    (root / "mugs" / "broken.png").write_bytes(picture(99)[:-40])
    (root / "mugs" / "notes.txt").write_text("x")
    (root / "stray.png").write_bytes(picture(50))
    (root / "void").mkdir()
    (root / "words").mkdir()
    (root / "words" / "a.txt").write_text("x")
    return root


NAMES = ("caps/0.png", "caps/1.png", "caps/2.png", "mugs/0.png", "mugs/1.png", "mugs/2.png")


# Folders


def test_a_folder_of_classes(folder: Path) -> None:
    images = open_images(folder, labelled=True)
    assert images.names == NAMES
    assert images.classes == ("caps", "mugs")
    assert images.labels is not None
    assert images.labels.dtype == np.int64
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert images.pixels.shape == (6, 3, 12, 12)
    assert images.pixels.dtype == np.uint8
    assert images.source == str(folder)
    for row, name in zip(images.pixels, images.names, strict=True):
        assert (row == decode((folder / name).read_bytes(), size=12, channels=3)).all()
    assert [(one.name, one.reason.split(" (")[0]) for one in images.skipped] == [
        ("mugs/broken.png", "cut short"),
        ("mugs/notes.txt", "not a JPEG, PNG, WebP, BMP, GIF or TIFF picture"),
        ("stray.png", "not inside a class folder"),
        ("void", "class folder without a usable picture"),
        ("words", "class folder without a usable picture"),
        ("words/a.txt", "not a JPEG, PNG, WebP, BMP, GIF or TIFF picture"),
    ]
    check_known(images)


def test_a_folder_without_classes(folder: Path) -> None:
    images = open_images(str(folder))
    assert images.names == (*NAMES, "stray.png")
    assert images.labels is None
    assert images.classes == ()
    assert [one.name for one in images.skipped] == ["mugs/broken.png", "mugs/notes.txt", "words/a.txt"]


def test_a_class_all_of_whose_pictures_are_broken_is_dropped(folder: Path) -> None:
    for number in range(3):
        path = folder / "caps" / f"{number}.png"
        path.write_bytes(path.read_bytes()[:-40])
    images = open_images(folder, labelled=True)
    assert images.classes == ("mugs",)
    assert images.labels is not None
    assert images.labels.tolist() == [0, 0, 0]
    assert Skipped("caps", "class folder without a usable picture") in images.skipped


def test_nested_folders_belong_to_the_first(folder: Path) -> None:
    (folder / "mugs" / "red").mkdir()
    (folder / "mugs" / "red" / "x.png").write_bytes(picture(1))
    images = open_images(folder, labelled=True)
    assert images.classes == ("caps", "mugs")
    assert images.names[-1] == "mugs/red/x.png"
    assert images.labels is not None
    assert images.labels[-1] == 1


def test_the_number_of_workers_changes_nothing(folder: Path) -> None:
    one, many = (open_images(folder, labelled=True, workers=workers) for workers in (1, 7))
    assert (one.pixels == many.pixels).all()
    assert (one.names, one.fingerprint, one.skipped) == (many.names, many.fingerprint, many.skipped)


def test_size_channels_and_fit(folder: Path) -> None:
    (folder / "wide.png").write_bytes(picture(3, 10, 30))
    crop = open_images(folder, size=8, channels=1)
    squash = open_images(folder, size=8, channels=1, fit="squash")
    assert crop.pixels.shape == squash.pixels.shape == (8, 1, 8, 8)
    data = (folder / "wide.png").read_bytes()
    for images, fit in ((crop, "crop"), (squash, "squash")):
        assert (images.pixels[images.names.index("wide.png")] == decode(data, size=8, channels=1, fit=fit)).all()
    with pytest.raises(UsageError, match="squash"):
        open_images(folder, fit="squish")


def test_nothing_usable(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file in"):
        open_images(tmp_path)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("x")
    (tmp_path / "empty.png").touch()
    with pytest.raises(DataError, match=r"Skipped: 4, most often because of this: not a JPEG") as caught:
        open_images(tmp_path)
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint.endswith(f"newkinds scan {tmp_path}")


def test_nothing_usable_after_decoding(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "a.png").write_bytes(picture(1)[:-40])
    for memory_mb in (1, 0):
        with pytest.raises(DataError, match="cut short"):
            open_images(tmp_path, labelled=True, memory_mb=memory_mb, cache_dir=tmp_path / "cache")


def test_no_class_folders(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture(1))
    with pytest.raises(DataError, match="not inside a class folder"):
        open_images(tmp_path, labelled=True)


# The shape


def scanned(*sizes: tuple[int, int, int]) -> Scan:
    found = tuple(Found(Path(f"{i}.png"), f"{i}.png", *size) for i, size in enumerate(sizes))
    return Scan(Path("root"), found, ())


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([(28, 28, 1), (28, 28, 1)], Shape(28, 1)),  # the common side
        ([(8, 8, 1)], Shape(8, 1)),  # even a small one
        ([(64, 64, 3)], Shape(64, 3)),
        ([(65, 65, 3)], Shape(64, 3)),  # over the largest
        ([(40, 30, 3), (30, 40, 3)], Shape(30, 3)),  # not square: the median of the shorter sides
        ([(20, 20, 3), (30, 30, 3), (50, 50, 3)], Shape(30, 3)),
        ([(4, 9, 3), (5, 9, 3)], Shape(16, 3)),  # at least 16
        ([(4000, 3000, 3)], Shape(64, 3)),
        ([(28, 28, 1), (28, 28, 3)], Shape(28, 3)),  # grey only if all are
    ],
)
def test_infer_shape(sizes: list[tuple[int, int, int]], expected: Shape) -> None:
    assert infer_shape([scanned(*sizes)], None) == expected


def test_infer_shape_over_several_scans_and_with_given_values() -> None:
    both = [scanned((28, 28, 1)), scanned((28, 28, 3))]
    assert infer_shape(both, None) == Shape(28, 3)
    assert infer_shape(both, None, 1) == Shape(28, 1)
    assert infer_shape(both, 17) == Shape(17, 3)
    assert infer_shape([scanned((200, 200, 3))], None, largest=128) == Shape(128, 3)
    with pytest.raises(UsageError, match="size=0"):
        infer_shape(both, 0)
    with pytest.raises(UsageError, match="channels=2"):
        infer_shape(both, None, 2)
    with pytest.raises(DataError):
        infer_shape([Scan(Path("root"), (), (Skipped("a", "empty file"),))], None)


# The cache file


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
    monkeypatch.setattr(store, "decode", lambda *_, **__: pytest.fail("decoded again"))
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


@pytest.mark.parametrize("damage", ["cut", "grown", "empty", "magic", "key", "length"])
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

    monkeypatch.setattr(store, "decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_images(folder, memory_mb=0, cache_dir=tmp_path / "cache", workers=1)
    assert cache_files(tmp_path / "cache") == set()


def test_partial_files_of_killed_processes_are_removed_after_a_day(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for name, age in (("old.partial", 100_000), ("new.partial", 100)):
        (cache / name).write_bytes(b"x")
        os.utime(cache / name, (time.time() - age, time.time() - age))
    open_images(folder, memory_mb=0, cache_dir=cache)
    assert not (cache / "old.partial").exists()
    assert (cache / "new.partial").exists()


def test_a_cache_that_cannot_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="over memory_mb=0, and the cache") as caught:
        open_images(folder, memory_mb=0, cache_dir=tmp_path / "file" / "cache")
    assert "NEWKINDS_CACHE" in caught.value.hint
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 5}))
    with pytest.raises(DataError, match="it has room for 0 MB"):
        open_images(folder, memory_mb=0, cache_dir=tmp_path / "cache")


def test_a_file_that_changes_while_it_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = store._Decoding.hash_all

    def then_changed(self: Any) -> list[str]:
        hashes: list[str] = original(self)
        (folder / "mugs" / "1.png").write_bytes(picture(5))
        return hashes

    monkeypatch.setattr(store._Decoding, "hash_all", then_changed)
    with pytest.raises(DataError, match=r"1\.png changed while it was read"):
        open_images(folder, memory_mb=0, cache_dir=tmp_path / "cache")
    assert cache_files(tmp_path / "cache") == set()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NEWKINDS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache() == tmp_path / ".cache" / "newkinds"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/xdg")
    assert default_cache() == Path("/var/xdg/newkinds")
    monkeypatch.setenv("NEWKINDS_CACHE", "/var/mine")
    assert default_cache() == Path("/var/mine")


def test_the_default_cache_is_used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "mine"))
    load(scan(folder), Shape(8, 3), sorted_into_folders=False, memory_mb=0)
    assert len(cache_files(tmp_path / "mine")) == 1


# The fingerprint


def test_the_fingerprint_is_of_the_content(folder: Path, tmp_path: Path) -> None:
    images = open_images(folder, labelled=True)
    moved = folder.rename(tmp_path / "elsewhere")
    assert open_images(moved, labelled=True).fingerprint == images.fingerprint
    assert open_images(moved).fingerprint != images.fingerprint
    content = (images.pixels, images.names, images.labels, images.classes)
    assert fingerprint(*content) == images.fingerprint
    other_pixels = images.pixels.copy()
    other_pixels[5, 2, 11, 11] ^= 1
    assert images.labels is not None
    others = [
        (other_pixels, *content[1:]),
        (images.pixels, (*images.names[:5], "x"), *content[2:]),
        (images.pixels, images.names, 1 - images.labels, images.classes),
        (images.pixels, images.names, images.labels, ("caps", "jugs")),
        (images.pixels.reshape(6, 12, 3, 12), *content[1:]),
    ]
    assert len({fingerprint(*other) for other in others} | {images.fingerprint}) == 6


def test_the_pixel_digest_does_not_depend_on_its_parts() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 512, 512), dtype=np.uint8)  # several parts
    whole = store.hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest()
    assert pixel_digest(pixels) == whole
    assert pixel_digest(np.asfortranarray(pixels[:2])) == pixel_digest(pixels[:2])


# Array files


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def integers(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((5, 8, 8), None, (5, 1, 8, 8)),
        ((5, 8, 8, 1), (0, 3, 1, 2), (5, 1, 8, 8)),
        ((5, 8, 8, 3), (0, 3, 1, 2), (5, 3, 8, 8)),
        ((5, 3, 8, 8), (0, 1, 2, 3), (5, 3, 8, 8)),
        ((5, 1, 8, 8), (0, 1, 2, 3), (5, 1, 8, 8)),
        ((5, 1, 3, 3), (0, 1, 2, 3), (5, 1, 3, 3)),
        ((5, 3, 3, 3), (0, 3, 1, 2), (5, 3, 3, 3)),  # ambiguous: channels last
    ],
)
def test_npz_images(tmp_path: Path, shape: tuple[int, ...], axes: Any, expected: tuple[int, ...]) -> None:
    array = integers(*shape)
    images = load_npz(saved(tmp_path / "a.npz", images=array), labelled=False)
    assert images.pixels.shape == expected
    assert images.pixels.flags.c_contiguous
    assert (images.pixels == (array[:, None] if axes is None else array.transpose(axes))).all()
    assert images.names == ("0", "1", "2", "3", "4")
    assert images.labels is None
    assert images.source == str(tmp_path / "a.npz")


def test_npz_labels_and_names(tmp_path: Path) -> None:
    array, names = integers(4, 8, 8), np.array(["w", "x", "y", "z"])
    images = load_npz(saved(tmp_path / "a.npz", images=array, labels=[10, 9, 10, 2], names=names), labelled=True)
    assert images.classes == ("2", "9", "10")  # in the order of numbers
    assert images.labels is not None
    assert images.labels.tolist() == [2, 1, 2, 0]
    assert images.names == ("w", "x", "y", "z")
    words = load_npz(saved(tmp_path / "b.npz", images=array, labels=["b", "a", "b", "b"]), labelled=True)
    assert words.classes == ("a", "b")
    assert words.labels is not None
    assert words.labels.tolist() == [1, 0, 1, 1]
    assert load_npz(tmp_path / "b.npz", labelled=False).labels is None
    assert len(load_npz(saved(tmp_path / "c.npz", images=integers(101, 2, 2)), labelled=False).names[7]) == 3


def test_npz_embeddings(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(5, 7))
    images = load_npz(saved(tmp_path / "a.npz", embeddings=array), labelled=False)
    assert images.is_embedding
    assert images.pixels.dtype == np.float32
    assert (images.pixels == array.astype(np.float32)).all()


def test_npz_ignores_other_arrays(tmp_path: Path) -> None:
    odd = np.array([{"a": 1}], dtype=object)
    assert len(load_npz(saved(tmp_path / "a.npz", images=integers(4, 8, 8), odd=odd), labelled=False)) == 4


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"pixels": integers(4, 8, 8), "y": [1]}, "it has `pixels`, `y`"),
    "both": ({"images": integers(4, 8, 8), "embeddings": np.ones((4, 2))}, "one of the arrays"),
    "float images": ({"images": np.zeros((4, 8, 8))}, "type float64; uint8"),
    "flat images": ({"images": integers(4, 64)}, r"shape \(4, 64\)"),
    "four channels": ({"images": integers(4, 8, 8, 4)}, r"shape \(4, 8, 8, 4\)"),
    "five dimensions": ({"images": integers(4, 8, 8, 3, 1)}, "shape"),
    "not square": ({"images": integers(4, 8, 9)}, "8 x 9 pixels"),
    "not square, colour": ({"images": integers(4, 8, 9, 3)}, "8 x 9 pixels"),
    "no images": ({"images": integers(0, 8, 8)}, "nothing in it"),
    "integer embeddings": ({"embeddings": np.ones((4, 2), dtype=int)}, "floats"),
    "flat embeddings": ({"embeddings": np.ones(4)}, r"shape \(4,\)"),
    "no embeddings": ({"embeddings": np.ones((0, 4))}, r"shape \(0, 4\)"),
    "no labels": ({"images": integers(4, 8, 8)}, "needs the array `labels`.*it has `images`"),
    "few labels": ({"images": integers(4, 8, 8), "labels": [1, 2]}, r"shape \(2,\); 4 integers"),
    "float labels": ({"images": integers(4, 8, 8), "labels": np.ones(4)}, "type float64"),
    "negative labels": ({"images": integers(4, 8, 8), "labels": [0, 1, -1, -1]}, "2 negative label.*row 2"),
    "few names": ({"images": integers(4, 8, 8), "labels": [0] * 4, "names": ["a"]}, "4 strings"),
    "number names": ({"images": integers(4, 8, 8), "labels": [0] * 4, "names": [1, 2, 3, 4]}, "4 strings"),
    "same names": ({"images": integers(4, 8, 8), "labels": [0] * 4, "names": list("abca")}, "more than once.*'a'"),
    "object images": ({"images": np.array([[1], [2, 3]], dtype=object)}, "Python objects"),
    "object labels": ({"images": integers(4, 8, 8), "labels": np.array([None] * 4)}, "Python objects"),
}


@pytest.mark.parametrize("kind", BAD)
def test_npz_mistakes_are_named(tmp_path: Path, kind: str) -> None:
    arrays, message = BAD[kind]
    with pytest.raises(DataError, match=message) as caught:
        load_npz(saved(tmp_path / "a.npz", **arrays), labelled=True)
    assert str(tmp_path / "a.npz") in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_npz_embeddings_that_are_not_finite_are_named(tmp_path: Path, bad: float) -> None:
    array = np.ones((5, 3))
    array[1, 2] = array[4, 0] = bad
    with pytest.raises(DataError, match=r"2 row\(s\): 1, 4\."):
        load_npz(saved(tmp_path / "a.npz", embeddings=array), labelled=False)
    with pytest.raises(DataError, match=r"2 row\(s\): 1 \(b\), 4 \(e\)\."):
        load_npz(saved(tmp_path / "a.npz", embeddings=array, names=list("abcde")), labelled=False)


def test_npz_files_that_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(DataError, match="does not exist"):
        load_npz(path, labelled=False)
    path.write_text("hello")
    with pytest.raises(DataError, match=r"is not an \.npz file"):
        load_npz(path, labelled=False)
    with open(path, "wb") as stream:
        np.save(stream, integers(4, 8, 8))
    with pytest.raises(DataError, match=r"is not an \.npz file"):
        load_npz(path, labelled=False)
    np.savez_compressed(path, images=integers(40, 8, 8), labels=[0] * 40)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        data = bytearray(good)
        for at in rng.integers(0, len(data), 5):
            data[at] = rng.integers(0, 256)
        path.write_bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.5 else data)
        try:
            assert len(load_npz(path, labelled=True)) == 40
        except DataError as error:
            assert "\n" not in error.message  # noqa: PT017


# One or two sources


def test_open_images_takes_all_three(folder: Path, tmp_path: Path) -> None:
    path = saved(tmp_path / "A.NPZ.npz", images=integers(4, 8, 8), labels=[0, 0, 1, 1])
    images = open_images(path, labelled=True)
    assert images.classes == ("0", "1")
    assert open_images(images) is images
    assert open_images(images, size=8, channels=1) is images
    with pytest.raises(DataError, match=r"8 x 8 pixels and 1 channel\(s\), but size=16 was asked for") as caught:
        open_images(path, size=16)
    assert caught.value.hint
    with pytest.raises(DataError, match="channels=3"):
        open_images(path, channels=3)
    with pytest.raises(DataError, match="is a file, not a folder"):
        open_images(folder / "stray.png")


def test_a_folder_may_be_called_npz(folder: Path, tmp_path: Path) -> None:
    assert len(open_images(folder.rename(tmp_path / "x.npz"))) == 7


def test_two_folders_get_one_shape(folder: Path, tmp_path: Path) -> None:
    heap = tmp_path / "heap"
    heap.mkdir()
    for number in range(3):
        (heap / f"{number}.png").write_bytes(picture(number, 20, 20, 1))
    known, unsorted = open_pair(folder, heap)
    assert known.pixels.shape[1:] == unsorted.pixels.shape[1:] == (3, 16, 16)  # the median of seven 12s and three 20s
    assert known.labels is not None
    assert unsorted.labels is None
    known, unsorted = open_pair(folder, heap, size=9, channels=1)
    assert known.pixels.shape[1:] == unsorted.pixels.shape[1:] == (1, 9, 9)
    assert open_pair(folder, heap, largest=10)[1].size == 10


def test_an_array_rules_over_a_folder(folder: Path, tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", images=integers(4, 10, 10), labels=[0, 0, 1, 1])
    for pair in (open_pair(folder, path), open_pair(path, folder), open_pair(open_images(path, labelled=True), folder)):
        assert {images.pixels.shape[1:] for images in pair} == {(1, 10, 10)}
        assert pair[0].labels is not None
        assert pair[1].labels is None
    with pytest.raises(DataError, match="size=32 was asked for"):
        open_pair(folder, path, size=32)


def test_two_arrays_must_agree(folder: Path, tmp_path: Path) -> None:
    small = saved(tmp_path / "a.npz", images=integers(4, 8, 8), labels=[0, 0, 1, 1])
    large = saved(tmp_path / "b.npz", images=integers(4, 9, 9), labels=[0, 0, 1, 1])
    vectors = saved(tmp_path / "c.npz", embeddings=np.ones((4, 5)), labels=[0, 0, 1, 1])
    assert open_pair(small, small)[1].labels is None
    assert open_pair(vectors, vectors)[0].is_embedding
    with pytest.raises(DataError, match=r"8 x 8 .* 9 x 9 ") as caught:
        open_pair(small, large)
    assert caught.value.hint
    with pytest.raises(DataError, match="embeddings of width 5"):
        open_pair(small, vectors)
    with pytest.raises(DataError, match=r"embeddings of width 5.*is a folder of pictures"):
        open_pair(folder, vectors)


# What the later stages need


def labelled(counts: list[int], classes: tuple[str, ...]) -> ImageSet:
    labels = np.repeat(np.arange(len(counts)), counts)
    names = tuple(map(str, range(len(labels))))
    return ImageSet(np.zeros((len(labels), 1, 4, 4), np.uint8), names, labels, classes, "shelf", "")


def test_check_known() -> None:
    check_known(labelled([2, 3], ("a", "b")))
    with pytest.raises(DataError, match=r"shelf has 1 class\(es\) \(a\), at least 2") as caught:
        check_known(labelled([5], ("a",)))
    assert "shelf/KIND/PICTURE" in caught.value.hint
    with pytest.raises(DataError, match=r"needs at least 2 pictures. Too small: b \(1\), d \(0\)\.") as caught:
        check_known(labelled([2, 1, 2, 0], ("a", "b", "c", "d")))
    assert caught.value.hint
    with pytest.raises(DataError, match=r"k9 \(1\) and 2 more\."):
        check_known(labelled([1] * 12, tuple(f"k{n}" for n in range(12))))
    with pytest.raises(DataError, match="does not say of which kind"):
        check_known(replace(labelled([2, 2], ("a", "b")), labels=None))


def test_check_unsorted() -> None:
    check_unsorted(labelled([2], ("a",)))
    with pytest.raises(DataError, match=r"shelf has 1 usable picture\(s\), at least 2") as caught:
        check_unsorted(labelled([1], ("a",)))
    assert caught.value.hint


def test_public_names() -> None:
    assert all(hasattr(package, name) for name in package.__all__)
    assert callable(package.scan)
