"""The data sets as they were published, where NEWKINDS_DATA says that they are."""

from __future__ import annotations

import os

import numpy as np
import pytest

from newkinds.datasets import named
from newkinds.datasets.dataset import data_root
from newkinds.datasets.omniglot import EVALUATION
from newkinds.images import ImageSet

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("NEWKINDS_DATA"), reason="NEWKINDS_DATA does not say where the data is"),
]


def published(source: str, *places: str) -> ImageSet:
    """Open a data set, or skip the test where there is nothing of it."""
    root = data_root(None)
    assert root is not None
    if not any((root / place).exists() for place in places):
        pytest.skip(f"{source} is not below NEWKINDS_DATA")
    images = named(source)
    assert images is not None
    return images


def omniglot(part: str) -> ImageSet:
    return published(f"omniglot:{part}", "omniglot-py", "omniglot", "images_background")


def test_omniglot_counts() -> None:
    background, train, probes = map(omniglot, ("background", "train", "probes"))
    assert [len(images.classes) for images in (background, train, probes)] == [964, 795, 169]
    assert [len(images) for images in (background, train, probes)] == [19280, 15900, 3380]
    assert not {*train.names} & {*probes.names}
    assert {*train.names, *probes.names} == {*background.names}
    assert background.pixels.mean() / 255 == pytest.approx(0.08, abs=0.01)  # ink is bright, and there is little
    assert background.pixels.max() == 255
    assert "Alphabet_of_the_Magi/character01/0709_01.png" in background.names


def test_omniglot_evaluation_alphabets() -> None:
    sets = [omniglot(alphabet) for alphabet in EVALUATION]
    assert sum(len(images.classes) for images in sets) == 659
    assert all(len(images) == 20 * len(images.classes) for images in sets)
    assert {images.pixels.shape[1:] for images in sets} == {(1, 32, 32)}
    assert len(omniglot("Tengwar").classes) == 25


def test_cifar10() -> None:
    known, new = (published(f"cifar10:{part}", "cifar-10-batches-py") for part in ("labelled", "unlabelled"))
    assert known.classes == ("airplane", "automobile", "bird", "cat", "deer")
    assert new.classes == ("dog", "frog", "horse", "ship", "truck")
    for images in (known, new):
        assert images.labels is not None
        assert np.array_equal(np.bincount(images.labels), [5000] * 5)
    assert len({*known.names, *new.names}) == 50_000
    assert new.labels is not None
    # The first five pictures of the first batch: a frog, two trucks, a deer and a car.
    assert [new.classes[label] for label in new.labels[:3]] == ["frog", "truck", "truck"]
    assert new.names[:3] == ("train-00000", "train-00001", "train-00002")
    assert new.pixels[0, :, 0, 0].tolist() == [59, 62, 63]


def test_cifar100() -> None:
    parts = ("labelled", "probes", "unlabelled", "labelled+probes")
    known, probes, new, both = (published(f"cifar100:{part}", "cifar-100-python") for part in parts)
    assert [len(images.classes) for images in (known, probes, new, both)] == [80, 10, 10, 90]
    assert [len(images) for images in (known, probes, new, both)] == [40_000, 5_000, 5_000, 45_000]
    assert len({*known.names, *probes.names, *new.names}) == 50_000
    assert {*known.names, *probes.names} == {*both.names}
    assert (known.classes[0], probes.classes[0], new.classes[0], new.classes[-1]) == (
        "apple",
        "squirrel",
        "train",
        "worm",
    )
    assert (both.pixels.mean(axis=(0, 2, 3)) / 255).tolist() == pytest.approx([0.507, 0.487, 0.441], abs=0.01)


def test_svhn() -> None:
    places = ("svhn/train_32x32.mat", "train_32x32.mat")
    known, new = (published(f"svhn:{part}", *places) for part in ("labelled", "unlabelled"))
    assert known.classes == tuple("01234")
    assert new.classes == tuple("56789")
    assert not {*known.names} & {*new.names}
    assert known.labels is not None
    counts = np.bincount(known.labels)  # of house numbers: 1 most, 0 least
    assert counts.argmax() == 1
    assert counts.argmin() == 0
