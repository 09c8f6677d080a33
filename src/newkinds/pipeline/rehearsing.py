"""Rehearsals of a run: hidden known kinds go through the same stages as the heap, and what came of it is kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from numpy.typing import NDArray

from newkinds.assignment import Assignment, known_kind
from newkinds.cache import Cache, code_of_package
from newkinds.clustering import kmeans
from newkinds.equations import clustering_accuracy, matching
from newkinds.evaluation.scores import score
from newkinds.features import apply, as_input
from newkinds.files import digest
from newkinds.images.imageset import ImageSet, group_of, pixel_digest
from newkinds.memory import row_blocks
from newkinds.methods.base import Problem
from newkinds.methods.mixed import solve
from newkinds.methods.registry import METHODS
from newkinds.networks import Network, build_network
from newkinds.parallel.processes import from_writer
from newkinds.pipeline.frozen import Features, Views, as_embeddings
from newkinds.pipeline.heap import Heap, novelty_of
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds.rehearsal.calibration import Observed
from newkinds.rehearsal.draws import FEWEST_EACH, FEWEST_HIDDEN, SPARED, Draw, draw_heaps
from newkinds.rehearsal.likeness import likeness
from newkinds.rehearsal.outcome import (
    AS_SET,
    Rehearsed,
    Trial,
    Tried,
    best_candidate,
    compare_candidates,
    in_rehearsals,
    is_hopeless,
    still_tried,
    why_hopeless,
)
from newkinds.rehearsal.signals import NAMES, Unsorted, signals
from newkinds.rehearsal.trust import FEW
from newkinds.runs import RunFolder, forms, names
from newkinds.settings import CoreSettings
from newkinds.tensors import from_bytes, to_bytes

HALF = 0.5  # of a known kind's pictures that may be held out; and the least share of new ones in a rehearsal
SIDE = 16  # pixels that pictures are brought to for k-means on them
PERMUTED = 20  # orders of the kinds found, for the ACC of chance


@dataclass(frozen=True, eq=False)
class Stage:
    """What a rehearsal needs of a run.

    known: all known pictures. pictures: those of kinds that f has not learnt from, with labels. rows: their features.
    way: the transfer that the known kinds chose, which is learnt again without those that are hidden; None where
    nothing is transferred, and f goes on learning from the heap. asked: the settings before they were resolved, which
    tell what the user said. heap: what the heap holds: where it is mixed, rehearsals are, too.
    """

    run: RunFolder
    network: Network
    known: ImageSet
    pictures: ImageSet
    rows: Views
    way: str | None
    settings: CoreSettings
    asked: CoreSettings
    accelerator: Accelerator
    cache: Cache
    progress: Progress = QUIET
    heap: Heap = field(default_factory=Heap)
    _small: dict[int, Features] = field(default_factory=dict)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The kinds of the pictures, int64 (L,)."""
        assert self.pictures.labels is not None
        return self.pictures.labels

    @cached_property
    def candidates(self) -> dict[str, dict[str, Any]]:
        """The settings to rehearse beside those that are set, by name: changes to what the user has not said."""
        found: dict[str, dict[str, Any]] = {AS_SET: {}}
        if self.settings.rehearse.choose == "off":
            return found
        own = self.settings.method
        wanted = {name: dict(changes) for name, changes in METHODS[own].rivals(self.settings).items()}
        others = {name for name, method in METHODS.items() if method.always_rehearsed} - {own}
        wanted |= {name: {"method": name} for name in sorted(others)}
        if self.way not in (None, "none"):
            wanted["features as they are"] = {"transfer.kind": "none"}
        return found | {
            name: changes for name, changes in wanted.items() if not any(self.asked.said(key) for key in changes)
        }

    @cached_property
    def light(self) -> ImageSet:
        """The pictures, with features in place of pixels where f is not trained further: quick to select from."""
        return self.pictures if self.way is None else as_embeddings(self.pictures, self.rows.rows[0])

    def small(self, items: NDArray[np.int64]) -> Features:
        """Return the pixels of some of the pictures, made small, each once: several rehearsals may have it."""
        missing = np.setdiff1d(items, np.fromiter(self._small, np.int64))
        if len(missing):
            self._small.update(zip(missing.tolist(), small_pixels(self.pictures, missing), strict=True))
        return np.stack([self._small[item] for item in items.tolist()])

    @cached_property
    def about(self) -> dict[str, Any]:
        """What every rehearsal depends on beside its own pictures: hashed once, as features may be many."""
        left_out = {"kinds", "rehearse", "images"}
        return {
            "features": [pixel_digest(rows) for rows in self.rows.rows],
            "labels": pixel_digest(self.labels),
            "names": list(self.pictures.classes),
            "way": self.way,
            "settings": {k: v for k, v in self.settings.model_dump(mode="json").items() if k not in left_out},
            "network": None if self.way is not None else digest(self.run.get(names.NETWORK)),
            "heap": self.heap.to_dict() if self.heap.holds == "mixed" else self.heap.holds,
            "code": [code_of_package(), np.__version__, torch.__version__],
        }


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What came of all rehearsals: of each, with every candidate; and what was observed of its pictures.

    changes: the settings of each candidate. right, pure: by candidate, what was observed in each rehearsal about being
    right and about being of the kind's majority. why: why there are no rehearsals, where there are none.
    """

    rehearsed: tuple[Rehearsed, ...] = ()
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {AS_SET: {}})
    right: Mapping[str, Sequence[Observed]] = field(default_factory=dict)
    pure: Mapping[str, Sequence[Observed]] = field(default_factory=dict)
    why: str = ""

    @property
    def tried(self) -> list[Tried]:
        """How the candidates compare."""
        return compare_candidates(self.rehearsed)

    @property
    def chosen(self) -> str:
        """The candidate that the heap is sorted with."""
        return best_candidate(self.tried)

    @property
    def hopeless(self) -> bool:
        """Whether what was chosen sorts hidden kinds no better than chance or pixels do."""
        return is_hopeless(self.rehearsed, self.chosen)

    def in_words(self) -> str:
        """Return what came of it as a sentence."""
        if not self.rehearsed:
            return f"No rehearsals were possible: {self.why}."
        if self.hopeless:
            return why_hopeless(self.rehearsed, self.chosen)
        shares = [one.trials[self.chosen].acc for one in self.rehearsed]
        hidden = max(len(one.hidden) for one in self.rehearsed)
        found = (
            f"{in_rehearsals(len(shares), hidden, min(shares), max(shares))} of their pictures were sorted correctly."
        )
        if hidden >= FEW:
            return found
        return (
            f"{found} So few kinds are easy to tell apart: expect less with more kinds. More known kinds "
            "would make this more reliable."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the observations as plain values."""
        return {
            "rehearsed": [one.to_dict() for one in self.rehearsed],
            "tried": [asdict(one) for one in self.tried],
            "changes": {name: dict(one) for name, one in self.changes.items()},
            "chosen": self.chosen,
            "hopeless": why_hopeless(self.rehearsed, self.chosen) if self.hopeless else "",
            "why": self.why,
        }


