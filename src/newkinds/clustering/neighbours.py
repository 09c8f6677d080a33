"""Nearest neighbours by direction, and features averaged over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.randomness import one_thread

ROUNDS, BLOCK = 2, 4_000_000  # of averaging over neighbours; similarities held at once


def neighbours_averaged(features: NDArray[np.float32], neighbours: int) -> NDArray[np.float32]:
    """Return the features of each picture, (N, d), averaged over its `neighbours` nearest by direction, twice.

    The picture itself is one of them; 0 or 1 leave features as they are. What remains is what a picture has in common
    with its neighbours, so that kinds become tighter and further apart. All get the mean length.
    """
    if neighbours <= 1:
        return features
    length = float(np.linalg.norm(features.astype(np.float64), axis=1).mean())
    turned = directions(features)
    for _ in range(ROUNDS):
        near = nearest_by_direction(turned, neighbours)
        total = np.zeros_like(turned)
        for column in near.T:  # not all at once, which takes `neighbours` times the memory
            total += turned[column]
        turned = directions(total / near.shape[1])
    averaged: NDArray[np.float32] = (turned * length).astype(np.float32)
    return averaged


def nearest_by_direction(features: NDArray[Any], number: int) -> NDArray[np.int64]:
    """Return which pictures are nearest to each by the direction of their features (N, d): int64 (N, number).

    Each is among its own nearest, unless others have exactly the same direction; of fewer than `number` pictures, all
    are returned.
    """
    turned = torch.from_numpy(directions(features))
    step = max(1, BLOCK // len(turned))
    with one_thread():
        found = [
            (turned[first : first + step] @ turned.T).topk(min(number, len(turned)), dim=1).indices
            for first in range(0, len(turned), step)
        ]
    return torch.cat(found).numpy()


def directions(features: NDArray[Any]) -> NDArray[np.float64]:
    """Return features (N, d) at length 1, in float64; those of length 0 stay as they are."""
    lengths = np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
    turned: NDArray[np.float64] = features / np.where(lengths > 0, lengths, 1)
    return turned
