"""Where pictures lie: the features by which the workbench tells what is alike, and what kinds look like there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from newkinds.memory import row_blocks
from newkinds.randomness import generator
from newkinds.runs import RunFolder, names
from newkinds.runs.results import read_tensors
from newkinds.transfer import Transfer, from_tensors

WIDTH = 64  # principal components of f's features
SAMPLE = 4096  # pictures that the components are found from
Points = NDArray[np.float32]


def points_of(run: RunFolder) -> Points:
    """Return a point for each picture of a run, float32 (N, d), of length 1; alike pictures lie in one direction.

    It is the method's embedding, in which kinds are far apart, beside what f sees, in which pictures that were put into
    the wrong kind are still like their own: neighbours in both are more often of one kind than in either.
    """
    embedding = run.find_array(names.EMBEDDING)
    if embedding is None:
        embedding = run.get_array(names.EMBEDDING)  # which says what is wrong with it
    parts = [_centred(np.asarray(embedding, dtype=np.float32))]
    features = run.find_array(names.features("unsorted"))
    if features is not None and features.ndim == 2 and len(features) == len(embedding):
        transfer = from_tensors(*read_tensors(run, names.TRANSFER)) if run.lists(names.TRANSFER) else None
        parts.append(_centred(components(features, transfer)))
    return _centred(np.concatenate(parts, axis=1), centre=False)


def components(features: NDArray[np.float32], transfer: Transfer | None = None, width: int = WIDTH) -> Points:
    """Return the principal components of features (N, d), transferred: float32 (N, at most width), of length 1."""
    n, d = features.shape
    some = np.sort(generator(0, "app/components").permutation(n)[:SAMPLE])
    sample = features[some].astype(np.float32) if transfer is None else transfer(features[some])
    _, vectors = np.linalg.eigh(np.cov(sample, rowvar=False, dtype=np.float32).reshape(sample.shape[1], -1))
    turn = vectors[:, ::-1][:, :width].astype(np.float32)
    middle = sample.mean(axis=0) if transfer is None else transfer.mean
    matrix = turn if transfer is None or transfer.matrix is None else transfer.matrix @ turn
    found = np.empty((n, turn.shape[1]), dtype=np.float32)
    for rows in row_blocks(n, d):
        given = features[rows] if transfer is None else _lengthened(features[rows])
        found[rows] = _lengthened((given - middle) @ matrix)
    return found


def _lengthened(points: NDArray[np.float32]) -> Points:
    """Return points, each at length 1; those of length 0 stay as they are."""
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _centred(points: Points, *, centre: bool = True) -> Points:
    """Return points about their mean, each of length 1; one at the mean stays there."""
    return _lengthened(points - points.mean(axis=0) if centre else points)


@dataclass(frozen=True, eq=False)
class Looks:
    """What kinds look like at one moment.

    points: float32 (N, d). kind: of each picture, int32 (N,). centres: the mean direction of each kind's pictures,
    float32 (C, d), those that a person looked at counting SURE times. own: how alike each picture is to its own kind,
    float32 (N,).
    """

    points: Points
    kind: NDArray[np.int32]
    centres: Points
    own: NDArray[np.float32]

    @property
    def other(self) -> NDArray[np.float32]:
        """How alike each picture is to the best other kind, float32 (N,), -1 where there is none."""
        return self._others[0]

    @property
    def next(self) -> NDArray[np.int32]:
        """Which kind that is, int32 (N,), -1 where there is none."""
        return self._others[1]

    @property
    def margin(self) -> NDArray[np.float32]:
        """How much more alike each picture is to its own kind than to any other, float32 (N,)."""
        return self.own - self.other

    @cached_property
    def _others(self) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        empty = np.bincount(self.kind, minlength=len(self.centres)) == 0
        other, best = np.empty(len(self.own), np.float32), np.empty(len(self.own), np.int32)
        for rows in row_blocks(len(self.own), max(len(self.centres), 1)):
            alike = self.points[rows] @ self.centres.T
            alike[:, empty] = -np.inf
            here = np.arange(len(alike))
            alike[here, self.kind[rows]] = -np.inf
            best[rows] = alike.argmax(axis=1)
            other[rows] = alike[here, best[rows]]
        alone = np.isneginf(other)
        other[alone], best[alone] = -1, -1
        return other, best


SURE = 4  # how many times a picture counts that a person has looked at


def looks(points: Points, kind: NDArray[np.int32], kinds: int, confirmed: NDArray[np.bool_]) -> Looks:
    """Return what kinds look like. kind: of each picture, int32 (N,) below `kinds`; confirmed: bool (N,)."""
    weight = np.where(confirmed, np.float32(SURE), np.float32(1))
    held = csr_matrix((weight, (kind, np.arange(len(kind)))), shape=(kinds, len(kind)))
    centres = _lengthened(held @ points)
    own = np.empty(len(points), np.float32)
    for rows in row_blocks(*points.shape):
        own[rows] = np.einsum("nd,nd->n", points[rows], centres[kind[rows]])
    return Looks(points, kind, centres, own)
