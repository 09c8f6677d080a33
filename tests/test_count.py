"""Algorithm 2: the number of new kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from newkinds.clustering import Clustering
from newkinds.count import _prepared, _Sweep, count_kinds, split_probes
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
    assert found.k_mean == -(-(found.k_accuracy + found.k_index) // 2)


@pytest.mark.parametrize("options", [{"unit_length": False}, {"dimensions": 4}, {"tolerance": 0.0}, {"splits": 1}])
def test_other_settings_count_right_too(options: dict[str, Any]) -> None:
    assert count_kinds(*blobs(4), CountSettings(**{**QUICK, **options})).k == 4


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
    assert set(values) == {"k", "k_accuracy", "k_index", "k_mean", "answers", "curve"}
    assert values["curve"][3] == {"k": 3, "accuracy": first.curve[3].accuracy, "index": first.curve[3].index}
    assert first.k == sorted(first.answers)[len(first.answers) // 2]


def test_the_sweep_ends_at_half_the_pictures() -> None:
    probes, labels, unsorted = blobs(2, each=5)
    found = count_kinds(probes, labels, unsorted[:7], CountSettings(**{**QUICK, "max_kinds": 100}))
    assert [point.k for point in found.curve] == [0, 1, 2, 3]


def test_a_single_cluster_has_no_silhouette() -> None:
    # All unsorted pictures are equal: no K divides them, and none is preferred by the silhouette.
    probes, labels, unsorted = blobs(1)
    found = count_kinds(probes, labels, np.repeat(unsorted[:1], 12, axis=0), CountSettings(**QUICK))
    assert {point.index for point in found.curve} == {-1.0}
    assert found.k == 1


def test_pictures_of_known_kinds_are_no_new_kinds() -> None:
    probes, labels, _ = blobs(1)
    assert count_kinds(probes, labels, probes + np.float32(0.01), CountSettings(**QUICK)).k == 0


# Ties


@pytest.mark.parametrize(
    ("accuracies", "indices", "tolerance", "expected"),
    [
        # Two clear maxima: their mean, rounded up.
        ([0.1, 0.2, 0.9, 0.85, 0.2], [-1, 0.1, 0.2, 0.4, 0.3], 0.0, (2, 3, 3)),
        ([0.1, 0.9, 0.2, 0.85, 0.2], [-1, 0.1, 0.2, 0.4, 0.3], 0.0, (1, 3, 2)),
        # Where the accuracy has fallen by more than a tenth, the silhouette is not asked.
        ([0.1, 0.9, 0.85, 0.3, 0.2], [-1, 0.1, 0.2, 0.4, 0.3], 0.0, (1, 2, 2)),
        ([1.0, 1.0, 0.1, 0.1, 0.1], [-1, 0.1, 0.1, 0.2, 0.3], 0.0, (1, 1, 1)),
        # The silhouette's ties go to the largest K.
        ([0.1, 0.9, 0.85, 0.9, 0.2], [-1, 0.4, 0.1, 0.4, 0.2], 0.0, (3, 3, 3)),
        # Equal accuracies: the largest K whose silhouette is within a twentieth of the best among them.
        ([1.0, 1.0, 1.0, 0.95, 0.2], [-1, 0.4, 0.37, 0.2, 0.3], 0.0, (1, 1, 1)),
        ([1.0, 1.0, 1.0, 0.95, 0.2], [-1, 0.4, 0.39, 0.2, 0.3], 0.0, (2, 1, 2)),
        # What is within the tolerance counts as equal.
        ([0.5, 0.9, 0.89, 0.85, 0.2], [-1, 0.1, 0.1, 0.4, 0.3], 0.0, (1, 3, 2)),
        ([0.5, 0.9, 0.89, 0.85, 0.2], [-1, 0.1, 0.1, 0.4, 0.3], 0.02, (2, 3, 3)),
        ([0.5, 0.9, 0.89, 0.85, 0.2], [-1, 0.1, 0.1, 0.4, 0.3], 0.06, (3, 3, 3)),
    ],
)
def test_both_optima_and_ties(
    accuracies: list[float],
    indices: list[float],
    tolerance: float,
    expected: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Sweep, "measure", lambda self, largest, step: np.array([accuracies, indices]).T)
    options = {**QUICK, "max_kinds": 4, "tolerance": tolerance}
    found = count_kinds(*blobs(2), CountSettings(**options))
    assert (found.k_accuracy, found.k_index, found.k_mean) == expected
    assert [(point.accuracy, point.index) for point in found.curve] == list(zip(accuracies, indices, strict=True))


def test_curves_are_averaged_and_the_answer_is_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    shares, answers = iter([0.0, 0.3, 0.6]), iter([7, 2, 5])
    monkeypatch.setattr(_Sweep, "measure", lambda self, largest, step: np.full((largest + 1, 2), next(shares)))
    monkeypatch.setattr(_Sweep, "remaining", lambda self, final: next(answers))
    found = count_kinds(*blobs(2), CountSettings(**{**QUICK, "max_kinds": 3, "splits": 3}))
    assert [point.accuracy for point in found.curve] == pytest.approx([0.3] * 4)
    assert found.answers == (2, 5, 7)
    assert found.k == 5


# Splits


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 100))
def test_split_probes(n_classes: int, share: float, seed: int) -> None:
    anchors, validation = split_probes(n_classes, share, seed)
    assert sorted([*anchors, *validation]) == list(range(n_classes))
    assert anchors
    assert validation
    assert abs(len(anchors) - share * n_classes) <= 1
    assert list(anchors) == sorted(anchors)
    assert split_probes(n_classes, share, seed) == (anchors, validation)


def test_splits_differ_by_seed_and_are_four_to_one() -> None:
    assert len({split_probes(10, 0.8, seed) for seed in range(20)}) > 10
    assert len(split_probes(10, 0.8, 0)[0]) == 8


@pytest.mark.parametrize("labels", [[0, 0, 0], [0]])
def test_one_probe_kind_is_too_few(labels: list[int]) -> None:
    points = np.random.default_rng(0).normal(size=(len(labels), 3)).astype(np.float32)
    unsorted = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    with pytest.raises(DataError, match=r"at least 2 probe kinds.*there are 1") as caught:
        count_kinds(points, np.array(labels), unsorted, CountSettings(**QUICK))
    assert "--kinds" in caught.value.hint


# What counts as a kind at the end


def sweep(tau: float = 0.25, validation: int = 4, unsorted: int = 30) -> _Sweep:
    """A sweep with probe kinds 0 and 1, four anchors of kind 0, and validation probes of kind 1."""
    probes = np.zeros((4 + validation, 2))
    labels = np.array([0] * 4 + [1] * validation)
    return _Sweep(probes, labels, np.zeros((unsorted, 2)), [0], CountSettings(tau=tau), seed=0)


def clustering(labels: list[int]) -> Clustering:
    return Clustering(np.zeros((6, 2)), np.array(labels), 0.0)


def test_points_are_sorted_into_anchors_validation_and_unsorted() -> None:
    made = sweep()
    assert made.anchors.tolist() == [0] * 4 + [-1] * 34
    assert np.flatnonzero(made.validation).tolist() == [4, 5, 6, 7]
    assert made.validation_labels.tolist() == [1] * 4
    assert made.unsorted.sum() == 30


def test_a_clustering_has_all_probe_kinds_and_k_more() -> None:
    rng = np.random.default_rng(0)
    made = _Sweep(rng.normal(size=(12, 2)), np.arange(12) % 4, rng.normal(size=(20, 2)), [2, 0], CountSettings(), 0)
    for k in (0, 3):
        found = made.cluster(k)
        assert len(found.centres) == 4 + k
        # Anchors keep the clusters of their kinds, in the order of the anchors.
        assert found.labels[:12][np.arange(12) % 4 == 2].tolist() == [0] * 3
        assert found.labels[:12][np.arange(12) % 4 == 0].tolist() == [1] * 3


def test_tau_drops_small_clusters() -> None:
    # Of the unsorted 20 are in cluster 2, 5 in cluster 3, 4 in cluster 4, 1 in cluster 5.
    final = clustering([0] * 4 + [1] * 4 + [2] * 20 + [3] * 5 + [4] * 4 + [5])
    expected = {0.0: 4, 0.05: 4, 0.06: 3, 0.2: 3, 0.21: 2, 0.25: 2, 0.26: 1}  # at the threshold a cluster stays
    assert {tau: sweep(tau).remaining(final) for tau in expected} == expected


def test_clusters_of_anchors_and_of_validation_probes_do_not_count() -> None:
    # Many unsorted pictures in the anchor's cluster: known. Two beside four probes in cluster 1: known, too.
    assert sweep().remaining(clustering([0] * 4 + [1] * 4 + [0] * 20 + [1] * 2 + [2] * 8)) == 1
    # As many as the probes: not yet more than half. One more: new.
    assert sweep().remaining(clustering([0] * 4 + [1] * 4 + [1] * 4 + [2] * 10 + [0] * 16)) == 1
    assert sweep().remaining(clustering([0] * 4 + [1] * 4 + [1] * 5 + [2] * 10 + [0] * 15)) == 2
    # The largest is the largest new one: the 16 and 20 in known clusters do not raise the threshold.
    assert sweep(tau=0.9).remaining(clustering([0] * 4 + [1] * 4 + [2] * 5 + [3] * 5 + [0] * 20)) == 2


def test_nothing_new_is_none() -> None:
    for tau in (0.0, 0.25):
        assert sweep(tau).remaining(clustering([0] * 4 + [1] * 4 + [0] * 30)) == 0


# Preparation


def test_features_are_of_length_1_and_few() -> None:
    rng = np.random.default_rng(0)
    probes, unsorted = (rng.normal(size=(n, 8)).astype(np.float32) * 5 for n in (10, 20))
    raw = _prepared(probes, unsorted, CountSettings(unit_length=False, dimensions=8))
    assert (np.concatenate(raw) == np.concatenate([probes, unsorted])).all()
    unit = _prepared(probes, unsorted, CountSettings(dimensions=8))
    assert np.linalg.norm(np.concatenate(unit), axis=1) == pytest.approx(np.ones(30))
    assert unit[0] == pytest.approx(probes / np.linalg.norm(probes, axis=1, keepdims=True), rel=1e-6)
    few = _prepared(probes, unsorted, CountSettings(dimensions=3))
    assert (few[0].shape, few[1].shape) == ((10, 3), (20, 3))
    # A feature that is all zero stays finite.
    assert np.isfinite(_prepared(np.zeros((3, 8), dtype=np.float32), unsorted, CountSettings())[0]).all()
