"""A plot of Algorithm 2's two curves."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from newkinds.plotting import Figure, MaxNLocator
from newkinds.report.history import with_spread


def count_plot(count: Mapping[str, Any]) -> bytes:
    """Return a PNG of accuracy and index against K with their spread, or of K's probability, from count.json."""
    figure = Figure(figsize=(7, 3.6), dpi=150, layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    curves = [
        (left, "accuracy", "accuracy on the probes", "#0072b2"),
        (right, "index", "index of the unsorted", "#d55e00"),
    ]
    about = "K, clusters next to those of the probe kinds; dashed: mean of both optima"
    if count.get("estimator") == "rehearsed":
        right.set_visible(False)
        curves, about = [(left, "index", "probability", "#0072b2")], "K, new kinds; dashed: the estimate"
    for axis, name, label, colour in curves:
        if places := with_spread(count["curve"], name):
            ks, values, low, high = zip(*places, strict=True)
            axis.plot(ks, values, color=colour)
            axis.fill_between(ks, low, high, color=colour, alpha=0.15, linewidth=0)
        axis.set_ylabel(label, color=colour)
        axis.spines["top"].set_visible(False)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.axvline(count["k_mean"], color="#444444", linestyle="--", linewidth=1)
    sure = "probably " if count.get("estimator") == "rehearsed" else ""  # of other ranges, nothing was measured
    about_so = f", {sure}{count['low']} to {count['high']}" if count["confidence"] else ""
    left.set_title(f"{count['k']} new kinds{about_so}", loc="left")
    left.set_xlabel(about)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
