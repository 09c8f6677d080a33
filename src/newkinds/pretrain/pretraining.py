"""Training f on the known kinds, with a held-out share of each to score it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray

from newkinds.errors import DataError
from newkinds.images.imageset import ImageSet, fingerprint
from newkinds.networks import Network, build_network, default_network
from newkinds.parallel.processes import make_accelerator
from newkinds.pretrain.resolve import resolved_pretrain
from newkinds.pretrain.tasks import TASKS
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds.settings import Pretrain
from newkinds.training import Checkpoints, Phase, Record, train


@dataclass(frozen=True)
class Pretraining:
    """A trained f, and its score on held-out pictures of the known kinds.

    score: 0 to 1, NaN if there was nothing to train. measure: the name of the score, "held_out_accuracy" or, after a
    metric loss, "few_shot_accuracy". held_out: which pictures of the known set were held out. loss: its name.
    """

    network: Network
    score: float
    measure: str
    held_out: NDArray[np.int64]
    loss: str
    epochs: int


def pretrain(
    known: ImageSet,
    settings: Pretrain,
    *,
    network: str = "auto",
    network_size: int | None = None,
    start: Network | None = None,
    seed: int = 0,
    precision: str = "float32",
    accelerator: Accelerator | None = None,
    checkpoints: Checkpoints | None = None,
    log: Callable[[Record], None] = lambda record: None,
    progress: Progress = QUIET,
) -> Pretraining:
    """Train the network called `network` on the known kinds and return it with its score on held-out pictures.

    network_size: the side that pictures are scaled to before they enter it; default: its own, or theirs. start: a
    trained network for such pictures to continue from, instead of a fresh one.
    """
    accelerator = accelerator or make_accelerator()
    settings = resolved_pretrain(settings, known)
    if start is None and network == "auto":
        network = default_network(known.channels, known.size, known.is_embedding, accelerator.device.type != "cpu")
    kept, held_out = split_held_out(known, settings.held_out, seed)
    model = start or build_network(
        network, known.channels, known.size, seed, network_size=network_size, admitted=network
    )
    task_type = TASKS[settings.loss]
    if not model.has_weights:
        return Pretraining(model, float("nan"), task_type.measure, held_out, settings.loss, epochs=0)
    if task_type is not TASKS["cross-entropy"]:
        _check_episodes(known, kept, settings)
    if start is None:
        model.normalise_by(known.pixels, kept)
    task = task_type(model, known, kept, held_out, settings, seed)
    assert isinstance(settings.epochs, int)
    phases = [Phase("main", settings.epochs, settings)]
    train(
        task,
        phases,
        accelerator=accelerator,
        checkpoints=checkpoints,
        log=log,
        progress=progress,
        precision=precision,
    )
    score = task.finish()
    return Pretraining(model.float(), score, task.measure, held_out, settings.loss, settings.epochs)


def _check_episodes(known: ImageSet, kept: NDArray[np.int64], settings: Pretrain) -> None:
    """Refuse episodes that need more pictures of a kind than it has."""
    assert known.labels is not None
    assert isinstance(settings.support, int)
    assert isinstance(settings.query, int)
    counts = np.bincount(known.labels[kept], minlength=len(known.classes))
    smallest = int(counts.argmin())
    need = settings.support + settings.query
    if counts[smallest] < need:
        raise DataError(
            f"An episode takes {need} pictures of each kind ({settings.support} support + {settings.query} query), but "
            f"the kind {known.classes[smallest]!r} has {counts[smallest]} to train on.",
            hint="Lower pretrain.support or pretrain.query, leave them out, or use --set pretrain.loss=cross-entropy.",
        )


def split_held_out(known: ImageSet, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split picture numbers into training and held-out ones: at least one of each kind in either part."""
    assert known.labels is not None
    kept: list[int] = []
    held_out: list[int] = []
    for label in range(len(known.classes)):
        members = np.flatnonzero(known.labels == label)
        order = generator(seed, "held out", label).permutation(members)
        aside = min(max(1, round(share * len(members))), len(members) - 1)
        held_out += order[:aside].tolist()
        kept += order[aside:].tolist()
    return np.sort(np.array(kept, dtype=np.int64)), np.sort(np.array(held_out, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Learnt:
    """What an f has learnt of known pictures: their numbers in three parts, int64 each.

    kept: it was trained on these. held_out: of the same kinds, and kept from it. unseen: of kinds that it was not
    trained on.
    """

    kept: NDArray[np.int64]
    held_out: NDArray[np.int64]
    unseen: NDArray[np.int64]

    @property
    def not_learnt(self) -> NDArray[np.int64]:
        """The pictures that f was not trained on, in order."""
        return np.sort(np.concatenate([self.held_out, self.unseen]))


def about_learnt(known: ImageSet, settings: Pretrain, seed: int) -> dict[str, Any]:
    """Return what a file of weights has to say, so that `what_was_learnt` knows what was held out."""
    return {"learnt_from": _content(known), "held_out_share": settings.held_out, "seed": seed}


def what_was_learnt(told: Mapping[str, Any], known: ImageSet) -> Learnt | None:
    """Return what an f has learnt of known pictures, by what its file tells.

    None where it does not tell: it was trained on other pictures, elsewhere, or after another training.
    """
    classes, share, seed = told.get("classes"), told.get("held_out_share"), told.get("seed")
    if not (isinstance(classes, list) and isinstance(share, float) and isinstance(seed, int)) or "after" in told:
        return None
    if known.labels is None or not set(classes) <= set(known.classes):
        return None
    trained = known.with_classes([known.classes.index(name) for name in classes])
    if told.get("learnt_from") != _content(trained):
        return None
    is_learnt = np.isin(known.labels, [known.classes.index(name) for name in classes])
    rows = np.flatnonzero(is_learnt)
    kept, held_out = split_held_out(trained, share, seed)
    return Learnt(rows[kept], rows[held_out], np.flatnonzero(~is_learnt))


def _content(known: ImageSet) -> str:
    """Return the hash of pictures and their kinds, the same however they were selected."""
    return fingerprint(known.pixels, known.names, known.labels, known.classes)
