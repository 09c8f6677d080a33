"""Discovery on frozen features: what the known kinds teach about them, and a problem that is made of them alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds import transfer
from newkinds.cache import Cache, code_of
from newkinds.clustering.neighbours import directions_float32
from newkinds.images.imageset import ImageSet, pixel_digest
from newkinds.methods.base import Solution
from newkinds.networks import Model, Network
from newkinds.progress import QUIET, Progress
from newkinds.settings import CoreSettings
from newkinds.tensors import from_bytes, to_bytes
from newkinds.transfer import Transfer, from_tensors, learn_transfer, only, to_tensors

Features = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Views:
    """Features of pictures, a row each, as they are and in further views: float32 (N, d) each."""

    rows: tuple[Features, ...]

    def of(self, items: NDArray[np.int64]) -> Views:
        """Return the features of some of the pictures."""
        return Views(tuple(rows[items] for rows in self.rows))

    def learn(
        self, labels: NDArray[np.int64], settings: CoreSettings, cache: Cache, progress: Progress = QUIET
    ) -> Transfer:
        """Return the transfer that pictures of known kinds teach, labels int64 (N,); each view is a row of its own."""
        plain, *further = self.rows

        def make() -> bytes:
            how, seed = settings.transfer, settings.seed
            return to_bytes(
                *to_tensors(learn_transfer(plain, labels, how, further=further, seed=seed, progress=progress))
            )

        about = {
            "features": [pixel_digest(rows) for rows in self.rows],
            "labels": pixel_digest(labels),
            "settings": settings.transfer.model_dump(mode="json"),
            "seed": settings.seed,
            "code": [code_of(transfer), np.__version__, torch.__version__],
        }
        return from_tensors(*from_bytes(cache.value("transfer", about, make), "the cache"))

    def learn_from(
        self, taught: NDArray[np.int64], labels: NDArray[np.int64], way: str, settings: CoreSettings, cache: Cache
    ) -> Transfer:
        """Return the transfer that some of the known pictures teach, int64 (n,), in the way that all have chosen."""
        how = settings.with_changes({f"transfer.{key}": value for key, value in only(way).items()})
        return self.of(taught).learn(labels[taught], how, cache)

    def transferred(self, transfer: Transfer) -> Features:
        """Return the mean over the views of their transferred features, at length 1: float32 (N, w)."""
        if len(self.rows) == 1:
            return transfer(self.rows[0])
        total = transfer(self.rows[0]).astype(np.float64)
        for rows in self.rows[1:]:
            total += transfer(rows)
        return directions_float32(total)


def as_embeddings(images: ImageSet, features: Features) -> ImageSet:
    """Return the same pictures with features in place of pixels."""
    return replace(images, pixels=features)


def behind(network: Network, found: Solution) -> Solution:
    """Return what was found on features with the network that makes them in its models."""

    def completed(model: Model | None) -> Model | None:
        on_features = model is not None and model.network.name == "identity"
        return Model(network, model.head).eval() if model is not None and on_features else model

    return replace(found, model=completed(found.model), last=completed(found.last))


def in_words(transfer: Transfer) -> str:
    """Return what the known kinds taught, and how much it helps to tell kinds apart that it was not learnt from."""
    if not transfer.tried:
        if transfer.chosen == "none":
            return "The network's features are used as they are: the known kinds change nothing about them."
        return f"The network's features are adapted to the known kinds, as was asked for ({transfer.chosen})."
    told = {way: f"{mean:.0%}" for way, (mean, _) in transfer.tried.items()}
    before = told.get("none")
    if transfer.chosen == "none":
        return (
            "The network's features are used as they are, because the known kinds teach nothing that helps with new "
            f"ones: when some of them were hidden, {before} of the pictures most similar to a hidden one were of its "
            "kind, and no more after learning from the others."
        )
    without = f", against {before} without this" if before else ""
    return (
        f"The network's features are adapted to the known kinds ({transfer.chosen}): when some of them were hidden, "
        f"{told[transfer.chosen]} of the pictures most similar to a hidden one were of its kind{without}."
    )
