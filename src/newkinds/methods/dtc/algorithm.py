"""Transfer clustering with a known number of kinds (Algorithm 1)."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from newkinds.clustering.neighbours import nearest_by_direction
from newkinds.features import apply, averaged_features, extract_features, model_outputs
from newkinds.images.imageset import ImageSet, joined
from newkinds.methods.base import Problem, Snapshot, Solution
from newkinds.methods.dtc.settings import Discover, resolved_discover
from newkinds.methods.dtc.task import ClusteringTask
from newkinds.networks import Network
from newkinds.parallel.processes import from_writer
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds.settings import CoreSettings
from newkinds.start import initialise, initialise_mixed
from newkinds.training import Checkpoints, Phase, Record

FEWEST_LABELLED = 20  # of a known kind that are trained on in a mixed heap, however small the heap


def dtc(problem: Problem) -> Solution:
    """Run Algorithm 1 on a problem; f itself is left as it is.

    In a mixed heap, the known kinds have columns beside the new ones, and labelled pictures, which keep their kinds,
    are trained on with the unsorted ones.
    """
    settings = problem.settings
    frozen = settings.tune == "none"
    columns = len(problem.columns)
    chosen = resolved_discover(settings.section(Discover), problem.unsorted, columns, frozen=frozen)
    assert isinstance(chosen.epochs, int)
    task = _task(problem, chosen) if problem.novelty is None else _mixed_task(problem, chosen)
    task.measure_start()
    # Lines 3 to 6, warm-up with fixed targets; lines 8 to 12, the main loop, with its own optimiser.
    rate = chosen.learning_rate if chosen.warmup_learning_rate == "same" else chosen.warmup_learning_rate
    warmup = chosen.model_copy(update={"learning_rate": rate, "schedule": "constant"})
    problem.train(task, Phase("warmup", chosen.warmup_epochs, warmup), Phase("main", chosen.epochs, chosen))
    choice, last = task.choose()
    if choice.warning:
        problem.progress.warn(choice.warning)
    said = model_outputs(task.model, problem.unsorted)  # Line 13
    return Solution(
        problem.assign(torch.from_numpy(said.log_p).exp().numpy()),  # Line 14 is its `labels`
        said.embedding,
        model=task.model.float(),
        features=said.features,
        choice=choice,
        last=None if last is None else last.float(),
    )


def _task(problem: Problem, chosen: Discover) -> ClusteringTask:
    """Return the task of the training loop: line 2, PCA for the bottleneck, k-means for the centres, first targets."""
    assert isinstance(chosen.alpha, float)
    first, seed, alpha = problem.settings.initialise, problem.settings.seed, chosen.alpha
    seen = averaged_features(
        problem.network, problem.unsorted, problem.features, first.views, chosen.augmentation, seed, problem.progress
    )
    most = max(first.neighbours, chosen.neighbours)  # found once for the start and for the targets
    near = from_writer(lambda: nearest_by_direction(seen, most)) if most > 1 else None
    start = from_writer(lambda: initialise(seen, problem.kinds, first, alpha=alpha, seed=seed, near=near))
    network = copy.deepcopy(problem.network)
    near = near[:, : chosen.neighbours] if near is not None and chosen.neighbours > 1 else None
    return ClusteringTask(network, start, problem.unsorted, chosen, seed, problem.truth, problem.watch, near)


def _mixed_task(problem: Problem, chosen: Discover) -> ClusteringTask:
    """Return the task for a mixed heap: unsorted pictures first, then labelled ones."""
    assert isinstance(chosen.alpha, float)
    assert problem.novelty is not None
    first, seed, alpha, novelty = problem.settings.initialise, problem.settings.seed, chosen.alpha, problem.novelty
    labelled = _some_labelled(problem)
    assert labelled.labels is not None
    labels = labelled.labels
    seen, known = (
        averaged_features(problem.network, images, features, first.views, chosen.augmentation, seed, problem.progress)
        for images, features in (
            (problem.unsorted, problem.features),
            (labelled, apply(problem.network, labelled)),
        )
    )
    most = max(first.neighbours, chosen.neighbours)
    everyone = np.concatenate([seen, known])
    near = from_writer(lambda: nearest_by_direction(everyone, most)) if most > 1 else None
    start = from_writer(
        lambda: initialise_mixed(
            seen,
            problem.kinds,
            first,
            known=known,
            labels=labels,
            novelty=novelty,
            alpha=alpha,
            seed=seed,
            near=near,
        )
    )
    held = np.concatenate([np.full(len(seen), -1, dtype=np.int64), problem.kinds + labels])
    truth = None if problem.truth is None else np.concatenate([problem.truth, np.full(len(labels), -1)])
    near = near[:, : chosen.neighbours] if near is not None and chosen.neighbours > 1 else None
    pictures = joined(problem.unsorted, labelled)
    network = copy.deepcopy(problem.network)
    return ClusteringTask(network, start, pictures, chosen, seed, truth, problem.watch, near, held, problem.kinds)


def _some_labelled(problem: Problem) -> ImageSet:
    """Return labelled pictures to train on: all of them, or as many of each kind as do not outnumber the heap."""
    assert problem.known.labels is not None
    labels = problem.known.labels
    most = max(FEWEST_LABELLED, len(problem.unsorted) // len(problem.known.classes))
    order = generator(problem.settings.seed, "labelled pictures").permutation(len(labels))
    kept = [order[labels[order] == kind][:most] for kind in range(len(problem.known.classes))]
    return problem.known.select(np.sort(np.concatenate(kept)))


def cluster(
    network: Network,
    unsorted: ImageSet,
    kinds: int,
    settings: CoreSettings,
    *,
    features: NDArray[np.float32] | None = None,
    truth: NDArray[np.int64] | None = None,
    accelerator: Accelerator | None = None,
    checkpoints: Checkpoints | None = None,
    log: Callable[[Record], None] = lambda record: None,
    progress: Progress = QUIET,
    watch: Callable[[Snapshot], None] | None = None,
) -> Solution:
    """Sort the unsorted pictures into `kinds` kinds by Algorithm 1, starting from f; f itself is left as it is.

    features: f's features of the unsorted pictures, if already computed. truth: for the log only. watch: receives
    `discover.snapshots` snapshots.
    """
    if features is None:
        features = extract_features(network, unsorted, progress=progress)
    return dtc(
        Problem(
            network,
            unsorted,  # Algorithm 1 does not look at the known pictures
            settings,
            accelerator,
            checkpoints,
            log,
            progress,
            unsorted=unsorted,
            kinds=kinds,
            features=features,
            truth=truth,
            watch=watch,
        )
    )
