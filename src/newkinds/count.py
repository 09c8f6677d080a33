"""How many new kinds there are (Algorithm 2): known kinds serve as probes for the right number of clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from newkinds.clustering import Clustering, kmeans
from newkinds.equations import clustering_accuracy, silhouettes
from newkinds.errors import DataError
from newkinds.progress import QUIET, Progress, Step
from newkinds.randomness import generator, key, one_thread
from newkinds.settings import Count as CountSettings

# A single cluster has no silhouette. This is its lower bound: such a K is chosen only if no K has one.
UNDEFINED = -1.0


@dataclass(frozen=True)
class Point:
    """One K of the sweep, averaged over the splits.

    accuracy: ACC on the validation probes (Eq. 7); index: the silhouette on the unsorted pictures (Eq. 8).
    """

    k: int
    accuracy: float
    index: float


@dataclass(frozen=True)
class Count:
    """The number of new kinds, and how it came about.

    k: the answer, the median of `answers`, one for each split. k_accuracy, k_index: where either curve has its
    maximum. k_mean: their mean, rounded up, which the final k-means is run with.
    """

    k: int
    k_accuracy: int
    k_index: int
    k_mean: int
    answers: tuple[int, ...]
    curve: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)


def count_kinds(
    probe_features: NDArray[np.float32],
    probe_labels: NDArray[np.int64],
    unsorted_features: NDArray[np.float32],
    settings: CountSettings,
    *,
    seed: int = 0,
    progress: Progress = QUIET,
) -> Count:
    """Estimate the number of kinds in the unsorted pictures from features of them and of the probe kinds.

    probe_features: float (P, d); probe_labels: int64 (P,) numbered 0..L_r-1; unsorted_features: float (M, d).
    """
    probes, unsorted = _prepared(probe_features, unsorted_features, settings)
    # Line 2: split the probe classes into anchors and validation, here several times over.
    n_classes = int(probe_labels.max()) + 1
    seeds = [key(seed, "split of the probes", number) for number in range(settings.splits)]
    anchors = [split_probes(n_classes, settings.anchor_share, split)[0] for split in seeds]
    sweeps = [_Sweep(probes, probe_labels, unsorted, anchors[s], settings, seeds[s]) for s in range(len(seeds))]
    # Lines 5 to 8: the main loop. Beyond half the number of pictures a kind would have less than two.
    largest = min(settings.max_kinds, len(unsorted_features) // 2)
    with progress.step("Counting new kinds", (largest + 1) * len(sweeps)) as step:
        measured = np.mean([sweep.measure(largest, step) for sweep in sweeps], axis=0)
    curve = [Point(k, float(accuracy), float(index)) for k, (accuracy, index) in enumerate(measured)]
    # Line 10: both optima and their mean, rounded up.
    k_accuracy, k_index = _optima(curve, settings)
    k_mean = math.ceil((k_accuracy + k_index) / 2)
    # Line 10, end, and line 12: k-means again with that number, and outliers dropped.
    answers = sorted(sweep.remaining(sweep.cluster(k_mean)) for sweep in sweeps)
    return Count(answers[len(answers) // 2], k_accuracy, k_index, k_mean, tuple(answers), tuple(curve))


def split_probes(n_classes: int, anchor_share: float, seed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split probe classes into anchors and validation classes, at least one of each."""
    if n_classes < 2:
        raise DataError(
            f"Counting needs at least 2 probe kinds, one as an anchor and one to validate; there are {n_classes}.",
            hint="Give more known kinds, or say the number of new ones with --kinds.",
        )
    order = generator(seed, "probes").permutation(n_classes)
    anchors = min(max(1, round(anchor_share * n_classes)), n_classes - 1)
    return tuple(sorted(order[:anchors].tolist())), tuple(sorted(order[anchors:].tolist()))


