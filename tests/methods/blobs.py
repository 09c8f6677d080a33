"""Heaps of made-up embeddings for methods: known kinds and new ones as blobs, in a mixed heap or one of new kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from newkinds.configure import make_settings
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Problem
from newkinds.networks import build_network

KNOWN, NEW, WIDE = 3, 2, 8


class Checkpoints:
    """Keeps what it is given after every epoch."""

    def __init__(self, kept: list[tuple[int, dict[str, Tensor]]] | None = None) -> None:
        self.kept = kept or []

    def load(self, stage: str) -> tuple[int, dict[str, Tensor]] | None:
        return self.kept[-1] if self.kept else None

    def due(self) -> bool:
        return True

    def save(self, stage: str, epoch: int, tensors: Mapping[str, Tensor]) -> None:
        self.kept.append((epoch, {name: value.detach().clone() for name, value in tensors.items()}))


def heap(
    method: str, changes: Mapping[str, Any], *, mixed: bool = True, each: int = 20, spread: float = 0.3, **more: Any
) -> tuple[Problem, NDArray[np.int64]]:
    """Return a problem on frozen features, and the true column of each unsorted picture, int64 (N,).

    Blobs lie around the axes; the first KNOWN kinds are known, `each` pictures of them labelled and, in a mixed heap,
    as many more unsorted, beside those of NEW new kinds.
    """
    random = np.random.default_rng(0)

    def rows(kinds: NDArray[np.int64]) -> NDArray[np.float32]:
        points: NDArray[np.float32] = np.eye(WIDE, dtype=np.float32)[kinds]
        return points + random.normal(scale=spread / np.sqrt(WIDE), size=points.shape).astype(np.float32)

    labels = np.repeat(np.arange(KNOWN), each)
    truth = np.repeat(np.arange(KNOWN + NEW) if mixed else KNOWN + np.arange(NEW), each)
    known, unsorted = (
        ImageSet(points, tuple(f"{name}-{i}" for i in range(len(points))), own, classes, "made up", name)
        for points, own, classes, name in (
            (rows(labels), labels, tuple(f"kind {i}" for i in range(KNOWN)), "known"),
            (rows(truth), None, (), "heap"),
        )
    )
    settings = make_settings({"method": method, "tune": "none", **changes})
    novelty = (truth >= KNOWN).astype(np.float32) if mixed else None
    network = build_network("identity", WIDE, 1, seed=0)
    problem = Problem(
        network, known, settings, unsorted=unsorted, kinds=NEW, features=unsorted.pixels, novelty=novelty, **more
    )
    return problem, np.where(truth < KNOWN, NEW + truth, truth - KNOWN)


def rightly_named(labels: NDArray[np.int64], columns: NDArray[np.int64]) -> float:
    """Return the share of pictures in the right known column, or in a new column of its own for each new kind."""
    swapped = np.where(columns < NEW, NEW - 1 - columns, columns)
    return float(max((labels == columns).mean(), (labels == swapped).mean()))
