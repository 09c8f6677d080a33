"""Pictures worth a look: doubtful, there twice, or unlike anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_up_runs import near_known

from newkinds.report.oddities import SHOWN, find_oddities


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(0).integers(20, 236, (40, 3, 16, 20), dtype=np.uint8)


def test_equal_pixels_are_found(make_data: Any, noise: np.ndarray) -> None:
    noise[7] = noise[2]
    noise[30] = noise[2]
    noise[12] = noise[11]
    kinds = np.zeros(40, dtype=np.int64)
    kinds[12] = 1
    found = find_oddities(make_data(40, 2, pixels=noise, kinds=kinds))
    assert found.n_same == (2, 5)
    assert [(group.items, group.size, group.kinds) for group in found.same] == [((11, 12), 2, 2), ((2, 7, 30), 3, 1)]
    assert found.near == ()


def test_nearly_equal_pictures_are_found(make_data: Any, noise: np.ndarray) -> None:
    noise[9] = np.clip(noise[4].astype(int) + 1, 0, 255)
    found = find_oddities(make_data(40, 2, pixels=noise))
    assert found.same == ()
    assert [group.items for group in found.near] == [(4, 9)]


def test_different_pictures_are_not_called_near(make_data: Any, noise: np.ndarray, flat: Any) -> None:
    assert find_oddities(make_data(40, 2, pixels=noise)).near == ()
    assert find_oddities(make_data(40, 2, pixels=flat(40))).same == ()


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (3, 2), (8, 8), (13, 40)])
def test_any_size_of_picture(make_data: Any, shape: tuple[int, int]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (12, 1, *shape), dtype=np.uint8)
    pixels[5] = pixels[6]
    found = find_oddities(make_data(12, 2, pixels=pixels))
    assert any({5, 6} <= set(group.items) for group in found.same)


def test_far_pictures_are_unlike_anything(make_data: Any) -> None:
    data = make_data(60, 3, pictures=False)
    features = data.features.copy()
    features[17] += 500
    found = find_oddities(make_data(60, 3, pictures=False, features=features))
    assert [item for item, _ in found.unlike] == [17]
    assert not found.beside_known
    assert found.looked_at == 60


def test_known_kinds_are_asked_too(make_data: Any) -> None:
    found = find_oddities(make_data(30, 2, nearest_known=near_known(30, 2)))
    assert found.unlike == ((3, 5.0),)
    assert found.beside_known
    assert found.looked_at == 30


@pytest.mark.parametrize("value", [0.0, 3.0, 1e30, 1e-30])
def test_odd_features(make_data: Any, value: float) -> None:
    found = find_oddities(make_data(12, 2, features=np.full((12, 4), value, dtype=np.float32)))
    assert found.unlike == ()


def test_doubtful_pictures_the_least_certain_first(make_data: Any) -> None:
    p = np.full((100, 3), 0.3, dtype=np.float32)
    p[:, 0] = np.linspace(0.4, 0.48, 100)
    data = make_data(100, 3, kinds=np.zeros(100, dtype=np.int64), probabilities=p)
    found = find_oddities(data)
    assert found.doubtful == tuple(range(SHOWN))
    sure = np.eye(3, dtype=np.float32)[np.zeros(100, dtype=int)]
    assert find_oddities(make_data(100, 3, kinds=data.labels, probabilities=sure)).doubtful == ()


def test_without_rehearsals_the_last_in_the_methods_order_are_doubtful(make_data: Any) -> None:
    kinds = np.zeros(100, dtype=np.int64)
    p = np.full((100, 3), 0.05, dtype=np.float32)
    p[:, 0] = np.linspace(0.9, 0.6, 100)
    assert find_oddities(make_data(100, 3, kinds=kinds, probabilities=p)).doubtful == ()
    found = find_oddities(make_data(100, 3, kinds=kinds, probabilities=p, rehearsals=0))
    assert found.doubtful == tuple(range(99, 99 - SHOWN, -1))
    sure = np.eye(3, dtype=np.float32)[kinds]
    assert find_oddities(make_data(100, 3, kinds=kinds, probabilities=sure, rehearsals=0)).doubtful == ()
