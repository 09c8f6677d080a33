"""Algorithm 2: the number of new kinds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from newkinds.count import Count, Division, count_kinds, divide, in_words, probe_kinds
from newkinds.count.algorithm2 import Swept, _answer, _optima, _sweep, prepared
from newkinds.count.algorithm2 import remaining as clusters_left
from newkinds.errors import DataError
from newkinds.randomness import one_thread
from newkinds.settings import Count as CountSettings

QUICK = {"max_kinds": 10, "restarts": 3, "splits": 2}
Data = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def blobs(kinds: int, probes: int = 6, each: int = 12, seed: int = 0) -> Data:
    """Features of probe kinds with labels, and of new kinds: narrow, and far apart in direction."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(probes + kinds, 12))
    centres *= 6 / np.linalg.norm(centres, axis=1, keepdims=True)
    labels = np.repeat(np.arange(probes + kinds), each)
    points = (centres[labels] + 0.5 * rng.normal(size=(len(labels), 12))).astype(np.float32)
    known = labels < probes
    return points[known], labels[known], points[~known]


@pytest.mark.parametrize("kinds", [2, 3, 5, 8])
@pytest.mark.parametrize("seed", [0, 1])
def test_blobs_are_counted_right(kinds: int, seed: int) -> None:
    found = count_kinds(*blobs(kinds, seed=seed), CountSettings(**QUICK), seed=seed)
    assert found.k == kinds
    assert set(found.answers) == {kinds}
    assert [point.k for point in found.curve] == list(range(11))
    assert found.curve[kinds].index == pytest.approx(max(point.index for point in found.curve))
    assert found.curve[kinds].accuracy == 1.0
    assert found.curve[10].index < found.curve[kinds].index - 0.01
    assert found.low <= kinds <= found.high
    assert found.confidence == 0.8


@pytest.mark.parametrize("options", [{"unit_length": False}, {"dimensions": 4}, {"tolerance": 0.0}, {"splits": 1}])
def test_other_settings_count_right_too(options: dict[str, Any]) -> None:
    assert count_kinds(*blobs(4), CountSettings(**{**QUICK, **options})).k == 4


def test_a_large_heap_is_counted_by_a_sample_and_the_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data, settings = blobs(4, each=40), CountSettings(**QUICK)
    assert "drawn at random" not in " ".join(count_kinds(*data, settings).remarks)
    monkeypatch.setattr(sys.modules["newkinds.count.estimate"], "MOST", 80)
    found = count_kinds(*data, settings)
    assert found.k == 4
    assert found.remarks[-1] == "The number was estimated from 80 of the 160 unsorted pictures, drawn at random."


def test_averaging_over_neighbours_makes_kinds_tighter() -> None:
    probes, labels, unsorted = blobs(4)
    plain, near = (prepared(probes, unsorted, CountSettings(neighbours=number)) for number in (0, 6))

    def share_within(points: NDArray[np.float32]) -> float:
        means = np.stack([points[labels == kind].mean(axis=0) for kind in range(6)])
        return float(np.square(points - means[labels]).sum() / np.square(points - points.mean(axis=0)).sum())

    assert share_within(near[0]) < 0.5 * share_within(plain[0])
    assert near[1].shape == plain[1].shape
    assert count_kinds(probes, labels, unsorted, CountSettings(**QUICK, neighbours=6)).k == 4


def test_accuracy_is_measured_on_the_validation_probes() -> None:
    # Half of the probe kinds validate, in any order of the pictures.
    probes, labels, unsorted = blobs(3)
    order = np.random.default_rng(0).permutation(len(labels))
    options = {**QUICK, "anchor_share": 0.5}
    found = count_kinds(probes[order], labels[order], unsorted, CountSettings(**options))
    assert found.k == 3
    assert found.curve[3].accuracy == 1.0
    # With labels that say nothing it is low.
    wrong = count_kinds(probes, labels[order], unsorted, CountSettings(**options))
    assert max(point.accuracy for point in wrong.curve) < 0.8


