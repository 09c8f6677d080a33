"""Transfer clustering with a known number of kinds (Algorithm 1)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray

from newkinds.features import apply, averaged_features, extract_features
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import Found, Material, Watch
from newkinds.methods.dtc.monitor import Choice
from newkinds.methods.dtc.task import ClusteringTask
from newkinds.networks import ClusteringNetwork, Network
from newkinds.parallel.processes import from_writer
from newkinds.pipeline.resolve import resolved_discover
from newkinds.progress import QUIET, Progress
from newkinds.settings import Settings
from newkinds.start import Start, initialise, nearest_by_direction
from newkinds.training import Checkpoints, Phase, Record, train


@dataclass(frozen=True)
class Clustered(Found):
    """What Algorithm 1 found: the trained network and p(k|i) of the unsorted pictures; `kinds` is its line 14.

    choice: which epoch's state that is, and why. last: the network of the last epoch, if that is another one.
    """

    network: ClusteringNetwork
    start: Start
    choice: Choice
    last: ClusteringNetwork | None = None


def cluster(
    network: Network,
    unsorted: ImageSet,
    kinds: int,
    settings: Settings,
    *,
    features: NDArray[np.float32] | None = None,
    truth: NDArray[np.int64] | None = None,
    accelerator: Accelerator | None = None,
    checkpoints: Checkpoints | None = None,
    log: Callable[[Record], None] = lambda record: None,
    progress: Progress = QUIET,
    watch: Watch | None = None,
) -> Clustered:
    """Sort the unsorted pictures into `kinds` kinds, starting from f; f itself is left as it is.

    features: f's features of the unsorted pictures, if at hand. truth: for the log only. watch: gets
    `discover.moments` states on the way.
    """
    chosen = resolved_discover(settings.discover, unsorted, kinds)
    assert isinstance(chosen.alpha, float)
    if features is None:
        features = extract_features(network, unsorted, progress=progress)
    # Line 2: PCA into the bottleneck, k-means into the centres, the first targets.
    first, alpha = settings.initialise, chosen.alpha
    seen = averaged_features(network, unsorted, features, first.views, chosen.augmentation, settings.seed, progress)
    start = from_writer(lambda: initialise(seen, kinds, first, alpha=alpha, seed=settings.seed))
    near = from_writer(lambda: nearest_by_direction(seen, chosen.neighbours)) if chosen.neighbours > 1 else None
    task = ClusteringTask(copy.deepcopy(network), start, unsorted, chosen, settings.seed, truth, watch, near)
    task.measure_start()
    # Lines 3 to 6, warm-up with fixed targets; lines 8 to 12, the main loop, with an optimiser of its own.
    rate = chosen.learning_rate if chosen.warmup_learning_rate == "same" else chosen.warmup_learning_rate
    warmup = chosen.model_copy(update={"learning_rate": rate, "schedule": "constant"})
    phases = [Phase("warmup", chosen.warmup_epochs, warmup), Phase("main", chosen.epochs, chosen)]
    train(
        task,
        phases,
        accelerator=accelerator,
        checkpoints=checkpoints,
        log=log,
        progress=progress,
        precision=settings.precision,
    )
    choice, last = task.choose()
    if choice.warning:
        progress.warn(choice.warning)
    probabilities = task.predict().numpy()  # Line 13
    assert isinstance(task.module, ClusteringNetwork)
    model = task.module.float()
    embedding = apply(model, unsorted, call=model.embed)
    return Clustered(model, probabilities, embedding, start, choice, last.float() if last else None)


def dtc(material: Material) -> Clustered:
    """Run Algorithm 1 on what a method gets."""
    return cluster(
        material.network,
        material.unsorted,
        material.kinds,
        material.settings,
        features=material.features,
        truth=material.truth,
        accelerator=material.accelerator,
        checkpoints=material.checkpoints,
        log=material.log,
        progress=material.progress,
        watch=material.watch,
    )
