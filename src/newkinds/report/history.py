"""The charts of the page, from the run's log and its count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

from newkinds.report import text
from newkinds.report.curves import Chart, Guide, Line

NEIGHBOURS = 3  # numbers of clusters below and above the chosen one that are shown
Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Alternative:
    """The result of another number of clusters; accuracy, index or found is None if it was not measured.

    chosen: whether it is the number that the estimate comes from.
    """

    k: int
    chosen: bool
    accuracy: float | None
    accuracy_spread: float | None
    index: float | None
    index_spread: float | None
    found: float | None


@dataclass(frozen=True)
class CountRange:
    """A range of the number of kinds. coverage: how often such a range holds the true number, None if not measured."""

    low: int
    high: int
    coverage: float | None

    @property
    def cases(self) -> str:
        """How often it holds the true number: "8 of 10"; "" if that is not measured."""
        return "" if self.coverage is None else text.cases(self.coverage)


def count_range(count: Mapping[str, Any] | None) -> CountRange | None:
    """Return the range that an estimate comes with, if it has one and does not say that it cannot tell."""
    if count is None or count.get("cannot_tell"):
        return None
    low, high = _finite(count.get("low")), _finite(count.get("high"))
    return None if low is None or high is None else CountRange(int(low), int(high), _finite(count.get("coverage")))


def alternatives(count: Mapping[str, Any] | None) -> list[Alternative]:
    """Return the numbers of clusters around the chosen one, with their results."""
    if count is None or count.get("estimator") == "rehearsed" or (chosen := _finite(count.get("k_mean"))) is None:
        return []
    rows = {int(k): row for row in count.get("curve") or () if (k := _finite(row.get("k"))) is not None}
    near = sorted(sorted(rows, key=lambda k: (abs(k - chosen), k))[: 2 * NEIGHBOURS + 1])

    def measured(k: int, key: str) -> float | None:
        return _finite(rows[k].get(key))

    return [
        Alternative(
            k,
            k == chosen,
            accuracy=measured(k, "accuracy"),
            accuracy_spread=measured(k, "accuracy_spread"),
            index=measured(k, "index"),
            index_spread=measured(k, "index_spread"),
            found=measured(k, "found"),
        )
        for k in near
    ]


def training_charts(history: Records, stages: Mapping[str, str], assigns: str | None) -> list[Chart]:
    """Return the charts of all stages of training that the records have numbers for.

    stages: the method's stages before pictures get their kinds, with their titles; assigns: the one in which they do.
    """
    known = [r for r in history if r.get("stage") == "pretrain"]
    found = [] if assigns is None else [r for r in history if r.get("stage") == assigns]
    early = _warmup(found)
    charts = [
        _chart("pretrain-loss", "Loss on known kinds", known, {"loss": "loss"}),
        _chart("pretrain-accuracy", "Held-out accuracy", known, {"held_out_accuracy": "accuracy"}, shares=True),
        *(
            _chart(f"{stage}-loss", title, [r for r in history if r.get("stage") == stage], {"loss": "loss"})
            for stage, title in stages.items()
        ),
        _chart(
            "loss",
            "Discovery loss",
            found,
            {"loss": "total", "kl": "KL to the targets", "consistency": "consistency"},
            early=early,
        ),
        _chart("changed", "Pictures that changed kind", found, {"changed": "changed"}, shares=True, early=early),
        _chart("acc", "Accuracy against the truth", found, {"acc": "ACC"}, shares=True, early=early),
    ]
    return [chart for chart in charts if chart is not None]


def count_charts(count: Mapping[str, Any] | None) -> list[Chart]:
    """Return Algorithm 2's two curves, each with its own best K and the K chosen from both."""
    if count is None:
        return []
    rows = [row for row in count.get("curve") or () if _finite(row.get("k")) is not None]
    rows = sorted(rows, key=lambda row: float(row["k"]))
    charts = []
    rehearsed = count.get("estimator") == "rehearsed"
    index = "Probability of each number" if rehearsed else "Index of the unsorted pictures"
    for key, title, best in (("accuracy", "Accuracy on the probe kinds", "k_accuracy"), ("index", index, "k_index")):
        places = with_spread(rows, key)
        if not places:
            continue
        points = tuple((k, y) for k, y, _, _ in places)
        band = tuple((k, low, high) for k, _, low, high in places)
        guides = [
            Guide(k, f"{'estimate' if rehearsed else 'mean of both'}: {k:g}")
            for k in [_finite(count.get("k_mean"))]
            if k is not None
        ]
        charts.append(
            Chart(
                f"count-{key}",
                title,
                "new clusters",
                (Line(key, points, band if any(low < high for _, low, high in band) else ()),),
                shares=key == "accuracy",
                guides=tuple(guides),
                counts=True,
                focus=_finite(count.get(best)),
            )
        )
    return charts


def with_spread(rows: Records, key: str) -> list[tuple[float, float, float, float]]:
    """Return K, the value, and the least and largest value of its spread, where there is a value; a share is 0 to 1."""
    low, high = (0.0, 1.0) if key == "accuracy" else (-math.inf, math.inf)
    places = []
    for row in rows:
        if (y := _finite(row.get(key))) is not None:
            spread = _finite(row.get(f"{key}_spread")) or 0.0
            places.append((float(row["k"]), y, max(y - spread, low), min(y + spread, high)))
    return places


def _chart(
    key: str,
    title: str,
    records: Records,
    fields: Mapping[str, str],
    *,
    shares: bool = False,
    early: float | None = None,
) -> Chart | None:
    epochs = _epochs(records)
    lines = []
    for field, label in fields.items():
        points = tuple((x, y) for x, r in zip(epochs, records, strict=True) if (y := _finite(r.get(field))) is not None)
        if points:
            lines.append(Line(label, points))
    if not lines:
        return None
    return Chart(key, title, "epoch", tuple(lines), shares=shares, early=early, early_label="warm-up")


def _epochs(records: Records) -> list[float]:
    """Return the epoch of each record, or its position where the epochs do not rise: phases may count from 0 again."""
    epochs = [_finite(r.get("epoch")) for r in records]
    known = [e for e in epochs if e is not None]
    if len(known) == len(epochs) and all(a < b for a, b in pairwise(known)):
        return known
    return [float(i) for i in range(len(records))]


def _warmup(records: Records) -> float | None:
    early = [x for x, r in zip(_epochs(records), records, strict=True) if r.get("phase") == "warmup"]
    return max(early) if early and len(early) < len(records) else None


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        return None
    return float(value)
