"""What the heap holds: new kinds alone, as in the paper, or pictures of known kinds, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from newkinds.cache import Cache
from newkinds.evaluation.same_kinds import Pairs, same_kinds
from newkinds.images.imageset import ImageSet
from newkinds.methods.mixed import PROBABLY, probably_new
from newkinds.novelty import Draw, Novelty, Scale, by_held_out, judge, signals, untold
from newkinds.parallel.processes import from_writer
from newkinds.pipeline.frozen import Features, Views
from newkinds.pretrain.pretraining import Learnt
from newkinds.randomness import generator
from newkinds.settings import CoreSettings
from newkinds.transfer import Transfer, only
from newkinds.unlike import Hidden

Holds = Literal["new", "mixed", "known"]

DRAWS = 3  # rehearsals of novelty
FEWEST_KINDS = 6  # known, of which a third can be hidden and four still teach a transfer
FEWEST_UNSEEN = 2  # kinds that f has not learnt from
FEWEST_HELD_OUT = 20  # known pictures that f has not learnt from
ASIDE = 10  # of so many known pictures, one shows what known ones are like beside the heap
MOST_LABELLED = 20_000  # pictures that the heap is compared with; of more, so many are drawn
CLEARLY, HALF = 0.65, 0.5  # novelty of pictures that are clearly new; of the probably new ones, if they are so many
TOLD_APART = 0.7  # of pictures of two kinds, where half would be chance: those are not the same
HARDLY = 0.005  # of the heap that is probably new: so little is taken for chance
ALL_LEARNT = "the network was trained on all known kinds"
UNKNOWN_LEARNT = "it is not known which pictures the network was trained on"
FEW = 0.02  # of the heap that is surely known: so much is worth known kinds


@dataclass(frozen=True, eq=False)
class Heap:
    """What the heap holds.

    holds: "new" kinds alone, the paper's setting; "mixed": known kinds, too; "known": nothing new. novelty: how
    probably each picture is of a new kind, float32 (N,), None if that was not asked. known, low, high: the share of
    pictures of known kinds, and its range. draws: rehearsals behind that. scale: how novelty is told, for rehearsals.
    same: pairs of known kinds that cannot be told from one another.
    judged: of how many pictures that is said, None: of all; of the others people had said of which kind they are.
    held_out: known pictures behind that in place of rehearsals. origin: whether it is known what f learnt from.
    """

    holds: Holds = "new"
    novelty: NDArray[np.float32] | None = None
    known: float = 0.0
    low: float = 0.0
    high: float = 0.0
    draws: int = 0
    scale: Scale | None = None
    same: Pairs = ()
    judged: int | None = None
    held_out: int = 0
    origin: bool = True

    def rows(self, pictures: int, kinds: int = 2) -> NDArray[np.int64]:
        """Return which of the heap's pictures are taken to be new ones: all, or those that probably are."""
        return np.arange(pictures) if self.holds != "mixed" else probably_new(self.mixed, kinds)

    def counted(self, pictures: int) -> NDArray[np.int64]:
        """Return which of the heap's pictures show how many new kinds there are.

        Of a mixed heap, those that are clearly new: known ones among them would be further kinds.
        """
        probably = self.rows(pictures)
        clearly = probably if self.holds != "mixed" else probably[self.mixed[probably] >= CLEARLY]
        return clearly if len(clearly) >= HALF * len(probably) else probably

    @property
    def mixed(self) -> NDArray[np.float32]:
        """The novelty of a mixed heap."""
        assert self.novelty is not None
        return self.novelty

    def in_words(self) -> str:
        """Return what the heap holds, as a sentence."""
        assert self.novelty is not None
        n = len(self.novelty) if self.judged is None else self.judged
        told_by = (
            f"{self.held_out} held-out pictures of known kinds"
            if self.held_out
            else "what was found on other data sets"
        )
        basis = "" if self.draws else f" (judged by {told_by}, because no known kinds could be hidden for rehearsals)"
        low, high = round(self.low * n), round(self.high * n)
        if self.holds == "known":
            return f"Nothing new found: all {n:,} pictures look like known kinds{basis}."
        if self.holds == "new" and self.high >= 1:
            learnt = ALL_LEARNT if self.origin else UNKNOWN_LEARNT
            why = "in rehearsals, pictures of hidden kinds looked hardly newer than others" if self.draws else learnt
            return (
                f"Whether the heap holds known kinds as well cannot be told: {why}. It is sorted as if "
                "it held none. If it does hold some, add --heap mixed."
            )
        if self.holds == "new":
            return (
                f"The heap seems to hold no known kinds: at most {high:,} of {n:,} pictures may be of "
                f"known kinds{basis}."
            )
        return f"About {round(self.known * n):,} of {n:,} pictures are of known kinds ({low:,} to {high:,}){basis}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the numbers of single pictures as plain values."""
        scale = None if self.scale is None else self.scale.to_dict()
        return {
            "holds": self.holds,
            "known": self.known,
            "low": self.low,
            "high": self.high,
            "draws": self.draws,
            "scale": scale,
            "same": [list(pair) for pair in self.same],
            **({} if self.judged is None else {"judged": self.judged}),
            **({"held_out": self.held_out} if self.held_out else {}),
            **({} if self.origin else {"origin": False}),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], novelty: NDArray[np.float32]) -> Heap:
        """Take back what `to_dict` gave."""
        scale = None if values["scale"] is None else Scale.from_dict(values["scale"])
        same = tuple((one, other) for one, other in values["same"])
        return cls(**{**values, "novelty": novelty, "scale": scale, "same": same})