def test_the_seed_counts_and_the_result_is_plain() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(40, 6)).astype(np.float32), np.arange(40) % 5, rng.normal(size=(40, 6)).astype(np.float32)
    first, again, other = (count_kinds(*data, CountSettings(**QUICK), seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.curve != other.curve
    values = json.loads(json.dumps(first.to_dict()))
    assert {"k", "low", "high", "confidence", "k_accuracy", "k_index", "k_mean", "answers", "curve"} <= set(values)
    assert values["curve"][3]["accuracy"] == first.curve[3].accuracy
    assert abs(first.k - np.mean(first.answers)) <= 0.5


def test_the_sweep_ends_at_half_the_pictures() -> None:
    probes, labels, unsorted = blobs(2, each=5)
    found = count_kinds(probes, labels, unsorted[:7], CountSettings(**{**QUICK, "max_kinds": 100}))
    assert [point.k for point in found.curve] == [0, 1, 2, 3]


def test_a_single_cluster_has_no_silhouette() -> None:
    # All unsorted pictures are equal: no K divides them, and none is preferred by the silhouette.
    probes, labels, unsorted = blobs(1)
    found = count_kinds(probes, labels, np.repeat(unsorted[:1], 12, axis=0), CountSettings(**QUICK))
    assert all(point.index != point.index for point in found.curve)  # not a number
    assert found.to_dict()["curve"][2]["index"] is None
    assert found.k == 1


def test_pictures_of_known_kinds_are_no_new_kinds() -> None:
    probes, labels, _ = blobs(1)
    options = {**QUICK, "counted": "beside-known"}
    assert count_kinds(probes, labels, probes + np.float32(0.01), CountSettings(**options)).k == 0
    # The paper assumes that unsorted pictures are of new kinds, whatever they look like.
    assert count_kinds(probes, labels, probes + np.float32(0.01), CountSettings(**QUICK)).k == 6


# Ties


NAN = float("nan")


def swept(accuracies: list[float], indices: list[float], found: list[int] | None = None) -> Swept:
    """What a division may give for K = 0, 1, 2 and so on."""
    return Swept(np.array(accuracies), np.array(indices), 0.0, np.array(found or range(len(accuracies))))


@pytest.mark.parametrize(
    ("accuracies", "indices", "tolerance", "expected"),
    [
        # Two clear maxima.
        ([0.1, 0.2, 0.9, 0.85, 0.2], [NAN, 0.1, 0.2, 0.4, 0.3], 0.0, (2, 3)),
        ([0.1, 0.9, 0.2, 0.85, 0.2], [NAN, 0.1, 0.2, 0.4, 0.3], 0.0, (1, 3)),
        # Where the accuracy has fallen by more than a tenth, the index is not asked.
        ([0.1, 0.9, 0.85, 0.3, 0.2], [NAN, 0.1, 0.2, 0.4, 0.3], 0.0, (1, 2)),
        ([1.0, 1.0, 0.1, 0.1, 0.1], [NAN, 0.1, 0.1, 0.2, 0.3], 0.0, (1, 1)),
        # The index's ties go to the largest K.
        ([0.1, 0.9, 0.85, 0.9, 0.2], [NAN, 0.4, 0.1, 0.4, 0.2], 0.0, (3, 3)),
        # Equal accuracies: the largest K whose index is within a twentieth of the best among them.
        ([1.0, 1.0, 1.0, 0.95, 0.2], [NAN, 0.4, 0.37, 0.2, 0.3], 0.0, (1, 1)),
        ([1.0, 1.0, 1.0, 0.95, 0.2], [NAN, 0.4, 0.39, 0.2, 0.3], 0.0, (2, 1)),
        # What is within the tolerance counts as equal.
        ([0.5, 0.9, 0.89, 0.85, 0.2], [NAN, 0.1, 0.1, 0.4, 0.3], 0.0, (1, 3)),
        ([0.5, 0.9, 0.89, 0.85, 0.2], [NAN, 0.1, 0.1, 0.4, 0.3], 0.02, (2, 3)),
        ([0.5, 0.9, 0.89, 0.85, 0.2], [NAN, 0.1, 0.1, 0.4, 0.3], 0.06, (3, 3)),
        # No index at all: the accuracy's largest, and nothing tells against the fewest.
        ([0.5, 0.9, 0.9], [NAN, NAN, NAN], 0.0, (2, 0)),
        # An index that is negative, as Davies-Bouldin's here.
        ([0.9, 0.9, 0.9], [-3.0, -1.0, -1.04], 0.0, (2, 1)),
    ],
)
def test_both_optima_and_ties(
    accuracies: list[float], indices: list[float], tolerance: float, expected: tuple[int, int]
) -> None:
    assert _optima(swept(accuracies, indices), CountSettings(tolerance=tolerance)) == expected


def answer(*many: Swept, **options: Any) -> Count:
    return _answer(many, CountSettings(tolerance=0.0, decline=1.0, **options), seed=0)


@pytest.mark.parametrize(("rounding", "k"), [("nearest", 2), ("up", 3)])
def test_the_answer_is_the_mean_over_the_divisions_of_what_the_mean_of_both_optima_leaves(
    rounding: str, k: int
) -> None:
    # K_a = 1 and K_v = 3: at K = 2 there are 2, 2 and 3 clusters.
    shapes = [
        swept([0.1, 0.9, 0.2, 0.3], [NAN, 0.1, 0.2, 0.4], found) for found in ([0, 1, 2, 3], [0, 1, 2, 5], [1, 2, 3, 4])
    ]
    found = answer(*shapes, rounding=rounding)
    assert found.answers == (2, 2, 3)
    assert (found.k, found.k_accuracy, found.k_index, found.k_mean) == (k, 1, 3, 2)
    # Either optimum alone would say 1 to 2, or 3 to 5.
    assert found.low == 0  # one less, as the interval is a little wider than its draws
    assert 3 < found.high <= 5
    assert found.curve[3].found == pytest.approx(4)
    assert found.curve[0].index != found.curve[0].index


def test_the_interval_is_narrow_when_all_agree_and_grows_with_the_confidence() -> None:
    same = [swept([0.1, 0.2, 0.9, 0.3], [NAN, 0.1, 0.4, 0.2]) for _ in range(5)]
    sure = answer(*same)
    assert (sure.low, sure.k, sure.high) == (1, 2, 3)  # the allowance alone
    rng = np.random.default_rng(0)
    many = [swept(rng.random(30).tolist(), rng.random(30).tolist()) for _ in range(10)]
    little, more = (answer(*many, confidence=confidence) for confidence in (0.5, 0.99))
    assert little.k == more.k
    assert more.low <= little.low <= little.k <= little.high <= more.high
    assert more.high - more.low > little.high - little.low


def test_remarks_say_what_is_doubtful() -> None:
    flat = answer(swept([0.9] * 5, [NAN, 0.1, 0.4, 0.2, 0.1]))
    assert "with any number of clusters" in flat.remarks[0]
    apart = answer(swept([0.1] * 20 + [0.9, 0.2], [0.5, 0.9] + [0.1] * 20))
    assert "disagree" in apart.remarks[0]
    assert "next to 20 new clusters" in apart.remarks[0]
    edge = answer(swept([0.1, 0.2, 0.9], [NAN, 0.1, 0.2]))
    assert "largest number tried" in edge.remarks[0]
    assert not answer(swept([0.1, 0.9, 0.3, 0.2], [NAN, 0.4, 0.2, 0.1])).remarks


def test_the_number_in_words() -> None:
    values = answer(swept([0.1, 0.9, 0.2, 0.3], [NAN, 0.1, 0.2, 0.4])).to_dict()
    said = in_words(values)
    assert said.startswith("New kinds: 2, or 0 to 4 with other known kinds as the probes. How often such a range")
    assert "New kinds: 2, and the same with other known kinds" in in_words({**values, "low": 2, "high": 2})
    assert in_words({**values, "confidence": None}) == "New kinds: 2 (the number that sorts the known kinds best)."


# Splits


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 100), st.integers(1, 4), st.integers(2, 70))
def test_divisions(n_classes: int, share: float, seed: int, splits: int, at_once: int) -> None:
    settings = CountSettings(anchor_share=share, splits=splits, probes_at_once=at_once)
    divisions = divide(n_classes, settings, seed)
    assert len(divisions) == splits
    used = min(n_classes, at_once)
    for division in divisions:
        assert len({*division.anchors, *division.validation}) == used
        assert set(division.anchors + division.validation) <= set(range(n_classes))
        assert division.anchors
        assert division.validation
        assert abs(len(division.anchors) - share * used) <= 1
    assert divide(n_classes, settings, seed) == divisions


