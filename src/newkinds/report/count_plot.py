"""A picture of Algorithm 2's two curves."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure


def count_plot(count: Mapping[str, Any]) -> bytes:
    """Return a PNG of accuracy and silhouette against K, with the chosen number marked, from what count.json holds."""
    figure = Figure(figsize=(7, 3.6), dpi=150, layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    ks = [point["k"] for point in count["curve"]]
    left.plot(ks, [point["accuracy"] for point in count["curve"]], color="#0072b2")
    # K = 0 and 1 may have no silhouette; its stand-in of -1 would flatten the rest.
    shown = [(point["k"], point["index"]) for point in count["curve"] if point["index"] > -1]
    right.plot([k for k, _ in shown], [index for _, index in shown], color="#d55e00")
    left.axvline(count["k"], color="#444444", linestyle="--", linewidth=1)
    left.set_title(f"{count['k']} new kinds", loc="left")
    left.set_xlabel("number of new kinds, K")
    left.set_ylabel("accuracy on the probes", color="#0072b2")
    right.set_ylabel("silhouette of the unsorted", color="#d55e00")
    for axis in (left, right):
        axis.spines["top"].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
