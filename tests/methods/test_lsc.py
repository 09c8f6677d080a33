"""Landmark spectral clustering: weights by hand and in loops, the embedding against dense eigenvectors, odd data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_circles
from striped import check_method

from newkinds.clustering import kmeans
from newkinds.configure import Settings
from newkinds.equations import clustering_accuracy
from newkinds.errors import UsageError
from newkinds.methods import lsc as module
from newkinds.methods.lsc import (
    Lsc,
    choose_landmarks,
    how_many_landmarks,
    landmark_weights,
    lsc,
    lsc_method,
    spectral_embedding,
)


def blobs(n: int = 90, kinds: int = 3, seed: int = 0, spread: float = 1.0) -> tuple[NDArray[np.float32], NDArray[Any]]:
    points, labels = make_blobs(n, 5, centers=kinds, cluster_std=spread, random_state=seed)
    return points.astype(np.float32), labels


# Weights


def test_weights_by_hand() -> None:
    # Landmarks at 0, 2 and 6: all six distances are 1 1 5 and 4 2 2, their mean is 15 / 6.
    z = landmark_weights(np.array([[1.0], [4.0]]), np.array([[0.0], [2.0], [6.0]]), nearest=2).toarray()
    assert z == pytest.approx(np.array([[0.5, 0.5, 0], [0, 0.5, 0.5]]))
    z = landmark_weights(np.array([[0.5], [5.0]]), np.array([[0.0], [2.0], [6.0]]), nearest=2).toarray()
    sigma = (0.5 + 1.5 + 5.5 + 5 + 3 + 1) / 6
    first = 1 / (1 + math.exp(-(1.5**2 - 0.5**2) / (2 * sigma**2)))
    second = 1 / (1 + math.exp(-(3**2 - 1**2) / (2 * sigma**2)))
    assert z == pytest.approx(np.array([[first, 1 - first, 0], [0, 1 - second, second]]))


def plain_weights(points: NDArray[Any], landmarks: NDArray[Any], nearest: int) -> NDArray[np.float64]:
    """Z again, in slow loops."""
    distances = [[math.dist(point, mark) for mark in landmarks.tolist()] for point in points.tolist()]
    sigma = sum(map(sum, distances)) / (len(points) * len(landmarks))
    z = np.zeros((len(points), len(landmarks)))
    for i, row in enumerate(distances):
        near = sorted(range(len(row)), key=row.__getitem__)[:nearest]
        heights = {j: math.exp(-(row[j] ** 2) / (2 * sigma**2)) for j in near}
        for j in near:
            z[i, j] = heights[j] / sum(heights.values())
    return z


@pytest.mark.parametrize("block", [1, 70, 2**21])
@pytest.mark.parametrize("nearest", [1, 4, 99])
def test_weights_are_what_plain_loops_give(nearest: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    points = np.random.default_rng(0).normal(size=(25, 3)) + 1000
    landmarks = points[:9] + 0.1
    z = landmark_weights(points, landmarks, nearest)
    assert z.toarray() == pytest.approx(plain_weights(points, landmarks, nearest), abs=1e-9)
    assert z.nnz == 25 * min(nearest, 9)


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(2, 20), st.integers(1, 3)), elements=st.integers(-3, 3).map(float)),
    st.integers(1, 6),
    st.integers(1, 4),
)
@settings(max_examples=40)
def test_rows_have_the_sum_1_and_embeddings_the_length_1_or_0_whatever_the_points(
    points: NDArray[np.float32], nearest: int, width: int
) -> None:
    z = landmark_weights(points, np.unique(points, axis=0).astype(np.float64), nearest)
    assert (z.data >= 0).all()
    assert np.asarray(z.sum(axis=1)).ravel() == pytest.approx(np.ones(len(points)))
    embedding = spectral_embedding(z, width)
    lengths = np.linalg.norm(embedding, axis=1)
    assert embedding.shape == (len(points), width)
    assert (np.isclose(lengths, 1) | (lengths < 1e-12)).all()


# Landmarks


@pytest.mark.parametrize(
    ("n", "kinds", "most", "expected"),
    [
        (20_000, 10, 1000, 1000),
        (500, 25, 1000, 250),  # half of the pictures
        (40, 25, 1000, 26),  # half would be fewer than kinds
        (100, 10, 3, 11),
        (5, 5, 1000, 5),
        (3, 2, 1000, 3),
    ],
)
def test_number_of_landmarks(n: int, kinds: int, most: int, expected: int) -> None:
    assert how_many_landmarks(n, kinds, most) == expected


def test_random_landmarks_are_points_and_those_of_k_means_lie_between() -> None:
    points, _ = blobs()
    drawn = choose_landmarks(points, 20, "random", seed=0)
    assert len(drawn) == 20
    assert {tuple(mark) for mark in drawn.tolist()} <= {tuple(point) for point in points.astype(np.float64).tolist()}
    assert not np.array_equal(drawn, choose_landmarks(points, 20, "random", seed=1))
    centres = choose_landmarks(points, 20, "kmeans", seed=0)

    def cost(marks: NDArray[np.float64]) -> float:
        return float(np.square(points[:, None] - marks).sum(axis=2).min(axis=1).sum())

    assert centres.shape == (20, 5)
    assert cost(centres) < 0.8 * cost(drawn)


@pytest.mark.parametrize("choose", ["kmeans", "random"])
def test_equal_points_make_one_landmark(choose: str) -> None:
    points = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], dtype=np.float32), 10, axis=0)
    landmarks = choose_landmarks(points, 15, choose, seed=0)
    assert len(landmarks) <= 3
    assert len(np.unique(landmarks, axis=0)) == len(landmarks)


# The embedding


def dense_embedding(z: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Spectral clustering's embedding with the whole affinity (N, N)."""
    affinity = z @ np.diag(1 / z.sum(axis=0)) @ z.T
    assert affinity.sum(axis=1) == pytest.approx(np.ones(len(z)))
    vectors = np.linalg.eigh(affinity)[1][:, ::-1][:, 1 : width + 1]
    lengths: NDArray[np.float64] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


