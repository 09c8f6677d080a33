"""The start of Algorithm 1: PCA in the bottleneck, k-means in the centres, Eq. 1 in the first predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA

from newkinds.clustering import kmeans
from newkinds.clustering.neighbours import neighbours_averaged
from newkinds.equations import assignment, clustering_accuracy
from newkinds.errors import UsageError
from newkinds.settings import Initialise
from newkinds.start import Start, initialise


def blobs(n: int = 60, d: int = 8, k: int = 4, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[Any]]:
    points, labels = make_blobs(n, d, centers=k, cluster_std=1.0, random_state=seed)
    return (points + 5).astype(np.float32), labels


def embed(start: Start, features: NDArray[np.float32]) -> NDArray[np.float64]:
    return features.astype(np.float64) @ start.weight.T.astype(np.float64) + start.bias


def own_distances(start: Start, features: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.square(embed(start, features) - start.centres[start.labels]).sum(axis=1)


def test_the_bottleneck_is_scikit_learns_pca() -> None:
    features, _ = blobs()
    start = initialise(features, 4, Initialise(scale="none"))
    expected = PCA(4, svd_solver="full").fit_transform(features.astype(np.float64))
    assert embed(start, features) == pytest.approx(expected, abs=1e-4)
    assert {array.dtype for array in (start.weight, start.bias, start.centres, start.probabilities)} == {
        np.dtype(np.float32)
    }
    assert start.labels.dtype == np.int64


@pytest.mark.parametrize(
    ("n", "d", "kinds", "width", "expected"),
    [
        (60, 8, 4, "kinds", 4),
        (60, 3, 5, "kinds", 3),  # fewer features than kinds
        (5, 8, 5, "kinds", 5),
        (6, 20, 3, 10, 6),  # fewer pictures than asked for
        (60, 8, 4, 6, 6),
        (60, 8, 4, 100, 8),
        (60, 8, 4, 1, 1),
        (60, 1, 2, "kinds", 1),
    ],
)
def test_width_is_the_least_of_k_d_and_n(n: int, d: int, kinds: int, width: int | str, expected: int) -> None:
    features, _ = blobs(n, d)
    start = initialise(features, kinds, Initialise(width=width))
    assert start.weight.shape == (expected, d)
    assert start.bias.shape == (expected,)
    assert start.centres.shape == (kinds, expected)
    assert start.probabilities.shape == (n, kinds)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(2, 6), st.floats(0.35, 0.6), st.floats(1e-3, 1e3))
def test_auto_scale_makes_p_as_certain_as_asked_for_whatever_the_features_scale(
    seed: int, kinds: int, share: float, size: float
) -> None:
    certainty = 1 / kinds + share * (1 - 1 / kinds)
    features = (blobs(seed=seed)[0] * size).astype(np.float32)
    start = initialise(features, kinds, Initialise(certainty=certainty, restarts=2), alpha=3.0, seed=seed)
    assert start.probabilities.max(axis=1).mean() == pytest.approx(certainty, abs=0.01)


def test_a_certainty_out_of_reach_is_approached() -> None:
    # With many kinds and alpha = 1, p stays flat however far the kinds are apart.
    features = np.random.default_rng(0).normal(size=(200, 30)).astype(np.float32)
    start = initialise(features, 20, Initialise(certainty=0.95, restarts=1))
    assert 0.1 < start.probabilities.max(axis=1).mean() < 0.9
    assert np.sqrt(own_distances(start, features).mean()) == pytest.approx(8, rel=0.01)


def test_scales_are_factors_on_everything() -> None:
    features, _ = blobs()
    plain = initialise(features, 4, Initialise(scale="none"))
    three = initialise(features, 4, Initialise(scale=3.0))
    auto = initialise(features, 4, Initialise(scale="auto"))
    for part in ("weight", "bias", "centres"):
        assert getattr(three, part) == pytest.approx(3 * getattr(plain, part), rel=1e-5)
        factor = np.linalg.norm(auto.centres) / np.linalg.norm(plain.centres)
        assert getattr(auto, part) == pytest.approx(factor * getattr(plain, part), rel=1e-4, abs=1e-6)
    assert (three.labels == plain.labels).all()


@pytest.mark.parametrize("alpha", [1.0, 3.0])
def test_probabilities_are_eq_1(alpha: float) -> None:
    features, _ = blobs()
    start = initialise(features, 4, Initialise(), alpha=alpha)
    z = torch.from_numpy(embed(start, features))
    expected = assignment(z, torch.from_numpy(start.centres.astype(np.float64)), alpha)
    assert start.probabilities == pytest.approx(expected.numpy(), abs=1e-5)
    assert start.probabilities.sum(axis=1) == pytest.approx(np.ones(60), abs=1e-5)
    assert (start.probabilities.argmax(axis=1) == start.labels).mean() > 0.9


def test_centres_are_the_means_of_the_kinds() -> None:
    features, labels = blobs()
    start = initialise(features, 4, Initialise())
    assert clustering_accuracy(start.labels, labels) == 1.0
    embedded = embed(start, features)
    for kind in range(4):
        assert start.centres[kind] == pytest.approx(embedded[start.labels == kind].mean(axis=0), abs=1e-4)


def test_kmeans_sees_the_bottleneck() -> None:
    # Two bars that differ in the first feature only; a bottleneck of one keeps the second, along which they are long.
    rng = np.random.default_rng(0)
    features = np.column_stack([10 * np.repeat([0, 1], 40), rng.uniform(-12, 12, 80)]).astype(np.float32)
    start = initialise(features, 4, Initialise(width=1, restarts=20))
    z = PCA(1, svd_solver="full").fit_transform(features.astype(np.float64))
    assert clustering_accuracy(start.labels, kmeans(z, 4, seed=0, restarts=20).labels) == 1.0
    assert clustering_accuracy(start.labels, kmeans(features, 4, seed=0, restarts=20).labels) < 0.8


@pytest.mark.parametrize("kinds", [-1, 0, 1, 61])
def test_kinds_out_of_range(kinds: int) -> None:
    with pytest.raises(UsageError) as caught:
        initialise(blobs()[0], kinds, Initialise())
    assert f"{kinds} kinds" in caught.value.message
    assert "between 2 and 60" in caught.value.message
    assert "--kinds" in caught.value.hint


def test_fewer_different_pictures_than_kinds() -> None:
    features = np.repeat(np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32), 5, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start = initialise(features, 5, Initialise())
    for array in (start.weight, start.bias, start.centres, start.probabilities):
        assert np.isfinite(array).all()
    # Equal pictures have equal probabilities.
    assert (start.probabilities.reshape(3, 5, 5) == start.probabilities[::5, None]).all()


def test_all_pictures_equal() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")  # of a variance that is 0
        start = initialise(np.full((6, 4), 2.5, dtype=np.float32), 2, Initialise())
    for array in (start.weight, start.bias, start.centres, start.probabilities):
        assert np.isfinite(array).all()


@pytest.mark.parametrize("noise", [0, 1e-7])
def test_rounding_is_not_blown_up(noise: float) -> None:
    # Kinds that are single points but for rounding: the bottleneck stays of a size that float32 can work with.
    points = np.repeat(np.random.default_rng(0).normal(size=(3, 7)), 7, axis=0)
    features = (points + noise * np.random.default_rng(1).normal(size=points.shape)).astype(np.float32)
    start = initialise(features, 3, Initialise())
    assert np.abs(start.weight).max() < 1e4
    assert (start.probabilities.argmax(axis=1) == start.labels).all()


def test_the_seed_counts_and_nothing_else_does() -> None:
    features = np.random.default_rng(0).normal(size=(100, 6)).astype(np.float32)
    first = initialise(features, 7, Initialise(restarts=1), seed=0)
    torch.rand(3)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        second = initialise(features, 7, Initialise(restarts=1), seed=0)
    finally:
        torch.set_num_threads(before)
    for part in ("weight", "bias", "centres", "probabilities", "labels"):
        assert getattr(first, part).tobytes() == getattr(second, part).tobytes()
    others = [initialise(features, 7, Initialise(restarts=1), seed=seed).labels.tolist() for seed in range(4)]
    assert len({tuple(one) for one in others}) > 1


def test_directions_are_what_kmeans_compares() -> None:
    # Two kinds on two rays, near and far: by distance near and far are told apart, by direction the rays.
    random = np.random.default_rng(0)
    rays = np.repeat([[1.0, 0.2, 0.0], [0.2, 1.0, 0.0]], 40, axis=0)
    lengths = np.tile([1.0, 10.0], 40)[:, None]
    features = (lengths * (rays + 0.02 * random.normal(size=rays.shape))).astype(np.float32)
    truth = np.repeat([0, 1], 40)
    by_distance, start = (initialise(features, 2, Initialise(bottleneck=b)) for b in ("centres", "directions"))
    assert clustering_accuracy(by_distance.labels, truth) < 0.8
    assert clustering_accuracy(start.labels, truth) == 1.0
    means = np.stack([features[start.labels == kind].mean(axis=0) for kind in (0, 1)])
    assert np.allclose(embed(start, means), start.centres, atol=1e-3)
    nothing = initialise(np.zeros((6, 3), np.float32), 2, Initialise(bottleneck="directions", scale="none"))
    assert np.isfinite(nothing.probabilities).all()


def test_a_random_bottleneck_keeps_centres_and_predictions() -> None:
    features, _ = blobs()
    pca, fresh, other = (
        initialise(features, 4, Initialise(bottleneck=kind), seed=seed)
        for kind, seed in (("pca", 0), ("random", 0), ("random", 1))
    )
    assert (fresh.centres == pca.centres).all()
    assert (fresh.probabilities == pca.probabilities).all()
    assert fresh.weight.shape == pca.weight.shape
    assert abs(np.corrcoef(fresh.weight.ravel(), pca.weight.ravel())[0, 1]) < 0.9
    assert (fresh.weight == initialise(features, 4, Initialise(bottleneck="random"), seed=0).weight).all()
    assert not (fresh.weight == other.weight).all()


@pytest.mark.parametrize("width", ["kinds", 1, 2, 9])
def test_the_span_of_the_centres_keeps_what_kmeans_says(width: Any) -> None:
    # Kinds that differ in directions of little variance, which PCA drops.
    rng = np.random.default_rng(0)
    loud = 1.25 * rng.normal(size=(160, 4))
    true = np.arange(160) % 4
    features = np.concatenate([loud, 3 * np.eye(4)[true] + 0.1 * rng.normal(size=(160, 4))], axis=1)
    features = features.astype(np.float32)
    start = initialise(features, 4, Initialise(bottleneck="centres", width=width), alpha=2.0)
    assert len(start.weight) == {"kinds": 3, 1: 1, 2: 2, 9: 3}[width]
    embedded = features @ start.weight.T + start.bias
    assert (np.square(embedded[:, None] - start.centres).sum(axis=-1).argmin(axis=1) == start.labels).all()
    p = assignment(torch.from_numpy(embedded), torch.from_numpy(start.centres), 2.0).numpy()
    assert np.abs(p - start.probabilities).max() < 1e-4
    if width in ("kinds", 9):
        whole = kmeans(features, 4, seed=0, restarts=20, overseed=1.5).labels
        assert (start.labels == whole).all()
        assert clustering_accuracy(start.labels, true) == 1
        # The axes of the bottleneck are at right angles and of one length.
        gram = start.weight @ start.weight.T
        assert np.abs(gram / gram[0, 0] - np.eye(3)).max() < 1e-5


def test_the_start_sees_features_averaged_over_neighbours() -> None:
    features = np.random.default_rng(3).normal(size=(60, 8)).astype(np.float32)
    expected = initialise(neighbours_averaged(features, 5), 4, Initialise())
    found = initialise(features, 4, Initialise(neighbours=5))
    assert all(getattr(found, name).tobytes() == value.tobytes() for name, value in vars(expected).items())
    assert initialise(features, 4, Initialise()).weight.tobytes() != found.weight.tobytes()
