"""Known kinds that cannot be told from one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from newkinds.evaluation.same_kinds import FEWEST, in_words, same_kinds

WIDE = 16


def kinds(means: list[int], each: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64], list[str]]:
    """Return pictures of as many kinds, each around the mean of that number, with labels and names."""
    centres = np.random.default_rng(7).normal(size=(max(means) + 1, WIDE))
    rows = np.repeat(centres[means], each, axis=0)
    rows = rows + 0.3 * np.random.default_rng(seed).normal(size=rows.shape)
    return rows.astype(np.float32), np.repeat(np.arange(len(means)), each), [f"kind {n}" for n in range(len(means))]


def test_kinds_around_one_mean_are_the_same() -> None:
    assert same_kinds(*kinds([0, 1, 2, 1, 3, 4, 3], 20)) == (("kind 1", "kind 3"), ("kind 4", "kind 6"))


def test_other_kinds_are_not() -> None:
    assert same_kinds(*kinds(list(range(12)), 20)) == ()


def test_pictures_that_are_equal() -> None:
    rows, labels, names = kinds([0, 1, 2], 10)
    both = np.concatenate([rows, rows[labels == 1] + 1e-4])
    assert same_kinds(both, np.r_[labels, np.full(10, 3)], [*names, "twin"]) == (("kind 1", "twin"),)


def test_kinds_of_other_sizes() -> None:
    rows, labels, names = kinds([0, 1, 2, 1], 40)
    kept = np.ones(len(rows), bool)
    kept[np.flatnonzero(labels == 3)[5:]] = False
    assert same_kinds(rows[kept], labels[kept], names) == (("kind 1", "kind 3"),)


def test_kinds_that_are_told_from_nothing_are_not_called_the_same() -> None:
    noise = np.random.default_rng(0).normal(size=(200, WIDE))
    assert same_kinds(noise, np.arange(200) % 10, [str(n) for n in range(10)]) == ()


def test_few_pictures_tell_nothing() -> None:
    rows, labels, names = kinds([0, 1, 1, 2], FEWEST - 1)
    assert same_kinds(rows, labels, names) == ()


def test_in_words() -> None:
    assert in_words(()) == ""
    assert in_words([("a", "b")]).startswith("Some known kinds look the same: 'a' and 'b'. ")
    assert "; 'e' and 'f', and 2 more pairs. " in in_words([("a", "b"), ("c", "d"), ("e", "f"), *[("g", "h")] * 2])
