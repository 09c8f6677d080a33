"""What the workbench works out: orders, questions, suggestions, splits and progress, on points made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from newkinds.app import orders, questions, splitting, suggestions
from newkinds.app.likely import EXAMPLES, examples, likely
from newkinds.app.points import SURE, components, looks
from newkinds.app.standing import standing
from newkinds.app.workbench import Slow
from newkinds.assignment import Assignment
from newkinds.clustering.neighbours import nearest_by_direction
from newkinds.corrections import Confirm, Merge, Move, State
from newkinds.errors import UsageError


def bunches(kinds: int = 3, each: int = 20, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return points of length 1 in bunches, and which bunch each is of."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(kinds), each).astype(np.int32)
    points = np.eye(kinds + 2)[truth] + 0.15 * random.normal(size=(len(truth), kinds + 2))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32), truth


def nobody(n: int) -> NDArray[np.bool_]:
    return np.zeros(n, dtype=np.bool_)


def test_looks_are_those_of_plain_loops() -> None:
    points, kind = bunches()
    confirmed = nobody(60)
    confirmed[3] = True
    found = looks(points, kind, 5, confirmed)  # two kinds are empty
    for number in range(3):
        total = sum(points[row] * (SURE if confirmed[row] else 1) for row in range(60) if kind[row] == number)
        np.testing.assert_allclose(found.centres[number], total / np.linalg.norm(total), atol=1e-6)
    for row in range(60):
        alike = [float(points[row] @ found.centres[one]) for one in range(3)]
        others = [(value, one) for one, value in enumerate(alike) if one != kind[row]]
        assert found.own[row] == pytest.approx(alike[kind[row]], abs=1e-6)
        assert (found.other[row], found.next[row]) == (pytest.approx(max(others)[0], abs=1e-6), max(others)[1])


def test_one_kind_alone_has_no_other() -> None:
    points, _ = bunches(1)
    found = looks(points, np.zeros(20, np.int32), 1, nobody(20))
    assert set(found.next.tolist()) == {-1}
    assert set(found.other.tolist()) == {-1}


def test_components_keep_who_is_near() -> None:
    points, truth = bunches(4, 30)
    wide = points @ np.random.default_rng(1).normal(size=(6, 300)).astype(np.float32)
    found = components(wide, width=5)
    assert found.shape == (120, 5)
    near = nearest_by_direction(found, 6)
    assert (truth[near] == truth[:, None]).mean() > 0.95


def test_orders_put_first_what_they_say() -> None:
    points, truth = bunches()
    kind = truth.copy()
    kind[5] = 2  # wrongly
    found = looks(points, kind, 3, nobody(60))
    members = np.flatnonzero(kind == 2)
    assert orders.doubtful(members, found, nobody(60))[0] == 5
    assert orders.typical(members, found)[-1] == 5
    sure = nobody(60)
    sure[5] = True
    assert orders.doubtful(members, found, sure)[-1] == 5
    by_likeness = orders.similar(members, points, 45)
    assert by_likeness[0] == 45
    assert sorted(by_likeness) == sorted(members)
    covers = orders.by_kind(kind, found.own, 4, 3)
    assert [len(rows) for rows in covers] == [3, 3, 3, 0]
    assert covers[1].tolist() == orders.typical(np.flatnonzero(kind == 1), found)[:3].tolist()


def test_a_kind_falls_into_its_bunches() -> None:
    points, truth = bunches(3, 15)
    members = np.arange(45)
    for parts in (splitting.in_parts(members, points, 3), splitting.around(members, points, [0, 20, 40])):
        assert sorted(np.concatenate(parts).tolist()) == members.tolist()
        assert all(len(set(truth[part].tolist())) == 1 for part in parts)
    seeds = splitting.around(members, points, [0, 1])
    assert {0, 1} == {int(row) for part in seeds for row in part if row in (0, 1)}
    assert len(seeds) == 2
    for bad in (1, 51, 46):
        with pytest.raises(UsageError):
            splitting.in_parts(members, points, bad)
    for bad_seeds in ([3], [3, 3], [3, 99]):
        with pytest.raises(UsageError):
            splitting.around(members, points, bad_seeds)


def test_what_is_likely_follows_the_examples() -> None:
    points, truth = bunches()
    confirmed = nobody(60)
    confirmed[[0, 1, 20, 21, 40, 41]] = True
    shown = examples(truth, confirmed)
    assert shown.tolist() == [0, 1, 20, 21, 40, 41]
    rows = np.flatnonzero(~confirmed)
    found = likely(rows, points, np.where(confirmed, truth, 0).astype(np.int32), shown)
    assert (found.kind == truth[rows]).mean() > 0.9
    assert (found.next != found.kind).all()
    nothing = likely(rows, points, truth, shown[:0])
    assert set(nothing.kind.tolist()) == {-1}
    many = examples(np.zeros(EXAMPLES + 50, np.int32), np.ones(EXAMPLES + 50, np.bool_))
    assert len(many) == EXAMPLES


def asked(kind: NDArray[np.int32], confirmed: NDArray[np.bool_], *status: str, **more: object) -> questions.Asked:
    points, _ = bunches(each=len(kind) // 3)
    found = looks(points, kind, len(status), confirmed)
    refused: dict[int, set[int]] = more.get("refused", {})  # type: ignore[assignment]
    return questions.Asked(points, kind, confirmed, status, found, refused)


def test_large_clear_kinds_are_asked_for_first_then_growth_then_borders() -> None:
    _, truth = bunches()
    kind = truth.copy()
    kind[20:26] = 0  # makes the first larger, and mixed
    confirmed = nobody(60)
    first = questions.questions(asked(kind, confirmed, "", "", ""))
    assert [one.sort for one in first] == ["check"] * 3
    assert first[0].kind == 2  # as many pictures, and clear
    assert set(first[0].rows.tolist()) == set(range(40, 60))
    passed = questions.questions(asked(kind, confirmed, "", "", ""), {first[0].key})
    assert first[0].key not in {one.key for one in passed}
    confirmed[[30, 31, 32, 2, 3, 45, 46]] = True
    grown = questions.questions(asked(kind, confirmed, "accepted", "accepted", "accepted"))
    assert {one.sort for one in grown} == {"grow"}
    second = next(one for one in grown if one.kind == 1)
    assert set(range(20, 26)) <= set(second.rows.tolist())  # what was put elsewhere is offered
    refused = {1: set(range(20, 26))}
    again = questions.questions(asked(kind, confirmed, "accepted", "accepted", "accepted", refused=refused))
    assert not set(range(20, 26)) & {row for one in again if one.kind == 1 for row in one.rows.tolist()}
    border = questions.questions(asked(kind, nobody(60), "accepted", "accepted", "accepted"))
    assert {one.sort for one in border} == {"border"}
    assert questions.questions(asked(kind, ~nobody(60), "accepted", "accepted", "accepted")) == []


def kinds_now(kind: NDArray[np.int32], count: int, **more: NDArray[np.bool_]) -> suggestions.Kinds:
    n = len(kind)
    plain = {"confirmed": nobody(n), "known": nobody(count), "closed": nobody(count), **more}
    return suggestions.Kinds(kind, plain["confirmed"], plain["known"], plain["closed"])


def test_votes_are_those_of_plain_loops() -> None:
    points, truth = bunches()
    near = nearest_by_direction(points, 6)
    confirmed = nobody(60)
    confirmed[::7] = True
    closed = np.array([False, True, False])
    found = suggestions.votes(near, kinds_now(truth, 3, confirmed=confirmed, closed=closed))
    for row in range(60):
        total = np.zeros(3)
        for other in near[row, 1:]:
            if not closed[truth[other]]:
                total[truth[other]] += SURE if confirmed[other] else 1
        np.testing.assert_allclose(found[row], total / max(total.sum(), 1e-9), atol=1e-6)


def test_pictures_among_others_of_another_kind_are_suggested_for_it_until_refused() -> None:
    points, truth = bunches()
    near = nearest_by_direction(points, 11)
    kind = truth.copy()
    kind[[1, 2]] = 2
    kind[50] = 1
    centres = looks(points, kind, 3, nobody(60)).centres
    found = suggestions.elsewhere(near, points, centres, kinds_now(kind, 3))
    sure = {(row, target) for row, target, gain in zip(found.rows, found.targets, found.gain, strict=True) if gain > 0}
    assert sure == {(1, 0), (2, 0), (50, 2)}
    confirmed = nobody(60)
    confirmed[1] = True
    less = suggestions.elsewhere(near, points, centres, kinds_now(kind, 3, confirmed=confirmed), {0: {2}})
    assert 1 not in less.rows
    assert (2, 0) not in set(zip(less.rows.tolist(), less.targets.tolist(), strict=True))
    closed = np.array([True, False, False])
    assert 0 not in suggestions.elsewhere(near, points, centres, kinds_now(kind, 3, closed=closed)).targets
    done = suggestions.elsewhere(near, points, centres, kinds_now(kind, 3, confirmed=~nobody(60)))
    assert len(done.rows) == 0


def test_two_halves_of_a_bunch_are_suggested_as_one_kind() -> None:
    points, truth = bunches()
    near = nearest_by_direction(points, 11)
    kind = truth.copy()
    kind[1:20:2] = 3
    (found,) = suggestions.alike(near, kinds_now(kind, 4))
    assert (found.first, found.second) == (0, 3)
    expected = np.mean([(kind[near[row, 1:6]] == 3).any() for row in range(60) if kind[row] == 0])
    assert found.shares[0] == pytest.approx(expected)
    both = np.array([True, False, False, True])
    assert suggestions.alike(near, kinds_now(kind, 4, known=both)) == []
    assert suggestions.alike(near, kinds_now(kind, 4, closed=both)) == []


def test_repeated_pictures_are_found_those_in_two_kinds_first() -> None:
    points, truth = bunches()
    points = np.concatenate([points, 0.1 * np.random.default_rng(2).normal(size=(60, 30))], axis=1).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[31], points[32] = points[30], points[30]
    points[45] = points[10]
    found = suggestions.repeated(nearest_by_direction(points, 11), points, kinds_now(truth, 3))
    assert [sorted(rows.tolist()) for rows in found] == [[10, 45], [30, 31, 32]]


def test_progress_counts_what_was_confirmed_and_what_the_machine_got_right() -> None:
    numbers = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]], dtype=np.float32)
    answer = Assignment(tuple("abcd"), ("new:0", "new:1"), numbers, {"calibrated": True})
    state = State(answer)
    assert standing(answer, state)["right"] == pytest.approx(0.75)
    state.apply(Confirm(kind="new:0", pictures=("a",)))
    state.apply(Move(pictures=("b",), to="new:1"))
    found = standing(answer, state)
    assert (found["confirmed"], found["left"], found["agreed"]) == (2, 2, 1)
    assert found["right"] == pytest.approx((2 + 0.6 + 0.7) / 4)
    state.apply(Merge(kinds=("new:0", "new:1")))
    assert standing(answer, state)["agreed"] == 2  # the kinds are one: the machine was right
    plain = Assignment(answer.names, answer.columns, numbers)
    assert standing(plain, State(plain))["right"] is None


def test_slow_things_are_made_once_and_their_errors_are_told() -> None:
    made: list[int] = []
    slow = Slow(lambda: made.append(1) or "found")
    assert slow.get(5) == slow.get(5) == "found"
    assert made == [1]

    def broken() -> None:
        raise UsageError("no")

    failed = Slow(broken)
    with pytest.raises(UsageError):
        failed.get(5)


def test_suggested_pictures_that_look_alike_lie_together() -> None:
    angles = np.array([0.0, 2.0, 0.1, 2.1, 0.2, 1.9])
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    rows = np.arange(6)
    assert suggestions.chained(rows, points).tolist() == [0, 2, 4, 5, 1, 3]
    assert suggestions.chained(rows[:1], points).tolist() == [0]