def test_divisions_differ_and_are_four_to_one() -> None:
    divisions = divide(10, CountSettings(splits=20), 0)
    assert len({division.anchors for division in divisions}) > 10
    assert len(divisions[0].anchors) == 8


def test_groups_are_used_on_their_own_and_as_often() -> None:
    groups = ["latin"] * 4 + ["greek"] * 3 + ["lonely"]
    divisions = divide(8, CountSettings(splits=5), 0, groups)
    used = [tuple(sorted(division.anchors + division.validation)) for division in divisions]
    assert used == [(0, 1, 2, 3), (4, 5, 6)] * 3
    # Groups of one kind each cannot be divided: then all are together.
    assert len({*divide(3, CountSettings(splits=1), 0, ["a", "b", "c"])[0].anchors}) == 2


def test_probe_kinds_by_number_or_by_name() -> None:
    names = [f"latin/{i}" for i in range(15)] + [f"greek/{i}" for i in range(15)]
    chosen = probe_kinds(names, CountSettings(), 0)
    assert chosen is not None
    assert len(chosen) == len(set(chosen)) == 6
    assert probe_kinds(names[:19], CountSettings(), 0) is None
    assert probe_kinds(names, CountSettings(probes=("greek/*",)), 0) == list(range(15, 30))
    assert probe_kinds(names[:4], CountSettings(probes=("latin/1", "latin/3")), 0) == [1, 3]
    with pytest.raises(DataError, match=r"'cyrillic/\*' is not one of the 30 known kinds"):
        probe_kinds(names, CountSettings(probes=("latin/*", "cyrillic/*")), 0)
    with pytest.raises(DataError, match="one probe kind is not enough"):
        probe_kinds(names, CountSettings(probes=("latin/1",)), 0)


