"""How many new kinds there are (Algorithm 2): known kinds serve as probes for the right number of clusters.

The paper divides the probe kinds once into anchors and validation. A sweep over K is cheap here, so it is repeated over
random divisions: their answers are averaged, and their spread says how certain the average is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from newkinds.clustering import kmeans_sweep
from newkinds.clustering.neighbours import neighbours_averaged
from newkinds.clustering.validity import validity
from newkinds.count.result import Count, Point
from newkinds.equations import clustering_accuracy
from newkinds.errors import DataError
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator, key, one_thread
from newkinds.settings import Count as CountSettings

BOOTSTRAPS = 1000  # draws of divisions with replacement, for the interval
ALLOWANCE = 0.05  # of the number of kinds, by which the interval is wider: see `_interval`
FLAT = 0.02  # of the accuracy: a curve that varies less than this over K says nothing


@dataclass(frozen=True)
class Division:
    """Probe kinds, by number, divided into anchors and validation (Algorithm 2, line 2)."""

    anchors: tuple[int, ...]
    validation: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Swept:
    """What one division gave for K = 0..K_max: accuracy, index and clusters found, each (K_max + 1,)."""

    accuracy: NDArray[np.float64]
    index: NDArray[np.float64]
    index_error: float
    found: NDArray[np.int64]


def count_by_probes(
    probes: NDArray[np.float32],
    probe_labels: NDArray[np.int64],
    unsorted: NDArray[np.float32],
    largest: int,
    settings: CountSettings,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress = QUIET,
) -> Count:
    """Run Algorithm 2 on prepared features (P, d) and (M, d), for K = 0 to `largest`."""
    divisions = divide(int(probe_labels.max()) + 1, settings, seed, groups)
    swept = []
    with progress.step("Counting new kinds", len(divisions)) as step:
        for division in divisions:
            swept.append(_sweep(probes, probe_labels, unsorted, division, largest, settings))
            step.advance()
    return _answer(swept, settings, seed)


def probe_kinds(classes: Sequence[str], settings: CountSettings, seed: int) -> list[int] | None:
    """Return which known kinds are held out of training as probes; None if there are too few to spare any."""
    if settings.probes != "auto":
        chosen = [i for i, name in enumerate(classes) if any(fnmatchcase(name, mask) for mask in settings.probes)]
        idle = [mask for mask in settings.probes if not any(fnmatchcase(name, mask) for name in classes)]
        if idle or len(chosen) < 2:
            unknown = f"{idle[0]!r} is not one of the {len(classes)} known kinds" if idle else ""
            raise DataError(
                f"count.probes: {unknown or 'one probe kind is not enough'}.",
                hint=f"The known kinds are called {', '.join(classes[:3])} and so on.",
            )
        return chosen
    if len(classes) < settings.enough:
        return None
    number = min(max(5, round(settings.probe_share * len(classes))), len(classes) - 2)
    order = generator(seed, "probe kinds").permutation(len(classes))
    return sorted(order[:number].tolist())


def divide(n_classes: int, settings: CountSettings, seed: int, groups: Sequence[str] | None = None) -> list[Division]:
    """Return random divisions of the probe kinds into anchors and validation, at least one of each (line 2)."""
    if n_classes < 2:
        raise DataError(
            f"Counting needs at least 2 probe kinds, one as an anchor and one for validation; there are {n_classes}.",
            hint="Give more known kinds, or give the number of new ones with --kinds.",
        )
    parts = [np.arange(n_classes)]
    if groups is not None:
        parts = [np.flatnonzero(np.array(groups) == group) for group in dict.fromkeys(groups)]
        parts = [part for part in parts if len(part) > 1] or [np.arange(n_classes)]
    divisions = []
    for number in range(math.ceil(settings.splits / len(parts)) * len(parts)):
        part, own = parts[number % len(parts)], key(seed, "division of the probes", number)
        order = generator(own, "probes").permutation(part)[: settings.probes_at_once].tolist()
        anchors = min(max(1, round(settings.anchor_share * len(order))), len(order) - 1)
        divisions.append(Division(tuple(sorted(order[:anchors])), tuple(sorted(order[anchors:])), own))
    return divisions


def prepared(
    probes: NDArray[np.float32], unsorted: NDArray[np.float32], settings: CountSettings
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the features that the sweep uses: averaged over neighbours, at length 1, reduced by PCA, as asked for."""
    points = neighbours_averaged(np.concatenate([probes, unsorted]), settings.neighbours).astype(np.float64)
    if settings.unit_length:
        points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    if settings.dimensions < min(points.shape):
        with one_thread():
            points = PCA(n_components=settings.dimensions, svd_solver="covariance_eigh").fit_transform(points)
    rows = points.astype(np.float32)
    return rows[: len(probes)], rows[len(probes) :]


