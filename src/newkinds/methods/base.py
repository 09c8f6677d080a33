"""What every method of sorting unsorted pictures gets, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from newkinds.features import apply, as_input
from newkinds.images.imageset import ImageSet
from newkinds.networks import ClusteringNetwork, Network, SoftmaxNetwork
from newkinds.progress import QUIET, Progress
from newkinds.settings import Settings
from newkinds.training import Checkpoints, Phase, Record, Task, train

On = Literal["features", "pixels"]
Tensors = dict[str, Tensor]
Kept = Callable[[str, Callable[[], Tensors]], Tensors]


def _made_anew(name: str, make: Callable[[], Tensors]) -> Tensors:
    return make()


@dataclass(frozen=True)
class Moment:
    """A state of the clustering, as some of the pictures see it.

    epoch: how many epochs it has behind it, 0 at the start. items: which pictures, int64 (S,). embedding: float32
    (S, w); p, q: the probabilities and the targets, float32 (S, K).
    """

    epoch: int
    items: NDArray[np.int64]
    embedding: NDArray[np.float32]
    p: NDArray[np.float32]
    q: NDArray[np.float32]


Watch = Callable[[Moment], None]


@dataclass(frozen=True)
class Lesson:
    """What there is to learn from the known kinds alone, and how.

    network: f, trained on the known kinds; what trains it takes a copy. known: has labels. checkpoints, log: the
    training loop's.
    """

    network: Network
    known: ImageSet
    settings: Settings
    accelerator: Accelerator | None = None
    checkpoints: Checkpoints | None = None
    log: Callable[[Record], None] = lambda record: None
    progress: Progress = QUIET

    def train(self, task: Task, *phases: Phase) -> None:
        """Run the training loop on a task."""
        train(
            task,
            phases,
            accelerator=self.accelerator,
            checkpoints=self.checkpoints,
            log=self.log,
            progress=self.progress,
            precision=self.settings.precision,
        )


@dataclass(frozen=True, kw_only=True)
class Material(Lesson):
    """What a method has to work with.

    kinds: the number of new kinds. features: f's of the unsorted pictures, float32 (N, d). truth: int64 (N,), -1 where
    not known, for the log only. keep: `keep(name, make)` returns the tensors that a run has under a name, made first
    if there are none: the result of a stage that a later one needs again. watch: gets states on the
    way, from a method that has them.
    """

    unsorted: ImageSet
    kinds: int
    features: NDArray[np.float32]
    truth: NDArray[np.int64] | None = None
    keep: Kept = _made_anew
    watch: Watch | None = None

    def points(self, on: On) -> NDArray[np.float32]:
        """Return a row for each unsorted picture: its features, or its pixels from 0 to 1 (embeddings as they are)."""
        return self.features if on == "features" else flat_pixels(self.unsorted)

    def known_points(self, on: On) -> NDArray[np.float32]:
        """Return such a row for each known picture."""
        return apply(self.network, self.known) if on == "features" else flat_pixels(self.known)


@dataclass(frozen=True)
class Found:
    """What a method found.

    probabilities: p(k|i), float32 (N, K); where a method says only which kind, 1 for that. embedding: float32 (N, w),
    where its kinds lie, for the map. network: what tells the kinds of other pictures; None if the method cannot.
    """

    network: ClusteringNetwork | SoftmaxNetwork | None
    probabilities: NDArray[np.float32]
    embedding: NDArray[np.float32]

    @property
    def kinds(self) -> NDArray[np.int64]:
        """The most probable kind of each picture, int64 (N,)."""
        kinds: NDArray[np.int64] = self.probabilities.argmax(axis=1)
        return kinds


def one_hot(labels: NDArray[np.int64], kinds: int) -> NDArray[np.float32]:
    """Return probabilities (N, K) that are certain."""
    return np.eye(kinds, dtype=np.float32)[labels]


def flat_pixels(images: ImageSet) -> NDArray[np.float32]:
    """Return the pixels of each picture as a row of numbers from 0 to 1; embeddings as they are."""
    return as_input(images.pixels, torch.device("cpu")).flatten(1).numpy()
