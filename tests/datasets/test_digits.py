"""The handwritten digits that come with scikit-learn, by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from newkinds.datasets import DATASETS, named
from newkinds.datasets.digits import digits
from newkinds.errors import UsageError


@pytest.mark.parametrize(("part", "classes"), [("known", "01234"), ("unsorted", "56789")])
def test_parts(part: str, classes: str) -> None:
    images, data = digits(part), load_digits()
    assert images.classes == tuple(classes)
    assert images.source == f"digits:{part}"
    assert images.pixels.shape == (len(images), 1, 8, 8)
    assert images.pixels.dtype == np.uint8
    assert images.labels is not None
    assert images.labels.dtype == np.int64
    # Each picture is the published one under its number, with its label; 16 levels of ink become 255.
    for i in range(0, len(images), 50):
        item = int(images.names[i].removeprefix("digit-"))
        assert images.pixels[i, 0] == pytest.approx(data.images[item] * 255 / 16, abs=0.5)
        assert images.classes[images.labels[i]] == str(data.target[item])
    assert (images.pixels.min(), images.pixels.max()) == (0, 255)


def test_the_parts_are_the_whole_and_share_nothing() -> None:
    known, unsorted = digits("known"), digits("unsorted")
    assert (len(known), len(unsorted)) == (901, 896)
    assert len({*known.names, *unsorted.names}) == 1797
    assert known.fingerprint != unsorted.fingerprint
    assert known.fingerprint == digits("known").fingerprint
    assert np.bincount(known.labels).min() > 170


def test_named() -> None:
    images = named("digits:unsorted")
    assert images is not None
    assert images.fingerprint == digits("unsorted").fingerprint
    assert set(DATASETS) >= {"digits"}


@pytest.mark.parametrize(
    "source", ["photos/known", "photos:known", ":known", "", "C:\\photos", Path("digits:known"), None, 3]
)
def test_what_is_not_a_name_is_left_to_others(source: object) -> None:
    assert named(source) is None


@pytest.mark.parametrize("part", ["", "unsortd", "known:more"])
def test_unknown_parts_list_the_valid_ones(part: str) -> None:
    with pytest.raises(UsageError) as caught:
        named(f"digits:{part}")
    assert repr(part) in caught.value.message
    assert "Valid: known, unsorted" in caught.value.hint
    assert ("Did you mean 'unsorted'?" in caught.value.hint) is (part == "unsortd")
