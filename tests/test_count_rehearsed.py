"""The number of new kinds from rehearsals."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from newkinds.count import Rehearsal, can_rehearse, count_rehearsed, hidden_draws, in_words
from newkinds.count.linkage import distances_from_centres, level_of, levels, log_heights, log_number
from newkinds.count.rehearsed import MORE_ERROR, RATIOS, Evidence, interval
from newkinds.errors import DataError
from newkinds.randomness import one_thread
from newkinds.settings import Count as CountSettings

Points = NDArray[np.float32]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def kinds_of(sizes: list[int], noise: float, rng: np.random.Generator) -> tuple[Points, NDArray[np.int64]]:
    """Return kinds that overlap more or less, and their labels."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(size=(len(sizes), 16))
    points = centres[labels] + noise * rng.normal(size=(len(labels), 16))
    return points.astype(np.float32), labels


def rehearsals(
    kinds: int, each: int = 20, *, hidden: int = 10, size: int = 20, draws: int = 3, noise: float = 0.3, seed: int = 0
) -> list[Rehearsal]:
    """Return draws of hidden kinds beside one heap of `kinds` kinds with `each` pictures."""
    rng = np.random.default_rng(seed)
    heap = kinds_of([each] * kinds, noise, rng)[0]
    return [Rehearsal(*kinds_of([size] * hidden, noise, rng), heap) for _ in range(draws)]


@pytest.mark.parametrize("kinds", [3, 8, 25])
@pytest.mark.parametrize("seed", [0, 1])
def test_kinds_are_counted_and_the_interval_holds_them(kinds: int, seed: int) -> None:
    found = count_rehearsed(rehearsals(kinds, seed=seed), CountSettings(), seed=seed)
    assert abs(found.k - kinds) <= max(0, round(0.05 * kinds))
    assert found.low <= kinds <= found.high <= 1.4 * kinds + 1
    assert found.confidence == 0.8
    assert found.cannot_tell is None
    assert found.error < 0.1
    assert len(found.answers) == 3
    assert sum(point.index for point in found.curve) == pytest.approx(1)


@pytest.mark.parametrize(("each", "size"), [(10, 30), (36, 12)])
def test_new_kinds_may_be_smaller_or_larger_than_known_ones(each: int, size: int) -> None:
    found = count_rehearsed(rehearsals(12, each, size=size), CountSettings())
    assert 11 <= found.k <= 13  # pictures / size of a known kind says 4 and 36
    assert found.size_ratio == pytest.approx(each / size, rel=0.15)


def test_one_rehearsal_of_some_kinds_is_enough() -> None:
    found = count_rehearsed(rehearsals(9, draws=1), CountSettings())
    assert found.low <= 9 <= found.high
    assert len(found.answers) == 1


def test_features_without_kinds_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(8), 20)
    draws = [Rehearsal(rng.normal(size=(160, 16)).astype(np.float32), labels, heap) for heap in nothing(rng, 3)]
    found = count_rehearsed(draws, CountSettings(size_spread=0.5))
    assert found.cannot_tell is not None
    assert "hardly better than by chance" in found.cannot_tell
    assert math.isnan(found.confidence)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["confidence"] is None
    assert in_words(values).startswith(
        f"New kinds: their number cannot be estimated reliably, because {found.cannot_tell}. The best "
        f"guess is {found.k}"
    )


def nothing(rng: np.random.Generator, number: int) -> list[Points]:
    """Return heaps without kinds."""
    return [rng.normal(size=(300, 16)).astype(np.float32)] * number


def test_more_kinds_than_are_tried_cannot_be_told() -> None:
    found = count_rehearsed(rehearsals(20), CountSettings(max_kinds=15))
    assert found.cannot_tell is not None
    assert "count.max_kinds = 15" in found.cannot_tell


def test_the_interval_grows_with_the_confidence_and_with_the_overlap() -> None:
    def width(noise: float, confidence: float) -> int:
        found = count_rehearsed(rehearsals(20, noise=noise), CountSettings(confidence=confidence))
        return found.high - found.low

    assert width(0.3, 0.8) < width(0.3, 0.99)
    assert width(0.3, 0.8) < width(1.2, 0.8)


def test_a_large_heap_is_thinned_with_the_hidden_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    some = rehearsals(12, 40, size=40)
    monkeypatch.setattr(sys.modules["newkinds.count.rehearsed"], "MOST", 200)
    found = count_rehearsed(some, CountSettings())
    assert 11 <= found.k <= 13
    drawn = np.random.default_rng(0).permutation(480)[:240]
    sampled = [Rehearsal(one.hidden, one.labels, one.heap[drawn], 480) for one in some]
    assert 11 <= count_rehearsed(sampled, CountSettings()).k <= 13


