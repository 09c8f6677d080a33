"""The state equals a plain replay, undo and redo are exact inverses, and what a person said wins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saying import KNOWN, actions, answer

from newkinds.corrections import (
    Accept,
    Batch,
    Confirm,
    CorrectionError,
    History,
    Merge,
    Move,
    Name,
    Part,
    Redo,
    Reject,
    Reopen,
    Split,
    State,
    Undo,
    corrected,
    in_words,
    parse_action,
)
from newkinds.corrections.actions import Action, Said, flat, kinds_in


def replayed(lines: list[Said]) -> State:
    """Return the state of some lines in the plainest way: the actions that hold, applied to a new state."""
    holding: list[tuple[int, Action]] = []
    undone: list[tuple[int, Action]] = []
    for number, said in enumerate(lines, 1):
        if isinstance(said, Undo):
            undone.append(holding.pop())
        elif isinstance(said, Redo):
            holding.append(undone.pop())
        else:
            holding.append((number, said))
            undone = []
    state = State(answer(), KNOWN)
    for _, action in holding:
        state.apply(action)
    return state


@settings(max_examples=150)
@given(st.data())
def test_any_sequence_equals_its_replay_and_can_be_undone_and_redone(data: st.DataObject) -> None:
    history, lines = History(answer(), KNOWN), list[Said]()
    beginning = State(answer(), KNOWN)

    def take(said: Said) -> None:
        lines.append(said)
        history.take(len(lines), said)

    for _ in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(("say", "say", "say", "undo", "redo")))
        if what == "undo" and history.done:
            take(history.resolved(Undo(line=history.done[-1].line)))
        elif what == "redo" and history.undone:
            take(history.resolved(Redo(line=history.undone[-1][0])))
        elif (said := data.draw(actions(history))) is not None:
            take(said)
        assert history.state == replayed(lines)
        fresh = corrected(answer(), history.state)
        assert fresh.names == answer().names
        rejected = {kind for kind, status in history.state.status.items() if status == "rejected"}
        own = [history.state.kind_of(name) for name in fresh.names]
        assert fresh.kinds.tolist() == ["none" if kind in rejected else kind for kind in own]
        assert (fresh.probabilities >= 0).all()
        assert (fresh.probabilities <= 1).all()
    now, depth = replayed(lines), len(history.done)
    while history.done:
        take(Undo(line=history.done[-1].line))
    assert history.state == beginning
    assert history.state.is_untouched
    for _ in range(depth):
        take(Redo(line=history.undone[-1][0]))
    assert history.state == now


@settings(max_examples=60)
@given(st.data())
def test_a_number_is_never_used_again(data: st.DataObject) -> None:
    history, line, seen = History(answer(), KNOWN), 0, {*answer().columns, "known:nut", "none"}
    for _ in range(12):
        said: Said | None = data.draw(actions(history))
        if history.done and data.draw(st.booleans()):
            said = Undo(line=history.done[-1].line)
        if said is None:
            continue
        line += 1
        if not isinstance(said, Undo | Redo):
            made = {kind for kind in kinds_in(said) if not history.state.exists(kind)}
            assert not made & seen
            seen |= made
        history.take(line, said)


def said(history: History, *all_: Said) -> State:
    for one in all_:
        history.take(len(history.done) + 1, history.resolved(one))
    return history.state


@pytest.fixture
def history() -> History:
    return History(answer(), KNOWN)


def test_merged_kinds_keep_the_lowest_number_and_are_remembered(history: History) -> None:
    before = history.state.sizes
    state = said(
        history, Name(kind="new:4", name="washer"), Accept(kinds=("new:4",)), Merge(kinds=("new:4", "new:1", "new:3"))
    )
    assert state.sizes["new:1"] == sum(before.get(f"new:{number}", 0) for number in (1, 3, 4))
    assert state.merged == {"new:3": "new:1", "new:4": "new:1"}
    assert state.called["new:1"] == "washer"
    assert state.status["new:1"] == "accepted"
    assert not state.said.any()  # of the pictures themselves, nothing was said
    state = said(history, Merge(kinds=("new:1", "known:nut")))
    assert state.current("new:4") == "known:nut"
    assert corrected(answer(), state).columns == ("new:0", "new:2", "known:nut", "known:bolt", "none")


def test_one_who_has_not_seen_the_merge_means_what_became_of_it(history: History) -> None:
    state = said(
        history, Merge(kinds=("new:0", "new:1")), Move(pictures=("00.jpg",), to="new:1"), Name(kind="new:1", name="x")
    )
    assert state.kind_of("00.jpg") == "new:0"
    assert state.called == {"new:0": "x"}
    with pytest.raises(CorrectionError, match="one kind already: new:0"):
        history.resolved(Merge(kinds=("new:0", "new:1")))


def test_a_split_takes_exactly_the_pictures_that_were_named(history: History) -> None:
    inside = [history.state.names[row] for row in history.state.rows_of("new:2")]
    assert len(inside) > 3
    first, second, rest = inside[:1], inside[1:2], inside[2:]
    parts = (Part(pictures=tuple(first)), Part(pictures=tuple(second)), Part(to="new:2", pictures=tuple(rest[:1])))
    state = said(history, Split(kind="new:2", parts=parts))
    assert [state.kind_of(name) for name in inside] == ["new:5", "new:6", *["new:2"] * len(rest)]
    assert [bool(state.said[state.rows[name]]) for name in inside] == [True, True, True, *[False] * (len(rest) - 1)]
    assert not state.confirmed.any()
    own = answer().probability
    found = corrected(answer(), state)
    np.testing.assert_array_equal(found.probability, own)  # the machine is as sure as it was that they are together


def test_what_was_confirmed_is_certain_and_the_rest_is_as_it_was(history: History) -> None:
    state = said(history, Move(pictures=("03.jpg", "04.jpg"), to="known:nut"))
    found = corrected(answer(), state)
    rows = np.array([3, 4])
    assert set(found.kinds[rows]) == {"known:nut"}
    np.testing.assert_array_equal(found.probabilities[rows].max(axis=1), 1)
    np.testing.assert_array_equal(found.probabilities[rows].sum(axis=1), 1)
    others = np.setdiff1d(np.arange(24), rows)
    same = [found.columns.index(column) for column in answer().columns]
    np.testing.assert_array_equal(found.probabilities[others][:, same], answer().probabilities[others])
    assert found.source["corrected"]
    assert corrected(answer(), State(answer(), KNOWN)).probabilities is not found.probabilities


def test_nothing_said_is_the_same_answer(history: History) -> None:
    machine = answer()
    assert corrected(machine, history.state) is machine
    said(history, Move(pictures=("03.jpg",), to="fresh"))
    history.take(2, Undo(line=1))
    assert corrected(machine, history.state) is machine


def test_a_fresh_kind_may_be_spoken_of_again_in_one_request(history: History) -> None:
    together = Batch(
        actions=(
            Move(pictures=("00.jpg",), to="fresh:a"),
            Name(kind="fresh:a", name="washer"),
            Move(pictures=("01.jpg",), to="fresh"),
            Move(pictures=("02.jpg",), to="fresh"),
            Name(kind="fresh", name="hinge"),
            Move(pictures=("03.jpg",), to="fresh:a"),
        )
    )
    state = said(history, together)
    kinds = [state.kind_of(f"0{number}.jpg") for number in range(4)]
    assert kinds == ["new:5", "new:6", "new:7", "new:5"]
    assert state.called == {"new:5": "washer", "new:7": "hinge"}
    assert history.next_number == 8
    history.take(2, Undo(line=1))
    assert history.state.is_untouched
    assert history.next_number == 8


def test_a_batch_of_which_a_part_cannot_be_done_changes_nothing(history: History) -> None:
    wrong = Batch(actions=(Move(pictures=("00.jpg",), to="fresh"), Move(pictures=("nowhere.jpg",), to="none")))
    with pytest.raises(CorrectionError, match=r"'nowhere.jpg' is not among the 24 pictures"):
        history.resolved(wrong)
    assert history.state == State(answer(), KNOWN)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Move(pictures=("00.jpg",), to="new:77"), "no kind 'new:77'"),
        (Move(pictures=("00.jpg",), to="known:spring"), "no kind 'known:spring'"),
        (Merge(kinds=("known:bolt", "known:nut")), "known to be two"),
        (Merge(kinds=("none", "new:1")), "'none' is no kind"),
        (Name(kind="known:bolt", name="x"), "cannot be named"),
        (Name(kind="fresh", name="x"), "not there yet"),
        (Accept(kinds=("none",)), "only new kinds can"),
        (Split(kind="none", parts=(Part(pictures=("00.jpg",)),)), "no kind that could be split"),
        (Undo(line=1), "nothing to undo"),
        (Redo(line=1), "nothing to do again"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_way_out(history: History, wrong: Said, why: str) -> None:
    with pytest.raises(CorrectionError, match=why) as caught:
        history.resolved(wrong)
    assert caught.value.hint
    assert history.state == State(answer(), KNOWN)


def test_a_rejected_kind_is_none_and_takes_no_pictures_until_it_is_open(history: History) -> None:
    machine = answer()
    state = said(history, Reject(kinds=("new:2",)))
    inside = state.rows_of("new:2")
    found = corrected(machine, state)
    assert "new:2" not in found.columns
    assert set(found.kinds[inside]) == {"none"}
    for wrong in (Move(pictures=("00.jpg",), to="new:2"), Merge(kinds=("new:1", "new:2"))):
        with pytest.raises(CorrectionError, match="new:2 was rejected"):
            history.resolved(wrong)
    state = said(history, Reopen(kinds=("new:2",)))
    assert corrected(machine, state) is machine


def test_only_what_is_there_can_be_confirmed(history: History) -> None:
    inside = [history.state.names[row] for row in history.state.rows_of("new:2")]
    outside = history.state.names[int(history.state.rows_of("new:0")[0])]
    state = said(history, Confirm(kind="new:2", pictures=tuple(inside[:2])))
    assert int(state.confirmed.sum()) == 2
    with pytest.raises(CorrectionError, match="not of new:2, but of new:0"):
        history.resolved(Confirm(kind="new:2", pictures=(outside,)))


def test_the_last_that_holds_is_undone_and_nothing_else(history: History) -> None:
    said(history, Name(kind="new:0", name="a"), Name(kind="new:1", name="b"))
    with pytest.raises(CorrectionError, match="Line 1 is not the last that holds: that is line 2"):
        history.resolved(Undo(line=1))
    history.take(3, Undo(line=2))
    with pytest.raises(CorrectionError, match="Line 1 is not the next"):
        history.resolved(Redo(line=1))


def test_kinds_with_one_name_are_told(history: History) -> None:
    state = said(
        history, Name(kind="new:0", name="washer"), Name(kind="new:3", name="washer"), Name(kind="new:1", name="bolt")
    )
    said(history, Name(kind="new:2", name="Washer"))  # as letters, A and a are two
    assert sorted(state.namesakes.values()) == [["known:bolt", "new:1"], ["new:0", "new:3"]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"do": "explode"},
        {"do": "move", "pictures": [], "to": "none"},
        {"do": "move", "pictures": ["a"], "to": "new:01"},
        {"do": "move", "pictures": ["a"], "to": "new:x"},
        {"do": "move", "pictures": ["a", "a"], "to": "none"},
        {"do": "move", "pictures": [3], "to": "none"},
        {"do": "move", "pictures": ["a"], "to": "none", "more": 1},
        {"do": "name", "kind": "new:1", "name": "two\nlines"},
        {"do": "name", "kind": "new:1", "name": "x" * 201},
        {"do": "merge", "kinds": ["new:1"]},
        {"do": "undo", "line": "3"},
        {"do": "batch", "actions": [{"do": "batch", "actions": []}]},
        {"do": "again", "line": 3},
        ["move"],
        None,
    ],
)
def test_what_is_no_action_is_refused(wrong: Any) -> None:
    with pytest.raises(CorrectionError, match="not something that can be said"):
        parse_action(wrong)


def test_actions_survive_json_and_have_words(history: History) -> None:
    for one in (
        Name(kind="new:1", name="  Ünterlegscheibe <b> "),
        Merge(kinds=("new:1", "new:2")),
        Split(kind="new:2", parts=(Part(pictures=("a", "b")),)),
        Move(pictures=tuple("abcdef"), to="none"),
        Confirm(kind="new:1", pictures=("a",)),
        Accept(kinds=("new:1",)),
        Batch(actions=(Move(pictures=("a",), to="fresh"),), note="from a file"),
        Undo(line=3),
    ):
        assert parse_action(one.model_dump(mode="json")) == one
        assert in_words(one)
    assert in_words(Merge(kinds=("new:3", "new:1")), {"new:1": "nut"}) == "new:3 merged into new:1 (nut)"
    assert in_words(Move(pictures=tuple("abcde"), to="new:1")) == "5 pictures (a, b, c and 2 more) moved to new:1"
    assert next(flat(Batch(actions=(Accept(kinds=("new:1",)),)))) == Accept(kinds=("new:1",))
