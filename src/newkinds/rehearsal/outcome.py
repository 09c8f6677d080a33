"""What rehearsals showed: how well hidden kinds were sorted, which settings did best, and whether to go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

AS_SET = "as set"  # the candidate without changes
CLEARLY = 0.975  # how sure it has to be that a candidate is better, one-sided: .9 of any of four
LEAST_GAIN = 0.01  # in ACC, and by how much
FIRST = 2  # rehearsals after which a candidate that gains nothing is given up, which saves time
LOST = 0.03  # in ACC: a candidate that loses as much in the very first one is given up there
ABOVE = 0.1  # of the way to 1 from chance, or from what pixels alone give: what stays below it is hopeless
ENOUGH_KINDS, ENOUGH_PICTURES = 3, 50  # in a rehearsal; of fewer, chance alone gives too much to tell
GOOD = 0.5  # an ACC from which sorting is worth something even if pixels alone do nearly as well
LITTLE = 0.2  # an NMI below which kinds that were found tell hardly anything of the true ones


@dataclass(frozen=True)
class Trial:
    """How well a candidate sorted the pictures of one rehearsal."""

    acc: float
    nmi: float


@dataclass(frozen=True)
class Rehearsed:
    """One rehearsal.

    hidden: the names of the kinds. asked: into how many kinds its pictures were sorted. chance: the ACC of kinds drawn
    at random. pixels: that of k-means on the pixels, None for embeddings. trials: by candidate. likeness: how like the
    known pictures the hidden ones are, None where no known ones are left.
    """

    hidden: tuple[str, ...]
    asked: int
    pictures: int
    chance: float
    pixels: float | None
    trials: Mapping[str, Trial]
    likeness: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rehearsed:
        """Take back what `to_dict` gave."""
        trials = {name: Trial(**one) for name, one in values["trials"].items()}
        return cls(**{**values, "hidden": tuple(values["hidden"]), "trials": trials})


@dataclass(frozen=True)
class Tried:
    """A candidate: its mean ACC over the rehearsals, and by how much it is better than what was set, with its error."""

    name: str
    acc: float
    gain: float
    gain_error: float | None

    @property
    def clearly_better(self) -> bool:
        """Whether the gain is large enough and not likely to be chance."""
        return self.gain_error is not None and self.gain > max(LEAST_GAIN, self.gain_error)


def compare_candidates(rehearsed: Sequence[Rehearsed]) -> list[Tried]:
    """Return how candidates compare, what was set first. The error is the half-width of a one-sided interval."""
    found = []
    trials = rehearsed[0].trials if rehearsed else {}
    for name in sorted(trials, key=lambda name: name != AS_SET):  # the trials of a file are in the order of their names
        some = [one for one in rehearsed if name in one.trials]
        gains = np.array([one.trials[name].acc - one.trials[AS_SET].acc for one in some])
        error = None
        if len(gains) > 1:
            error = float(student.ppf(CLEARLY, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains)))
        found.append(Tried(name, float(np.mean([one.trials[name].acc for one in some])), float(gains.mean()), error))
    return found


def still_tried(rehearsed: Sequence[Rehearsed], candidates: Iterable[str]) -> list[str]:
    """Return the candidates to go on with: all at first, then those that do not lose much, then those that gain."""
    if not rehearsed:
        return list(candidates)
    least = 0 if len(rehearsed) >= FIRST else -LOST
    gained = {one.name for one in compare_candidates(rehearsed) if one.gain > least}
    return [name for name in candidates if name == AS_SET or (name in gained and name in rehearsed[-1].trials)]


def best_candidate(tried: Sequence[Tried]) -> str:
    """Return the best of those that are clearly better than what was set, or that."""
    better = [one for one in tried if one.name != AS_SET and one.clearly_better]
    return max(better, key=lambda one: one.acc).name if better else AS_SET


def is_hopeless(rehearsed: Sequence[Rehearsed], candidate: str) -> bool:
    """Return whether hidden kinds were sorted hardly better than by chance; or badly, and hardly better than pixels.

    Or badly, and the kinds that were found tell hardly anything of the true ones: among few kinds, many pictures are
    right by chance. candidate: the settings that are judged.
    """
    rehearsed = [one for one in rehearsed if len(one.hidden) >= ENOUGH_KINDS and one.pictures >= ENOUGH_PICTURES]
    if not rehearsed:
        return False
    acc = float(np.mean([one.trials[candidate].acc for one in rehearsed]))
    chance = float(np.mean([one.chance for one in rehearsed]))
    pixels = float(np.mean([one.pixels or 0.0 for one in rehearsed]))
    nmi = float(np.mean([one.trials[candidate].nmi for one in rehearsed]))
    badly = acc < GOOD and (acc < pixels + ABOVE * (1 - pixels) or nmi < LITTLE)
    return acc < chance + ABOVE * (1 - chance) or badly


def why_hopeless(rehearsed: Sequence[Rehearsed], candidate: str) -> str:
    """Return why it is not worth going on, as a sentence."""
    acc = float(np.mean([one.trials[candidate].acc for one in rehearsed]))
    chance = float(np.mean([one.chance for one in rehearsed]))
    pixels = [one.pixels for one in rehearsed if one.pixels is not None]
    rival = f"chance gives {chance:.0%}"
    if pixels and np.mean(pixels) >= chance:
        rival = f"k-means on their pixels gives {np.mean(pixels):.0%}"
    return (
        f"Rehearsals say that this would not work: when known kinds were hidden, only {acc:.0%} of their "
        f"pictures were sorted correctly, while {rival}."
    )


def choice_in_words(tried: Sequence[Tried], chosen: str) -> str:
    """Return what was chosen in place of what was set, and why."""
    best = next(one for one in tried if one.name == chosen)
    return (
        f"Settings chosen by rehearsals: {chosen}. They sorted {best.acc:.1%} of the hidden pictures "
        f"correctly; the settings as given, {tried[0].acc:.1%}."
    )


def in_rehearsals(number: int, hidden: int, low: float, high: float) -> str:
    """Return the beginning of a sentence: what share there was, from low to high, in how many rehearsals."""
    times = "one rehearsal" if number == 1 else f"{number} rehearsals"
    shares = list(dict.fromkeys([f"{low:.0%}", f"{high:.0%}"]))
    return f"In {times} with {hidden} of your own kinds hidden, {' to '.join(shares)}"
