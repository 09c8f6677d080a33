"""Summaries of kinds: size, purity, and central, doubtful and border pictures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.evaluation.truth import UNKNOWN
from newkinds.report.data import ReportData

MANY_KINDS = 20  # above this, cards show half as many pictures
PICTURES = 10  # central ones on a card, five in a row
FEW_PICTURES = 5  # doubtful and border ones
SURE = 0.999  # a picture above this is not at a border
DOUBTFUL = 0.5  # a picture below this is probably not of its kind


@dataclass(frozen=True)
class Pick:
    """A picture on a card, its probability, and the runner-up kind (None if there is no other)."""

    item: int
    probability: float
    runner_up: int | None
    runner_up_probability: float


@dataclass(frozen=True)
class KindSummary:
    """One kind. `truths`: see `_truths`.

    mean_probability: of its pictures, None for an empty one. purity: the share of its pictures that are probably of one
    true kind, None where rehearsals do not say. doubtful: how many of its pictures are probably not of it, None where
    probabilities only order them.
    central_picks: the pictures nearest to the mean of its features; doubtful_picks: those of the least probability;
    border_picks: of the others, those with the most probable runner-up.
    """

    kind: int
    size: int
    share: float
    mean_probability: float | None
    purity: float | None
    doubtful: int | None
    central_picks: tuple[Pick, ...]
    doubtful_picks: tuple[Pick, ...]
    border_picks: tuple[Pick, ...]
    truths: tuple[tuple[str, int], ...]


def runners_up(data: ReportData) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each picture's best other kind and its probability, both (N,); -1 and 0 where there is one kind only."""
    if data.n_kinds == 1:
        return np.full(len(data), -1, dtype=np.int64), np.zeros(len(data))
    rows = np.arange(len(data))
    others = data.probabilities.astype(np.float64)
    others[rows, data.labels] = -np.inf
    second = others.argmax(axis=1)
    return second, np.clip(others[rows, second], 0.0, 1.0)


def summarise_kinds(data: ReportData) -> list[KindSummary]:
    """Return the K kinds in the order of their numbers."""
    own = data.own_probability
    second, second_probability = runners_up(data)
    wanted = PICTURES if data.n_kinds <= MANY_KINDS else PICTURES // 2

    def pick(item: int) -> Pick:
        runner_up = int(second[item])
        return Pick(
            int(item),
            float(own[item]),
            runner_up if runner_up >= 0 else None,
            float(second_probability[item]),
        )

    summaries = []
    for kind in range(data.n_kinds):
        members = np.flatnonzero(data.labels == kind)
        central, doubtful, border = _picks(data, members, own, second_probability, wanted)
        summaries.append(
            KindSummary(
                kind=kind,
                size=len(members),
                share=len(members) / len(data),
                mean_probability=float(own[members].mean()) if len(members) else None,
                purity=None if data.trust is None else data.trust.purity[kind],
                doubtful=int((own[members] < DOUBTFUL).sum()) if data.calibrated else None,
                central_picks=tuple(pick(i) for i in central),
                doubtful_picks=tuple(pick(i) for i in doubtful),
                border_picks=tuple(pick(i) for i in border),
                truths=_truths(data, members.tolist()),
            )
        )
    return summaries


def _picks(
    data: ReportData,
    members: NDArray[np.int64],
    own: NDArray[np.float64],
    second_probability: NDArray[np.float64],
    wanted: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the most central, the most doubtful and the border pictures of a kind; no picture is in two rows."""
    n_central = min(wanted, (len(members) + 1) // 2)
    rising = members[np.argsort(own[members], kind="stable")]
    n_doubtful = min(FEW_PICTURES, len(members) - n_central)
    doubtful, left = rising[:n_doubtful], np.sort(rising[n_doubtful:])
    points = data.features[members].astype(np.float64)
    points /= max(float(np.abs(points).max(initial=0.0)), 1e-300)  # squares must neither overflow nor vanish
    away = np.square(points - points.mean(axis=0)).sum(axis=1) if len(members) else np.zeros(0)
    order = np.argsort(away[np.searchsorted(members, left)], kind="stable")
    central, left = left[order[:n_central]], np.sort(left[order[n_central:]])
    margin = own[left] - second_probability[left]
    border = left[np.argsort(margin, kind="stable")][:FEW_PICTURES]
    return central, doubtful, border[own[border] < SURE] if data.n_kinds > 1 else border[:0]


def _truths(data: ReportData, members: list[int]) -> tuple[tuple[str, int], ...]:
    """Return the most frequent true kinds of these pictures with their numbers, and how many have none, as "", last."""
    counts = Counter(data.truth[i] for i in members) if data.truth is not None else Counter[str]()
    unknown = counts.pop(UNKNOWN, 0)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]
    return (*ranked, (UNKNOWN, unknown)) if ranked and unknown else tuple(ranked)
