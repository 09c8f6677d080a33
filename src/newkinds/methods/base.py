"""What a method is: what it gets (a problem), what it gives back (a solution), and what it brings with it.

A method is one file or folder that ends in a `Method`: its settings, its training stages, its head and its line of
help. `registry.py` lists them all; nothing else names one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from newkinds.assignment import Assignment
from newkinds.errors import UsageError
from newkinds.features import apply, as_input
from newkinds.images.imageset import ImageSet
from newkinds.networks import Head, Model, Network, SoftmaxHead, StudentHead
from newkinds.progress import QUIET, Progress
from newkinds.settings import CoreSettings, Section
from newkinds.training import Checkpoints, Phase, Record, Task, train

On = Literal["features", "pixels"]
Tensors = dict[str, Tensor]
Kept = Callable[[str, Callable[[], Tensors]], Tensors]


def _made_anew(name: str, make: Callable[[], Tensors]) -> Tensors:
    return make()


@dataclass(frozen=True)
class Snapshot:
    """A state of the clustering while it is trained, for some of the pictures.

    epoch: how many epochs it has behind it, 0 at the start. items: which pictures, int64 (S,). embedding: float32
    (S, w); p, q: the probabilities and the targets, float32 (S, K).
    """

    epoch: int
    items: NDArray[np.int64]
    embedding: NDArray[np.float32]
    p: NDArray[np.float32]
    q: NDArray[np.float32]


@dataclass(frozen=True)
class KnownProblem:
    """What there is to learn from the known kinds alone, and with what.

    network: f, trained on the known kinds, on its device; whoever trains it takes a copy. known: has labels.
    checkpoints, log: the training loop's.
    """

    network: Network
    known: ImageSet
    settings: CoreSettings
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
class Problem(KnownProblem):
    """What a method has to work with.

    kinds: the number of new kinds. features: f's of the unsorted pictures, float32 (N, d). truth: int64 (N,), -1 where
    not known, for the log only. keep: `keep(name, make)` returns the tensors that a run has under a name, made first
    if there are none: the result of a stage that a later one needs again. watch: gets snapshots, from a method that
    takes them.
    """

    unsorted: ImageSet
    kinds: int
    features: NDArray[np.float32]
    truth: NDArray[np.int64] | None = None
    keep: Kept = _made_anew
    watch: Callable[[Snapshot], None] | None = None

    def points(self, on: On) -> NDArray[np.float32]:
        """Return a row for each unsorted picture: its features, or its pixels from 0 to 1 (embeddings as they are)."""
        return self.features if on == "features" else flat_pixels(self.unsorted)

    def known_points(self, on: On) -> NDArray[np.float32]:
        """Return such a row for each known picture."""
        return apply(self.network, self.known) if on == "features" else flat_pixels(self.known)

    def check_kinds(self) -> None:
        """Refuse fewer than two kinds, and more kinds than there are unsorted pictures."""
        pictures = len(self.unsorted)
        if not 2 <= self.kinds <= pictures:
            raise UsageError(
                f"{self.kinds} kinds were asked for, but there are {pictures} unsorted pictures: kinds should be "
                f"between 2 and {pictures}.",
                hint="Ask for fewer with --kinds, or give more pictures.",
            )

    def assign(self, probabilities: NDArray[np.float32]) -> Assignment:
        """Return the answer that probabilities (N, K) of new kinds make."""
        source = {"method": self.settings.method, "seed": self.settings.seed}
        return Assignment.of_new(self.unsorted.names, probabilities, source)

    def certain(self, labels: NDArray[np.int64]) -> Assignment:
        """Return the answer of a method that says only which kind, labels int64 (N,): probabilities of 1."""
        return self.assign(np.eye(self.kinds, dtype=np.float32)[labels])


@dataclass(frozen=True)
class Choice:
    """Which state of a training was kept: that of the last epoch, or the best by a measure that needs no labels.

    kept: "last" or "best". epoch: whose state it is, -1 for the start. monitor, last_monitor: the measure of that state
    and of the last one, NaN if nobody watched. why: in words. warning: what a person should be told now.
    """

    kept: str
    epoch: int
    monitor: float
    last_monitor: float
    why: str
    warning: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; what is not a number becomes None."""
        return {name: None if value != value else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Solution:
    """What a method found.

    assignment: of the unsorted pictures. embedding: float32 (N, w), where its kinds lie, for the map. model: tells the
    kinds of other pictures; None if the method cannot. features: of the unsorted pictures under the model's f, float32
    (N, d), unless there is no model. choice: which state of a training it is. last: the model of the last epoch, where
    another one was kept.
    """

    assignment: Assignment
    embedding: NDArray[np.float32]
    model: Model | None = None
    features: NDArray[np.float32] | None = None
    choice: Choice | None = None
    last: Model | None = None


@dataclass(frozen=True)
class Auxiliary:
    """A network that a method learns from the known kinds alone, beside f: it serves every seed and every heap.

    learn: returns its weights. Methods may share one; then it has one name.
    """

    name: str
    learn: Callable[[KnownProblem], Tensors]


@dataclass(frozen=True)
class Method:
    """A method of sorting unsorted pictures.

    name: what `--method` takes. line: what it is, for the help. run: sorts. sections: its settings, by the name of
    their table. stages: its training stages before pictures get their kinds, by the name in the log, with the title of
    their chart; assigns: the stage in which pictures get their kinds, if it is trained. takes_features: whether it
    looks at f's features. auxiliary: what else it learns from the known kinds. resolve: values for what its settings
    leave to "auto", by dotted keys. finds_kinds: how many kinds to look for where the method finds their number itself,
    given the settings and how many pictures there are; None: it is estimated before. heads: those of its models.
    advice: what to try when kinds stay empty.
    """

    name: str
    line: str
    run: Callable[[Problem], Solution]
    sections: Mapping[str, type[Section]]
    stages: Mapping[str, str] = field(default_factory=dict)
    assigns: str | None = None
    takes_features: Callable[[CoreSettings], bool] = lambda settings: True
    auxiliary: Auxiliary | None = None
    resolve: Callable[[CoreSettings, ImageSet], Mapping[str, Any]] = lambda settings, known: {}
    finds_kinds: Callable[[CoreSettings, int], int | None] = lambda settings, pictures: None
    heads: tuple[type[Head], ...] = (StudentHead, SoftmaxHead)
    advice: str = "Ask for fewer with --kinds, or try another --method."


def flat_pixels(images: ImageSet) -> NDArray[np.float32]:
    """Return the pixels of each picture as a row of numbers from 0 to 1; embeddings as they are."""
    return as_input(images.pixels, torch.device("cpu")).flatten(1).numpy()
