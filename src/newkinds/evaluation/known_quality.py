"""How well the known kinds are told apart, beside guessing: a measure of f before it meets the unsorted pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

FEWEST = 8  # pictures; an accuracy of fewer is no figure to show
ABOVE_CHANCE = 0.2  # of the way from chance to 1: what stays below it is near chance
SIGNIFICANCE = 0.01  # guessing gives as many right less often than that, or the accuracy is near chance

HELD_OUT, FEW_SHOT, NEAREST_MEAN = "held-out", "few-shot", "nearest-mean"


@dataclass(frozen=True)
class KnownQuality:
    """How many pictures of known kinds are named rightly by what has not seen them.

    accuracy: 0 to 1, or None where it could not be measured, and `why` says why not. pictures: how many were named.
    kinds: among how many kinds each was named. chance: the accuracy of always naming the largest kind, which is 1/kinds
    where all are equally large. how: "held-out" by the trained classifier, "few-shot" by the nearest mean of a few
    pictures, or "nearest-mean" by the nearest mean of all others. of: what was measured, "network" or "embeddings".
    remedies: what may help if it is near chance.
    """

    accuracy: float | None
    pictures: int
    kinds: int
    chance: float
    how: str
    of: str = "network"
    why: str = ""
    remedies: tuple[str, ...] = ()

    @property
    def near_chance(self) -> bool:
        """Whether it is hardly better than guessing: by too little, or on too few pictures to tell."""
        if self.accuracy is None:
            return False
        right = round(self.accuracy * self.pictures)
        likely = float(binom.sf(right - 1, self.pictures, self.chance)) >= SIGNIFICANCE
        return likely or self.accuracy < self.chance + ABOVE_CHANCE * (1 - self.chance)

    def in_words(self) -> str:
        """Return the measure as one sentence."""
        if self.accuracy is None:
            return f"How well the known kinds can be told apart could not be measured: {self.why}."
        right, chance, many = _percent(self.accuracy), _percent(self.chance), f"{self.pictures:,}"
        guessing = f"guessing would get {chance} right"
        if self.how == HELD_OUT:
            return f"The network names {right} of {many} held-out pictures of known kinds correctly; {guessing}."
        if self.how == FEW_SHOT:
            return (
                f"Shown a few pictures of each of {self.kinds} known kinds, the network names {right} of "
                f"{many} held-out pictures correctly; {guessing}."
            )
        return (
            f"According to the {self.of}, {right} of {many} pictures of known kinds are closest to their "
            f"own kind, which was learnt without them; {guessing}."
        )

    def warning(self) -> str | None:
        """Return what to say where it is near chance, with what may help; None where it is not."""
        if not self.near_chance:
            return None
        help_ = f" What may help: {'; '.join(self.remedies)}." if self.remedies else ""
        return f"The known kinds can hardly be told apart, so do not trust the new kinds. {self.in_words()}{help_}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it by name, as the run folder keeps it, with what was concluded."""
        return {**asdict(self), "near_chance": self.near_chance}


def from_dict(values: Mapping[str, Any]) -> KnownQuality:
    """Take back what `to_dict` gave."""
    kept = {key: value for key, value in values.items() if key != "near_chance"}
    return KnownQuality(**{**kept, "remedies": tuple(kept["remedies"])})


def measured(
    accuracy: float,
    pictures: int,
    labels: NDArray[np.int64],
    how: str,
    *,
    at_a_time: int | None = None,
    of: str = "network",
    remedies: tuple[str, ...] = (),
) -> KnownQuality:
    """Return a measured accuracy beside chance, or that there were too few pictures for one.

    labels: of the known pictures, int64 (N,). at_a_time: among how many of the kinds each picture was named; default
    all.
    """
    kinds, chance = _chance(labels, at_a_time)
    # Of fewer, not even all of them right would tell f from guessing.
    few = max(FEWEST, int(np.ceil(np.log(SIGNIFICANCE) / np.log(chance))) if 0 < chance < 1 else FEWEST)
    if pictures < few:
        why = f"{pictures} pictures of known kinds could be tried, and at least {few} are needed"
        return not_measured(why, pictures, labels, how, at_a_time=at_a_time, of=of)
    found = KnownQuality(accuracy, pictures, kinds, chance, how, of, "", remedies)
    return found if found.near_chance else replace(found, remedies=())


def not_measured(
    why: str,
    pictures: int,
    labels: NDArray[np.int64],
    how: str,
    *,
    at_a_time: int | None = None,
    of: str = "network",
) -> KnownQuality:
    """Return that the accuracy could not be measured, and why; the rest is as in `measured`."""
    return KnownQuality(None, pictures, *_chance(labels, at_a_time), how, of, why)


def _chance(labels: NDArray[np.int64], at_a_time: int | None) -> tuple[int, float]:
    """Return among how many kinds a picture is named, and how often naming the largest one is right."""
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    kinds = len(counts) if at_a_time is None else min(at_a_time, len(counts))
    # Where fewer kinds are shown at a time, the largest one's share grows.
    return kinds, min(1.0, float(counts.max() / counts.sum()) * len(counts) / kinds)


def _percent(share: float) -> str:
    """Return a share in percent, never rounded to 0 or 100 where it is neither."""
    if 0.995 <= share < 1:
        return "more than 99%"
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{max(share, 0.001):.1%}"
