"""How much of the pictures a truth covers, and when that is enough for scores."""

from __future__ import annotations

import numpy as np
import pytest

from newkinds.equations import clustering_accuracy
from newkinds.evaluation.coverage import FEWEST, PER_KIND, Coverage, coverage


def test_counts() -> None:
    assert coverage(("a", "", "b", "a", "")) == Coverage(pictures=3, of=5, kinds=2)
    assert coverage(("", "")) == Coverage(0, 2, 0)


@pytest.mark.parametrize(
    ("pictures", "of", "kinds", "needed", "enough"),
    [
        (2, 360, 2, 30, False),
        (29, 360, 2, 30, False),
        (30, 360, 2, 30, True),
        (30, 360, 6, 30, True),
        (30, 360, 7, 35, False),  # five for each kind
        (35, 360, 7, 35, True),
        (300, 360, 1, 30, False),  # one kind
        (360, 360, 1, 30, True),  # all of them: nothing is guessed
        (12, 12, 3, 12, True),
        (11, 12, 3, 12, False),
        (80, 80, 40, 80, True),  # a complete truth has two for each kind, and is no sample
        (0, 360, 0, 30, False),
    ],
)
def test_what_is_enough(pictures: int, of: int, kinds: int, needed: int, enough: bool) -> None:
    covered = Coverage(pictures, of, kinds)
    assert (covered.needed, covered.enough) == (needed, enough)


@pytest.mark.parametrize(
    ("covered", "words"),
    [
        (Coverage(360, 360, 12), ""),
        (
            Coverage(212, 360, 12),
            "Scored on 212 of 360 pictures; the other pictures have no known truth. The scores apply to "
            "all pictures only if these 212 were picked at random.",
        ),
        (Coverage(2, 360, 2), "2 of 360 pictures have a known truth, too few for scores: these need at least 30."),
        (Coverage(1, 4000, 1), "1 of 4,000 pictures has a known truth, too few for scores: these need at least 30."),
        (
            Coverage(40, 360, 12),
            "40 of 360 pictures have a known truth, too few for scores: these need at least 60, 5 for "
            "each of the 12 kinds named.",
        ),
        (
            Coverage(50, 360, 1),
            "50 of 360 pictures have a known truth, all of one kind: scores need pictures of at least 2 kinds.",
        ),
    ],
)
def test_words(covered: Coverage, words: str) -> None:
    assert covered.in_words() == words


def test_words_for_one_that_is_left_out() -> None:
    assert (
        Coverage(359, 360, 12)
        .in_words()
        .startswith("Scored on 359 of 360 pictures; the other picture has no known truth.")
    )


@pytest.mark.parametrize("kinds", [5, 10, 20, 50])
def test_the_reason_for_the_limits(kinds: int) -> None:
    """With one picture for each kind, chance looks like half right; with PER_KIND, ACC is hardly too high."""
    random = np.random.default_rng(0)

    def partly(right: float, pictures: int) -> float:
        """Return the mean ACC of a part: a share of the pictures is right, the others are in kinds at random."""
        found = []
        for _ in range(100):
            truth = random.integers(0, kinds, pictures)
            guessed = random.integers(0, kinds, pictures)
            found.append(clustering_accuracy(np.where(random.random(pictures) < right, truth, guessed), truth))
        return float(np.mean(found))

    assert partly(0.0, kinds) > 0.5
    enough = max(FEWEST, PER_KIND * kinds)
    for right in (0.5, 0.8, 0.95):
        expected = right + (1 - right) / kinds  # some that are put anywhere are right by chance
        assert partly(right, enough) - expected < 0.02