def test_the_seed_alone_decides() -> None:
    again = [count_rehearsed(rehearsals(6, noise=1.0), CountSettings(), seed=3).to_dict() for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("chance", "confidence", "expected"),
    [
        ([0.0, 0.0, 0.2, 0.5, 0.3], 0.8, (4, 5)),  # all three would hold 1.0, the two .8
        ([0.05, 0.25, 0.4, 0.25, 0.05], 0.8, (2, 4)),  # .9 is nearer to .8 than .65
        ([0.1, 0.8, 0.1], 0.8, (2, 2)),
        ([0.0, 1.0, 0.0], 0.8, (2, 2)),
        ([0.2] * 5, 0.999, (1, 5)),
    ],
)
def test_an_interval_holds_as_much_as_is_asked(
    chance: list[float], confidence: float, expected: tuple[int, int]
) -> None:
    k = 1 + int(np.searchsorted(np.cumsum(chance), 0.5))
    low, high = interval(np.array(chance), k, confidence)
    assert (low, high) == expected
    assert low <= k <= high


def test_heights_by_hand() -> None:
    """Two pairs of equal pictures at a right angle: Ward joins the pairs at 0, and both at sqrt(2) sqrt(2)."""
    points = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32)
    heights = np.exp(log_heights(points, 1))
    assert heights[0] == pytest.approx(2.0)
    assert heights[1:] == pytest.approx([1e-6, 1e-6])


def test_a_height_gives_back_its_number() -> None:
    curve = levels(np.log(np.linspace(9, 1, 60)))
    for kinds in (4, 12, 30):
        assert math.exp(log_number(curve, level_of(curve, kinds))) == pytest.approx(kinds, rel=0.1)
    assert log_number(curve, 100.0) == 0.0  # one cluster


def test_distances_from_centres_by_hand() -> None:
    """Four pictures at right angles are 3/4 from their mean, squared, each: 3 in all, of which 3 are free."""
    found = np.exp(distances_from_centres(log_heights(np.eye(4, dtype=np.float32), 1)))
    assert found[0] == pytest.approx(1.0)
    assert found.shape == (3,)
    assert (np.diff(found) <= 0).all()


def test_distances_from_centres_do_not_depend_on_sizes() -> None:
    rng = np.random.default_rng(0)
    small, large = (distances_from_centres(log_heights(kinds_of([each] * 10, 0.3, rng)[0], 1)) for each in (12, 48))
    assert small[9] == pytest.approx(large[9], abs=0.2)
    assert small[0] > small[9] + 1


def evidence(errors_by_centres: list[list[float]], hidden: int, draws: int = 2) -> Evidence:
    """Return evidence of which only the errors by the distances from centres matter."""
    by_ratio = np.full((len(RATIOS), draws), math.log(20))
    errors = np.array(errors_by_centres)
    return Evidence(by_ratio, np.zeros(3), math.log(20), errors, hidden, 20.0, 0.0, 1.0)


def test_the_error_by_centres_falls_with_the_number_of_kinds_by_hand() -> None:
    """Halves of 9 kinds are off by .3: .09 / (1/9 + 1/9) = .405 a kind; of 27 kinds, 54 hidden, .405 (1/54 + 1/27)."""
    halves = [[0.3, 9, 9], [-0.3, 9, 9]]
    one = evidence([[0.1, 54, 18], [0.1, 54, 18], *halves], hidden=54)  # no worse than by chance
    assert float(one.error_by_centres(np.log(27))) == pytest.approx(math.sqrt(0.0225 + MORE_ERROR**2))
    assert float(one.error_by_centres(np.log(9))) > float(one.error_by_centres(np.log(27)))


def test_groups_that_differ_as_a_whole_are_not_averaged_away() -> None:
    halves = [[0.1, 10, 10], [-0.1, 10, 10]]
    apart = evidence([[0.8, 100, 20], [-0.8, 100, 20], *halves], hidden=120)
    assert float(apart.error_by_centres(np.log(20))) == pytest.approx(0.8, abs=0.02)
    alone = evidence(halves, hidden=20, draws=1)  # one rehearsal: all errors are of its halves
    assert float(alone.error_by_centres(np.log(20))) < 0.2


def test_hidden_draws_take_every_kind_once_in_three() -> None:
    draws = hidden_draws(54, 4, 0)
    assert [len(draw) for draw in draws] == [18] * 4
    assert sorted(np.concatenate(draws[:3])) == list(range(54))
    assert not np.array_equal(draws[0], draws[3])
    assert [list(draw) for draw in draws] == [list(draw) for draw in hidden_draws(54, 4, 0)]


@pytest.mark.parametrize(("hidden", "draws", "enough"), [(3, 1, False), (4, 1, True), (2, 2, True), (1, 3, False)])
def test_how_many_hidden_kinds_are_enough(hidden: int, draws: int, enough: bool) -> None:
    some = rehearsals(5, hidden=hidden, draws=draws)
    assert can_rehearse(some) == enough
    if not enough:
        with pytest.raises(DataError, match=f"there are {draws} draws, and the smallest has {hidden}"):
            count_rehearsed(some, CountSettings())


def test_the_number_in_words() -> None:
    values = {**count_rehearsed(rehearsals(8), CountSettings()).to_dict(), "low": 7, "high": 9, "error": 0.1}
    assert in_words(values) == (
        "New kinds: 8, probably 7 to 9. Such a range holds the true number in 80% of cases; hidden known "
        "kinds were counted to within 11%."
    )
    assert in_words({**values, "low": 8, "high": 8}).startswith("New kinds: 8, and probably no other number. Such a")