@dataclass(frozen=True, eq=False)
class Parts:
    """Known pictures in three parts, numbers int64 each, and a transfer that was learnt from those of `taught`.

    hidden: of kinds that are not taught. held_out: others of the kinds that are. Each is in random order.
    """

    taught: NDArray[np.int64]
    hidden: NDArray[np.int64]
    held_out: NDArray[np.int64]
    transfer: Transfer


def holds(found: Novelty, asked: str) -> Holds:
    """Return what a heap of this novelty holds. asked: "auto", or "mixed" where the user says so.

    Unless the user says so, it is mixed only if the share of known pictures is above what heaps of hidden kinds alone
    seem to have, or if there are more pictures that are surely known than in any of those. Nothing is new if hardly a
    picture is, and hardly more are surely new than in heaps of known kinds: the estimated share alone would mislead.
    Where new pictures are not told from known ones, neither is said.
    """
    if not found.tells:
        return "new" if asked == "auto" else "mixed"
    if asked == "auto" and found.low <= found.pure and found.surely_known <= FEW:
        return "new"
    return "known" if max((found.probability >= PROBABLY).mean(), found.surely_new) <= HARDLY else "mixed"


def judged(found: Novelty, asked: str, same: Pairs = (), origin: bool = True) -> Heap:
    """Return what the heap holds by its novelty.

    same: known kinds that cannot be told from one another. origin: whether it is known what f learnt from.
    """
    sort = holds(found, asked)
    share = (found.known, found.low, found.high)
    return Heap(sort, found.probability, *share, found.draws, found.scale, same, held_out=found.held_out, origin=origin)


def same_among(
    known: ImageSet, features: Features, settings: CoreSettings, views: Views | None = None, parts: Sequence[Parts] = ()
) -> Pairs:
    """Return which known kinds cannot be told from one another.

    By f's features as they are, (L, d); and, where there is a transfer, not by pictures either that it has not seen.
    views: f's features of the known pictures, and parts of them with a transfer each.
    """
    assert known.labels is not None
    some = _some(len(features), settings.seed)
    found = same_kinds(features[some], known.labels[some], known.classes)
    if views is None or not parts:
        return found
    return tuple(pair for pair in found if not _told_apart(pair, known, views, parts))


def _told_apart(pair: tuple[str, str], known: ImageSet, views: Views, parts: Sequence[Parts]) -> bool:
    """Return whether pictures that a transfer has not seen are nearest to pictures of their own kind, of two kinds."""
    assert known.labels is not None
    right: list[bool] = []
    for one in parts:
        rows = [
            of[np.isin(known.labels[of], [known.classes.index(name) for name in pair])]
            for of in (one.taught, one.held_out)
        ]
        if len(np.unique(known.labels[rows[0]])) < 2 or not len(rows[1]):
            continue
        taught, asked = (one.transfer(views.rows[0][of]) for of in rows)
        nearest = (asked @ taught.T).argmax(axis=1)
        right += (known.labels[rows[0]][nearest] == known.labels[rows[1]]).tolist()
    return bool(right) and float(np.mean(right)) > TOLD_APART


def of_frozen(
    known: Views,
    labels: NDArray[np.int64],
    heap: Views,
    way: str,
    settings: CoreSettings,
    cache: Cache,
    parts: Sequence[Parts],
) -> Novelty:
    """Return the novelty of a heap under features that are not trained here, after a transfer of the run's way.

    It is learnt without some known pictures of each kind. labels: of the known pictures, int64 (L,). parts: of them,
    for rehearsals.
    """
    some = _some(len(labels), settings.seed)
    order = generator(settings.seed, "known pictures beside the heap").permutation(some)
    taught, aside = _aside(order, labels)
    transfer = from_writer(partial(known.learn_from, taught, labels, way, settings, cache))
    draws = frozen_draws(known, labels, parts)
    rows = (known.of(taught).transferred(transfer), labels[taught], heap.transferred(transfer))
    return judge(*rows, draws, known.of(aside).transferred(transfer))


