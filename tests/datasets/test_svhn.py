"""SVHN over tiny copies in the publisher's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from newkinds.datasets import named
from newkinds.errors import DataError, UsageError
from publishers import random, write_svhn


@pytest.mark.parametrize("place", ["svhn/train_32x32.mat", "train_32x32.mat"])
def test_parts(tmp_path: Path, place: str) -> None:
    published = write_svhn(tmp_path / place)
    for part, first in (("labelled", 0), ("unlabelled", 5)):
        images = named(f"svhn:{part}", data=tmp_path)
        assert images is not None
        assert images.pixels.shape == (20, 3, 32, 32)
        assert images.classes == tuple(str(digit) for digit in range(first, first + 5))
        assert images.labels is not None
        for i, name in enumerate(images.names):
            item = int(name.removeprefix("train-"))
            assert np.array_equal(images.pixels[i], published[..., item].transpose(2, 0, 1))
            assert images.classes[images.labels[i]] == str((item + 1) % 10)  # 10 means 0


GOOD = {"X": random(32, 32, 3, 12), "y": np.ones((12, 1), dtype=np.uint8)}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"X": random(32, 32, 12)}, "X is uint8 (32, 32, 12), not uint8 (32, 32, 3, N)"),
        ({"X": random(3, 32, 32, 12)}, "X is uint8 (3, 32, 32, 12)"),
        ({"X": random(32, 32, 3, 12) / 255}, "X is float64"),
        ({"X": "text"}, "X is <U4"),
        ({"X": csc_matrix(np.eye(3))}, "does not hold the arrays X and y"),
        ({"y": np.ones((11, 1))}, "y is float64 (11, 1), not a digit for each of 12"),
        ({"y": np.full((12, 1), 11)}, "y has other values than the digits"),
        ({"y": np.full((12, 1), np.nan)}, "y has other values than the digits"),
        ({"y": np.full((12, 1), -1)}, "y has other values"),
        ({"y": np.full((12, 1), 7)}, "it has no digit of 0 to 4"),
    ],
)
def test_damage_is_described(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    savemat(tmp_path / "train_32x32.mat", {**GOOD, **changes})
    with pytest.raises(DataError) as caught:
        named("svhn:labelled", data=tmp_path)
    assert why in caught.value.message
    assert str(tmp_path / "train_32x32.mat") in caught.value.message
    assert "http://ufldl.stanford.edu/housenumbers/" in caught.value.hint


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_files_cut_short(tmp_path: Path, share: float) -> None:
    path = tmp_path / "svhn" / "train_32x32.mat"
    write_svhn(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(DataError, match=r"train_32x32\.mat is not as it was published"):
        named("svhn:labelled", data=tmp_path)


def test_an_array_that_is_missing(tmp_path: Path) -> None:
    savemat(tmp_path / "train_32x32.mat", {"X": GOOD["X"]})
    with pytest.raises(DataError, match="does not hold the arrays X and y"):
        named("svhn", data=tmp_path)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"looked for svhn/train_32x32\.mat or .* or train_32x32\.mat"):
        named("svhn", data=tmp_path)
    with pytest.raises(UsageError, match="Valid: labelled, unlabelled"):
        named("svhn:extra", data=tmp_path)