def rehearse(stage: Stage, *, kinds: int, pictures: int) -> Rehearsal:
    """Rehearse a heap of so many kinds and pictures, as often as the settings say and there is time for.

    Hidden pictures are sorted into as many kinds as there are: that the number may be wrong is the count's to say.
    """
    settings = stage.settings
    groups = [group_of(name) for name in stage.pictures.classes] if settings.count.probe_groups == "apart" else None
    draws = draw_heaps(
        stage.labels,
        range(len(stage.pictures.classes)),
        number=settings.rehearse.rehearsals,
        kinds=kinds,
        pictures=pictures,
        most=settings.rehearse.pictures,
        seed=settings.seed,
        shared=stage.way is not None,
        groups=groups,
    )
    if not draws:
        return Rehearsal(why=too_few(stage))
    found = _files(stage, draws)
    right: dict[str, list[Observed]] = {}
    pure: dict[str, list[Observed]] = {}
    for tensors, one in found:
        for number, candidate in enumerate(stage.candidates):  # files sort the names of trials, not the numbers
            if candidate not in one.trials:
                continue
            part = {name: tensors[f"{number}-{name}"].numpy() for name in ("signals", "right", "pure", "kinds")}
            right.setdefault(candidate, []).append(Observed(part["signals"], part["right"], part["kinds"]))
            pure.setdefault(candidate, []).append(Observed(part["signals"], part["pure"], part["kinds"]))
    return Rehearsal(tuple(one for _, one in found), stage.candidates, right, pure)


