"""How near the known kinds are: to each new kind, and to the pictures on the map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from newkinds.errors import NewkindsError
from newkinds.features import apply
from newkinds.images.imageset import ImageSet
from newkinds.networks.files import clustering_from_bytes, from_bytes
from newkinds.report.embedding_map import SAMPLE, thin

FEWEST = 500  # pictures that are looked at however large they are; up to 64 x 64 pixels, as many as t-SNE sees


@dataclass(frozen=True, eq=False)
class NearestKnown:
    """Distances to the middles of kinds, in units of the usual distance of a picture from the middle of its own.

    of_kinds: int64 (K,), the known kind that is nearest to each new one, -1 for an empty one; kind_distances: (K,).
    items: int64 (S,), the pictures that were looked at, rising; of_items: (S,) the known kind nearest to each;
    known_distances, new_distances: (S,) how far it is, and how far the nearest new kind is.
    """

    of_kinds: NDArray[np.int64]
    kind_distances: NDArray[np.float64]
    items: NDArray[np.int64]
    of_items: NDArray[np.int64]
    known_distances: NDArray[np.float64]
    new_distances: NDArray[np.float64]


def nearest_known(
    model: bytes, where: str, unsorted: ImageSet, probabilities: NDArray[np.float32], seed: int
) -> NearestKnown | None:
    """Return how near the known kinds are by a run's model; `where` is its name in an error.

    Pictures are looked at only where the network can be built: one from code of the user's own would have to be named
    by them. Then only kinds are compared.
    """
    kinds = probabilities.argmax(axis=1).astype(np.int64)
    tensors, _ = from_bytes(model, where)
    extra = {name.removeprefix("extra."): value for name, value in tensors.items() if name.startswith("extra.")}
    if "means" not in extra:  # of an older version
        return None
    try:
        network = clustering_from_bytes(model, where)[0].network
    except NewkindsError:
        return find_nearest_known(extra, probabilities.shape[1], None, np.zeros(0, dtype=np.int64))
    items = thin(kinds, seed, max(FEWEST, SAMPLE * 64**2 // max(64, network.network_size) ** 2))
    return find_nearest_known(extra, probabilities.shape[1], apply(network, unsorted.select(items), alone=True), items)


def find_nearest_known(
    extra: Mapping[str, Tensor], kinds: int, features: NDArray[np.float32] | None, items: NDArray[np.int64]
) -> NearestKnown | None:
    """Compare kinds and pictures with the known kinds' middles.

    extra: "means" (L + K, d) of known kinds, then new ones, "spread" (d,) and "present" (L + K,), as `prototypes` gives
    them. features: (S, d) of the pictures `items`, under the network that the means are of; None: of none.
    """
    unit = extra["spread"].double().numpy() * np.sqrt(len(extra["spread"]))
    middles = extra["means"].double().numpy() / unit
    present = extra["present"].numpy().astype(bool)
    known, new = np.flatnonzero(present[:-kinds]), np.flatnonzero(present[-kinds:])
    if not len(known) or not len(new):
        return None
    first = len(present) - kinds
    between = _distances(middles[first:], middles[known])
    nearest = np.where(present[first:], known[between.argmin(axis=1)], -1)
    points = np.zeros((0, len(unit))) if features is None else features.astype(np.float64) / unit
    to_known, to_new = _distances(points, middles[known]), _distances(points, middles[first + new])
    return NearestKnown(
        of_kinds=nearest,
        kind_distances=between.min(axis=1),
        items=items[: len(points)],
        of_items=known[to_known.argmin(axis=1)],
        known_distances=to_known.min(axis=1),
        new_distances=to_new.min(axis=1),
    )


def _distances(points: NDArray[np.float64], middles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances (N, M) of points to middles, one middle at a time: differences keep their digits."""
    columns = [np.sqrt(np.square(points - middle).sum(axis=1)) for middle in middles]
    return np.stack(columns, axis=1)
