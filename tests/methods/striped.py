"""Pictures that any method tells apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from newkinds.configure import Settings
from newkinds.equations import clustering_accuracy
from newkinds.features import extract_features
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem, Solution
from newkinds.networks import build_network


def check_method(method: Callable[[Problem], Solution], chosen: Settings) -> None:
    """Check that a method without a model finds three kinds of stripes, and says so in the form of all methods."""
    truth = np.arange(30) % 3
    pixels = np.random.default_rng(0).integers(0, 40, (30, 1, 8, 8), dtype=np.uint8)
    for picture, kind in zip(pixels, truth, strict=True):
        picture[0, 2 * kind : 2 * kind + 2] += 200
    images = ImageSet(pixels, tuple(map(str, range(30))), None, (), "made up", "no mark")
    f = build_network("vgg6-4-2-slim", 1, 8, seed=0)
    found = method(Problem(f, images, chosen, unsorted=images, kinds=3, features=extract_features(f, images)))
    assert found.model is None
    assert clustering_accuracy(found.assignment.labels, truth) == 1.0
    assert ((found.assignment.probabilities == 0) | (found.assignment.probabilities == 1)).all()
    assert found.assignment.probabilities.shape == found.embedding.shape == (30, 3)
    assert {found.assignment.probabilities.dtype, found.embedding.dtype} == {np.dtype(np.float32)}
