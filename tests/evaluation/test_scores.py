"""Scores of a clustering."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from newkinds.errors import UsageError
from newkinds.evaluation.scores import Scores, score


def test_hand_case() -> None:
    # Three of four are right; the two kinds found share ln 2 and 0.562 of entropy, and 0.216 of information.
    found = score([0, 0, 0, 1], ["a", "a", "b", "b"])
    assert found.acc == 0.75
    entropy_found = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    information = 0.5 * math.log(4 / 3) + 0.25 * math.log(2 / 3) + 0.25 * math.log(2)
    assert found.nmi_geometric == pytest.approx(information / math.sqrt(entropy_found * math.log(2)))
    assert found.nmi_arithmetic == pytest.approx(2 * information / (entropy_found + math.log(2)))
    # One pair agrees by being together, of 3 together found, 2 true, 6 in all: (1 - 1) / (2.5 - 1).
    assert found.ari == pytest.approx(0)
    assert (found.n_found, found.n_true, found.error_in_k, found.n) == (2, 2, 0, 4)


def test_perfect_in_any_numbering_and_naming() -> None:
    for truth in (["x", "x", "y", "z"], np.array([9, 9, 0, 4])):
        found = score(np.array([2, 2, 7, 5]), truth)
        assert (found.acc, found.error_in_k, found.n) == (1, 0, 4)
        assert (found.nmi_geometric, found.nmi_arithmetic, found.ari) == pytest.approx((1, 1, 1))


@pytest.mark.parametrize(
    ("kinds", "n_found", "error"), [([0, 0, 0, 0], 1, 2), ([0, 1, 2, 2], 3, 0), ([0, 1, 2, 3], 4, 1)]
)
def test_error_in_k(kinds: list[int], n_found: int, error: int) -> None:
    found = score(kinds, ["a", "b", "c", "c"])
    assert (found.n_found, found.n_true, found.error_in_k) == (n_found, 3, error)


def test_pictures_without_truth_are_left_out() -> None:
    kinds, truth = [0, 0, 1, 1] * 10, ["a", "a", "b", "a"] * 10
    part = score([*kinds, 7, 0, 8], [*truth, "", "", ""])
    whole = score(kinds, truth)
    assert (part.acc, part.nmi_geometric, part.nmi_arithmetic, part.ari) == (
        whole.acc, whole.nmi_geometric, whole.nmi_arithmetic, whole.ari,
    )  # fmt: skip
    assert (part.n, part.of) == (40, 43)
    assert (whole.n, whole.of) == (40, 40)
    # Kinds are counted on all pictures; how many true ones there are, and so the error, is not known.
    assert (part.n_found, part.n_true, part.error_in_k) == (4, 2, None)


def test_a_kind_without_a_picture_that_has_a_truth_is_no_error() -> None:
    kinds, truth = [*[0] * 20, *[1] * 20, *[2] * 20], [*["a"] * 20, *["b"] * 20, *[""] * 20]
    found = score(kinds, truth)
    assert (found.acc, found.n_found, found.n_true) == (1, 3, 2)


def test_too_few_have_no_scores() -> None:
    kinds, truth = [0, 1] * 180, ["a", "b", *[""] * 358]
    found = score(kinds, truth)
    assert (found.acc, found.nmi_geometric, found.nmi_arithmetic, found.ari, found.error_in_k) == (None,) * 5
    assert (found.n, found.of, found.n_true) == (2, 360, 2)
    assert not found.coverage.enough
    kept = json.loads(json.dumps(found.to_dict()))
    assert kept["acc"] is None
    assert Scores.from_dict(kept, 360) == found


def test_scores_that_were_kept_without_the_number_of_pictures() -> None:
    full = score([0, 0, 1, 1], ["a", "a", "b", "b"])
    before = {key: value for key, value in full.to_dict().items() if key != "of"}
    assert Scores.from_dict(before, 4) == full
    # ACC of 2 of 360 was kept in those days: it is not shown any more.
    few = {**before, "n": 2}
    assert Scores.from_dict(few, 360).acc is None
    many = Scores.from_dict({**before, "n": 100}, 360)
    assert (many.acc, many.error_in_k) == (1, None)


def test_numbers_are_never_unknown() -> None:
    assert score([0, 1], np.array([0, 1])).n == 2


def test_nothing_to_compare_and_lengths_that_differ() -> None:
    with pytest.raises(UsageError, match="none of the 2 pictures"):
        score([0, 1], ["", ""])
    with pytest.raises(UsageError, match=r"for 3 pictures, .* about 2\."):
        score([0, 1, 1], ["a", "b"])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=40))
def test_bounds_and_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    kinds, truth = map(list, zip(*pairs, strict=True))
    found = score(kinds, [f"kind {kind}" for kind in truth])
    assert 1 / len(pairs) <= found.acc <= 1
    assert found.nmi_arithmetic <= found.nmi_geometric + 1e-9  # the geometric mean is the smaller divisor
    assert found.ari == pytest.approx(adjusted_rand_score(truth, kinds))
    for method in ("geometric", "arithmetic"):
        expected = normalized_mutual_info_score(truth, kinds, average_method=method)
        assert getattr(found, f"nmi_{method}") == pytest.approx(expected)
    # Renaming either side changes nothing.
    renamed = score([4 - kind for kind in kinds], [f"{9 - kind}" for kind in truth])
    assert renamed.to_dict() == pytest.approx(found.to_dict())


def test_to_dict_has_every_score_as_a_plain_number() -> None:
    values = score([0, 0, 1], ["a", "b", "b"]).to_dict()
    assert set(values) == {
        "acc",
        "nmi_geometric",
        "nmi_arithmetic",
        "ari",
        "n_found",
        "n_true",
        "error_in_k",
        "n",
        "of",
    }
    assert all(type(value) in (int, float) for value in values.values())
