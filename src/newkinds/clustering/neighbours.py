"""Nearest neighbours by direction, exact in blocks, and features averaged over them.

All pairs are compared, in tiles of bounded memory: time grows with the square of the number of pictures, memory with
the number. Up to 200,000 pictures that takes minutes, and no index is needed.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.clustering.threads import Threads
from newkinds.memory import row_blocks

ROUNDS = 2  # of averaging over neighbours
ROWS, COLUMNS = 256, 4096  # of a tile: the similarities that a thread holds at once, 4 MB or, in float64, 8
PRECISE = 20_000  # pictures up to which neighbours are found in float64; of more in float32, in half the time

F = TypeVar("F", np.float32, np.float64)


def neighbours_averaged(
    features: NDArray[np.float32], neighbours: int, near: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """Return the features of each picture, (N, d), averaged over its `neighbours` nearest by direction, twice.

    The picture itself is one of them; 0 or 1 leave features as they are. What remains is what a picture has in common
    with its neighbours, so that kinds become tighter and further apart. All get the mean length. near: the result of
    `nearest_by_direction` for at least as many neighbours, if it is there already.
    """
    if neighbours <= 1:
        return features
    lengths = [np.linalg.norm(features[rows].astype(np.float64), axis=1) for rows in row_blocks(*features.shape)]
    length = float(np.concatenate(lengths).mean())
    turned: NDArray[Any] = _turned(features, _precision(len(features)))
    for _ in range(ROUNDS):
        near = nearest_by_direction(turned, neighbours) if near is None else near[:, :neighbours]
        turned = _averaged(turned, near)
        near = None
    averaged: NDArray[np.float32] = (turned * length).astype(np.float32, copy=False)
    return averaged


def _averaged(turned: NDArray[F], near: NDArray[np.int64]) -> NDArray[F]:
    """Return the directions of the means of the rows `near` (N, n) of directions (N, d), summed in float64."""
    means = np.empty_like(turned)
    for rows in row_blocks(*turned.shape):
        total = np.zeros(means[rows].shape)
        for column in near[rows].T:  # not all at once, which takes `neighbours` times the memory
            total += turned[column]
        means[rows] = directions(total / near.shape[1])
    return means


def nearest_by_direction(features: NDArray[Any], number: int) -> NDArray[np.int64]:
    """Return which pictures are nearest to each by the direction of their features (N, d), nearest first.

    Returns int64 (N, number). Each is among its own nearest, unless others have the same direction; of fewer than
    `number` pictures, all are returned. Of more than 20,000 pictures, directions are compared in float32.
    """
    turned = torch.from_numpy(_turned(features, _precision(len(features))))
    return _nearest(turned, turned, number)[0].numpy()


def most_similar(
    features: NDArray[Any], among: NDArray[Any] | None, number: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return which rows of others, `among` (M, d), are nearest to each row (N, d) by direction, and their distances.

    among: None for the other rows of `features` themselves, each row itself left out. Returns items int64 (N, n),
    nearest first, and the distances of directions, float64 (N, n), in [0, 2]; n is `number` or what there is.
    """
    dtype = _precision(max(len(features), 0 if among is None else len(among)))
    turned = torch.from_numpy(_turned(features, dtype))
    if among is not None:
        items, similar = _nearest(turned, torch.from_numpy(_turned(among, dtype)), number)
    else:
        items, similar = _without_self(*_nearest(turned, turned, number + 1))
    return items.numpy(), (2 - 2 * similar.double()).clamp_min(0).sqrt().numpy()


def _without_self(items: Tensor, similar: Tensor) -> tuple[Tensor, Tensor]:
    """Leave each row itself out of its nearest (N, n + 1), or the last one where others have the same direction."""
    own = items == torch.arange(len(items))[:, None]
    own[:, -1] |= ~own.any(dim=1)
    kept = (len(items), items.shape[1] - 1)
    return items[~own].view(kept), similar[~own].view(kept)


def _nearest(some: Tensor, turned: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the rows of directions (M, d) nearest to each of some (N, d), and how similar they are: (N, n) each."""
    near = torch.empty(len(some), min(number, len(turned)), dtype=torch.int64)
    similar = some.new_empty(near.shape)
    blocks = [slice(first, first + ROWS) for first in range(0, len(some), ROWS)]

    def find(thread: int) -> None:
        # One buffer for all its tiles: freed and allocated again for each, large blocks fragment the C library's heap.
        tile = turned.new_empty(min(ROWS, len(some)) * min(COLUMNS, len(turned)))
        for rows in blocks[thread :: threads.number]:
            near[rows], similar[rows] = _nearest_of(some[rows], turned, near.shape[1], tile)

    with Threads() as threads:
        threads.map(find, range(threads.number))
    return near, similar


def _nearest_of(some: Tensor, turned: Tensor, number: int, tile: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of directions (N, d) nearest to some directions (n, d), and their similarity: (n, number) each.

    tile: a buffer for the similarities.
    """
    best, items = some.new_empty(len(some), 0), torch.empty(len(some), 0, dtype=torch.int64)
    for first in range(0, len(turned), COLUMNS):
        others = turned[first : first + COLUMNS]
        similar = torch.mm(some, others.T, out=tile[: len(some) * len(others)].view(len(some), len(others)))
        values, places = similar.topk(min(number, len(others)), dim=1)
        best, items = torch.cat([best, values], dim=1), torch.cat([items, places + first], dim=1)
        if best.shape[1] > number:
            best, order = best.topk(number, dim=1)
            items = items.gather(1, order)
    return items, best


def directions(features: NDArray[Any]) -> NDArray[np.float64]:
    """Return features (N, d) at length 1, in float64; those of length 0 stay as they are."""
    return _turned(features, np.float64)


def directions_float32(features: NDArray[Any]) -> NDArray[np.float32]:
    """Return features (N, d) at length 1, computed in float64 and rounded to float32."""
    return _turned(features, np.float32)


def _turned(features: NDArray[Any], dtype: type[F]) -> NDArray[F]:
    turned = np.empty(features.shape, dtype)
    for rows in row_blocks(*features.shape):
        some = features[rows].astype(np.float64)
        lengths = np.linalg.norm(some, axis=1, keepdims=True)
        turned[rows] = some / np.where(lengths > 0, lengths, 1)
    return turned


def _precision(n: int) -> type[np.float32] | type[np.float64]:
    return np.float64 if n <= PRECISE else np.float32
