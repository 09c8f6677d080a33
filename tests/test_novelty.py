"""Novelty: what tells new from known pictures, and how many are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from newkinds import novelty
from newkinds.novelty import Draw, judge, shifted, signals


def blobs(random: np.random.Generator, kinds: int, each: int, centres: NDArray[np.float64]) -> NDArray[np.float32]:
    rows = np.repeat(centres[:kinds], each, axis=0) + 0.35 * random.normal(size=(kinds * each, centres.shape[1]))
    return rows.astype(np.float32)


def world(
    seed: int, known: int, new: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], list[Draw]]:
    """Return labelled pictures of 8 kinds, their labels, a heap of so many pictures a kind, and three rehearsals."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(20, 12))
    labelled, labels = blobs(random, 8, 30, centres), np.repeat(np.arange(8), 30)
    heap = np.concatenate([blobs(random, 8, known, centres), blobs(random, 6, new, centres[14:])])
    draws = []
    for number in range(3):
        order = np.random.default_rng(number).permutation(8)
        hidden = np.isin(labels, order[:3])
        half = np.arange(len(labels)) % 2 == 0
        rows = np.random.default_rng(number).permutation(np.flatnonzero(~hidden & half))
        own = np.unique(labels[rows], return_inverse=True)[1]
        draws.append(Draw(labelled[rows], own, labelled[hidden], labelled[~hidden & ~half]))
    return labelled, labels, heap, draws


@pytest.mark.parametrize(("known", "new"), [(0, 30), (10, 30), (30, 10), (30, 0)])
def test_the_share_of_known_pictures_is_found_and_new_ones_are_told_apart(known: int, new: int) -> None:
    labelled, labels, heap, draws = world(0, known, new)
    found = judge(labelled, labels, heap, draws)
    is_new = np.arange(len(heap)) >= 8 * known
    assert abs(found.known - (1 - is_new.mean())) < 0.12
    assert found.low <= found.known <= found.high
    assert found.draws == 3
    if 0 < is_new.mean() < 1:
        assert roc_auc_score(is_new, found.probability) > 0.97


def test_without_rehearsals_other_data_sets_speak() -> None:
    labelled, labels, heap, _ = world(1, 20, 20)
    found = judge(labelled, labels, heap, [])
    assert found.draws == 0
    assert roc_auc_score(np.arange(len(heap)) >= 160, found.probability) > 0.9


def test_signals_do_not_depend_on_the_scale_of_features() -> None:
    labelled, labels, heap, _ = world(2, 10, 10)
    expected = signals(labelled, labels, heap)
    assert expected.shape == (len(heap), len(novelty.NAMES))
    assert np.allclose(signals(7 * labelled, labels, 7 * heap), expected, atol=1e-5)


def test_a_known_kind_with_one_picture_and_a_heap_of_one_do_no_harm() -> None:
    labelled, labels, heap, _ = world(3, 5, 5)
    alone = np.append(labels, 8)
    assert np.isfinite(signals(np.concatenate([labelled, heap[-1:]]), alone, heap)).all()
    assert np.isfinite(signals(labelled, labels, heap[:1])).all()


def test_probabilities_follow_the_share() -> None:
    half = np.array([0.2, 0.5, 0.9])
    assert np.allclose(shifted(half, 0.5), half)
    assert (shifted(half, 0.1) < half).all()
    assert np.isclose(shifted(np.array([0.5]), 0.3)[0], 0.3)
