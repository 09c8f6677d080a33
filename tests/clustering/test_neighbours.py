"""Nearest neighbours by direction: exact, in tiles, in memory that does not grow with their square."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from newkinds.clustering import neighbours as module
from newkinds.clustering.neighbours import directions, directions_float32, nearest_by_direction, neighbours_averaged
from newkinds.randomness import one_thread


def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 7)
    monkeypatch.setattr(module, "COLUMNS", 11)


def by_hand(features: NDArray, neighbours: int) -> NDArray:
    """Average over neighbours picture by picture, in float64."""
    lengths = np.linalg.norm(features, axis=1)
    unit = features.astype(np.float64) / lengths[:, None]
    for _ in range(2):
        nearest = [sorted(range(len(unit)), key=lambda j: -float(one @ unit[j]))[:neighbours] for one in unit]
        unit = np.stack([unit[some].mean(axis=0) for some in nearest])
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return unit * lengths.mean()


@pytest.mark.parametrize("neighbours", [2, 7, 40])
def test_features_are_averaged_over_neighbours_as_by_hand(neighbours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).normal(1, 2, (40, 6)).astype(np.float32)
    expected = by_hand(features, neighbours)
    found = neighbours_averaged(features, neighbours)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, atol=1e-4)
    small_tiles(monkeypatch)
    assert np.allclose(neighbours_averaged(features, neighbours), found, atol=1e-6)
    assert np.array_equal(
        neighbours_averaged(features, neighbours, nearest_by_direction(features, neighbours + 1)),
        neighbours_averaged(features, neighbours),
    )
    monkeypatch.setattr(module, "PRECISE", 0)
    assert np.allclose(neighbours_averaged(features, neighbours), found, atol=1e-5)


def test_averaging_over_neighbours_takes_all_there_are_and_bears_empty_features() -> None:
    features = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    assert neighbours_averaged(features, 0) is features
    assert neighbours_averaged(features, 1) is features
    assert np.allclose(neighbours_averaged(features, 50), neighbours_averaged(features, 5))
    features[2] = 0
    assert np.isfinite(neighbours_averaged(features, 3)).all()
    assert (neighbours_averaged(np.zeros((4, 3), np.float32), 3) == 0).all()


def test_averaging_over_neighbours_brings_kinds_apart() -> None:
    random = np.random.default_rng(2)
    centres = random.normal(size=(4, 16))
    labels = np.repeat(np.arange(4), 50)
    features = (centres[labels] + random.normal(scale=1.0, size=(200, 16))).astype(np.float32)

    def tightness(points: NDArray) -> float:
        means = np.stack([points[labels == kind].mean(axis=0) for kind in range(4)])
        return float(np.var(means[labels]) / np.var(points))

    assert tightness(neighbours_averaged(features, 10)) > 1.3 * tightness(features)


def test_the_nearest_by_direction_are_so_whatever_their_length() -> None:
    angles = np.array([0.0, 0.1, 0.25, 2.0, 2.1])
    lengths = np.array([1.0, 9.0, 0.1, 5.0, 0.01])
    points = (np.stack([np.cos(angles), np.sin(angles)], axis=1) * lengths[:, None]).astype(np.float32)
    assert nearest_by_direction(points, 2).tolist() == [[0, 1], [1, 0], [2, 1], [3, 4], [4, 3]]
    assert nearest_by_direction(points, 9).shape == (5, 5)


@pytest.mark.parametrize("precise", [0, 20_000])
@pytest.mark.parametrize("number", [1, 5, 30])
def test_tiles_change_nothing(number: int, precise: int, monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(4).normal(size=(150, 5)).astype(np.float32)
    unit = directions(features)
    expected = np.argsort(-(unit @ unit.T), axis=1, kind="stable")[:, :number]
    small_tiles(monkeypatch)
    monkeypatch.setattr(module, "PRECISE", precise)
    assert np.array_equal(nearest_by_direction(features, number), expected)


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(5).normal(size=(300, 9)).astype(np.float32)
    small_tiles(monkeypatch)
    with one_thread():
        expected = nearest_by_direction(features, 6)
        torch.set_num_threads(3)  # `one_thread` restores it
        assert np.array_equal(nearest_by_direction(features, 6), expected)


def test_directions_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(6).normal(size=(50, 7)).astype(np.float32)
    features[3] = 0
    expected = directions(features)
    assert np.allclose(np.linalg.norm(expected, axis=1), np.arange(50) != 3)
    monkeypatch.setattr("newkinds.memory.AT_ONCE", 20)  # two pictures at a time
    assert directions(features).tobytes() == expected.tobytes()
    assert directions_float32(features).tobytes() == expected.astype(np.float32).tobytes()


class Largest(TorchDispatchMode):
    """Notes how many bytes are allocated for the largest tensor, and how often one of at least `most` bytes is."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.times, self.largest = most, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {one.untyped_storage().data_ptr() for one in (*args, *(kwargs or {}).values()) if torch.is_tensor(one)}
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, (tuple, list)) else (out,):
            if torch.is_tensor(one) and one.untyped_storage().data_ptr() not in given:
                self.largest = max(self.largest, one.untyped_storage().nbytes())
                self.times += one.untyped_storage().nbytes() >= self.most
        return out


def test_one_tile_is_held_whatever_the_number_of_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 64)
    monkeypatch.setattr(module, "COLUMNS", 256)
    tile = 64 * 256 * 8
    for pictures in (300, 1200):
        features = np.random.default_rng(7).normal(size=(pictures, 4)).astype(np.float32)
        with one_thread(), Largest(tile) as seen:
            nearest_by_direction(features, 5)
        assert seen.largest == tile
        assert seen.times == 1  # freed and allocated again, tiles would fragment the heap


PEAK = """
import numpy as np
from newkinds.clustering.neighbours import neighbours_averaged
from newkinds.memory import PeakMemory, keep_freed_memory

keep_freed_memory()
features = np.random.default_rng(0).normal(size=(12000, 16)).astype(np.float32)
neighbours_averaged(features[:100], 10)
peak = PeakMemory()
before = peak.megabytes()
neighbours_averaged(features, 10)
print(peak.megabytes() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_averaging_takes_no_memory_of_all_pairs() -> None:
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PEAK], check=True, capture_output=True, text=True, env=alone)
    assert float(done.stdout) < 60  # MB; all pairs in float64 would be 1,100, and freed blocks of them once took 900