@pytest.mark.parametrize("labels", [[0, 0, 0], [0]])
def test_one_probe_kind_is_too_few(labels: list[int]) -> None:
    points = np.random.default_rng(0).normal(size=(len(labels), 3)).astype(np.float32)
    unsorted = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    with pytest.raises(DataError, match=r"at least 2 probe kinds.*there are 1") as caught:
        count_kinds(points, np.array(labels), unsorted, CountSettings(**QUICK))
    assert "--kinds" in caught.value.hint


# What counts as a kind at the end


def remaining(labels: list[int], **options: Any) -> int:
    """Four anchors in cluster 0, four validation probes in cluster 1, and then the unsorted, as `labels` say."""
    everyone = np.array([0] * 4 + [1] * 4 + labels)
    return clusters_left(everyone, np.arange(8, len(everyone)), np.arange(4, 8), 1, CountSettings(**options))


@pytest.mark.parametrize("counted", ["all", "beside-known"])
def test_tau_drops_small_clusters(counted: str) -> None:
    # Of the unsorted 20 are in cluster 2, 5 in cluster 3, 4 in cluster 4, 1 in cluster 5.
    final = [2] * 20 + [3] * 5 + [4] * 4 + [5]
    expected = {0.0: 4, 0.05: 4, 0.06: 3, 0.2: 3, 0.21: 2, 0.25: 2, 0.26: 1}  # at the threshold a cluster stays
    assert {tau: remaining(final, tau=tau, counted=counted) for tau in expected} == expected


def test_clusters_of_known_kinds_count_or_not() -> None:
    # Many unsorted pictures in the anchor's cluster, two beside four probes in cluster 1.
    final = [0] * 20 + [1] * 2 + [2] * 8
    assert remaining(final, tau=0.1) == 3
    assert remaining(final, tau=0.1, counted="beside-known") == 1
    # As many as the probes: not yet more than half. One more: new.
    assert remaining([1] * 4 + [2] * 10 + [0] * 16, tau=0.25, counted="beside-known") == 1
    assert remaining([1] * 5 + [2] * 10 + [0] * 15, tau=0.25, counted="beside-known") == 2
    # The largest is the largest new one: the 20 in a known cluster do not raise the threshold.
    assert remaining([2] * 5 + [3] * 5 + [0] * 20, tau=0.9, counted="beside-known") == 2


@pytest.mark.parametrize("tau", [0.0, 0.25])
def test_nothing_new_is_none(tau: float) -> None:
    assert remaining([0] * 30, tau=tau, counted="beside-known") == 0


# One division


