"""What rehearsals show: the choice among settings, the refusal, and what to expect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from newkinds.rehearsal.calibration import Observed, beginning
from newkinds.rehearsal.outcome import (
    AS_SET,
    Rehearsed,
    Trial,
    best_candidate,
    choice_in_words,
    compare_candidates,
    is_hopeless,
    still_tried,
    why_hopeless,
)
from newkinds.rehearsal.trust import Trust, judge


def rehearsed(acc: float, other: float = 0.0, chance: float = 0.1, pixels: float | None = 0.2) -> Rehearsed:
    return Rehearsed(("a", "b", "c"), 3, 100, chance, pixels, {AS_SET: Trial(acc, acc), "other": Trial(other, other)})


def test_a_change_is_made_only_where_it_is_clearly_better() -> None:
    clear = [rehearsed(0.7 + i / 100, 0.8 + i / 100) for i in range(5)]
    assert best_candidate(compare_candidates(clear)) == "other"
    said = choice_in_words(compare_candidates(clear), "other")
    assert "by rehearsals: other. They sorted 82.0% of the hidden pictures correctly" in said
    small = [rehearsed(0.7 + i / 100, 0.705 + i / 100) for i in range(5)]
    unsteady = [rehearsed(0.7, 0.7 + gain) for gain in (0.3, -0.2, 0.2, -0.2, 0.1)]
    once = [rehearsed(0.7, 0.9)]
    worse = [rehearsed(0.7, 0.6 + i / 100) for i in range(5)]
    for some in (small, unsteady, once, worse):
        assert best_candidate(compare_candidates(some)) == AS_SET


def test_a_candidate_that_gains_nothing_is_given_up_after_two_rehearsals_or_at_once_if_it_loses_much() -> None:
    all_ = [AS_SET, "other"]
    assert still_tried([], all_) == still_tried([rehearsed(0.7, 0.68)], all_) == all_
    assert still_tried([rehearsed(0.7, 0.66)], all_) == [AS_SET]
    assert still_tried([rehearsed(0.7, 0.6), rehearsed(0.7, 0.75)], all_) == [AS_SET]
    ahead = [rehearsed(0.7, 0.6), rehearsed(0.7, 0.85)]
    assert still_tried(ahead, all_) == all_
    given_up = replace(ahead[0], trials={AS_SET: Trial(0.7, 0.7)})
    assert still_tried([*ahead, given_up], all_) == [AS_SET]  # once out, it stays out
    assert best_candidate(compare_candidates([*ahead, given_up])) == AS_SET


def test_the_gain_is_paired() -> None:
    hard_and_easy = [rehearsed(acc, acc + 0.03 + wobble) for acc, wobble in ((0.3, 0.0), (0.9, 0.01), (0.6, -0.01))]
    other = compare_candidates(hard_and_easy)[1]
    assert other.gain == pytest.approx(0.03)
    assert other.clearly_better


@pytest.mark.parametrize(
    ("acc", "chance", "pixels", "hopeless"),
    [
        (0.8, 0.1, 0.3, False),
        (0.12, 0.1, 0.05, True),  # chance
        (0.3, 0.1, 0.35, True),  # pixels do better
        (0.3, 0.1, 0.2, False),
        (0.43, 0.28, 0.39, True),  # hardly better than pixels: an untrained network did so on four kinds
        (1.0, 0.1, 1.0, False),  # easy, whatever one does
        (0.3, 0.1, None, False),  # embeddings have no pixels
    ],
)
def test_what_is_hopeless(acc: float, chance: float, pixels: float | None, hopeless: bool) -> None:
    some = [rehearsed(acc, chance=chance, pixels=pixels)] * 3
    assert is_hopeless(some, AS_SET) is hopeless
    if hopeless:
        assert f"{acc:.0%} of their pictures" in why_hopeless(some, AS_SET)
        assert ("pixels" in why_hopeless(some, AS_SET)) is (pixels in (0.35, 0.39))


@pytest.mark.parametrize(("acc", "nmi", "hopeless"), [(0.46, 0.11, True), (0.46, 0.3, False), (0.6, 0.11, False)])
def test_kinds_that_tell_hardly_anything_of_the_true_ones_are_hopeless(acc: float, nmi: float, hopeless: bool) -> None:
    # An untrained network did so on four kinds of photographs: of these, three in ten are right by chance.
    one = replace(rehearsed(acc, chance=0.28, pixels=0.39), trials={AS_SET: Trial(acc, nmi)})
    assert is_hopeless([one] * 2, AS_SET) is hopeless


def test_without_rehearsals_or_with_tiny_ones_nothing_is_hopeless() -> None:
    assert not is_hopeless([], AS_SET)
    poor = rehearsed(0.5, chance=0.5)
    assert is_hopeless([poor], AS_SET)
    assert not is_hopeless([replace(poor, hidden=("a", "b"))], AS_SET)
    assert not is_hopeless([replace(poor, pictures=20)], AS_SET)


def test_a_rehearsal_comes_back_from_its_file() -> None:
    one = rehearsed(0.5, 0.6)
    assert Rehearsed.from_dict(one.to_dict()) == one


def seen(n: int, right: float, seed: int = 0) -> Observed:
    """Return pictures of which this share is right, and which look it."""
    rng = np.random.default_rng(seed)
    yes = rng.random(n) < right
    like = np.where(yes, 0.95, 0.5) + rng.normal(0, 0.05, n)
    border, even = np.full(n, 0.8), np.zeros(n)
    x = np.stack([like, like, border, np.full(n, right), np.full(n, right), border, even, even], axis=1)
    return Observed(x, yes, np.arange(n) % 20)


def test_what_to_expect_follows_what_is_seen_of_the_heap() -> None:
    past = [seen(500, share, seed) for seed, share in enumerate((0.6, 0.7, 0.8, 0.9, 0.75))]
    trials = [Trial(float(one.yes.mean()), 0.7) for one in past]
    for share in (0.65, 0.85):
        heap = seen(500, share, 9)
        trust, probability = judge(heap.x, heap.kinds, 20, past, past, trials, hidden=20)
        assert trust.acc == pytest.approx(heap.yes.mean(), abs=0.05)
        assert trust.low <= heap.yes.mean() <= trust.high
        assert probability[heap.yes].mean() > probability[~heap.yes].mean() + 0.2
        assert "In 5 rehearsals with 20 of your own kinds hidden" in trust.in_words()


def test_fewer_rehearsals_say_less() -> None:
    past = [seen(500, share, seed) for seed, share in enumerate((0.7, 0.72, 0.71, 0.69, 0.7))]
    trials = [Trial(0.7, 0.7)] * 5
    heap = seen(500, 0.7, 9)
    some = judge(heap.x, heap.kinds, 20, past, past, trials, hidden=20)[0]
    none, probability = judge(heap.x, heap.kinds, 20, [], [], [], why="there are too few known kinds")
    assert some.high - some.low < none.high - none.low
    assert np.array_equal(probability, beginning("right")(heap.x))
    assert none.rehearsed is None
    assert none.error is None
    assert "other data sets: there are too few known kinds" in none.in_words()


def test_few_hidden_kinds_widen_the_range_and_say_why() -> None:
    past = [seen(500, share, seed) for seed, share in enumerate((0.7, 0.72, 0.71, 0.69, 0.7))]
    trials, heap = [Trial(0.7, 0.7)] * 5, seen(500, 0.7, 9)
    widths = []
    for hidden in (2, 4, 8, 20):
        trust = judge(heap.x, heap.kinds, 20, past, past, trials, hidden=hidden, remarks=["first"])[0]
        widths.append(trust.high - trust.low)
        told = f"Only {hidden} of your own kinds were hidden at a time" in " ".join(trust.remarks)
        assert told is (hidden < 8)
        assert ("are easier to tell apart than 20" in " ".join(trust.remarks)) is (hidden < 8)
        assert trust.remarks[0] == "first"
    assert widths[0] > widths[1] > widths[2]


def test_a_heap_of_more_kinds_depends_less_on_chance() -> None:
    past = [seen(500, share, seed) for seed, share in enumerate((0.5, 0.9, 0.7, 0.6, 0.8))]
    trials, heap = [Trial(0.7, 0.7)] * 5, seen(500, 0.7, 9)
    few, many = (
        judge(heap.x, kinds, 40, past, past, trials, hidden=20)[0] for kinds in (heap.kinds, np.arange(500) % 40)
    )
    assert many.high - many.low < few.high - few.low


def test_a_heap_may_differ_more_from_rehearsals_than_they_from_one_another() -> None:
    past = [seen(5000, 0.7, seed) for seed in range(5)]  # which foretell one another to the percent
    heap = seen(500, 0.7, 9)
    trust = judge(heap.x, heap.kinds, 20, past, past, [Trial(0.7, 0.7)] * 5, hidden=20)[0]
    assert trust.high - trust.low > 0.07


def test_purity_is_of_kinds_and_none_for_empty_ones() -> None:
    heap = seen(100, 0.8)
    trust, _ = judge(heap.x, heap.kinds, 22, [], [], [])
    assert len(trust.purity) == 22
    assert trust.purity[20:] == (None, None)
    assert all(0 < share < 1 for share in trust.purity[:20] if share is not None)
    assert Trust.from_dict(trust.to_dict()) == trust
