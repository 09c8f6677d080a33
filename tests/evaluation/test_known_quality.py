"""How well known kinds are told apart: beside chance, in words, and what counts as near chance."""

from __future__ import annotations

import json

import numpy as np
import pytest

from newkinds.evaluation.known_quality import (
    FEW_SHOT,
    HELD_OUT,
    NEAREST_MEAN,
    KnownQuality,
    from_dict,
    measured,
    not_measured,
)

EVEN = np.repeat(np.arange(50), 10)


def test_words_with_both_figures() -> None:
    found = measured(0.87, 240, EVEN, HELD_OUT)
    assert found.chance == pytest.approx(0.02)
    assert found.in_words() == (
        "The network names 87% of 240 held-out pictures of known kinds correctly; guessing would get 2.0% right."
    )
    assert found.warning() is None
    few = measured(0.93, 2400, EVEN, FEW_SHOT, at_a_time=20)
    assert (few.kinds, few.chance) == (20, pytest.approx(0.05))
    assert "each of 20 known kinds" in few.in_words()
    near = measured(0.996, 500, EVEN, NEAREST_MEAN, of="embeddings")
    assert near.in_words().startswith("According to the embeddings, more than 99% of 500 pictures of known kinds")


def test_chance_is_the_share_of_the_largest_kind() -> None:
    labels = np.repeat([0, 1, 3], [60, 20, 20])
    found = measured(0.65, 100, labels, HELD_OUT)
    assert (found.kinds, found.chance) == (3, pytest.approx(0.6))
    assert found.near_chance  # always naming the first is right for 60 of 100


@pytest.mark.parametrize(
    ("accuracy", "pictures", "near"),
    [
        (0.02, 500, True),
        (0.20, 500, True),  # above chance, but by less than a fifth of the way to 1
        (0.22, 500, False),
        (1.0, 500, False),
    ],
)
def test_near_chance_by_distance(accuracy: float, pictures: int, near: bool) -> None:
    assert measured(accuracy, pictures, EVEN, HELD_OUT).near_chance is near


def test_near_chance_by_too_few_pictures_to_tell() -> None:
    two = np.repeat([0, 1], 50)
    assert measured(0.7, 10, two, HELD_OUT).near_chance  # seven of ten coins
    assert not measured(0.7, 100, two, HELD_OUT).near_chance


def test_too_few_pictures_give_no_figure() -> None:
    found = measured(1.0, 4, np.repeat([0, 1], 2), HELD_OUT)
    assert found.accuracy is None
    assert not found.near_chance
    assert found.in_words() == (
        "How well the known kinds can be told apart could not be measured: 4 pictures of known kinds "
        "could be tried, and at least 8 are needed."
    )
    lopsided = np.repeat([0, 1], [90, 10])  # always naming the first is right for nine of ten
    assert measured(1.0, 30, lopsided, HELD_OUT).accuracy is None
    assert measured(1.0, 50, lopsided, HELD_OUT).accuracy == 1.0
    assert not_measured("of this", 0, EVEN, HELD_OUT).why == "of this"


def test_a_warning_names_the_remedies() -> None:
    found = measured(0.03, 500, EVEN, HELD_OUT, remedies=("more kinds", "more pictures"))
    warning = found.warning()
    assert warning is not None
    assert "hardly be told apart" in warning
    assert "names 3.0% of 500" in warning
    assert warning.endswith("What may help: more kinds; more pictures.")


def test_round_trip_through_json() -> None:
    found = KnownQuality(0.03, 500, 50, 0.02, HELD_OUT, remedies=("more kinds",))
    values = json.loads(json.dumps(found.to_dict()))
    assert values["near_chance"] is True
    assert from_dict(values) == found
