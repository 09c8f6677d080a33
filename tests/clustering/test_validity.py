"""How good clusterings are, without labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from clouds import DTYPES, blobs, torch_threads, untouched_generators
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_score

from newkinds import equations
from newkinds.clustering.validity import INDICES, validity
from newkinds.errors import UsageError

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-10}


def labellings(n: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """Return labels (n,) of 2 to n - 1 clusters, in any numbering, with gaps and with clusters of one point."""
    rng = np.random.default_rng(seed)
    made = [rng.integers(0, k, n) for k in (2, 3, 8)]
    made.append(np.where(np.arange(n) == 0, 5, 2))
    made.append(np.minimum(np.arange(n), n - 2) * 3)
    return [labels.astype(np.int64) for labels in made]


def slow_dunn(points: NDArray[Any], labels: NDArray[np.int64]) -> float:
    between, within = np.inf, 0.0
    for i, one in enumerate(points.tolist()):
        for j, other in enumerate(points[:i].tolist()):
            distance = math.dist(one, other)
            if labels[i] == labels[j]:
                within = max(within, distance)
            else:
                between = min(between, distance)
    return between / within


def test_by_hand() -> None:
    # Two pairs, 1 and 2 wide, 4 apart: 0, 1 and 5, 7.
    points, labels = np.array([[0.0], [1.0], [5.0], [7.0]]), np.array([0, 0, 1, 1])
    silhouettes = [(6 - 1) / 6, (5 - 1) / 5, (4.5 - 2) / 4.5, (6.5 - 2) / 6.5]
    assert validity("silhouette", points, [labels]).values == pytest.approx([np.mean(silhouettes)])
    assert validity("dunn", points, [labels]).values == pytest.approx([4 / 2])
    # Centres .5 and 6, mean distances .5 and 1; squares between 2 * 2 * 2.75^2, and within .5 + 2.
    assert validity("davies-bouldin", points, [labels]).values == pytest.approx([-1.5 / 5.5])
    assert validity("calinski-harabasz", points, [labels]).values == pytest.approx([4 * 2.75**2 / (2.5 / 2)])


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), n=st.integers(3, 30), d=st.integers(1, 5), spread=st.floats(0.1, 10))
def test_against_scikit_learn_and_slow_loops(dtype: Any, seed: int, n: int, d: int, spread: float) -> None:
    points = blobs(n, 3, seed, spread, d, dtype)[0]
    made = labellings(n, seed)
    made = [labels for labels in made if 1 < len(np.unique(labels)) < n]
    tolerance = TOLERANCE[dtype]
    found = {name: validity(name, points, made) for name in INDICES}
    for i, labels in enumerate(made):
        values = {name: index.values[i] for name, index in found.items()}
        assert values["silhouette"] == pytest.approx(silhouette_score(points, labels), abs=tolerance)
        assert values["silhouette"] == pytest.approx(equations.silhouette(points, labels), abs=tolerance)
        assert values["dunn"] == pytest.approx(slow_dunn(points, labels), rel=10 * tolerance)
        assert values["davies-bouldin"] == pytest.approx(-davies_bouldin_score(points, labels))
        assert values["calinski-harabasz"] == pytest.approx(calinski_harabasz_score(points, labels))
    for index in found.values():
        assert index.errors.tolist() == [0] * len(made)


@pytest.mark.parametrize("name", sorted(INDICES))
def test_more_is_better_and_undefined_is_not_a_number(name: str) -> None:
    points, labels = blobs(60, 4, spread=0.3)
    worse = np.where(labels == 3, 2, labels)
    mixed = np.random.default_rng(0).permutation(labels)
    one, each = np.zeros(60, dtype=np.int64), np.arange(60)
    found = validity(name, points, [one, labels, each, worse, mixed])
    assert np.isnan(found.values).tolist() == [True, False, True, False, False]
    assert np.isnan(found.errors).tolist() == [True, False, True, False, False]
    assert found.values[1] > found.values[3] > found.values[4]
    nowhere = validity(name, points, [one, each])
    assert np.isnan(nowhere.values).all()
    assert validity(name, points, []).values.shape == (0,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_points_that_are_equal(dtype: Any) -> None:
    points = np.repeat(np.array([[0.0, 0], [3, 4]], dtype=dtype), 3, axis=0)
    right, wrong = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 0, 1])
    found = validity("silhouette", points, [right, wrong]).values
    assert found == pytest.approx([1, silhouette_score(points, wrong)], abs=1e-6)
    assert validity("silhouette", np.ones((6, 2), dtype=dtype), [right]).values.tolist() == [0]
    assert validity("dunn", points, [wrong]).values.tolist() == [0]
    assert validity("dunn", points, [right]).values[0] > 1e6


@pytest.mark.parametrize("name", ["silhouette", "dunn"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_size_of_the_pieces_does_not_matter(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    points, _ = blobs(90, 5, spread=3.0, dtype=dtype)
    whole = validity(name, points, labellings(90), most=80)
    for block in (1, 7 * 80, 80 * 80 - 1):
        monkeypatch.setitem(validity.__globals__, "_BLOCK", block)
        parts = validity(name, points, labellings(90), most=80)
        assert parts.values == pytest.approx(whole.values, rel=1e-4 if dtype == np.float32 else 1e-10)
        assert parts.errors == pytest.approx(whole.errors, rel=1e-4, nan_ok=True)


@pytest.mark.parametrize("name", ["silhouette", "dunn"])
@pytest.mark.parametrize("block", [2**21, 500])
def test_tight_clusters_far_apart(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two pairs of blobs: within a pair, distances are a thousandth of those between pairs, where products in float32
    # keep no digits. With small pieces there are more near pairs than are mended one by one.
    monkeypatch.setitem(validity.__globals__, "_BLOCK", block)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 25)
    points = np.array([0, 5, 5000, 5005])[labels][:, None] + rng.normal(size=(100, 3))
    points = points.astype(np.float32)
    expected = validity(name, points.astype(np.float64), [labels, labels // 2]).values
    assert validity(name, points, [labels, labels // 2]).values == pytest.approx(expected, rel=1e-3)
    if name == "silhouette":
        assert expected == pytest.approx([silhouette_score(points, labels), silhouette_score(points, labels // 2)])


@pytest.mark.parametrize("name", sorted(INDICES))
def test_far_from_the_origin_in_single_precision(name: str) -> None:
    points, labels = blobs(150, 4, spread=0.5, dtype=np.float32)
    points = points + np.float32(1e4)
    # What float32 leaves of the points, in full precision and near the origin.
    near = points.astype(np.float64) - 1e4
    expected = validity(name, near, [labels, labels // 2]).values
    assert validity(name, points, [labels, labels // 2]).values == pytest.approx(expected, rel=0.01)


def test_what_points_may_be() -> None:
    points, labels = blobs(60, 3, spread=2.0)
    points = np.round(points)
    expected = validity("silhouette", points, [labels]).values
    assert validity("silhouette", points.astype(np.int64), [labels]).values == pytest.approx(expected)
    assert validity("silhouette", points.astype(np.float16), [labels]).values == pytest.approx(expected)
    assert validity("silhouette", np.asfortranarray(points), [labels]).values == pytest.approx(expected)
    points.setflags(write=False)
    labels.setflags(write=False)
    assert validity("silhouette", points, [labels]).values == pytest.approx(expected)


# Samples


def test_a_sample_is_repeatable_and_near_the_whole() -> None:
    points, labels = blobs(2000, 4, spread=4.0)
    made = [labels, labels // 2]
    whole = validity("silhouette", points, made)
    first, again, other = (validity("silhouette", points, made, most=300, seed=seed) for seed in (0, 0, 1))
    assert first.values.tobytes() == again.values.tobytes()
    assert first.errors.tobytes() == again.errors.tobytes()
    assert (first.values != other.values).all()
    assert (first.errors > 0).all()
    assert np.abs(first.values - whole.values).max() < 5 * first.errors.max()
    # As many as there are is the whole.
    assert validity("silhouette", points, made, most=2000, seed=5).values.tobytes() == whole.values.tobytes()


@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_the_error_is_the_deviation_between_samples(spread: float) -> None:
    points, labels = blobs(3000, 5, spread=spread)
    found = [validity("silhouette", points, [labels], most=150, seed=seed) for seed in range(50)]
    deviation = np.std([index.values[0] for index in found])
    assert 0.5 < np.mean([index.errors[0] for index in found]) / deviation < 2


@pytest.mark.parametrize("name", ["dunn", "davies-bouldin", "calinski-harabasz"])
def test_other_indices_of_a_sample_are_without_error(name: str) -> None:
    points, labels = blobs(200, 4)
    found = validity(name, points, [labels], most=100)
    assert np.isfinite(found.values).all()
    assert np.isnan(found.errors).all()


def test_a_sample_may_miss_a_cluster() -> None:
    points, _ = blobs(200, 2)
    alone = (np.arange(200) == 0).astype(np.int64)
    found = [validity("silhouette", points, [alone], most=20, seed=seed).values[0] for seed in range(30)]
    assert 0 < np.isnan(found).sum() < 30


# Threads, generators, errors


def blobs_and_labels() -> tuple[NDArray[Any], list[NDArray[np.int64]]]:
    points, labels = blobs(60, 4)
    return points, [labels]


@pytest.mark.parametrize("name", sorted(INDICES))
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_thread_count_does_not_matter(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(validity.__globals__, "_BLOCK", 2**16)
    points, labels = blobs(1000, 6, spread=3.0, d=40, dtype=dtype)
    results = []
    for threads in (1, 2, 3):
        with torch_threads(threads):
            found = validity(name, points, [labels, labels // 2, labels // 3])
            assert torch.get_num_threads() == threads
        results.append((found.values.tobytes(), found.errors.tobytes()))
    assert results[1:] == results[:1] * 2


def test_torch_has_its_threads_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(INDICES, "silhouette", fail)
    with torch_threads(2):
        with pytest.raises(ZeroDivisionError):
            validity("silhouette", *blobs_and_labels())
        assert torch.get_num_threads() == 2


@pytest.mark.parametrize("name", sorted(INDICES))
def test_global_generators_are_left_alone(name: str) -> None:
    points, made = blobs_and_labels()
    with untouched_generators():
        validity(name, points, made, most=30)


def test_errors_say_what_is_wrong() -> None:
    points, made = blobs_and_labels()
    with pytest.raises(UsageError, match=r"Unknown index 'silhouete'") as caught:
        validity("silhouete", points, made)
    assert "Did you mean 'silhouette'?" in caught.value.hint
    assert "calinski-harabasz, davies-bouldin, dunn, silhouette" in caught.value.hint
    points[3, 1] = np.nan
    with pytest.raises(UsageError, match=r"1 of 60 rows are not finite"):
        validity("silhouette", points, made)