def test_what_a_division_measures() -> None:
    probes, labels, unsorted = blobs(3)
    made = _sweep(probes, labels, unsorted, Division((0, 1), (2, 3), 7), 8, CountSettings(tau=0.0))
    assert made.accuracy.shape == made.index.shape == made.found.shape == (9,)
    assert made.accuracy[3] == 1.0  # two anchors and two validation kinds; probes 4 and 5 are left out
    assert made.found[3] == 3
    assert np.flatnonzero(made.index == np.nanmax(made.index))[-1] == 3  # with fewer, probes merge first
    both = CountSettings(tau=0.0, index_on="validation-too")
    assert not np.allclose(_sweep(probes, labels, unsorted, Division((0, 1), (2, 3), 7), 8, both).index, made.index)
    sampled = _sweep(
        np.tile(probes, (10, 1)),
        np.tile(labels, 10),
        np.tile(unsorted, (10, 1)),
        Division((0, 1), (2, 3), 7),
        4,
        CountSettings(index_sample=100),
    )
    assert 0 < sampled.index_error < 0.1
    assert made.index_error == 0


@pytest.mark.parametrize("index", ["silhouette", "dunn", "davies-bouldin", "calinski-harabasz"])
def test_every_index_counts_blobs(index: str) -> None:
    assert count_kinds(*blobs(4), CountSettings(**QUICK, index=index)).k == 4


def test_the_other_estimator() -> None:
    found = count_kinds(*blobs(4, each=30), CountSettings(max_kinds=12, restarts=3, estimator="labelled"))
    assert found.estimator == "labelled"
    assert abs(found.k - 4) <= 4  # the accuracy on the known kinds is 1 from the right number on
    assert found.to_dict()["confidence"] is None
    assert len(found.curve) < 12  # it is searched, not swept


def mixed_blobs(known: int, new: int, each: int = 10) -> tuple[Any, Any, Any]:
    """Return labelled rows of known kinds, their labels, and a heap of as many more of them and of new ones.

    The first two known kinds lie close together, far from the others, so that they are told apart last.
    """
    rng = np.random.default_rng(0)
    centres = np.eye(known + new, 12) * 10
    centres[1] = centres[0] + 0.5 * np.eye(12)[11]
    labels = np.repeat(np.arange(known), each)
    rows = (
        (centres[kinds] + 0.05 * rng.normal(size=(len(kinds), 12))).astype(np.float32)
        for kinds in (labels, np.repeat(np.arange(known + new), each))
    )
    probes, heap = rows
    return probes, labels, heap


def test_the_cuts_of_a_tree_count_a_mixed_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = CountSettings(max_kinds=12, estimator="ward", unit_length=False)
    found = count_kinds(*mixed_blobs(4, 3), settings)
    assert found.estimator == "ward"
    assert found.k == 3  # with fewer clusters, the two alike are one
    assert [point.k for point in found.curve] == list(range(13))
    assert found.curve[2].accuracy == pytest.approx(0.75)
    assert found.curve[3].accuracy == 1.0
    monkeypatch.setattr(sys.modules["newkinds.count.ward"], "PATIENCE", 4)
    assert len(count_kinds(*mixed_blobs(4, 3), settings).curve) == 8  # four cuts after the best are no better
    monkeypatch.setattr(sys.modules["newkinds.count.ward"], "MOST", 60)
    assert "60 of the 110" in " ".join(count_kinds(*mixed_blobs(4, 3), settings).remarks)


# Preparation


def test_features_are_of_length_1_and_few() -> None:
    rng = np.random.default_rng(0)
    probes, unsorted = (rng.normal(size=(n, 8)).astype(np.float32) * 5 for n in (10, 20))
    raw = prepared(probes, unsorted, CountSettings(unit_length=False, dimensions=8))
    assert (np.concatenate(raw) == np.concatenate([probes, unsorted])).all()
    unit = prepared(probes, unsorted, CountSettings(dimensions=8))
    assert np.linalg.norm(np.concatenate(unit), axis=1) == pytest.approx(np.ones(30))
    assert unit[0] == pytest.approx(probes / np.linalg.norm(probes, axis=1, keepdims=True), rel=1e-6)
    few = prepared(probes, unsorted, CountSettings(dimensions=3))
    assert (few[0].shape, few[1].shape) == ((10, 3), (20, 3))
    # A feature that is all zero stays finite.
    assert np.isfinite(prepared(np.zeros((3, 8), dtype=np.float32), unsorted, CountSettings())[0]).all()