@pytest.mark.parametrize("every", [1, 3])
def test_it_agrees_with_dense_spectral_clustering_with_every_point_a_landmark_or_with_some(every: int) -> None:
    points, _ = blobs(60, kinds=4, spread=3.0, seed=2)
    z = landmark_weights(points, points[::every].astype(np.float64), nearest=8)
    ours, dense = spectral_embedding(z, 4), dense_embedding(z.toarray(), 4)
    assert ours @ ours.T == pytest.approx(dense @ dense.T, abs=1e-7)  # the same but for signs
    labels, again = (kmeans(rows, 4, seed=0).labels for rows in (ours, dense))
    assert clustering_accuracy(labels, again) == 1.0


def test_columns_go_from_the_largest_eigenvalue_down() -> None:
    points, _ = blobs(60, kinds=4, spread=3.0, seed=2)
    z = landmark_weights(points, points.astype(np.float64), nearest=8)
    wide, narrow = spectral_embedding(z, 3), spectral_embedding(z, 2)
    directions = wide[:, :2] / np.linalg.norm(wide[:, :2], axis=1, keepdims=True)
    assert directions @ directions.T == pytest.approx(narrow @ narrow.T, abs=1e-7)


def test_landmarks_that_nobody_is_near_to_change_nothing() -> None:
    points, _ = blobs(40)
    z = landmark_weights(points, points[::2].astype(np.float64), nearest=4)
    wider = scipy.sparse.hstack([z, scipy.sparse.csr_matrix((40, 3))]).tocsr()
    ours, same = spectral_embedding(wider, 3), spectral_embedding(z, 3)
    assert ours @ ours.T == pytest.approx(same @ same.T, abs=1e-9)


def test_points_that_fall_apart_into_more_parts_than_one() -> None:
    # Every part has an eigenvector with the value 1. What is left when the constant one is out tells all parts apart.
    z = scipy.sparse.csr_matrix(np.kron(np.eye(4), np.full((5, 2), 0.5)))
    embedding = spectral_embedding(z, 3)
    same = embedding @ embedding.T
    part = np.arange(20) // 5
    assert same[part[:, None] == part] == pytest.approx(np.ones(100))
    assert same[part[:, None] != part] == pytest.approx(np.full(300, -1 / 3))  # the corners of a tetrahedron


