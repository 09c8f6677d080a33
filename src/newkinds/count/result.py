"""The estimate of the number of new kinds, and how it is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Point:
    """One K of the sweep, the mean over the divisions and their standard deviation.

    accuracy: ACC on the validation probes (Eq. 7); index: the validity index on the unsorted pictures (Eq. 8), not a
    number where it is undefined; found: how many clusters the unsorted pictures are in, without those too small. Of
    rehearsals, index is the probability of K, found the number carried over if kinds are as large as K makes them, and
    there is no accuracy.
    """

    k: int
    accuracy: float
    accuracy_spread: float
    index: float
    index_spread: float
    found: float


@dataclass(frozen=True)
class Count:
    """The estimated number of new kinds, and how it was found.

    k: the estimate. low, high: an interval meant to contain the truth with probability `confidence`. k_accuracy,
    k_index: where each curve has its maximum; k_mean: their mean, which the final clustering has; all three as the
    median over the divisions. answers: one for each division. remarks: caveats for the user, in words. index_error: the
    largest standard error of the index, where it was sampled.

    Of rehearsals: answers has one for each rehearsal, if kinds are as large as the hidden ones. error: how wrong hidden
    kinds were counted, the root mean square of log(estimate / truth). size_ratio: how many times as large as the hidden
    kinds the new ones seem to be. cannot_tell: why the number is a mere guess, if it is: there is no confidence then.
    """

    k: int
    low: int
    high: int
    confidence: float
    k_accuracy: int
    k_index: int
    k_mean: int
    answers: tuple[int, ...]
    curve: tuple[Point, ...]
    index_error: float
    remarks: tuple[str, ...]
    estimator: str = "paper"
    error: float = math.nan
    size_ratio: float = math.nan
    cannot_tell: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; what is not a number becomes None.

        coverage: how often an interval like this one held the true number, None where that was not measured.
        """
        measured = self.estimator == "rehearsed" and self.cannot_tell is None
        coverage = {"coverage": self.confidence if measured else None}
        return {**_plain(asdict(self)), **coverage, "curve": [_plain(asdict(point)) for point in self.curve]}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in values.items()}


def in_words(count: Mapping[str, Any]) -> str:
    """Return the number and its interval as a sentence, from what `Count.to_dict` returned."""
    if count.get("cannot_tell"):
        return (
            f"New kinds: their number cannot be estimated reliably, because {count['cannot_tell']}. The "
            f"best guess is {count['k']}."
        )
    if count["confidence"] is None:
        return f"New kinds: {count['k']} (the number that sorts the known kinds best)."
    low, high = count["low"], count["high"]
    if count.get("estimator") == "rehearsed":
        between = f"probably {low} to {high}" if high > low else "and probably no other number"
        return (
            f"New kinds: {count['k']}, {between}. Such a range holds the true number in "
            f"{count['confidence']:.0%} of cases; hidden known kinds were counted to within "
            f"{math.expm1(count['error']):.0%}."
        )
    between = f"or {low} to {high}" if high > low else "and the same"
    return (
        f"New kinds: {count['k']}, {between} with other known kinds as the probes. How often such a "
        "range holds the true number was not measured."
    )


def counted_once(best: int, curve: tuple[Point, ...], estimator: str, *remarks: str) -> Count:
    """Return the estimate of a way that looks at the known kinds' accuracy alone, once: without an interval."""
    once = "Estimated once, from the accuracy on the known kinds alone, so there is no range."
    return Count(
        k=best,
        low=best,
        high=best,
        confidence=math.nan,
        k_accuracy=best,
        k_index=best,
        k_mean=best,
        answers=(best,),
        curve=curve,
        index_error=0.0,
        remarks=(once, *remarks),
        estimator=estimator,
    )