def too_few(stage: Stage) -> str:
    """Return why these pictures are too few to rehearse with, and what would be needed."""
    least = FEWEST_HIDDEN + (SPARED if stage.way is not None else 0)
    return (
        f"rehearsals need at least {least} known kinds, each of {FEWEST_EACH} pictures or more, that the "
        "network was not trained on"
    )


def _files(stage: Stage, draws: Sequence[Draw]) -> list[tuple[dict[str, torch.Tensor], Rehearsed]]:
    """Return the contents of the file of each rehearsal, each made if it is not there and there is time for it.

    Where rehearsal.json was written before, there are those that it tells of, however long they take. Candidates that
    were no better than what was set in the first rehearsals are not in the others.
    """
    begun, ended = time.monotonic(), stage.run.wrote(names.REHEARSAL)
    found: list[tuple[dict[str, torch.Tensor], Rehearsed]] = []
    with stage.progress.step("Rehearsing with hidden known kinds", len(draws)) as bar:
        for draw in draws:
            name = names.rehearsal(draw.number)
            if ended and not stage.run.wrote(name):
                break
            if not stage.run.has(name):
                minutes = from_writer(lambda: (time.monotonic() - begun) / 60)
                if not ended and minutes > stage.settings.rehearse.minutes:
                    stage.progress.warn(
                        f"Only {len(found)} of {len(draws)} rehearsals were made: more would take longer "
                        f"than rehearse.minutes = {stage.settings.rehearse.minutes:g}."
                    )
                    break
                stage.run.put(name, _kept(stage, draw, still_tried([one for _, one in found], stage.candidates)))
                stage.run.sync()
            with stage.run.understood(name):
                tensors, told = from_bytes(stage.run.get(name), str(stage.run.path / name))
                _check(stage, tensors, told)
                found.append((tensors, Rehearsed.from_dict(told)))
            bar.advance()
    return found


def _check(stage: Stage, tensors: Mapping[str, torch.Tensor], about: Any) -> None:
    """Raise an error if the file of a rehearsal does not say what it should of each candidate that was tried."""
    forms.check_rehearsed(about, [AS_SET])
    for number, candidate in enumerate(stage.candidates):
        if candidate not in about["trials"]:
            continue
        x, kinds = tensors[f"{number}-signals"], tensors[f"{number}-kinds"]
        answers = [tensors[f"{number}-{name}"] for name in ("right", "pure")]
        lengths = {len(one) for one in (x, kinds, *answers)}
        types = {one.dtype for one in answers} == {torch.bool} and kinds.dtype == torch.int64
        if (
            x.ndim != 2
            or x.shape[1] != len(NAMES)
            or lengths != {len(x)}
            or not types
            or not x.isfinite().all()
            or bool((kinds < 0).any())
        ):
            raise ValueError(f"the observations of candidate {number} do not go together")


def _kept(stage: Stage, draw: Draw, candidates: Sequence[str]) -> bytes:
    """Return what came of a rehearsal with these candidates as a file, from the cache if an equal one was made."""
    cache = stage.cache if stage.accelerator.num_processes == 1 else Cache()  # several train together
    tried = {name: stage.candidates[name] for name in candidates}
    about = {**stage.about, "candidates": tried, "items": pixel_digest(draw.items)}
    return cache.value("rehearsal", about, lambda: _made(stage, draw, candidates))


