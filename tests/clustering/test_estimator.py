"""Constrained k-means as an estimator of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from clouds import blobs, partition
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from newkinds.clustering import ConstrainedKMeans, kmeans
from newkinds.errors import UsageError

POINTS = np.array([[0.0, 0], [0, 2], [10, 0], [10, 2], [10, 4]])


# Three labels for one or two clusters are among the checks.
@pytest.mark.filterwarnings("ignore:y has 3 labels:UserWarning")
@parametrize_with_checks([ConstrainedKMeans(), ConstrainedKMeans(n_clusters=2, n_init=1)])  # type: ignore[untyped-decorator]
def test_scikit_learn_s_checks(estimator: ConstrainedKMeans, check: Callable[[ConstrainedKMeans], None]) -> None:
    check(estimator)


def test_by_hand() -> None:
    model = ConstrainedKMeans(2, random_state=0)
    assert model.fit(POINTS) is model
    left = model.labels_[0]
    assert model.labels_.tolist() == [left, left, 1 - left, 1 - left, 1 - left]
    assert model.cluster_centers_[left].tolist() == [0, 1]
    assert model.cluster_centers_[1 - left].tolist() == [10, 2]
    assert model.inertia_ == pytest.approx(2 + 8)
    assert model.classes_.tolist() == []
    assert model.n_features_in_ == 2
    assert model.n_iter_ >= 1
    # (3, 5) is 5 from (0, 1) and the root of 58 from (10, 2); (10, 0) is 2 from its centre.
    others = np.array([[3.0, 5.0], [10.0, 0.0]])
    distances = model.transform(others)
    assert distances[:, left] == pytest.approx([5, 101**0.5])
    assert distances[:, 1 - left] == pytest.approx([58**0.5, 2])
    assert model.predict(others).tolist() == [left, 1 - left]
    assert model.score(others) == pytest.approx(-(25 + 4))
    assert model.score(POINTS) == pytest.approx(-model.inertia_)


def test_labels_of_any_name_and_minus_one_for_none() -> None:
    points, labels = blobs(200, 4, spread=0.3)
    names = np.array([3, 7, 9])
    y = np.full(200, -1)
    for c, name in enumerate(names):
        y[np.flatnonzero(labels == c)[:5]] = name
    model = ConstrainedKMeans(4, random_state=0).fit(points, y)
    assert model.classes_.tolist() == [3, 7, 9]
    # Cluster i is that of classes_[i], and the blob without a label is the last.
    assert (model.labels_ == labels).all()
    assert (model.labels_[y >= 0] == np.searchsorted(names, y[y >= 0])).all()
    assert (model.predict(points) == labels).all()
    # Without labels, or with none given, it is plain k-means.
    plain = ConstrainedKMeans(4, random_state=0).fit(points, np.full(200, -1))
    assert plain.classes_.tolist() == []
    assert (plain.labels_ == ConstrainedKMeans(4, random_state=0).fit(points).labels_).all()


def test_labelled_samples_stay_where_prediction_would_move_them() -> None:
    points = np.array([[0.0], [1.0], [11.0], [10.0], [12.0], [13.0]])
    model = ConstrainedKMeans(2, random_state=0)
    y = [5, -1, 5, 8, -1, 8]
    assert model.fit_predict(points, y).tolist() == [0, 0, 0, 1, 1, 1]
    assert model.cluster_centers_[:, 0].tolist() == pytest.approx([4, 35 / 3])
    assert model.predict(points).tolist() == [0, 0, 1, 1, 1, 1]
    # Labels may come as floats that are integers.
    assert model.fit_predict(points, np.array(y, dtype=np.float64)).tolist() == [0, 0, 0, 1, 1, 1]


def test_more_labels_than_clusters() -> None:
    points, labels = blobs(60, 5, spread=0.3)
    with pytest.warns(UserWarning, match=r"y has 5 labels: there are as many clusters, not 3"):
        model = ConstrainedKMeans(3).fit(points, labels)
    assert model.cluster_centers_.shape == (5, 4)
    assert (model.labels_ == labels).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConstrainedKMeans(5).fit(points, labels)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], r"y has shape \(2,\), and X has 5 samples"),
        ([[0]] * 5, r"y has shape \(5, 1\), and X has 5 samples"),
        ([0, 1, -2, -1, -1], r"integers of 0 or more, and -1 for samples without a label"),
        ([0, 0.5, 1, -1, -1], r"integers of 0 or more"),
        (["a", "b", "a", "a", "a"], r"integers of 0 or more"),
        (["1", "2", "1", "1", "1"], r"integers of 0 or more"),
        ([0, np.nan, 1, -1, -1], r"NaN"),
    ],
)
def test_labels_that_are_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConstrainedKMeans(2).fit(POINTS, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": 6}, r"n_clusters=6 should be between 1 and n_samples=5"),
        ({"n_clusters": 0}, r"n_clusters=0 should be between 1"),
        ({"n_init": 0}, r"restarts=0 should be at least 1"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ConstrainedKMeans(**{"n_clusters": 2, **settings}).fit(POINTS)


def test_the_precision_is_that_of_the_samples() -> None:
    for dtype in (np.float32, np.float64):
        points, _ = blobs(50, 3, dtype=dtype)
        model = ConstrainedKMeans(3, random_state=0).fit(points)
        assert model.cluster_centers_.dtype == dtype
        assert model.transform(points).dtype == dtype
    assert ConstrainedKMeans(2).fit(POINTS.astype(int)).cluster_centers_.dtype == np.float64


def test_samples_that_may_not_be_written_to() -> None:
    points, labels = blobs(50, 3)
    points.setflags(write=False)
    labels.setflags(write=False)
    model = ConstrainedKMeans(3, random_state=0).fit(points, labels)
    model.cluster_centers_.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (ConstrainedKMeans(3, random_state=0).fit(points, labels).labels_ == labels).all()
        assert model.predict(points).shape == (50,)
        assert model.transform(points).shape == (50, 3)


def test_far_from_the_origin_in_single_precision() -> None:
    points, labels = blobs(200, 4, spread=0.2, dtype=np.float32)
    far = points + np.float32(10_000)
    model = ConstrainedKMeans(4, random_state=0).fit(far)
    assert partition(model.labels_) == partition(labels)
    assert (model.predict(far) == model.labels_).all()
    expected = np.linalg.norm(far.astype(np.float64)[:, None] - model.cluster_centers_, axis=2)
    assert model.transform(far) == pytest.approx(expected, rel=1e-4)
    assert model.score(far) == pytest.approx(-model.inertia_, rel=0.01)


def test_an_integer_makes_results_repeatable() -> None:
    points, _ = blobs(200, 12, spread=4.0)
    first, again, other = (ConstrainedKMeans(12, n_init=1, random_state=seed).fit(points) for seed in (3, 3, 4))
    assert first.cluster_centers_.tobytes() == again.cluster_centers_.tobytes()
    assert first.inertia_ != other.inertia_
    # A generator goes on from fit to fit.
    generator = np.random.RandomState(0)
    model = ConstrainedKMeans(12, n_init=1, random_state=generator)
    assert model.fit(points).inertia_ != model.fit(points).inertia_


def test_the_settings_are_those_of_k_means() -> None:
    points, _ = blobs(200, 12, spread=4.0)
    model = ConstrainedKMeans(12, n_init=3, max_iter=2, tol=0.0, random_state=0).fit(points)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    found = kmeans(points, 12, seed=seed, restarts=3, max_iterations=2, tolerance=0.0)
    assert (model.labels_ == found.labels).all()
    assert (model.inertia_, model.n_iter_) == (found.inertia, 2)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "labels_")


def test_in_a_pipeline() -> None:
    points, labels = blobs(100, 3, spread=0.3)
    y = np.where(np.arange(100) < 20, labels, -1)
    pipeline = make_pipeline(StandardScaler(), ConstrainedKMeans(3, random_state=0))
    assert (pipeline.fit_predict(points, y) == labels).all()
    assert pipeline.transform(points).shape == (100, 3)
    assert pipeline[-1].get_feature_names_out().tolist() == [f"constrainedkmeans{c}" for c in range(3)]
