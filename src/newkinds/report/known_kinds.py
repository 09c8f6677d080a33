"""Nearest known kinds: of each new kind, and of each picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 4096  # pictures that are compared at a time


@dataclass(frozen=True, eq=False)
class NearestKnown:
    """Distances to the means of kinds, in units of the typical distance of a picture from the mean of its own kind.

    of_kinds: int64 (K,), the known kind that is nearest to each new one, -1 for an empty one; kind_distances: (K,).
    of_items: int64 (N,), the known kind nearest to each picture; known_distances, new_distances: (N,) how far it is,
    and how far the nearest new kind is.
    """

    of_kinds: NDArray[np.int64]
    kind_distances: NDArray[np.float64]
    of_items: NDArray[np.int64]
    known_distances: NDArray[np.float64]
    new_distances: NDArray[np.float64]

    def to_tensors(self) -> dict[str, Tensor]:
        """Return everything by name."""
        return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in vars(self).items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> NearestKnown:
        """Return what `to_tensors` was called on."""
        return cls(**{name: value.numpy() for name, value in tensors.items()})


def find_nearest_known(extra: Mapping[str, Tensor], kinds: int, features: NDArray[np.float32]) -> NearestKnown | None:
    """Compare kinds and pictures with the known kinds' means; None if no known or no new kind has a picture.

    extra: "means" (L + K, d) of known kinds, then new ones, "spread" (d,) and "present" (L + K,), as `prototypes`
    returns them. features: (N, d) of the pictures, under the same network as the means.
    """
    unit = extra["spread"].double().numpy() * np.sqrt(len(extra["spread"]))
    means = extra["means"].double().numpy() / unit
    present = extra["present"].numpy().astype(bool)
    known, new = np.flatnonzero(present[:-kinds]), np.flatnonzero(present[-kinds:])
    if not len(known) or not len(new):
        return None
    first = len(present) - kinds
    between = _distances(means[first:], means[known])
    there = np.concatenate([means[known], means[first + new]])
    starts = range(0, len(features), BLOCK)
    far = [_distances(features[start : start + BLOCK].astype(np.float64) / unit, there) for start in starts]
    to_known, to_new = np.split(np.concatenate(far), [len(known)], axis=1)
    return NearestKnown(
        of_kinds=np.where(present[first:], known[between.argmin(axis=1)], -1),
        kind_distances=between.min(axis=1),
        of_items=known[to_known.argmin(axis=1)],
        known_distances=to_known.min(axis=1),
        new_distances=to_new.min(axis=1),
    )


def _distances(points: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances (N, M) of points to means, one mean at a time: differences keep their digits."""
    columns = [np.sqrt(np.square(points - mean).sum(axis=1)) for mean in means]
    return np.stack(columns, axis=1)