def _made(stage: Stage, draw: Draw, candidates: Sequence[str]) -> bytes:
    """Sort the pictures of a rehearsal with each candidate, and return what came of it as a file."""
    items = np.concatenate([draw.items, _held_out(stage, draw)])
    truth, hidden = stage.labels[items], stage.light.select(items)
    asked, is_new = len(draw.hidden), np.arange(len(items)) < len(draw.items)
    tensors: dict[str, torch.Tensor] = {}
    trials: dict[str, Trial] = {}
    chance, like = 0.0, None
    scenes: dict[str, Scene] = {}  # by the way of transfer
    for number, (name, changes) in enumerate(stage.candidates.items()):
        if name not in candidates:
            continue
        settings = stage.settings.with_changes(changes)
        scene = _scene(stage, draw, items, settings, scenes)
        problem = _problem(stage, scene, hidden, settings, asked)
        found = solve(METHODS[settings.method], problem).assignment
        labels = found.labels
        right = is_right(labels, truth) if is_new.all() else is_named_right(found, hidden, is_new)
        nmi = score(labels, truth).nmi_geometric
        assert nmi is not None  # all of the truth is known
        trials[name] = Trial(float(right.mean()), nmi)
        if name == AS_SET:
            chance = _chance(labels, truth, settings.seed)
            like = likeness(scene.heap, scene.others, seed=settings.seed) if len(scene.others) else None
        tensors |= {
            f"{number}-signals": torch.from_numpy(signals(labels, scene.pictures)),
            f"{number}-right": torch.from_numpy(right),
            f"{number}-pure": torch.from_numpy(is_pure(labels, truth)),
            f"{number}-kinds": torch.from_numpy(labels),
        }
    pixels = None
    if not stage.pictures.is_embedding:
        by_pixels = kmeans(stage.small(draw.items), asked, seed=stage.settings.seed, restarts=3)
        pixels = clustering_accuracy(by_pixels.labels, truth[is_new])
    told = Rehearsed(
        hidden=tuple(stage.pictures.classes[kind] for kind in draw.hidden),
        asked=asked,
        pictures=len(items),
        chance=chance,
        pixels=pixels,
        trials=trials,
        likeness=like,
    )
    return to_bytes(tensors, told.to_dict())


def _held_out(stage: Stage, draw: Draw) -> NDArray[np.int64]:
    """Return known pictures that play known ones in the heap of a rehearsal, none unless the heap is mixed.

    As large a share of the rehearsal's heap as they are of the real one, but at most half of each kind's pictures.
    """
    if stage.heap.holds != "mixed":
        return np.zeros(0, dtype=np.int64)
    others = np.flatnonzero(~np.isin(stage.labels, draw.hidden))
    wanted = len(draw.items) * stage.heap.known / max(1 - stage.heap.known, HALF)
    share = min(HALF, wanted / max(1, len(others)))
    order = generator(stage.settings.seed, "held out of a rehearsal", draw.number).permutation(others)
    kinds = [order[stage.labels[order] == kind] for kind in np.unique(stage.labels[others])]
    return np.sort(np.concatenate([one[: int(share * len(one))] for one in kinds]))


@dataclass(frozen=True, eq=False)
class Scene:
    """A rehearsal's heap under one transfer, which has not seen it: what is the same for all that sort it so.

    heap, others: features of its pictures and of those that stay known, float32 (n, d) and (m, d). known: the pictures
    that stay known. novelty: of a mixed heap, float32 (n,). pictures: the heap's, for signals.
    """

    heap: Features
    others: Features
    known: ImageSet
    novelty: NDArray[np.float32] | None
    pictures: Unsorted