def parted(known: Views, labels: NDArray[np.int64], way: str, settings: CoreSettings, cache: Cache) -> list[Parts]:
    """Return draws in which a third of the known kinds is hidden and half of the pictures of the others is held out.

    The transfer is learnt again from the rest, in the way that all have chosen. None if there are too few known kinds.
    """
    kinds = len(np.unique(labels))
    found = []
    how = settings.with_changes({f"transfer.{key}": value for key, value in only(way).items()})
    for number in range(DRAWS if kinds >= FEWEST_KINDS else 0):
        random = generator(settings.seed, "rehearsal of novelty", number)
        hidden = np.isin(labels, random.permutation(kinds)[: kinds // 3])
        order = random.permutation(len(labels))
        taught, held_out = _halves(order[~hidden[order]], labels)
        if not len(held_out):  # each kind has a single picture
            continue
        own = np.unique(labels[taught], return_inverse=True)[1]
        learnt = from_writer(partial(known.of(taught).learn, own, how, cache))
        found.append(Parts(taught, order[hidden[order]], held_out, learnt))
    return found


def frozen_draws(known: Views, labels: NDArray[np.int64], parts: Sequence[Parts]) -> list[Draw]:
    """Return rehearsals of novelty under features that are not trained here."""
    draws = []
    for one in parts:
        own = np.unique(labels[one.taught], return_inverse=True)[1]
        labelled, new, out = (known.of(r).transferred(one.transfer) for r in (one.taught, one.hidden, one.held_out))
        draws.append(Draw(labelled, own, new, labels[one.hidden], out))
    return draws


def hidden_kinds(known: Views, labels: NDArray[np.int64], parts: Sequence[Parts]) -> list[Hidden]:
    """Return known kinds that are hidden from a transfer, as `predict` sees pictures: in one view."""
    found = []
    for one in parts:
        labelled, new, out = (one.transfer(known.rows[0][r]) for r in (one.taught, one.hidden, one.held_out))
        found.append(Hidden(labelled, labels[one.taught], new, labels[one.hidden], out))
    return found


def of_trained(
    known: ImageSet, learnt: Learnt | None, features: Features, heap: Features, settings: CoreSettings
) -> Novelty:
    """Return the novelty of a heap under an f that was trained by newkinds.

    learnt: of which known pictures, None where that is not known. features: of all known pictures, float32 (L, d).
    Rehearsals hide the kinds that f has not seen, and hold out the pictures that training held out. Where there are no
    such kinds, the latter may do.
    """
    assert known.labels is not None
    labels = known.labels
    if learnt is not None:
        unseen = np.unique(labels[learnt.unseen])
        if len(unseen) >= FEWEST_UNSEEN:
            draws = [_of_unseen(features, labels, learnt, settings.seed, number) for number in range(DRAWS)]
            some = _some(len(features), settings.seed)
            return judge(features[some], labels[some], heap, draws)
        if len(learnt.held_out) >= FEWEST_HELD_OUT:
            random = generator(settings.seed, "labelled pictures for novelty")
            some = random.permutation(learnt.kept)[:MOST_LABELLED]
            found = by_held_out(features[some], labels[some], features[learnt.held_out], heap)
            return found or untold(features[some], labels[some], heap, features[learnt.held_out])
    some = _some(len(features), settings.seed)
    return untold(features[some], labels[some], heap)


def _of_unseen(features: Features, labels: NDArray[np.int64], learnt: Learnt, seed: int, number: int) -> Draw:
    """Return a rehearsal in which half of the kinds are hidden that f has not seen."""
    random = generator(seed, "rehearsal of novelty", number)
    some = random.permutation(learnt.kept)[:MOST_LABELLED]
    own = np.unique(labels[some], return_inverse=True)[1]
    unseen = np.unique(labels[learnt.unseen])
    hidden = random.permutation(unseen)[: max(FEWEST_UNSEEN, len(unseen) // 2)]
    new = random.permutation(learnt.unseen[np.isin(labels[learnt.unseen], hidden)])
    return Draw(features[some], own, features[new], labels[new], features[random.permutation(learnt.held_out)])


def novelty_of(scale: Scale, labelled: Features, labels: NDArray[np.int64], heap: Features) -> NDArray[np.float32]:
    """Return how probably each picture of a rehearsal's heap is new, float32 (N,), as the run's heap was judged."""
    return scale(signals(labelled, labels, heap)).astype(np.float32)


def _some(pictures: int, seed: int) -> NDArray[np.int64]:
    """Return which labelled pictures the heap is compared with: all, or so many as are enough."""
    if pictures <= MOST_LABELLED:
        return np.arange(pictures)
    return np.sort(generator(seed, "labelled pictures for novelty").permutation(pictures)[:MOST_LABELLED])


def _halves(order: NDArray[np.int64], labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every second picture of each kind, and the others, in the order given; a single one is in the first."""
    seen: dict[int, int] = {}
    first = np.empty(len(order), dtype=bool)
    for place, row in enumerate(order):
        kind = int(labels[row])
        first[place] = seen.setdefault(kind, 0) % 2 == 0
        seen[kind] += 1
    return order[first], order[~first]


def _aside(order: NDArray[np.int64], labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pictures kind by kind, each in the order given, without every so many-th of them; and those.

    The only picture of a kind is among the former.
    """
    by_kind = order[np.argsort(labels[order], kind="stable")]
    alone = np.bincount(labels[order])[labels[by_kind]] < 2
    chosen = (np.arange(len(by_kind)) % ASIDE == ASIDE - 1) & ~alone
    return by_kind[~chosen], by_kind[chosen]
