"""Clustering: k-means, plain and constrained, and validity indices."""

from newkinds.clustering.estimator import ConstrainedKMeans
from newkinds.clustering.kmeans import Clustering, kmeans, kmeans_sweep, nearest

__all__ = ["Clustering", "ConstrainedKMeans", "kmeans", "kmeans_sweep", "nearest"]
