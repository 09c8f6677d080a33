"""CIFAR-10 and CIFAR-100 over tiny copies in the publisher's layout."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds.datasets import named
from newkinds.errors import DataError, UsageError
from publishers import CIFAR10_NAMES, CIFAR100_NAMES, as_python_2, random, write_cifar10, write_cifar100


def test_cifar10(tmp_path: Path) -> None:
    published = write_cifar10(tmp_path)
    for part, first in (("labelled", 0), ("unlabelled", 5)):
        images = named(f"cifar10:{part}", data=tmp_path)
        assert images is not None
        assert images.source == f"cifar10:{part}"
        assert images.pixels.shape == (50, 3, 32, 32)
        assert images.pixels.dtype == np.uint8
        assert images.labels is not None
        assert images.labels.dtype == np.int64
        assert images.classes == tuple(name.decode() for name in CIFAR10_NAMES[first : first + 5])
        for i, name in enumerate(images.names):
            item = int(name.removeprefix("train-"))
            assert np.array_equal(images.pixels[i].reshape(-1), published[item])
            assert images.labels[i] + first == item % 10


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("labelled", range(80)),
        ("probes", range(80, 90)),
        ("labelled+probes", range(90)),
        ("unlabelled", range(90, 100)),
    ],
)
def test_cifar100(tmp_path: Path, part: str, wanted: range) -> None:
    published = write_cifar100(tmp_path)
    images = named(f"cifar100:{part}", data=tmp_path)
    assert images is not None
    assert images.classes == tuple(CIFAR100_NAMES[number].decode() for number in wanted)
    assert images.labels is not None
    assert np.array_equal(np.bincount(images.labels), [2] * len(wanted))
    items = [int(name.removeprefix("train-")) for name in images.names]
    assert np.array_equal(images.labels + wanted.start, np.array(items) % 100)
    assert np.array_equal(images.pixels.reshape(-1, 3072), published[items])


@pytest.mark.parametrize(("name", "known", "kinds", "each"), [("cifar10", 5, 10, 10), ("cifar100", 80, 100, 4)])
def test_half_of_each_known_class_is_labelled_and_the_rest_is_the_heap(
    tmp_path: Path, name: str, known: int, kinds: int, each: int
) -> None:
    published = write_cifar10(tmp_path) if name == "cifar10" else write_cifar100(tmp_path, each)
    labelled, heap = (named(f"{name}:{part}", data=tmp_path) for part in ("gcd-labelled", "gcd-heap"))
    assert labelled is not None
    assert heap is not None
    assert labelled.labels is not None
    assert heap.labels is not None
    assert np.bincount(labelled.labels).tolist() == [each // 2] * known
    assert np.bincount(heap.labels).tolist() == [each // 2] * known + [each] * (kinds - known)
    assert heap.classes[:known] == labelled.classes
    assert set(labelled.names).isdisjoint(heap.names)
    assert len(labelled) + len(heap) == len(published)
    for images in (labelled, heap):
        items = [int(one.removeprefix("train-")) for one in images.names]
        assert np.array_equal(images.labels, np.array(items) % kinds)
        assert np.array_equal(images.pixels.reshape(-1, 3072), published[items])
    again = named(f"{name}:gcd-labelled", data=tmp_path)
    assert again is not None
    assert again.names == labelled.names
    if name == "cifar10":  # drawn, not the first ones
        assert labelled.names != tuple(f"train-{item:05d}" for item in range(50) if item % 10 < known)


def test_labels_as_an_array_and_names_as_text_are_the_same_data(tmp_path: Path) -> None:
    pixels = write_cifar100(tmp_path)
    before = named("cifar100:unlabelled", data=tmp_path)
    content = {"data": pixels, "fine_labels": np.arange(200) % 100}
    folder = tmp_path / "cifar-100-python"
    (folder / "train").write_bytes(pickle.dumps(content, protocol=4))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [name.decode() for name in CIFAR100_NAMES]}))
    after = named("cifar100:unlabelled", data=tmp_path)
    assert before is not None
    assert after is not None
    assert before.fingerprint == after.fingerprint


def _content(**changes: Any) -> dict[bytes, Any]:
    content = {b"data": random(200, 3072), b"fine_labels": [item % 100 for item in range(200)]}
    return {**content, **{key.encode(): value for key, value in changes.items()}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (_content(data=random(200, 3071)), "`data` is uint8 (200, 3071), not uint8 (N, 3072)"),
        (_content(data=random(200, 3072).astype(np.int32)), "`data` is int32"),
        (_content(data=[1, 2]), "`data` is list"),
        ({b"fine_labels": [1]}, "`data` is NoneType"),
        (_content(fine_labels=[0] * 199), "`fine_labels` does not hold a number for each of 200 pictures"),
        (_content(fine_labels=[b"cat"] * 200), "`fine_labels` does not hold a number"),
        ({b"data": random(2, 3072)}, "`fine_labels` does not hold a number"),
        (_content(fine_labels=[100] * 200), "`fine_labels` goes from 100 to 100, not from 0 to 99"),
        (_content(fine_labels=[-1] * 200), "`fine_labels` goes from -1 to -1"),
        (_content(fine_labels=[3] * 200), "it has no picture of the classes 90 to 99"),
        ([1], "it holds a list, not a dict"),
    ],
)
def test_damage_is_described(tmp_path: Path, content: Any, why: str) -> None:
    write_cifar100(tmp_path)
    (tmp_path / "cifar-100-python" / "train").write_bytes(as_python_2(content))
    with pytest.raises(DataError) as caught:
        named("cifar100:unlabelled", data=tmp_path)
    assert why in caught.value.message
    assert "cifar-100-python" in caught.value.message
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in caught.value.hint


@pytest.mark.parametrize("keep", [0, 100, 3000])
def test_files_cut_short(tmp_path: Path, keep: int) -> None:
    write_cifar10(tmp_path)
    file = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError, match="data_batch_3 is not as it was published: its pickle is cut short or broken"):
        named("cifar10:labelled", data=tmp_path)


@pytest.mark.parametrize(
    ("names", "why"),
    [([b"a"] * 10, "has 1 names, not 10"), ([b"a", b"b"], "has 2 names"), (3, "not a list of names")],
)
def test_bad_class_names(tmp_path: Path, names: Any, why: str) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "batches.meta").write_bytes(as_python_2({b"label_names": names}))
    with pytest.raises(DataError, match=why):
        named("cifar10:labelled", data=tmp_path)


@pytest.mark.parametrize("file", ["data_batch_4", "batches.meta"])
def test_a_missing_file_is_named(tmp_path: Path, file: str) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / file).unlink()
    with pytest.raises(DataError) as caught:
        named("cifar10:labelled", data=tmp_path)
    assert caught.value.message == f"CIFAR-10 is not in {tmp_path}: looked for cifar-10-batches-py/{file}."


def test_a_hostile_file_does_not_run(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    write_cifar10(tmp_path)
    content = {b"data": random(1, 3072), b"labels": [Attack()]}
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(content, protocol=3))
    with pytest.raises(DataError, match=r"data_batch_1 is not as it was published: its pickle asks for posix\.system"):
        named("cifar10:labelled", data=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_unknown_parts(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="Valid: gcd-heap, gcd-labelled, labelled, labelled\\+probes, probes, unlabelled"
    ):
        named("cifar100:probe", data=tmp_path)
