"""Which known kinds are hidden, and which of their pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from newkinds.rehearsal.draws import FEWEST_EACH, Draw, draw_heaps


def heaps(labels: np.ndarray[Any, Any], **changes: Any) -> list[Draw]:
    options = {"number": 4, "kinds": 4, "pictures": 80, "most": 1000, "seed": 0, "shared": True, **changes}
    unseen = options.pop("unseen", range(int(labels.max()) + 1))
    return draw_heaps(labels, unseen, **options)


def test_a_heap_has_as_many_kinds_as_the_real_one_and_differs_from_the_others() -> None:
    labels = np.repeat(np.arange(20), 20)
    found = heaps(labels)
    assert [len(draw.hidden) for draw in found] == [4, 4, 4, 4]
    assert len({draw.hidden for draw in found}) > 1
    for draw in found:
        assert set(labels[draw.items]) == set(draw.hidden)
        assert (np.diff(draw.items) > 0).all()


@pytest.mark.parametrize(
    ("known", "kinds", "others"),
    [(100, 28, (24, 40, 100)), (100, 10, (7, 11)), (54, 28, (12, 16, 24, 35)), (30, 10, (6, 20))],
)
def test_other_numbers_of_kinds_have_the_same_heaps(known: int, kinds: int, others: tuple[int, ...]) -> None:
    labels = np.repeat(np.arange(known), 40)
    mine = heaps(labels, kinds=kinds, pictures=kinds * 40)
    for other in others:
        found = heaps(labels, kinds=other, pictures=max(other, kinds) * 40)
        assert all(np.array_equal(a.items, b.items) for a, b in zip(mine, found, strict=True)), other
    assert len(heaps(labels, kinds=kinds // 4, pictures=kinds * 40)[0].hidden) < len(mine[0].hidden)


@pytest.mark.parametrize(("kinds", "about"), [(1, 2), (2, 2), (3, 4), (11, 8), (12, 16), (22, 16), (23, 32)])
def test_about_so_many_kinds_are_hidden(kinds: int, about: int) -> None:
    assert {len(draw.hidden) for draw in heaps(np.repeat(np.arange(100), 5), kinds=kinds)} == {about}
    assert 1 / 1.5 < about / max(2, kinds) < 1.5


def test_at_most_half_of_the_kinds_are_hidden_where_the_others_teach() -> None:
    labels = np.repeat(np.arange(9), 20)
    assert {len(draw.hidden) for draw in heaps(labels, kinds=30)} == {4}
    assert {len(draw.hidden) for draw in heaps(labels, kinds=30, shared=False)} == {8}


@pytest.mark.parametrize(("kinds", "shared", "number"), [(3, True, 0), (4, True, 4), (1, False, 0), (2, False, 4)])
def test_too_few_kinds_give_no_heap(kinds: int, shared: bool, number: int) -> None:
    assert len(heaps(np.repeat(np.arange(kinds), 20), shared=shared)) == number


def test_two_of_few_kinds_are_left_out_in_turn() -> None:
    found = heaps(np.repeat(np.arange(4), 20), number=6)
    assert len({draw.hidden for draw in found}) == 6  # all pairs of four kinds
    assert len(heaps(np.repeat(np.arange(4), 20), number=8)) == 8  # more than there are pairs


def test_kinds_with_too_few_pictures_are_not_hidden() -> None:
    labels = np.repeat(np.arange(12), [20] * 6 + [FEWEST_EACH - 1] * 6)
    assert {kind for draw in heaps(labels) for kind in draw.hidden} <= set(range(6))


def test_kinds_are_thinned_to_the_size_that_is_usual_in_the_heap() -> None:
    labels = np.repeat(np.arange(20), np.arange(20) + 100)
    for draw in heaps(labels, pictures=4 * 20):
        sizes = np.bincount(labels[draw.items])
        assert 16 <= sizes[sizes > 0].mean() <= 24  # steps of the square root of two
    for draw in heaps(labels, pictures=4 * 90):
        assert np.array_equal(draw.items, np.flatnonzero(np.isin(labels, draw.hidden)))  # nearly as many: all of them
    for draw in heaps(labels, pictures=10**6, most=200):
        assert len(draw.items) <= 210


def test_a_group_is_hidden_whole() -> None:
    groups = [f"alphabet {kind // 5}" for kind in range(15)]
    found = heaps(np.repeat(np.arange(15), 10), groups=groups, shared=False, number=3)
    assert [draw.hidden for draw in found] == [tuple(range(first, first + 5)) for first in (0, 5, 10)]


def test_groups_keep_the_size_that_is_usual_in_the_heap() -> None:
    groups = [f"alphabet {kind // 5}" for kind in range(15)]
    labels = np.repeat(np.arange(15), 20)
    for draw in heaps(labels, groups=groups, shared=False, kinds=47, pictures=47 * 20):
        assert len(draw.items) == 5 * 20


def test_only_unseen_kinds_are_hidden_and_the_seed_decides() -> None:
    labels = np.repeat(np.arange(20), 20)
    assert {kind for draw in heaps(labels, unseen=range(10, 20)) for kind in draw.hidden} <= set(range(10, 20))
    assert [draw.hidden for draw in heaps(labels)] == [draw.hidden for draw in heaps(labels)]
    assert [draw.hidden for draw in heaps(labels)] != [draw.hidden for draw in heaps(labels, seed=1)]
