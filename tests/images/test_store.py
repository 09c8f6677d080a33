"""Folders and array files as ImageSets: what is in them, in which shape, what is refused in which words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from making import integers, picture, saved, shop

from newkinds import images as package
from newkinds.errors import DataError, UsageError
from newkinds.images.decode import decode
from newkinds.images.imageset import ImageSet, Skipped
from newkinds.images.scan import Found, Scan
from newkinds.images.store import Shape, check_known, check_unsorted, infer_shape, open_images, open_pair

NAMES = ("caps/0.png", "caps/1.png", "caps/2.png", "mugs/0.png", "mugs/1.png", "mugs/2.png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two classes of three pictures, a broken one among them, and strays."""
    return shop(tmp_path)


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
        assert (pair[1].labels is None) == (pair[1].source == str(folder))
    with pytest.raises(DataError, match="size=32 was asked for"):
        open_pair(folder, path, size=32)


def test_two_arrays_must_agree(folder: Path, tmp_path: Path) -> None:
    small = saved(tmp_path / "a.npz", images=integers(4, 8, 8), labels=[0, 0, 1, 1])
    large = saved(tmp_path / "b.npz", images=integers(4, 9, 9), labels=[0, 0, 1, 1])
    vectors = saved(tmp_path / "c.npz", embeddings=np.ones((4, 5)), labels=[0, 0, 1, 1])
    known, unsorted = open_pair(small, small)
    assert known.classes == unsorted.classes == ("0", "1")  # those of the unsorted are for scores only
    assert known.fingerprint != unsorted.fingerprint
    assert open_pair(vectors, vectors)[0].is_embedding
    with pytest.raises(DataError, match=r"8 x 8 .* 9 x 9 ") as caught:
        open_pair(small, large)
    assert caught.value.hint
    with pytest.raises(DataError, match="embeddings of width 5"):
        open_pair(small, vectors)
    with pytest.raises(DataError, match=r"embeddings of width 5, .*shop has pictures"):
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
