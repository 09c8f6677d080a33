"""The confusion matrix and what is wrong in it, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from newkinds.equations import clustering_accuracy
from newkinds.report.mistakes import find_mistakes


def test_by_hand(make_data: Any) -> None:
    # Kind 0: b b b a; kind 1: a a; kind 2: c b.
    truth = ("b", "b", "b", "a", "a", "a", "c", "b")
    kinds = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    found = find_mistakes(make_data(8, 3, kinds=kinds, truth=truth))
    assert found is not None
    assert (found.truths, found.kinds) == (("b", "a", "c"), (0, 1, 2))
    assert found.counts.tolist() == [[3, 0, 1], [1, 2, 0], [0, 0, 1]]
    assert found.matched == {0: "b", 1: "a", 2: "c"}
    assert found.right == {0: (3, 4), 1: (2, 2), 2: (1, 2)}
    assert found.found == ((3, 4), (2, 3), (1, 1))
    assert found.share(3, 4) == "75%"
    assert (found.correct, found.named) == (6, 8)
    assert {(m.truth, m.kind, m.meant, m.count, m.items) for m in found.largest} == {
        ("a", 0, "b", 1, (3,)),
        ("b", 2, "c", 1, (7,)),
    }
    assert found.correct / found.named == clustering_accuracy(kinds, np.array([1, 1, 1, 0, 0, 0, 2, 1]))


def test_without_truth_there_are_no_mistakes(make_data: Any) -> None:
    assert find_mistakes(make_data(8, 2, with_truth=False)) is None
    assert find_mistakes(make_data(8, 2, truth=("",) * 8)) is None


def test_pictures_that_nobody_named_do_not_count(make_data: Any) -> None:
    kinds = np.repeat([0, 1, 2], 20)
    found = find_mistakes(make_data(60, 3, kinds=kinds, truth=("a",) * 20 + ("b",) * 10 + ("",) * 30))
    assert found is not None
    assert (found.named, found.correct, found.truths) == (30, 30, ("a", "b"))
    assert found.largest == ()
    # In numbers, of those that have a truth: a kind may have one or none.
    assert found.right == {0: (20, 20), 1: (10, 10), 2: (0, 0)}
    assert [found.share(*found.right[kind]) for kind in range(3)] == ["20 of 20", "10 of 10", "–"]


def test_too_few_pictures_match_nothing(make_data: Any) -> None:
    assert find_mistakes(make_data(60, 2, truth=("a", "b", *[""] * 58))) is None


def test_more_kinds_than_true_ones(make_data: Any) -> None:
    found = find_mistakes(make_data(6, 4, kinds=np.array([0, 0, 0, 1, 1, 3]), truth=("a",) * 3 + ("b", "b", "a")))
    assert found is not None
    assert found.matched == {0: "a", 1: "b"}
    assert found.right == {0: (3, 3), 1: (2, 2), 2: (0, 0), 3: (0, 1)}
    assert found.share(0, 1) == "0%"
    assert found.share(0, 0) == "–"
    (only,) = found.largest
    assert (only.kind, only.truth, only.meant, only.count, only.of) == (3, "a", None, 1, 1)


def test_the_largest_come_first_with_the_surest_pictures(make_data: Any) -> None:
    data = make_data(300, 5, truth=tuple(f"t{(i * i) % 7}" for i in range(300)))
    found = find_mistakes(data)
    assert found is not None
    counts = [mistake.count for mistake in found.largest]
    assert counts == sorted(counts, reverse=True)
    for mistake in found.largest:
        own = data.own_probability[list(mistake.items)]
        assert (np.diff(own) <= 0).all()
        assert {data.truth[i] for i in mistake.items} == {mistake.truth}
        assert set(data.labels[list(mistake.items)]) == {mistake.kind}


def test_shares_of_true_kinds(make_data: Any) -> None:
    found = find_mistakes(make_data(40, 4))
    assert found is not None
    np.testing.assert_allclose(found.shares.sum(axis=1), 1)
    assert found.as_table
    many = find_mistakes(make_data(60, 2, truth=tuple(map(str, range(60)))))
    assert many is not None
    assert not many.as_table
