"""k-means as a method: nearest centres, on features or pixels, with or without the known pictures as anchors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from newkinds.configure import make_settings
from newkinds.evaluation.scores import score
from newkinds.features import apply, model_outputs
from newkinds.images import ImageSet
from newkinds.methods.base import Problem
from newkinds.methods.kmeans import constrained_kmeans, from_centres, plain_kmeans
from newkinds.networks import build_network


def points(labels: Any, spread: float = 0.3, seed: int = 0) -> Any:
    centres = 3 * np.random.default_rng(7).normal(size=(9, 6))
    return (centres[labels] + spread * np.random.default_rng(seed).normal(size=(len(labels), 6))).astype(np.float32)


def images(rows: Any, labels: Any) -> ImageSet:
    names = tuple(f"{i}" for i in range(len(rows)))
    classes = tuple(str(label) for label in np.unique(labels))
    numbers = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return ImageSet(rows, names, numbers, classes, "made up", "no mark")


@pytest.fixture
def problem() -> Problem:
    known, new = np.repeat(np.arange(5), 8), np.repeat(np.arange(5, 9), 10)
    sets = images(points(known), known), images(points(new, seed=1), new)
    network = build_network("identity", 6, 1, seed=0)
    return Problem(network, sets[0], make_settings({}), unsorted=sets[1], kinds=4, features=sets[1].pixels)


@pytest.mark.parametrize("method", [plain_kmeans, constrained_kmeans])
def test_clusters_are_found_and_told_again(method: Any, problem: Problem) -> None:
    found = method(problem)
    assert score(found.assignment.labels, problem.unsorted.labels).acc == 1
    assert found.assignment.probabilities.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert found.model is not None
    told = np.exp(apply(found.model, problem.unsorted))
    np.testing.assert_allclose(told, found.assignment.probabilities, atol=1e-5)
    np.testing.assert_allclose(model_outputs(found.model, problem.unsorted).embedding, found.embedding, atol=1e-4)


def test_the_nearest_centre_is_the_kind(problem: Problem) -> None:
    centres = np.random.default_rng(3).normal(size=(4, 6))
    rows = np.random.default_rng(4).normal(size=(len(problem.unsorted), 6)).astype(np.float32)
    found = from_centres(problem, problem.network, rows, centres)
    nearest = np.square(rows[:, None] - centres).sum(axis=2).argmin(axis=1)
    assert (found.assignment.labels == nearest).all()
    assert found.embedding.shape == (len(rows), 3)  # four centres span three dimensions


def test_pixels_need_no_features() -> None:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (3, 1, 6, 6))
    labels = np.repeat(np.arange(3), 8)
    pixels = np.clip(patterns[labels] + rng.normal(0, 10, (24, 1, 6, 6)), 0, 255).astype(np.uint8)
    pictures = images(pixels, labels)
    network = build_network("vgg6-4-2-slim", 1, 6, seed=0)
    settings = make_settings({"kmeans": {"on": "pixels"}})
    nothing = np.zeros((24, network.feature_dim), dtype=np.float32)
    found = plain_kmeans(Problem(network, pictures, settings, unsorted=pictures, kinds=3, features=nothing))
    assert score(found.assignment.labels, labels).acc == 1
    assert found.model is not None
    assert found.model.network.name == "pixels"
    assert (apply(found.model, pictures).argmax(axis=1) == found.assignment.labels).all()


def test_anchors_keep_new_kinds_apart_from_known_ones(problem: Problem) -> None:
    # A new kind between two known ones: with anchors there, its centre is its own.
    found = constrained_kmeans(problem)
    means = torch.stack(
        [torch.from_numpy(problem.features[found.assignment.labels == k]).mean(dim=0) for k in range(4)]
    )
    model = found.model
    assert model is not None
    placed = model.head.bottleneck(means)
    torch.testing.assert_close(placed, model.head.centres, atol=0.3, rtol=0.1)  # type: ignore[union-attr]
