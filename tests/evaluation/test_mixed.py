"""Scores of answers to mixed heaps."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds.assignment import Assignment
from newkinds.cli.show import show_discovery, show_scores
from newkinds.discovery import Discovery
from newkinds.evaluation.mixed import MixedScores, mixed_scores
from newkinds.evaluation.scores import Scores, score, score_answer, score_clusters

COLUMNS = ("new:0", "new:1", "known:bolt", "known:nut", "none")
KNOWN = {"bolt": "known:bolt", "nut": "known:nut"}


def answer(kinds: list[str], columns: tuple[str, ...] = COLUMNS, sure: float = 0.8) -> Assignment:
    """Return an answer with these kinds, each with the probability `sure`, the rest divided evenly."""
    p = np.full((len(kinds), len(columns)), (1 - sure) / (len(columns) - 1), dtype=np.float32)
    p[np.arange(len(kinds)), [columns.index(kind) for kind in kinds]] = sure
    return Assignment(tuple(f"{i}.png" for i in range(len(kinds))), columns, p)


def test_by_hand() -> None:
    truth = ["bolt", "bolt", "bolt", "nut", "nut", "ring", "ring", "pin", "none", "none"]
    kinds = [
        "known:bolt", "known:bolt", "new:0",  # bolts: two right, one taken for new
        "known:bolt", "none",  # nuts: none by its name
        "new:1", "new:1",  # rings, both right
        "new:0",  # the pin, right
        "none", "known:nut",  # of no kind: one rejected, one not
    ]  # fmt: skip
    found = score_answer(answer(kinds), truth, KNOWN)
    # One matching: known:bolt is bolt (2), new:1 is ring (2), new:0 is bolt or pin (1): pin. known:nut holds no picture
    # that is of a kind, so the nuts have no match. Right: 2 bolts, 2 rings, 1 pin, 1 none, of 10.
    mixed = found.mixed
    assert mixed is not None
    assert mixed.all == pytest.approx(6 / 10)
    assert mixed.old == pytest.approx(2 / 5)
    assert mixed.new == pytest.approx(4 / 5)  # 2 rings, the pin and one of the two that are of no kind
    assert mixed.named == pytest.approx(6 / 10)
    assert (mixed.n_old, mixed.n_new) == (5, 5)
    assert (mixed.rejected, mixed.rejected_wrongly) == (2, 1)  # the nut has a column
    # Three columns are new or none: .8 + 2 * .05 where one of them is sure, and 3 * .05 where none is.
    high, low = 0.9, 0.15
    novelty = [low, low, high, low, high, high, high, high, high, low]
    pairs = [(new, old) for new in novelty[5:] for old in novelty[:5]]
    assert mixed.auroc == pytest.approx(np.mean([(new > old) + 0.5 * (new == old) for new, old in pairs]))
    assert (found.n_found, found.n_true, found.error_in_k) == (4, 4, 0)  # none is no kind


def test_the_matching_is_one_for_all_and_asks_for_no_names() -> None:
    # The pictures of "bolt" and "nut" are told apart, under each other's names.
    found = score_answer(answer(["known:nut"] * 3 + ["known:bolt"] * 2 + ["new:0"] * 2), [*"bbbnn", "x", "x"], {
        "b": "known:bolt", "n": "known:nut",
    })  # fmt: skip
    assert found.mixed is not None
    assert (found.mixed.all, found.mixed.old, found.mixed.new) == (1, 1, 1)
    assert found.mixed.named == pytest.approx(2 / 7)


def test_a_new_kind_that_takes_the_place_of_a_known_one() -> None:
    # new:0 holds four nuts and three rings: it stands for nuts, and the rings have no column. Among new columns and
    # new kinds alone, it stands for rings.
    found = score_answer(answer(["new:0"] * 7 + ["known:bolt"]), [*["nut"] * 4, *["ring"] * 3, "bolt"], KNOWN).mixed
    assert found is not None
    assert (found.all, found.old, found.new) == (5 / 8, 1, 0)
    assert found.named == pytest.approx(4 / 8)  # three rings and the bolt


def slow(kinds: list[str], truth: list[str], known: dict[str, str]) -> tuple[float, float]:
    """Return All and the share right by name, by trying every matching."""

    def best(rows: list[int]) -> float:
        found, true = sorted({kinds[i] for i in rows}), sorted({truth[i] for i in rows})
        size = max(len(found), len(true))
        found += [""] * (size - len(found))
        most = 0
        for order in permutations([*true, *[""] * (size - len(true))]):
            pairs = dict(zip(found, order, strict=True))
            most = max(most, sum(pairs[kinds[i]] == truth[i] for i in rows))
        return most

    n = len(truth)
    nobody = sum(kinds[i] == "none" == truth[i] for i in range(n))
    whole = best([i for i in range(n) if kinds[i] != "none" != truth[i]])
    new = best([i for i in range(n) if kinds[i].startswith("new:") and truth[i] not in known and truth[i] != "none"])
    named = sum(known.get(truth[i]) == kinds[i] for i in range(n))
    return (whole + nobody) / n, (new + named + nobody) / n


@given(
    st.lists(
        st.tuples(st.sampled_from(COLUMNS), st.sampled_from(["bolt", "nut", "ring", "pin", "none"])),
        min_size=1,
        max_size=25,
    )
)
def test_against_all_matchings(pictures: list[tuple[str, str]]) -> None:
    kinds, truth = [kind for kind, _ in pictures], [true for _, true in pictures]
    found = score_answer(answer(kinds), truth, KNOWN).mixed
    assert found is not None
    assert (found.all, found.named) == pytest.approx(slow(kinds, truth, KNOWN))
    parts = (found.old or 0) * found.n_old + (found.new or 0) * found.n_new
    assert parts == pytest.approx(found.all * len(truth))  # Old and New are read off the one matching
    assert 0 <= found.rejected_wrongly <= found.rejected == kinds.count("none")


def test_the_papers_setting_has_no_such_scores() -> None:
    columns = ("new:0", "new:1")
    found = score_answer(answer(["new:0", "new:0", "new:1"], columns), ["x", "x", "y"], KNOWN)
    assert found == score([0, 0, 1], ["x", "x", "y"])
    assert "mixed" not in found.to_dict()
    assert "mixed" not in score_clusters(np.array([0, 0, 1]), ["x", "x", "y"], KNOWN).to_dict()


def test_clusters_have_no_names() -> None:
    found = score_clusters(np.array([0, 0, 1, 1]), ["bolt", "bolt", "x", "x"], KNOWN).mixed
    assert found is not None
    assert (found.all, found.old, found.new, found.named, found.auroc) == (1, 1, 1, None, None)


def test_all_of_known_kinds() -> None:
    found = score_answer(answer(["known:bolt", "known:nut"]), ["bolt", "nut"], KNOWN).mixed
    assert found is not None
    assert (found.all, found.old, found.new, found.auroc, found.n_new) == (1, 1, None, None, 0)


def test_pictures_without_truth_are_left_out_and_few_have_no_scores() -> None:
    kinds, truth = ["known:bolt", "new:0"] * 20, ["bolt", "x"] * 20
    part = score_answer(answer([*kinds, "known:nut", "none"]), [*truth, "", ""], KNOWN)
    assert part.mixed == MixedScores(1, 1, 1, 1, 1, 20, 20, 0, 0)
    assert part.error_in_k is None
    assert score_answer(answer([*kinds, "none"]), [*["bolt", "x"], *[""] * 39], KNOWN).mixed is None


def test_there_and_back() -> None:
    found = score_answer(answer(["known:bolt", "new:0"]), ["bolt", "x"], KNOWN)
    assert Scores.from_dict(found.to_dict(), 2) == found


def test_an_answer_without_known_columns_to_a_heap_with_known_kinds() -> None:
    found = mixed_scores(np.array([0, 1]), ("new:0", "new:1"), ["bolt", "x"], KNOWN, np.eye(2, dtype=np.float32))
    assert found is not None
    assert (found.all, found.named, found.auroc) == (1, None, None)


def test_the_terminal_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    truth = ["bolt"] * 3 + ["x"] * 2 + ["none"]
    found = score_answer(answer(["known:bolt"] * 2 + ["none", "new:0", "new:0", "none"]), truth, KNOWN)
    show_scores(found, score_clusters(np.array([0, 0, 0, 1, 1, 1]), truth, KNOWN))
    said = " ".join(capsys.readouterr().out.split())
    assert "All Old (3) New (3) right by name known or new, AUROC" in said
    assert "discovered 0.833 0.667 1.000 0.833" in said
    assert "2 called none of these, 1 of them correctly" in said


def test_the_terminal_counts_known_kinds_and_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show_discovery(Discovery(tmp_path, answer(["known:bolt"] * 2 + ["none", "new:0", "new:0"])))
    assert "5 pictures in 1 new and 1 known kinds, 1 of them in none\n" in capsys.readouterr().out
