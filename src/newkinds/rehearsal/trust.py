"""How far to trust an answer: what to expect of the heap, from what is seen of it and what rehearsals taught."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from newkinds.rehearsal.calibration import Bin, Calibration, Observed, beginning, calibration_error, reliability
from newkinds.rehearsal.outcome import Trial, in_rehearsals

COVERAGE = 0.8  # of the ranges that are said
BETWEEN = 0.04  # by which heaps differ from what rehearsals foretell, found on heaps for tuning
FREEDOM = 3  # how well that is known, in heaps, beside the rehearsals themselves
FEW, FEWER = 8, 3.0  # with fewer kinds hidden, heaps differ more from rehearsals: up to so many times, with two
UNREHEARSED = 3.0  # times as much where nothing was rehearsed: these pictures may be unlike all others
BY_ACC = 0.6  # what a point of ACC is in NMI, where rehearsals and heap differ


@dataclass(frozen=True)
class Trust:
    """What to expect of an answer.

    acc: the share of pictures that are probably right; low, high: a range that should hold the true share with
    probability COVERAGE. nmi: likewise, None without rehearsals. purity: of each kind, the share of its pictures that
    are probably of one true kind, None for an empty one. rehearsals, hidden: how many there were, and how many kinds
    each hid. rehearsed: the lowest and the highest share that was right in one, None without any. error: the expected
    calibration error of rehearsals, each judged by the others. bins: of their reliability diagram, (pictures, said,
    right) each. why: why there were no rehearsals. remarks: what else to know.
    """

    acc: float
    low: float
    high: float
    nmi: float | None
    purity: tuple[float | None, ...]
    rehearsals: int
    hidden: int
    rehearsed: tuple[float, float] | None
    error: float | None
    bins: tuple[tuple[int, float, float], ...]
    why: str = ""
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Trust:
        """Take back what `to_dict` gave."""
        kept = {**values, "bins": tuple((n, said, right) for n, said, right in values["bins"])}
        if kept["rehearsed"] is not None:
            kept["rehearsed"] = tuple(kept["rehearsed"])
        return cls(**{**kept, "purity": tuple(kept["purity"]), "remarks": tuple(kept["remarks"])})

    def in_words(self) -> str:
        """Return what to expect, and why, as one or two sentences."""
        expected = (
            f"About {self.acc:.0%} of the pictures are probably sorted correctly ({self.low:.0%} to {self.high:.0%})."
        )
        if self.rehearsed is None:
            return f"{expected} This estimate comes from other data sets: {self.why}."
        return (
            f"{expected} {in_rehearsals(self.rehearsals, self.hidden, *self.rehearsed)} of their "
            "pictures were sorted correctly."
        )


def judge(
    x: NDArray[np.float64],
    labels: NDArray[np.int64],
    kinds: int,
    right: Sequence[Observed],
    pure: Sequence[Observed],
    trials: Sequence[Trial],
    *,
    hidden: int = 0,
    why: str = "",
    remarks: Sequence[str] = (),
    begun: Callable[[str], Calibration] = beginning,
) -> tuple[Trust, NDArray[np.float64]]:
    """Return what to expect of pictures with these signals (N, 8) in these kinds (N,), and how probably each is right.

    right, pure, trials: of each rehearsal, as the heap was sorted; whether pictures were right, or of their kind's
    majority. kinds: how many there are, empty ones included. hidden: kinds in a rehearsal. why: there were none.
    remarks: what else to know; why the range is wide is added. begun: what the calibrations begin from.
    """
    probability = begun("right").after(right)(x)
    purity = begun("pure").after(pure)(x)
    sizes = np.bincount(labels, minlength=kinds)
    shares = np.bincount(labels, purity, minlength=kinds) / np.maximum(sizes, 1)
    said = _by_the_others(right, begun("right"))
    acc, wide = float(probability.mean()), _half_width(said, right, hidden, int((sizes > 0).sum()))
    nmi: float | None = None
    bins: tuple[Bin, ...] = ()
    if right:
        far = acc - float(np.mean([one.acc for one in trials]))
        nmi = float(np.clip(np.mean([one.nmi for one in trials]) + BY_ACC * far, 0, 1))
        bins = reliability(np.concatenate(said), np.concatenate([one.yes for one in right]))
    trust = Trust(
        acc=acc,
        low=max(0.0, acc - wide),
        high=min(1.0, acc + wide),
        nmi=nmi,
        purity=tuple(float(share) if size else None for share, size in zip(shares, sizes, strict=True)),
        rehearsals=len(right),
        hidden=hidden,
        rehearsed=(min(one.acc for one in trials), max(one.acc for one in trials)) if trials else None,
        error=calibration_error(bins) if bins else None,
        bins=tuple((one.pictures, one.said, one.right) for one in bins),
        why=why,
        remarks=(*remarks, *_why_wide(len(right), hidden, int((sizes > 0).sum()))),
    )
    return trust, probability


def _why_wide(rehearsals: int, hidden: int, kinds: int) -> list[str]:
    """Return why the range is wider than usual, if it is. kinds: in the heap."""
    if not rehearsals or hidden >= FEW:
        return []
    easier = (
        f" {hidden} kinds are easier to tell apart than {kinds}, so expect a lower share in the heap."
        if hidden < kinds / 2
        else ""
    )
    return [
        f"Only {hidden} of your own kinds were hidden at a time. That says less than hiding {FEW} or "
        f"more would, so the range is wider.{easier}"
    ]


def _by_the_others(observed: Sequence[Observed], start: Calibration) -> list[NDArray[np.float64]]:
    """Return how probably the pictures of each rehearsal are right, by what the others teach."""
    return [start.after([*observed[:i], *observed[i + 1 :]])(one.x) for i, one in enumerate(observed)]


def _half_width(said: Sequence[NDArray[np.float64]], observed: Sequence[Observed], hidden: int, kinds: int) -> float:
    """Return the half-width of the range of ACC: how badly rehearsals foretell one another, and heaps beyond that.

    Kinds are right or wrong as a whole, which is chance: a heap of more kinds than are hidden depends on it less.
    Rehearsals hide kinds of one pool, and heaps are of another: what lies between them no rehearsal can see. said: how
    probably pictures of each are right by the others. hidden: kinds in a rehearsal, of which few tell less. kinds: in
    the heap.
    """
    missed = np.array([p.mean() - one.yes.mean() for p, one in zip(said, observed, strict=True)])
    more = UNREHEARSED
    if observed:
        more = max(1.0, FEWER - (FEWER - 1) * (hidden - 2) / (FEW - 2))
    seen = float(np.square(missed).mean()) * hidden / max(kinds, 1) if observed else 0.0
    return float(student.ppf((1 + COVERAGE) / 2, len(missed) + FREEDOM) * np.sqrt(seen + (more * BETWEEN) ** 2))
