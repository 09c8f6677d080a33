"""A trained network as an object: what it says of itself, its features, and where it may be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds as nk
from newkinds.errors import DataError

SMALL: dict[str, Any] = {
    "pretrain": {"epochs": 1},
    "rehearse": {"rehearsals": 1},
    "discover": {"warmup_epochs": 0, "epochs": 1, "snapshots": 0},
}


@pytest.fixture(scope="module")
def file(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nk.pretrain(photos / "known", out=tmp_path_factory.mktemp("net"), settings=SMALL)


def test_it_says_what_it_is(file: Path) -> None:
    net = nk.load_network(file)
    assert net.classes == tuple(sorted(net.classes))
    assert len(net.classes) > 1
    told = f"{net.network.feature_dim} features, trained on {len(net.classes)} kinds"
    assert repr(net) == f"<TrainedNetwork {net.name} in {file}: {told}>"
    assert nk.load_network(file.parent).path == file  # a run folder will do


def test_its_features_are_those_of_a_run(file: Path, photos: Path, tmp_path: Path) -> None:
    net = nk.load_network(file)
    found = nk.discover(
        photos / "known", photos / "unsorted", out=tmp_path / "run", kinds=2, weights=net, settings=SMALL, page=False
    )
    features = net.features(photos / "unsorted")
    assert features.shape == (len(found.names), net.network.feature_dim)
    np.testing.assert_array_equal(features, np.load(tmp_path / "run" / "features" / "unsorted.npy"))


def test_a_file_that_is_no_network(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"a\.safetensors is not a safetensors file"):
        nk.load_network(tmp_path / "a.safetensors")
    with pytest.raises(DataError, match="cannot be read"):
        nk.load_network(tmp_path / "none.safetensors")
