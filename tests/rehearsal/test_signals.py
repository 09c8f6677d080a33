"""What is seen of pictures that were sorted."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from newkinds.clustering import kmeans
from newkinds.rehearsal import signals as module
from newkinds.rehearsal.signals import NAMES, RUNS, Unsorted, signals


def mixture(kinds: int = 4, each: int = 40, apart: float = 8.0) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(kinds), each)
    points = apart * np.eye(kinds, 8)[labels] + rng.normal(size=(len(labels), 8))
    return labels, points.astype(np.float32)


def test_kinds_that_are_there_look_sure_and_made_up_ones_do_not() -> None:
    labels, points = mixture()
    sure = signals(labels, points)
    unsure = signals(np.random.default_rng(1).permutation(labels), points)
    assert sure.shape == (len(labels), len(NAMES))
    told = [NAMES.index(name) for name in ("neighbours", "stability", "kind's neighbours", "kind's stability")]
    assert (sure[:, told].mean(axis=0) > 0.95).all()
    assert (unsure[:, told].mean(axis=0) < 0.5).all()
    borders = [NAMES.index(name) for name in ("border", "kind's border")]
    assert (sure[:, borders].mean(axis=0) < 0.5).all()
    assert (unsure[:, borders].mean(axis=0) > 0.8).all()


def test_the_border_is_where_two_kinds_are_equally_far_and_of_a_single_kind_there_is_none() -> None:
    turn = np.deg2rad([0.0, 20.0, 80.0, 100.0, 45.0])
    points = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    border = NAMES.index("border")
    labels = np.array([0, 0, 1, 1, 0])  # the kinds' directions are 21.5 and 90 degrees
    found = signals(labels, points)[:, border]
    centre = np.arctan2(*points[labels == 0].sum(axis=0)[::-1])
    expected = (1 - np.cos(turn[4] - centre)) / (1 - np.cos(np.pi / 2 - turn[4]))
    assert found[4] == pytest.approx(expected, rel=1e-4)
    assert found[4] > found[1] > 0
    assert (signals(np.zeros(5, np.int64), points)[:, border] == 0).all()


def test_a_kind_cut_in_two_and_two_thrown_together_are_seen_by_their_size() -> None:
    labels, points = mixture()
    cut = np.where((labels == 0) & (np.arange(len(labels)) % 2 == 0), 4, labels)
    together = np.where(labels == 1, 0, labels)
    larger, smaller = NAMES.index("kind too large"), NAMES.index("kind too small")
    assert (signals(cut, points)[cut == 4, smaller] > 0.4).all()
    assert (signals(together, points)[together == 0, larger] > 0.2).all()
    assert (signals(labels, points)[:, [larger, smaller]] == 0).all()


def test_numbers_of_kinds_may_have_gaps_and_their_order_does_not_matter() -> None:
    labels, points = mixture()
    assert np.array_equal(signals(labels, points), signals(np.array([7, 2, 9, 4])[labels], points))


def test_what_does_not_depend_on_the_sorting_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, points = mixture()
    calls = []
    monkeypatch.setattr(module, "kmeans", lambda *args, **options: calls.append(1) or kmeans(*args, **options))
    both = labels, np.random.default_rng(1).permutation(labels)
    pictures = Unsorted(points, seed=3)
    shared = [signals(some, pictures) for some in both]
    assert len(calls) == RUNS
    assert all(np.array_equal(mine, signals(some, points, seed=3)) for mine, some in zip(shared, both, strict=True))
