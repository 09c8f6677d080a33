"""Constrained k-means as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from newkinds.clustering.kmeans import kmeans, nearest
from newkinds.clustering.lloyd import floats


class ConstrainedKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """k-means in which labelled samples stay in the cluster of their label; without labels it is plain k-means.

    n_clusters: in total, including those of the labels; raised to the number of labels if there are more. n_init:
    restarts, of which the best is kept. max_iter, tol: when a restart ends, at the latest. random_state: an int makes
    results reproducible.

    After `fit`, cluster i is that of `classes_[i]`, the i-th label in sorted order; the others follow. There are also
    `cluster_centers_` (n_clusters, d), `labels_` (N,), `inertia_`, `n_iter_` and `n_features_in_`.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int = 10,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> ConstrainedKMeans:
        """Cluster X (N, d); y (N,) are integer labels, -1 where there is none."""
        points = validate_data(self, X, dtype=[np.float64, np.float32])
        anchors, self.classes_ = _anchors(y, len(points))
        n_clusters = max(self.n_clusters, len(self.classes_))
        if n_clusters > self.n_clusters:
            message = f"y has {n_clusters} labels: there are as many clusters, not {self.n_clusters}."
            warnings.warn(message, stacklevel=2)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        found = kmeans(
            points,
            n_clusters,
            seed=seed,
            anchors=anchors,
            restarts=self.n_init,
            max_iterations=self.max_iter,
            tolerance=self.tol,
        )
        self.cluster_centers_ = found.centres.astype(points.dtype)
        self.labels_ = found.labels
        self.inertia_ = found.inertia
        self.n_iter_ = found.iterations
        return self

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.int64]:
        """Cluster X and return the cluster of each sample; labelled samples keep theirs."""
        return self.fit(X, y).labels_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the cluster with the nearest centre for each row of X."""
        return nearest(self._points(X), self.cluster_centers_)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the distances (N, n_clusters) to all centres."""
        points = floats(self._points(X))
        centres = floats(self.cluster_centers_).to(points)
        # By differences: products lose the digits of points far from the origin.
        return np.asarray(torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist"))

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return minus the sum of squared distances to the nearest centres."""
        return -float(np.square(self.transform(X).min(axis=1), dtype=np.float64).sum())

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _points(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        points: NDArray[Any] = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return points


def _anchors(y: ArrayLike | None, n_samples: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the index of each sample's label among the sorted labels, -1 for none, and those labels."""
    if y is None:
        return np.full(n_samples, -1, dtype=np.int64), np.empty(0, dtype=np.int64)
    labels = check_array(y, ensure_2d=False, dtype=None)
    if labels.shape != (n_samples,):
        raise ValueError(f"y has shape {labels.shape}, and X has {n_samples} samples: give one label for each.")
    if labels.dtype.kind in "SU" or not np.array_equal(labels, labels.astype(np.int64)) or labels.min() < -1:
        raise ValueError("y should hold integers of 0 or more, and -1 for samples without a label.")
    classes, inverse = np.unique(labels[labels >= 0], return_inverse=True)
    anchors = np.full(n_samples, -1, dtype=np.int64)
    anchors[labels >= 0] = inverse
    return anchors, classes
