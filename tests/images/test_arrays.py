"""Array files as ImageSets: how their arrays are read, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import integers, saved

from newkinds.errors import DataError, UsageError
from newkinds.evaluation.truth import read_truth
from newkinds.images.arrays import load_npz


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
    assert len(load_npz(saved(tmp_path / "c.npz", images=integers(101, 2, 2)), labelled=False).names[7]) == 3


def test_npz_labels_of_an_unsorted_set_are_kept_and_do_not_change_its_fingerprint(tmp_path: Path) -> None:
    array = integers(4, 8, 8)
    bare, with_labels = tmp_path / "a.npz", tmp_path / "b.npz"
    without = load_npz(saved(bare, images=array), labelled=False)
    unsorted = load_npz(saved(with_labels, images=array, labels=["b", "a", "b", "b"]), labelled=False)
    known = load_npz(with_labels, labelled=True)
    assert without.labels is None
    assert without.classes == ()
    assert unsorted.labels is not None
    assert unsorted.labels.tolist() == [1, 0, 1, 1]
    assert unsorted.classes == ("a", "b")
    assert unsorted.fingerprint == without.fingerprint
    assert known.fingerprint != without.fingerprint
    assert read_truth("folders", unsorted) == ("b", "a", "b", "b")
    assert read_truth("folders", unsorted.select([1, 2])) == ("a", "b")
    with pytest.raises(UsageError, match="true kinds"):
        read_truth("folders", without)


@pytest.mark.parametrize("labels", [[0, 1, -1, -1], [0, 1], np.ones(4)])
def test_npz_labels_that_cannot_be_used_do_not_matter_to_an_unsorted_set(tmp_path: Path, labels: Any) -> None:
    path = saved(tmp_path / "a.npz", images=integers(4, 8, 8), labels=labels)
    images = load_npz(path, labelled=False)
    assert images.labels is None
    assert images.classes == ()
    with pytest.raises(DataError, match="label"):
        load_npz(path, labelled=True)


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
