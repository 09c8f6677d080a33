"""Clustering of feature vectors: k-means, plain and constrained."""

from newkinds.clustering.kmeans import Clustering, kmeans, nearest

__all__ = ["Clustering", "kmeans", "nearest"]
