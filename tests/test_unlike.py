"""Pictures that are of none of the kinds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from newkinds.assignment import Assignment
from newkinds.unlike import (
    EACH,
    FAR,
    NAMES,
    OTHERS,
    Hidden,
    OfHeap,
    References,
    Unlike,
    learn,
    rejected,
)

Rows = np.ndarray


def kinds_of_pictures(kinds: range, each: int, seed: int = 0, width: int = 24) -> tuple[Rows, Rows]:
    """Return pictures around the means of kinds, and their kinds; the same kind has the same mean for any seed."""
    rows, labels = [], []
    for kind in kinds:
        mean = np.random.default_rng([7, kind]).normal(size=width)
        rows.append(mean + 0.35 * np.random.default_rng([seed, kind, 1]).normal(size=(each, width)))
        labels += [kind] * each
    return np.concatenate(rows).astype(np.float32), np.array(labels, dtype=np.int64)


def taught(new: int = 8, known: int = 12, seed: int = 0, *, hidden: bool = True) -> tuple[Unlike, OfHeap]:
    """Return what tells kinds 0 to 19 from others, of which the first 8 are new, and how unlike the heap is."""
    labelled, labels = kinds_of_pictures(range(new, new + known), 20, 1)
    heap, kinds = kinds_of_pictures(range(new + known), 20, 2)
    out = labels >= new + known - 4
    half = np.arange(len(labels)) % 2 == 0
    parts = Hidden(labelled[~out & half], labels[~out & half], labelled[out], labels[out], labelled[~out & ~half])
    found = learn(labelled, labels, heap, kinds, new, seed, [parts] if hidden else [])
    assert found is not None
    return found


@pytest.mark.parametrize("hidden", [True, False])
def test_strangers_are_told_and_members_are_not(hidden: bool) -> None:
    unlike, _ = taught(hidden=hidden)
    members, strangers = kinds_of_pictures(range(20), 30, 3)[0], kinds_of_pictures(range(20, 60), 10, 3)[0]
    for rate in (0.02, 0.05, 0.2):
        assert rejected(unlike.one_by_one(members), rate).mean() == pytest.approx(rate, abs=0.02 + rate / 2)
        assert rejected(unlike(members), rate).mean() < 0.02 + 1.5 * rate
    assert rejected(unlike.one_by_one(strangers), 0.05).mean() > 0.9
    assert rejected(unlike(strangers), 0.05).mean() > 0.95
    assert not rejected(unlike(strangers), 0).any()
    more, fewer = (rejected(unlike(members), rate) for rate in (0.2, 0.05))
    assert (more | ~fewer).all()  # what is rejected at a lower rate is rejected at a higher one


def test_a_picture_that_comes_alone_is_judged_alone() -> None:
    unlike, _ = taught()
    rows = np.concatenate([kinds_of_pictures(range(3), 2, 3)[0], kinds_of_pictures(range(30, 33), 2, 3)[0]])
    alone = np.concatenate([unlike(row[None]) for row in rows])
    np.testing.assert_array_equal(alone, unlike.one_by_one(rows))


def test_clearly_none_are_strangers_and_a_heap_without_them_has_none() -> None:
    labelled, labels = kinds_of_pictures(range(8, 20), 20, 1)
    heap, kinds = kinds_of_pictures(range(20), 20, 2)
    odd = kinds_of_pictures(range(40, 70), 1, 3)[0]  # a single picture of each
    nearest = np.array([np.argmax([row @ heap[kinds == kind].mean(axis=0) for kind in range(20)]) for row in odd])
    half = np.arange(len(labels)) % 2 == 0
    out = labels >= 16
    parts = Hidden(labelled[~out & half], labels[~out & half], labelled[out], labels[out], labelled[~out & ~half])
    found = learn(labelled, labels, np.concatenate([heap, odd]), np.r_[kinds, nearest], 8, 0, [parts])
    assert found is not None
    clearly = found[1].clearly_none(0.05)
    assert clearly[len(heap) :].mean() > 0.7
    assert clearly[: len(heap)].mean() < 0.05
    assert not found[1].all_are
    assert not found[1].clearly_none(0.0).any()
    assert taught()[1].clearly_none(0.05).mean() < 0.01


def test_a_heap_in_which_nothing_has_its_like() -> None:
    labelled, labels = kinds_of_pictures(range(8, 20), 20, 1)
    heap = kinds_of_pictures(range(40, 140), 1, 3)[0]
    half, out = np.arange(len(labels)) % 2 == 0, labels >= 16
    parts = Hidden(labelled[~out & half], labels[~out & half], labelled[out], labels[out], labelled[~out & ~half])
    found = learn(labelled, labels, heap, np.arange(100) % 8, 8, 0, [parts])
    assert found is not None
    assert found[1].all_are


def slow(references: References, picture: Rows, left_out: set[int]) -> list[float]:
    """Return the signals of one picture, one by one."""

    def distance(a: Rows, b: Rows) -> float:
        a, b = a.astype(float), b.astype(float)
        return math.dist(a / np.linalg.norm(a), b)

    rows = [row for row in range(len(references.kinds)) if row not in left_out]
    far = {row: distance(picture, references.features[row]) for row in rows}
    near = sorted(far, key=lambda row: far[row])[:3]
    mean = math.log(sum(far[row] for row in near) / 3)
    by_kind = {int(k): FAR for k in references.kinds}
    for row in rows:
        by_kind[int(references.kinds[row])] = min(by_kind[int(references.kinds[row])], far[row])
    kind = min(by_kind, key=lambda k: by_kind[k])
    others = sorted(by_kind.values())[1 : OTHERS + 1]
    own = references.scale[references.kinds == kind]
    return [
        math.log(far[near[0]]),
        math.log(far[near[0]]) - references.scale[near[0]],
        mean - float(np.mean(references.scale[near])),
        math.log(float(np.mean(others)) / by_kind[kind]),
        (mean - float(own.mean())) / (float(own.std()) + 0.05),
    ]


def test_signals_against_a_slow_reference() -> None:
    features, kinds = kinds_of_pictures(range(8), 5, width=6)
    turned = (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32)
    references = References.of(turned, kinds)
    others = kinds_of_pictures(range(10), 2, 5, width=6)[0]
    for picture, signals in zip(others, references.signals(others), strict=True):
        assert signals == pytest.approx(slow(references, picture, set()), rel=1e-4, abs=1e-4)
    rows = np.arange(len(kinds))
    for row, signals in zip(rows, references.signals(features, rows), strict=True):
        assert signals == pytest.approx(slow(references, features[row], {int(row)}), rel=1e-4, abs=1e-4)
    for row, signals in zip(rows, references.signals(features, kinds, apart=True), strict=True):
        left_out = set(np.flatnonzero(kinds == kinds[row]).tolist())
        assert signals == pytest.approx(slow(references, features[row], left_out), rel=1e-4, abs=1e-4)


def test_the_scale_by_hand() -> None:
    # Three directions of one kind in the plane: at 0, 60 and 90 degrees. From 60 the others are 1 and .5176 away.
    angles = np.deg2rad([0, 60, 90, 200])
    features = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    references = References.of(features, np.array([0, 0, 0, 1]))
    chord = [2 * math.sin(math.radians(half)) for half in (30, 15, 45)]
    assert references.scale[1] == pytest.approx(math.log((chord[0] + chord[1]) / 2), abs=1e-6)
    assert references.scale[3] == pytest.approx(references.scale[:3].mean())  # a single picture has that of the others


def test_there_and_back_and_bounded() -> None:
    labelled, labels = kinds_of_pictures(range(2, 5), 3 * EACH, 1)
    heap, kinds = kinds_of_pictures(range(5), 10, 2)
    found = learn(labelled, labels, heap, kinds, 2, 0)
    assert found is not None
    unlike = found[0]
    assert np.bincount(unlike.references.kinds).tolist() == [10, 10, EACH, EACH, EACH]
    again = Unlike.from_tensors(unlike.to_tensors(), unlike.references.features.shape[1])
    assert again is not None
    others = kinds_of_pictures(range(4, 8), 5, 3)[0]
    np.testing.assert_array_equal(again(others), unlike(others))
    assert unlike.to_tensors()["unlike.references"].element_size() == 2
    assert Unlike.from_tensors({}, 8) is None


def test_the_same_seed_gives_the_same() -> None:
    first, second, other = taught(seed=1), taught(seed=1), taught(seed=2)
    np.testing.assert_array_equal(first[1].unlike, second[1].unlike)
    assert first[0].references.features.shape == other[0].references.features.shape


@pytest.mark.parametrize(("new", "known"), [(1, 1), (0, 2), (2, 0), (5, 1)])
def test_few_kinds(new: int, known: int) -> None:
    heap, kinds = kinds_of_pictures(range(new + known), 4, 2)
    labelled, labels = kinds_of_pictures(range(new, new + known), 1, 1) if known else (heap[:0], kinds[:0])
    found = learn(labelled, labels, heap, kinds, new, 0)
    assert found is not None
    assert np.isfinite(found[1].unlike).all()
    assert found[0].references.signals(heap).shape == (len(heap), len(NAMES))


def test_one_kind_has_nothing_to_compare() -> None:
    heap, kinds = kinds_of_pictures(range(1), 4)
    assert learn(heap[:0], kinds[:0], heap, kinds, 1, 0) is None


def test_the_answer_gets_a_column() -> None:
    unlike, _ = taught()
    rows = np.concatenate([kinds_of_pictures(range(3), 1, 3)[0], kinds_of_pictures(range(30, 33), 1, 3)[0]])
    p = np.full((6, 20), 0.01, dtype=np.float32)
    p[np.arange(6), np.arange(6)] = 0.81
    columns = (*(f"new:{k}" for k in range(8)), *(f"known:{k}" for k in range(12)))
    before = Assignment(tuple("abcdef"), columns, p)
    after = unlike.apply(before, unlike(rows), 0.05)
    assert after.kinds.tolist() == ["new:0", "new:1", "new:2", "none", "none", "none"]
    np.testing.assert_array_equal(after.probabilities[:3, :-1], p[:3])  # what is kept stays as it was
    assert (after.probability[3:] >= 0.5).all()
    assert (after.probabilities.sum(axis=1) <= 1 + 1e-6).all()
    again = unlike.apply(after, unlike(rows), 0.05)
    assert again.columns == after.columns
