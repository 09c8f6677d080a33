"""Arrays in files and in memory as ImageSets: how they are read, and what is refused in which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from making import integers, saved

from newkinds.errors import DataError, UsageError
from newkinds.evaluation.truth import read_truth
from newkinds.images import open_images, open_pair
from newkinds.images.arrays import load_array, load_npz
from newkinds.images.decode import decode, encode


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


# In memory


def given_or_refused(call: Any) -> Any:
    """Return what an ImageSet holds, or, where there is none, what was wrong, without what it was read from."""
    try:
        images = call()
    except DataError as error:
        return re.sub(r"^.*?(?= has | needs )", "", error.message)
    labels = None if images.labels is None else images.labels.tolist()
    return images.pixels.dtype, images.pixels.tolist(), images.names, labels, images.classes, images.fingerprint


SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=5).map(tuple)
ARRAYS = st.sampled_from([np.uint8, np.float32, np.int64]).flatmap(lambda dtype: arrays(dtype, SHAPES))
LABELS = st.none() | arrays(np.int64, st.integers(0, 4), elements=st.integers(-1, 3)) | st.just(np.array(["b", "a"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(ARRAYS, LABELS, st.booleans())
def test_memory_and_files_never_disagree(tmp_path: Path, array: Any, labels: Any, labelled: bool) -> None:
    name = "embeddings" if array.dtype.kind == "f" and array.ndim == 2 else "images"
    file = saved(tmp_path / "a.npz", **{name: array}, **({} if labels is None else {"labels": labels}))
    in_file = given_or_refused(lambda: load_npz(file, labelled=labelled))
    assert given_or_refused(lambda: load_array(array, labels, labelled=labelled)) == in_file


def test_arrays_are_sources() -> None:
    array, labels = integers(4, 8, 8, 3), ["b", "a", "b", "b"]
    plain, known = open_images(array), open_images((array, labels), labelled=True)
    assert plain.pixels.shape == (4, 3, 8, 8)
    assert plain.names == ("0", "1", "2", "3")
    assert plain.source == known.source == "4 arrays"
    assert known.classes == ("a", "b")
    assert open_images((array, labels)).fingerprint == plain.fingerprint
    assert read_truth("folders", open_images((array, labels))) == tuple(labels)
    for same in (tuple(labels), np.array(labels), np.array(labels, dtype=object)):
        assert open_images((array, same), labelled=True).fingerprint == known.fingerprint
    assert open_images((array, [3, 1, 3, 3]), labelled=True).classes == ("1", "3")
    assert open_images(torch.from_numpy(array)).fingerprint == plain.fingerprint
    vectors = open_images((np.ones((4, 5)), labels), labelled=True)
    assert vectors.is_embedding
    assert vectors.source == "4 embeddings"
    both = open_pair((array, labels), array[:2])
    assert [images.pixels.shape for images in both] == [(4, 3, 8, 8), (2, 3, 8, 8)]


def test_arrays_are_used_as_they_are() -> None:
    first = integers(4, 3, 8, 8)
    assert np.shares_memory(open_images(first).pixels, first)
    vectors = np.ones((4, 5), dtype=np.float32)
    assert np.shares_memory(open_images(vectors).pixels, vectors)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros((4, 8, 8)), "The array given has `images` of type float64; uint8"),
        (integers(4, 8, 9), "8 x 9 pixels"),
        (integers(4, 8, 8, 4), r"shape \(4, 8, 8, 4\)"),
        (np.uint8(3), r"shape \(\)"),
        (integers(4, 8, 8), "needs the array `labels`.*it has `images`"),
        ((integers(4, 8, 8), ["a", "b"]), "4 integers or strings"),
        ((integers(4, 8, 8), [0, 1, -1, 0]), "1 negative label"),
        ((integers(4, 8, 8), [None] * 4), "type object"),
        ((integers(4, 8, 8), ["a", ["b"], "c", "d"]), "labels that make no array"),
        (np.array([1, 2]), "type int64"),
        (np.array([[np.nan, 1.0]]), "not finite in 1 row"),
        ([integers(8, 8)], "needs the array `labels`"),
        ([integers(8, 8), np.zeros((8, 8))], r"item 1 is of type float64 and shape \(8, 8\); uint8 \(H, W\)"),
        ([integers(8, 8), integers(8, 8, 4)], r"item 1 is of type uint8 and shape \(8, 8, 4\)"),
        ([integers(8, 8), integers(64)], r"item 1 is of type uint8 and shape \(64,\)"),
        ([integers(8, 8), integers(0, 8)], r"item 1 is of type uint8 and shape \(0, 8\)"),
        ([integers(8, 8), "a.png"], "item 1 is of type str; uint8"),
        ([np.ones(5), np.ones(5)], r"item 0 is of type float64 and shape \(5,\)"),
        (([integers(8, 8), integers(9, 9)], ["a"]), "2 integers or strings"),
    ],
)
def test_mistakes_in_memory_are_named(source: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        open_images(source, labelled=True)
    assert caught.value.hint
    assert "\n" not in caught.value.message


SIDES = st.integers(4, 30)  # of 1 or 3 pixels, they could be the channels


@given(
    st.lists(st.tuples(SIDES, SIDES, st.sampled_from([1, 3])), min_size=1, max_size=5),
    st.sampled_from(["crop", "squash"]),
)
def test_arrays_of_different_sizes_are_fitted_as_files_are(shapes: list[tuple[int, int, int]], fit: str) -> None:
    random = np.random.default_rng(0)
    planes = [random.integers(0, 256, (c, h, w), dtype=np.uint8) for h, w, c in shapes]
    given = [plane[0] if len(plane) == 1 else plane.transpose(1, 2, 0) for plane in planes]
    images = open_images(given, fit=fit)
    assert images.source == ("1 array" if len(shapes) == 1 else f"{len(shapes)} arrays")
    for plane, made in zip(planes, images.pixels, strict=True):
        file = encode(plane, "png")
        assert (made == decode(file, size=images.size, channels=images.channels, fit=fit)).all()


def test_lists_of_arrays() -> None:
    grey, colour, first = integers(10, 14), integers(12, 12, 3), integers(3, 20, 20)
    images = open_images(([grey, colour, first], ["x", "y", "x"]), labelled=True)
    assert images.pixels.shape == (3, 3, 16, 16)
    assert images.classes == ("x", "y")
    assert images.names == ("0", "1", "2")
    assert open_images([grey, colour], size=9, channels=1).pixels.shape == (2, 1, 9, 9)
    assert open_images((grey, grey[:9])).pixels.shape == (2, 1, 16, 16)  # a tuple of two pictures is no pair
    ragged = np.empty(2, dtype=object)
    ragged[:] = [grey, colour]
    assert open_images(ragged).fingerprint == open_images([grey, colour]).fingerprint
    stack = integers(5, 8, 8)
    assert open_images(list(stack)).fingerprint == open_images(stack).fingerprint  # nothing to be fitted
    assert open_pair((stack, list("ababa")), [grey, colour])[1].pixels.shape == (2, 1, 8, 8)  # the array rules
    known, unsorted = open_pair(([grey] * 4, [0, 0, 1, 1]), [colour, colour])
    assert known.pixels.shape[1:] == unsorted.pixels.shape[1:] == (3, 16, 16)
    with pytest.raises(UsageError, match="squish"):
        open_images([grey, colour], fit="squish")
