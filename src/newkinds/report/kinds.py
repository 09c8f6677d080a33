"""Each kind in a few numbers and pictures: its size, how sure it is, its most and least certain members."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.report.data import ReportData

MANY_KINDS = 20  # above this, cards show half as many pictures
PICTURES = 10  # of each sort on a card, five in a row
DOUBTFUL = 0.5  # a picture below this is more likely not of its kind


@dataclass(frozen=True)
class Pick:
    """A picture on a card, its probability, and the kind it would belong to next (None where there is no other)."""

    item: int
    probability: float
    runner_up: int | None
    runner_up_probability: float


@dataclass(frozen=True)
class KindSummary:
    """One kind; `confidence` is None for an empty one. `truths` are its most frequent true kinds with their shares."""

    kind: int
    size: int
    share: float
    confidence: float | None
    doubtful: int
    certain_picks: tuple[Pick, ...]
    doubtful_picks: tuple[Pick, ...]
    truths: tuple[tuple[str, float], ...]


def runners_up(data: ReportData) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each picture's best other kind and its probability, both (N,); -1 and 0 where there is one kind only."""
    if data.n_kinds == 1:
        return np.full(len(data), -1, dtype=np.int64), np.zeros(len(data))
    rows = np.arange(len(data))
    others = data.probabilities.astype(np.float64)
    others[rows, data.kinds] = -np.inf
    second = others.argmax(axis=1)
    return second, np.clip(others[rows, second], 0.0, 1.0)


def summarise_kinds(data: ReportData) -> list[KindSummary]:
    """Return the K kinds in the order of their numbers."""
    confidence = data.confidence
    second, second_probability = runners_up(data)
    wanted = PICTURES if data.n_kinds <= MANY_KINDS else PICTURES // 2

    def pick(item: int) -> Pick:
        runner_up = int(second[item])
        return Pick(
            int(item),
            float(confidence[item]),
            runner_up if runner_up >= 0 else None,
            float(second_probability[item]),
        )

    summaries = []
    for kind in range(data.n_kinds):
        members = np.flatnonzero(data.kinds == kind)
        falling = members[np.argsort(-confidence[members], kind="stable")]
        n_certain = min(wanted, (len(falling) + 1) // 2)  # no picture stands in both rows
        n_doubtful = min(wanted, len(falling) - n_certain)
        summaries.append(
            KindSummary(
                kind=kind,
                size=len(members),
                share=len(members) / len(data),
                confidence=float(confidence[members].mean()) if len(members) else None,
                doubtful=int((confidence[members] < DOUBTFUL).sum()),
                certain_picks=tuple(pick(i) for i in falling[:n_certain]),
                doubtful_picks=tuple(pick(i) for i in falling[::-1][:n_doubtful]),
                truths=_truths(data, members.tolist()),
            )
        )
    return summaries


def _truths(data: ReportData, members: list[int]) -> tuple[tuple[str, float], ...]:
    if data.truth is None or not members:
        return ()
    counts = Counter(data.truth[i] for i in members)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple((name, count / len(members)) for name, count in ranked[:3])