def _prepared(
    probes: NDArray[np.float32], unsorted: NDArray[np.float32], settings: CountSettings
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the features as the sweep takes them: of length 1 and in fewer dimensions, where the settings say so."""
    points = np.concatenate([probes, unsorted]).astype(np.float64)
    if settings.unit_length:
        points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    if settings.dimensions < min(points.shape):
        with one_thread():
            points = PCA(n_components=settings.dimensions, svd_solver="full").fit_transform(points)
    return points[: len(probes)], points[len(probes) :]


def _optima(curve: Sequence[Point], settings: CountSettings) -> tuple[int, int]:
    """Return the K that is best by ACC and the K that is best by the index (line 10); ties go to the largest K.

    Where known kinds fall apart, by more than `decline` of the accuracy, K is too large whatever the index says: it is
    asked about the other K only. Accuracies within `tolerance` of the best are ties, and probes that f was trained on
    give long ones: the largest K is taken whose index is within `index_tolerance` of the best among them.
    """
    best = max(point.accuracy for point in curve)
    plausible = [point for point in curve if point.accuracy >= best - settings.decline]
    k_index = max(plausible, key=lambda point: (point.index, point.k if point.index > UNDEFINED else -point.k)).k
    ties = [point for point in curve if point.accuracy >= best - settings.tolerance]
    highest = max(point.index for point in ties)
    least = highest - settings.index_tolerance * abs(highest)
    return max(point.k for point in ties if point.index >= least), k_index


class _Sweep:
    """The points of Algorithm 2 with one split of the probes, and what is asked of each K."""

    def __init__(
        self,
        probes: NDArray[np.float64],
        probe_labels: NDArray[np.int64],
        unsorted: NDArray[np.float64],
        anchor_classes: Sequence[int],
        settings: CountSettings,
        seed: int,
    ) -> None:
        self.points = np.concatenate([probes, unsorted])
        self.unsorted = np.arange(len(self.points)) >= len(probes)
        self.n_probe_classes = int(probe_labels.max()) + 1
        self.n_anchor_classes = len(anchor_classes)
        number = np.full(self.n_probe_classes, -1, dtype=np.int64)
        number[list(anchor_classes)] = np.arange(len(anchor_classes))
        self.anchors = np.full(len(self.points), -1, dtype=np.int64)
        self.anchors[: len(probe_labels)] = number[probe_labels]
        self.validation = ~self.unsorted & (self.anchors < 0)
        self.validation_labels = probe_labels[self.validation[: len(probe_labels)]]
        self.settings = settings
        self.seed = seed

    def cluster(self, k: int) -> Clustering:
        """Run constrained k-means with L_r + K clusters (line 6)."""
        total = self.n_probe_classes + k
        restarts = self.settings.restarts
        return kmeans(self.points, total, seed=self.seed, anchors=self.anchors, restarts=restarts)

    def measure(self, largest: int, step: Step) -> NDArray[np.float64]:
        """Return ACC on the validation probes and the silhouette on the unsorted for K = 0..largest (lines 5 to 8)."""
        accuracies, labellings = [], []
        for k in range(largest + 1):
            labels = self.cluster(k).labels
            accuracies.append(clustering_accuracy(labels[self.validation], self.validation_labels))
            labellings.append(labels[self.unsorted])
            step.advance(note=f"K = {k}")
        indices = np.full(largest + 1, UNDEFINED)
        defined = [k for k, labels in enumerate(labellings) if 1 < len(np.unique(labels)) < len(labels)]
        if defined:
            # All K at once: the distances do not depend on it.
            indices[defined] = silhouettes(self.points[self.unsorted], [labellings[k] for k in defined])
        return np.stack([np.array(accuracies), indices], axis=1)

    def remaining(self, final: Clustering) -> int:
        """Return how many clusters count as new kinds (line 12).

        Anchors' clusters are known kinds. Of the others one counts if most of it is unsorted and its unsorted
        pictures are at least tau of the largest's.
        """
        mass = np.bincount(final.labels[self.unsorted], minlength=len(final.centres))
        known = np.bincount(final.labels[self.validation], minlength=len(final.centres))
        new = (np.arange(len(final.centres)) >= self.n_anchor_classes) & (mass > known)
        threshold = self.settings.tau * mass[new].max(initial=0)
        return int((new & (mass >= max(threshold, 1))).sum())
