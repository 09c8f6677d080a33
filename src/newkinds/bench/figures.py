"""Figures of the bench, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from newkinds.bench.tables import Table

ACC, NMI = "#0072b2", "#d55e00"  # told apart by all kinds of colour vision
STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "newkinds", "font.size": 9}


def study_figure(path: Path, table: Table, data: str, points: Sequence[tuple[float, float, float]]) -> list[Path]:
    """Draw ACC and NMI against what a study varies; returns path.png and path.svg, equal bytes for equal points."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5, 3), layout="constrained")
        axes = figure.add_subplot()
        x = [point[0] for point in points]
        for column, label, colour, marker in ((1, "ACC", ACC, "o"), (2, "NMI", NMI, "s")):
            axes.plot(x, [point[column] for point in points], color=colour, marker=marker, label=label)
        axes.set_xscale("log")
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.minorticks_off()
        axes.set_ylim(0, 1)
        axes.set_xlabel(f"{table.x} ({data})")
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        files = [path.with_name(f"{path.name}.svg"), path.with_name(f"{path.name}.png")]
        figure.savefig(files[0], metadata={"Date": None, "Creator": None})
        figure.savefig(files[1], dpi=150, metadata={"Software": None})
    return files