def _scene(
    stage: Stage, draw: Draw, items: NDArray[np.int64], settings: CoreSettings, scenes: dict[str, Scene]
) -> Scene:
    """Return the scene that candidates with these settings sort, made if it is not among `scenes`.

    items: which of the stage's pictures the heap has, those of hidden kinds first.
    """
    way = "none" if stage.way is not None and settings.transfer.kind == "none" else stage.way or ""
    if way in scenes:
        return scenes[way]
    names_hidden = {stage.pictures.classes[kind] for kind in draw.hidden}
    others = [number for number, name in enumerate(stage.known.classes) if name not in names_hidden]
    # Without those that are hidden, and numbered without gaps, for methods that take known kinds as anchors.
    known = (stage.known if stage.way is None else stage.light).with_classes(others)
    out = {stage.pictures.names[item] for item in items[len(draw.items) :]}
    if out:
        known = known.select([row for row, name in enumerate(known.names) if name not in out])
    rest = np.setdiff1d(np.flatnonzero(~np.isin(stage.labels, draw.hidden)), items)
    if stage.way is None:
        heap, seen = stage.rows.rows[0][items], stage.rows.rows[0][rest]
    else:
        transfer = from_writer(partial(stage.rows.learn_from, rest, stage.labels, way, settings, stage.cache))
        heap, seen = (stage.rows.of(rows).transferred(transfer) for rows in (items, rest))
        known = as_embeddings(known, seen)
    novelty = None
    if stage.heap.holds == "mixed":
        assert stage.heap.scale is not None
        assert known.labels is not None
        labelled = seen if stage.way is not None else apply(stage.network, known)
        novelty = novelty_of(stage.heap.scale, labelled, known.labels, heap)
    scenes[way] = Scene(heap, seen, known, novelty, Unsorted(heap, seed=settings.seed))
    return scenes[way]


def _problem(stage: Stage, scene: Scene, hidden: ImageSet, settings: CoreSettings, kinds: int) -> Problem:
    """Return the pictures of a rehearsal's heap, `hidden`, as a problem for a method."""
    network = stage.network
    if stage.way is not None:
        hidden = as_embeddings(hidden, scene.heap)
        network = build_network("identity", scene.heap.shape[1], 1, settings.seed).to(network.device)
        settings = settings.with_changes({"tune": "none"})
    return Problem(
        network,
        scene.known,
        settings,
        unsorted=replace(hidden, labels=None, classes=()),
        kinds=kinds,
        features=scene.heap,
        accelerator=stage.accelerator,
        progress=Progress("silent"),  # a warning would be taken for one about the heap
        novelty=scene.novelty,
    )


def is_right(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each picture is in the kind that stands for its true one under the best matching, bool (N,)."""
    stands_for = matching(labels, truth)
    right: NDArray[np.bool_] = np.array([stands_for.get(int(label), -1) for label in labels]) == truth
    return right


def is_named_right(found: Assignment, pictures: ImageSet, is_new: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether pictures of a mixed heap are right, bool (N,).

    Known ones must have the name of their kind; new ones be in the new kind that stands for theirs.
    """
    assert pictures.labels is not None
    truth = np.array([known_kind(pictures.classes[label]) for label in pictures.labels])
    right: NDArray[np.bool_] = found.kinds == truth
    in_new = np.isin(found.labels, found.of_sort("new"))
    both = is_new & in_new
    right[is_new] = False
    if both.any():
        right[both] = is_right(found.labels[both], pictures.labels[both])
    return right


def is_pure(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each picture is of the true kind that most pictures of its kind are of, bool (N,)."""
    table = np.zeros((int(labels.max()) + 1, int(truth.max()) + 1), dtype=np.int64)
    np.add.at(table, (labels, truth), 1)
    pure: NDArray[np.bool_] = table.argmax(axis=1)[labels] == truth
    return pure


def _chance(labels: NDArray[np.int64], truth: NDArray[np.int64], seed: int) -> float:
    """Return the mean ACC of the same kinds in random orders."""
    orders = (generator(seed, "chance", number).permutation(labels) for number in range(PERMUTED))
    return float(np.mean([clustering_accuracy(order, truth) for order in orders]))


def small_pixels(images: ImageSet, items: NDArray[np.int64]) -> Features:
    """Return the pixels of some pictures brought to at most 16 x 16, a row each, float32 (n, C x s x s)."""
    side = min(SIDE, images.size)
    rows = [
        F.adaptive_avg_pool2d(as_input(images.pixels[items[some]], torch.device("cpu")), side).flatten(1).numpy()
        for some in row_blocks(len(items), images.channels * images.size**2)
    ]
    return np.concatenate(rows)
