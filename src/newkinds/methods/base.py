"""The interface of methods: a method takes a problem, returns a solution, and brings its own settings and head.

A method is one file or folder that defines `METHODS`: each a `Method` with its settings, training stages, heads and
line of help. `registry.py` lists the modules; nothing else names a method.
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

from newkinds.assignment import Assignment, known_kind, new_kinds
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
    """The state of some pictures during training.

    epoch: how many epochs are done, 0 at the start. items: which pictures, int64 (S,). embedding: float32
    (S, w); p, q: the probabilities and the targets, float32 (S, K).
    """

    epoch: int
    items: NDArray[np.int64]
    embedding: NDArray[np.float32]
    p: NDArray[np.float32]
    q: NDArray[np.float32]


@dataclass(frozen=True)
class KnownProblem:
    """The input of a method's auxiliary network: what can be learnt from the known kinds alone.

    network: f, trained on the known kinds, on its device; copy it before training it. known: has labels. checkpoints,
    log: for the training loop.
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
    """The input of a method.

    kinds: the number of new kinds. features: f's of the unsorted pictures, float32 (N, d). truth: int64 (N,), -1 where
    not known, for the log only. keep: `keep(name, make)` returns the tensors that the run has under a name, after
    making and saving them if there are none: the result of a stage that a resumed run needs again. watch: receives
    snapshots, from methods that take them. novelty: how probably each unsorted picture is of a new kind, float32 (N,),
    where some may be of known kinds; None: all are of new ones, the paper's setting. not_learnt: which known pictures f
    was not trained on, int64 (m,): those that it was trained on are nearer to their kinds than any others. None: it was
    trained on none of them, or it is not known which.
    """

    unsorted: ImageSet
    kinds: int
    features: NDArray[np.float32]
    truth: NDArray[np.int64] | None = None
    keep: Kept = _made_anew
    watch: Callable[[Snapshot], None] | None = None
    novelty: NDArray[np.float32] | None = None
    not_learnt: NDArray[np.int64] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The kinds that pictures are sorted into: the new ones first and then, in a mixed heap, the known ones."""
        known = () if self.novelty is None else tuple(map(known_kind, self.known.classes))
        return new_kinds(self.kinds) + known

    def points(self, on: On) -> NDArray[np.float32]:
        """Return a row for each unsorted picture: its features, or its pixels from 0 to 1 (embeddings as they are)."""
        return self.features if on == "features" else flat_pixels(self.unsorted)

    def known_points(self, on: On) -> NDArray[np.float32]:
        """Return the same for each known picture."""
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
        """Return probabilities (N, C) of the columns as an Assignment."""
        source = {"method": self.settings.method, "seed": self.settings.seed}
        if self.novelty is None:  # a method may have found fewer
            return Assignment.of_new(self.unsorted.names, probabilities, source)
        return Assignment(self.unsorted.names, self.columns, probabilities, source)

    def certain(self, labels: NDArray[np.int64]) -> Assignment:
        """Return labels int64 (N,), of a method without probabilities, as an Assignment: probabilities of 1."""
        return self.assign(np.eye(len(self.columns), dtype=np.float32)[labels])


@dataclass(frozen=True)
class Choice:
    """Which state of the training was kept: that of the last epoch, or the best by a monitor that needs no labels.

    kept: "last" or "best". epoch: of that state, -1 for the start. monitor, last_monitor: the monitor's value for that
    state and for the last one, NaN if there was none. why: in words. warning: to be shown to the user.
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
    """The result of a method.

    assignment: of the unsorted pictures. embedding: float32 (N, w), the space of the kinds, for the map. model: for the
    kinds of other pictures; None if the method has none. features: of the unsorted pictures under the model's f,
    float32 (N, d), if there is a model. choice: which state of the training it is. last: the model of the last epoch,
    if another one was kept.
    """

    assignment: Assignment
    embedding: NDArray[np.float32]
    model: Model | None = None
    features: NDArray[np.float32] | None = None
    choice: Choice | None = None
    last: Model | None = None


@dataclass(frozen=True)
class Auxiliary:
    """An auxiliary network, which a method trains on the known kinds alone: it is reused for all seeds and heaps.

    learn: returns its weights. Methods may share one, under one name.
    """

    name: str
    learn: Callable[[KnownProblem], Tensors]


@dataclass(frozen=True)
class Method:
    """A method of category discovery.

    name: for `--method`. line: for the help. run: from a problem to a solution. sections: its settings, by the name of
    their table. stages: its training stages before pictures get their kinds, by the name in the log, with the title of
    their chart; assigns: the stage in which pictures get their kinds, if it trains one. takes_features: whether it uses
    f's features; takes_transfer: whether it can use them after a transfer, which may be negative. auxiliary: its
    auxiliary network. resolve: values for its settings that are "auto", by dotted keys. finds_kinds: the number of
    kinds to begin with if the method finds their number itself, from the settings and the number of pictures; None: it
    is estimated before. takes_known: whether it sorts a mixed heap into known and new kinds itself; others get the
    pictures that are probably new. heads: the classes of its models' heads. rivals: other settings that are worth
    rehearsing, by name, each as changes by dotted keys. always_rehearsed: whether it is a rival of every method.
    advice: what to try when kinds stay empty.
    """

    name: str
    line: str
    run: Callable[[Problem], Solution]
    sections: Mapping[str, type[Section]]
    stages: Mapping[str, str] = field(default_factory=dict)
    assigns: str | None = None
    takes_features: Callable[[CoreSettings], bool] = lambda settings: True
    takes_transfer: bool = True
    auxiliary: Auxiliary | None = None
    resolve: Callable[[CoreSettings, ImageSet], Mapping[str, Any]] = lambda settings, known: {}
    finds_kinds: Callable[[CoreSettings, int], int | None] = lambda settings, pictures: None
    takes_known: bool = False
    heads: tuple[type[Head], ...] = (StudentHead, SoftmaxHead)
    rivals: Callable[[CoreSettings], Mapping[str, Mapping[str, Any]]] = lambda settings: {}
    always_rehearsed: bool = False
    advice: str = "Ask for fewer with --kinds, or try another --method."


def flat_pixels(images: ImageSet) -> NDArray[np.float32]:
    """Return the pixels of each picture as a row of numbers from 0 to 1; embeddings as they are."""
    return as_input(images.pixels, torch.device("cpu")).flatten(1).numpy()
