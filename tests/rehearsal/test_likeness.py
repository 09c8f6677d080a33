"""How like the known pictures a heap is."""

from __future__ import annotations

import numpy as np
import pytest

from newkinds.rehearsal.likeness import far_in_words, likeness


def test_likeness_by_hand() -> None:
    known = np.array([[1, 0], [0, 2]], dtype=np.float32)
    heap = np.array([[3, 0], [1, 1]], dtype=np.float32)  # the same direction as one, and between both
    assert likeness(heap, known) == pytest.approx((1 + np.sqrt(0.5)) / 2)


def test_a_sample_is_enough_and_the_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    heap, known = (random.normal(size=(400, 6)).astype(np.float32) for _ in range(2))
    whole = likeness(heap, known)
    monkeypatch.setattr("newkinds.rehearsal.likeness.MOST", 300)
    assert likeness(heap, known, seed=1) == likeness(heap, known, seed=1)
    assert likeness(heap, known) == pytest.approx(whole, abs=0.05)


def test_a_heap_far_from_the_known_kinds_is_called_so() -> None:
    assert far_in_words(0.45, [0.44, 0.47, 0.43]) == ""
    assert far_in_words(0.60, [0.44, 0.47, 0.43]) == ""  # nearer than usual is no reason to warn
    assert "0.23 on average, against 0.43 to 0.47" in far_in_words(0.23, [0.44, 0.47, 0.43])
    assert far_in_words(0.41, [0.44, 0.44, 0.44]) == ""  # rehearsals that happen to agree
    assert far_in_words(0.1, [0.44]) == ""  # one alone does not tell what is usual
