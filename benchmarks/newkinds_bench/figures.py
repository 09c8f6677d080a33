"""Figures of the bench, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from newkinds.report.figures import STYLE, Heat, Panel, Shown, draw_heats, draw_panels, heats, panels, save
from newkinds_bench.tables import Table

POINTS = 800  # in a projection that is kept
ACC, NMI = "#0072b2", "#d55e00"  # told apart by all kinds of colour vision


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
    return save(figure, path)


def figure_data(what: Shown) -> dict[str, Any]:
    """Return what the figures without pictures are made of, small enough to be kept: all numbers in thousandths.

    Points of a projection stand group by group, as x, y, x, y, ...: they are drawn in that order.
    """
    ideal, p, q = heats(what)
    return {
        "names": what.names,
        "panels": [
            {
                "title": one.title,
                "groups": [
                    {"group": int(group), "places": _thousandths(one.places[one.groups == group].ravel())}
                    for group in np.unique(one.groups)
                ],
            }
            for one in panels(what, POINTS)
        ],
        "heats": [{"title": one.title, "values": _thousandths(one.values)} for one in (ideal, *p, *q)],
    }


def drawn_again(name: str, data: Mapping[str, Any], path: Path) -> list[Path]:
    """Draw the figure called `name` from what was kept of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "tsne-over-epochs":
        return save(draw_panels([_panel(one) for one in data["panels"]], data["names"]), path)
    ideal, *rest = (Heat(one["title"], np.array(one["values"]) / 1000) for one in data["heats"])
    half = len(rest) // 2
    return save(draw_heats(ideal, rest[:half], rest[half:]), path)


def _panel(kept: Mapping[str, Any]) -> Panel:
    places = [np.array(one["places"]).reshape(-1, 2) / 1000 for one in kept["groups"]]
    groups = np.repeat([one["group"] for one in kept["groups"]], [len(some) for some in places])
    return Panel(kept["title"], np.concatenate(places), groups)


def _thousandths(values: NDArray[np.float64]) -> list[Any]:
    found: list[Any] = np.rint(values * 1000).astype(int).tolist()
    return found