def test_where_there_are_too_few_eigenvectors_columns_are_0() -> None:
    z = scipy.sparse.csr_matrix(np.kron(np.eye(2), np.ones((3, 1))))
    embedding = spectral_embedding(z, 4)
    assert abs(embedding[:, 0]) == pytest.approx(np.ones(6))
    assert (embedding[:, 1:] == 0).all()


# The whole


@pytest.mark.parametrize("choose", ["kmeans", "random"])
def test_blobs_are_found(choose: str) -> None:
    points, truth = blobs(120, kinds=5, seed=4)
    labels, embedding = lsc(points, 5, Lsc(choose=choose, nearest=4), seed=0)
    assert clustering_accuracy(labels, truth) == 1.0
    assert labels.dtype == np.int64
    assert embedding.shape == (120, 5)


def test_rings_are_found_where_k_means_fails() -> None:
    points, truth = make_circles(400, factor=0.4, noise=0.03, random_state=0)
    # With 3 nearest landmarks the graph is in four pieces, and which two of them come apart is the machine's to choose.
    labels, _ = lsc(points, 2, Lsc(nearest=5), seed=0)
    assert clustering_accuracy(labels, truth) > 0.99
    assert clustering_accuracy(kmeans(points, 2, seed=0).labels, truth) < 0.7


@pytest.mark.parametrize("choose", ["kmeans", "random"])
def test_pictures_that_are_equal(choose: str) -> None:
    places = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], dtype=np.float32)
    truth = np.repeat(np.arange(3), 10)
    labels, _ = lsc(places[truth], 3, Lsc(choose=choose, nearest=2), seed=0)
    assert all(len(set(labels[truth == kind])) == 1 for kind in range(3))
    labels, embedding = lsc(np.ones((8, 3), dtype=np.float32), 3, Lsc(choose=choose), seed=0)
    assert labels.shape == (8,)
    assert (embedding == 0).all()


@pytest.mark.parametrize(("n", "kinds"), [(2, 2), (3, 2), (3, 3), (4, 3), (9, 8)])
def test_few_pictures(n: int, kinds: int) -> None:
    points = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    labels, embedding = lsc(points, kinds, Lsc(), seed=0)
    assert labels.shape == (n,)
    assert set(labels) <= set(range(kinds))
    assert np.isfinite(embedding).all()


def test_scale_and_place_of_the_points_do_not_matter() -> None:
    points, _ = blobs(80, kinds=4, spread=4.0)
    one = lsc(points.astype(np.float64), 4, Lsc(choose="random"), seed=0)[1]
    other = lsc(1e3 * points.astype(np.float64) - 50, 4, Lsc(choose="random"), seed=0)[1]
    assert one @ one.T == pytest.approx(other @ other.T, abs=1e-6)


def test_same_seed_same_result() -> None:
    points, _ = blobs(80, spread=6.0)
    one, same, other = (lsc(points, 6, Lsc(), seed) for seed in (0, 0, 1))
    assert one[0].tobytes() == same[0].tobytes()
    assert one[1].tobytes() == same[1].tobytes()
    assert one[1].tobytes() != other[1].tobytes()


@pytest.mark.parametrize("choose", ["kmeans", "random"])
def test_bad_points_are_refused(choose: str) -> None:
    points, _ = blobs(10)
    with pytest.raises(UsageError, match=r"n_clusters=11 .* n_samples=10"):
        lsc(points, 11, Lsc(choose=choose), seed=0)
    points[3, 0] = math.nan
    with pytest.raises(UsageError, match="1 of 10 rows are not finite"):
        lsc(points, 2, Lsc(choose=choose), seed=0)


@pytest.mark.parametrize("on", ["features", "pixels"])
def test_as_a_method(on: str) -> None:
    check_method(lsc_method, Settings(method="lsc", lsc={"on": on, "nearest": 3}))