def _sweep(
    probes: NDArray[np.float32],
    probe_labels: NDArray[np.int64],
    unsorted: NDArray[np.float32],
    division: Division,
    largest: int,
    settings: CountSettings,
) -> Swept:
    """Cluster with every K and measure what the validation probes and the unsorted pictures say (lines 5 to 8)."""
    # Anchors are numbered in order; validation probes are free, as unsorted pictures are; other probes are left out.
    used = np.isin(probe_labels, division.anchors + division.validation)
    labels = probe_labels[used]
    place = np.full(int(probe_labels.max()) + 1, -1, dtype=np.int64)
    place[list(division.anchors)] = np.arange(len(division.anchors))
    points = np.concatenate([probes[used], unsorted])
    anchors = np.concatenate([place[labels], np.full(len(unsorted), -1, dtype=np.int64)])
    validation = np.flatnonzero(place[labels] < 0)
    new = np.arange(len(labels), len(points))
    # Lines 5 and 6: L_r + K clusters for all K, from the largest down.
    classes = len(division.anchors) + len(division.validation)
    counts = [classes + k for k in range(largest + 1)]
    clusterings = kmeans_sweep(points, counts, seed=division.seed, anchors=anchors, restarts=settings.restarts)
    labellings = [clustering.labels for clustering in clusterings][::-1]
    # Line 7: ACC on the validation probes, and the index.
    accuracy = [clustering_accuracy(found[validation], labels[validation]) for found in labellings]
    asked = new if settings.index_on == "unsorted" else np.concatenate([validation, new])
    index = validity(
        settings.index,
        points[asked],
        [found[asked] for found in labellings],
        most=settings.index_sample,
        seed=division.seed,
    )
    found = [remaining(found, new, validation, len(division.anchors), settings) for found in labellings]
    return Swept(np.array(accuracy), index.values, float(np.nanmax(index.errors, initial=0)), np.array(found))


def remaining(
    labels: NDArray[np.int64],
    new: NDArray[np.int64],
    validation: NDArray[np.int64],
    n_anchors: int,
    settings: CountSettings,
) -> int:
    """Return how many clusters the unsorted pictures are in, without those below tau of the largest (line 12)."""
    clusters = int(labels.max()) + 1
    mass = np.bincount(labels[new], minlength=clusters)
    if settings.counted == "beside-known":  # neither anchors' clusters nor those that are mostly validation probes
        known = np.bincount(labels[validation], minlength=clusters)
        mass = np.where((np.arange(clusters) >= n_anchors) & (mass > known), mass, 0)
    return int((mass >= max(1.0, settings.tau * mass.max())).sum())


def _answer(swept: Sequence[Swept], settings: CountSettings, seed: int) -> Count:
    """Find the optima of each division, and from them the estimate and its interval (lines 10 to 12)."""
    optima = np.array([_optima(each, settings) for each in swept])  # K_a, K_v
    # Line 10: the mean of both, and the clustering with that K, which the sweep already has; line 12: what remains.
    means = np.array([_rounded(pair.mean(), settings) for pair in optima])
    answers = np.array([each.found[k] for each, k in zip(swept, means, strict=True)])
    k = _rounded(float(answers.mean()), settings)
    low, high = _interval(swept, optima, answers, settings, seed)
    curve = _curve(swept)
    k_accuracy, k_index, k_mean = (int(np.median(values)) for values in (*optima.T, means))
    return Count(
        k=k,
        low=min(low, k),
        high=max(high, k),
        confidence=settings.confidence,
        k_accuracy=k_accuracy,
        k_index=k_index,
        k_mean=k_mean,
        answers=tuple(answers.tolist()),
        curve=curve,
        index_error=max(each.index_error for each in swept),
        remarks=_remarks(curve, k_accuracy, k_index),
    )


