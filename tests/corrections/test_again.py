"""Sorting again: what a person said stays, its like follows, and kinds that persist keep their numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds.assignment import Assignment
from newkinds.corrections import History, Merge, Move, Reject, State
from newkinds.corrections.again import Said, renumbered, sorted_anew, what_was_said
from newkinds.errors import DataError


def clouds(kinds: int = 4, each: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return points around as many directions, and which cloud each is of."""
    rng = np.random.default_rng(seed)
    centres = np.eye(kinds, 8) * 3
    truth = np.repeat(np.arange(kinds), each)
    return (centres[truth] + rng.normal(size=(len(truth), 8))).astype(np.float32), truth


def sure(labels: np.ndarray, columns: tuple[str, ...]) -> Assignment:
    names = tuple(f"{number:03d}.jpg" for number in range(len(labels)))
    return Assignment(names, columns, np.eye(len(columns), dtype=np.float32)[labels], {})


def test_the_like_of_what_was_moved_follows() -> None:
    points, truth = clouds()
    mixed = truth.copy()
    mixed[truth == 1] = 0  # two clouds in one kind
    mixed[truth > 1] -= 1
    machine = sure(mixed, ("new:0", "new:1", "new:2"))
    history = History(machine)
    moved = tuple(machine.names[row] for row in np.flatnonzero(truth == 1)[:6])
    history.take(1, history.resolved(Move(pictures=moved, to="fresh")))
    said = what_was_said(machine, history.state, 1)
    found = sorted_anew(machine.names, said, points, machine.source)
    assert found.columns == ("new:0", "new:1", "new:2", "new:3")
    right = np.array(["new:0", "new:3", "new:1", "new:2"])[truth]
    before = (history.state.kind_of(machine.names[row]) == right[row] for row in range(len(truth)))
    assert np.mean(list(before)) < 0.82
    assert (found.kinds == right).mean() > 0.95
    assert found.source["again"] == 1


@given(st.integers(0, 10_000))
def test_what_was_said_always_stays(seed: int) -> None:
    points, truth = clouds(each=8)
    rng = np.random.default_rng(seed)
    machine = sure(rng.integers(0, 4, len(truth)), ("new:0", "new:1", "known:bolt", "none"))
    said = Said(machine.columns, machine.labels, rng.random(len(truth)) < 0.4, 1 + machine.labels, 3)
    found = sorted_anew(machine.names, said, points, {})
    np.testing.assert_array_equal(found.labels[said.pinned], machine.labels[said.pinned])
    none = machine.kinds == "none"
    np.testing.assert_array_equal(found.kinds == "none", none)
    assert Said.from_dict(said.to_dict()).to_dict() == said.to_dict()
    assert np.isfinite(found.probabilities).all()


def test_merged_and_rejected_kinds_are_not_found_again() -> None:
    points, truth = clouds()
    machine = sure(truth, ("new:0", "new:1", "new:2", "new:3"))
    history = History(machine)
    for line, action in enumerate((Merge(kinds=("new:0", "new:1")), Reject(kinds=("new:3",))), 1):
        history.take(line, history.resolved(action))
    found = sorted_anew(machine.names, what_was_said(machine, history.state, 2), points, {})
    assert found.columns == ("new:0", "new:2", "none")
    assert set(found.kinds[truth == 3]) == {"none"}
    assert (found.kinds[truth < 2] == "new:0").mean() > 0.95
    again = History(found)  # the journal over the new answer says the same
    for line, action in enumerate((Merge(kinds=("new:0", "new:1")), Reject(kinds=("new:3",))), 1):
        again.take(line, action)
    assert again.state.kind_of(found.names[0]) == "new:0"


def test_a_merged_kind_has_a_mean_for_each_of_its_parts() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[3.0, 0, 0], [-3.0, 0.5, 0], [0, 3.0, 0]])  # the first two are one kind, seen from two sides
    truth = np.repeat([0, 1, 2], 20)
    points = (centres[truth] + 0.3 * rng.normal(size=(60, 3))).astype(np.float32)
    machine = sure(truth, ("new:0", "new:1", "new:2"))
    history = History(machine)
    history.take(1, history.resolved(Merge(kinds=("new:0", "new:1"))))
    found = sorted_anew(machine.names, what_was_said(machine, history.state, 1), points, {})
    assert found.kinds.tolist() == ["new:0"] * 40 + ["new:2"] * 20


def test_kinds_that_persist_keep_their_numbers_by_their_members() -> None:
    before = ["new:7"] * 10 + ["new:2"] * 10 + ["new:5"] * 10 + ["known:bolt"] * 3 + ["none"] * 2
    labels = np.array([1] * 9 + [0] * 11 + [2] * 5 + [3] * 5 + [4] * 3 + [2] * 2)
    found = sure(labels, ("new:0", "new:1", "new:2", "new:3", "known:bolt"))
    again = renumbered(found, before, 9)
    assert again.kinds[:9].tolist() == ["new:7"] * 9
    assert again.kinds[9:20].tolist() == ["new:2"] * 11
    assert set(again.kinds[20:30]) == {"new:5", "new:9"}  # cut in two: one half persists
    assert again.kinds[30] == "known:bolt"
    assert again.columns == ("new:2", "new:5", "new:7", "new:9", "known:bolt")
    np.testing.assert_array_equal(again.probability, found.probability)


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_the_same_kinds_in_another_order_have_the_same_numbers(seed: int, kinds: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, kinds, 60)
    numbers = rng.permutation(50)[:kinds]
    before = [f"new:{numbers[kind]}" for kind in truth]
    shuffled = rng.permutation(kinds)[truth]
    again = renumbered(sure(shuffled, tuple(f"new:{n}" for n in range(kinds))), before, 50)
    assert again.kinds.tolist() == before


def test_a_kind_of_other_pictures_gets_a_number_that_none_had() -> None:
    before = ["new:0"] * 10 + ["none"] * 10
    again = renumbered(sure(np.repeat([0, 1], 10), ("new:0", "new:1")), before, 4)
    assert again.columns == ("new:0", "new:4")


def test_what_was_said_of_other_pictures_is_refused() -> None:
    machine = sure(np.zeros(3, dtype=np.int64), ("new:0", "new:1"))
    said = Said(machine.columns, machine.labels, np.ones(3, dtype=np.bool_), machine.labels, 1)
    with pytest.raises(DataError, match="about 3 pictures, and there are 4"):
        sorted_anew(("a", "b", "c", "d"), said, np.ones((4, 2)), {})


def test_nothing_said_pins_nothing() -> None:
    machine = sure(np.zeros(3, dtype=np.int64), ("new:0", "new:1"))
    assert not what_was_said(machine, State(machine), 0).pinned.any()
    with pytest.raises(KeyError):
        Said.from_dict({})