def _optima(swept: Swept, settings: CountSettings) -> tuple[int, int]:
    """Return the K that is best by ACC and the K that is best by the index (line 10); ties go to the largest K.

    Where known kinds split, so that the accuracy drops by more than `decline`, K is too large whatever the index says:
    the index is maximised over the other K only. Accuracies within `tolerance` of the best are ties, and there are
    often many: beyond the right K, other kinds are split first. Among the ties, the largest K is taken whose index is
    within `index_tolerance` of their best.
    """
    best = swept.accuracy.max()
    plausible = swept.accuracy >= best - settings.decline
    ties = swept.accuracy >= best - settings.tolerance
    index = np.where(np.isnan(swept.index), -np.inf, swept.index)
    highest = index[ties].max()
    least = highest - settings.index_tolerance * abs(highest) if np.isfinite(highest) else -np.inf
    k_accuracy = int(np.flatnonzero(ties & (index >= least))[-1])
    if not np.isfinite(index[plausible]).any():  # a single cluster, whatever K: nothing speaks against the fewest
        return k_accuracy, 0
    return k_accuracy, int(np.flatnonzero(plausible & (index == index[plausible].max()))[-1])


def _rounded(k: float, settings: CountSettings) -> int:
    return math.ceil(k) if settings.rounding == "up" else math.floor(k + 0.5)


def _interval(
    swept: Sequence[Swept], optima: NDArray[np.int64], answers: NDArray[np.int64], settings: CountSettings, seed: int
) -> tuple[int, int]:
    """Return a bootstrap interval for the number of kinds: what either optimum alone would give, over the divisions.

    It is narrow when both optima agree in all divisions, and wide when they disagree or depend on the division. Errors
    that all divisions share, those of f and of the index, are invisible to resampling: the interval is widened for them
    by an allowance, which was found on OmniGlot's probe alphabets, on mixtures and on digits.
    """
    either = np.array([each.found[pair] for each, pair in zip(swept, optima, strict=True)])
    least = np.minimum(either.min(axis=1), answers)
    most = np.maximum(either.max(axis=1), answers)
    drawn = generator(seed, "bootstrap").integers(0, len(swept), (BOOTSTRAPS, len(swept)))
    tail = (1 - settings.confidence) / 2
    low = np.quantile(least[drawn].mean(axis=1), tail)
    high = np.quantile(most[drawn].mean(axis=1), 1 - tail)
    more = ALLOWANCE * float(answers.mean())
    return max(0, math.floor(low - more + 1e-9)), math.ceil(high + more - 1e-9)


def _curve(swept: Sequence[Swept]) -> tuple[Point, ...]:
    accuracy, index, found = (np.stack([getattr(s, name) for s in swept]) for name in ("accuracy", "index", "found"))
    points = []
    for k in range(accuracy.shape[1]):
        defined = index[:, k][~np.isnan(index[:, k])]
        mean, spread = (float(defined.mean()), float(defined.std())) if len(defined) else (math.nan, math.nan)
        points.append(
            Point(k, float(accuracy[:, k].mean()), float(accuracy[:, k].std()), mean, spread, float(found[:, k].mean()))
        )
    return tuple(points)


def _remarks(curve: Sequence[Point], k_accuracy: int, k_index: int) -> tuple[str, ...]:
    """Return caveats about the curves, in words."""
    remarks = []
    accuracies = [point.accuracy for point in curve]
    if max(accuracies) - min(accuracies) < FLAT:
        remarks.append(
            "Known kinds are sorted about equally well with any number of clusters, which says little "
            "about the number of new kinds."
        )
    if abs(k_accuracy - k_index) > max(3, (k_accuracy + k_index) / 4):
        remarks.append(
            f"The two measures disagree: known kinds are sorted best next to {k_accuracy} new clusters, "
            f"but the unsorted pictures separate best into {k_index}."
        )
    if len(curve) > 1 and max(k_accuracy, k_index) == curve[-1].k:
        remarks.append(
            f"The largest number tried, {curve[-1].k}, still looks best, so there may be more kinds: "
            "raise count.max_kinds."
        )
    return tuple(remarks)
