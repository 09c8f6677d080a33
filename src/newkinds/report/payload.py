"""What the page's script gets as JSON: the map's points, kinds, moments of the training, and charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.report import text
from newkinds.report.curves import Chart, chart_json
from newkinds.report.data import ReportData
from newkinds.report.embedding_map import EmbeddingMap
from newkinds.report.journey import Journey
from newkinds.report.kinds import KindSummary, runners_up
from newkinds.report.palette import LIGHT, SHAPES, mark
from newkinds.report.sprites import Sprites

TENTHS = 10  # groups of the map's colouring by probability, or by the method's order
GRID = 10_000  # map coordinates are whole numbers up to this: finer than any screen


def page_data(
    data: ReportData,
    kinds: Sequence[KindSummary],
    layout: EmbeddingMap,
    sprites: Sprites | None,
    journey: Journey | None,
    charts: Sequence[Chart],
) -> dict[str, Any]:
    """Return all of it."""
    return {
        "title": data.title,
        "kinds": [_kind_json(data, kind) for kind in kinds],
        "points": _points_json(data, layout, sprites),
        "frames": _frames_json(journey),
        "known": [text.visible(name) for name in data.known_classes] if data.nearest_known else [],
        "sprites": _sprites_json(sprites),
        "certainty": _certainty_json(data),
        "marks": {"paths": SHAPES, "colours": len(LIGHT)},
        "charts": {chart.key: chart_json(chart) for chart in charts},
    }


def _frames_json(journey: Journey | None) -> dict[str, Any] | None:
    """Return the places and kinds of some of the map's points in each snapshot."""
    if journey is None or len(journey.frames) < 2:
        return None
    grid = [np.rint(frame.places * GRID).astype(int) for frame in journey.frames]
    return {
        "points": journey.points.tolist(),
        "epoch": [frame.epoch for frame in journey.frames],
        "x": [places[:, 0].tolist() for places in grid],
        "y": [places[:, 1].tolist() for places in grid],
        "kind": [frame.kinds.tolist() for frame in journey.frames],
    }


def _kind_json(data: ReportData, kind: KindSummary) -> dict[str, Any]:
    style = mark(kind.kind)
    return {
        "name": data.kind_name(kind.kind),
        "key": data.kind_key(kind.kind),
        "size": kind.size,
        "colour": style.colour,
        "path": style.path,
        "hollow": style.hollow,
    }


def _points_json(data: ReportData, layout: EmbeddingMap, sprites: Sprites | None) -> dict[str, Any]:
    """Return the map's points by column, which is half as long as a list of records."""
    items = layout.items
    second, _ = runners_up(data)
    places = np.rint(layout.places * GRID).astype(int)
    found = [sprites.places.get(i) if sprites else None for i in items.tolist()]
    truths = sorted({data.truth[i] for i in items}) if data.truth is not None else []
    truth_number = {name: number for number, name in enumerate(truths)}
    return {
        "grid": GRID,
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist(),
        "name": [text.visible(data.names[i]) for i in items],
        "kind": data.labels[items].tolist(),
        "second": second[items].tolist(),
        "calibrated": data.calibrated,
        "percent": _percents(data)[items].tolist(),
        "truth": None if data.truth is None else [truth_number[data.truth[i]] for i in items],
        "truths": [text.visible(name) for name in truths],
        "known": _known_json(data, items),
        "sprite": [None if place is None else [place.sheet, place.x, place.y] for place in found],
    }


def _percents(data: ReportData) -> NDArray[np.int64]:
    """Return how many of 100 such pictures are right, or how many of 100 the method is less sure of, int64 (N,)."""
    own = data.own_probability
    if data.calibrated:
        return np.array([text.of_100(p) for p in own.tolist()], dtype=np.int64)
    return np.asarray(np.searchsorted(np.sort(own), own) * 100 // len(own), dtype=np.int64)


def _certainty_json(data: ReportData) -> list[str] | None:
    """Return what the map's tenths of `_percents` are called; None where the method tells no pictures apart."""
    if data.calibrated:
        return [f"{10 * i} to {10 * i + 10} of 100" for i in range(TENTHS)]
    own = data.own_probability
    between = [f"tenth {i} of {TENTHS}" for i in range(2, TENTHS)]
    return ["least sure tenth", *between, "surest tenth"] if own.min() < own.max() else None


def _known_json(data: ReportData, items: NDArray[np.int64]) -> list[int] | None:
    """Return the nearest known kind of each of these pictures; None where the run does not say."""
    near = data.nearest_known
    if near is None:
        return None
    found: list[int] = near.of_items[items].tolist()
    return found


def _sprites_json(sprites: Sprites | None) -> dict[str, Any] | None:
    if sprites is None:
        return None
    return {
        "width": sprites.width,
        "height": sprites.height,
        "scale": sprites.scale,
        "pixelated": sprites.pixelated,
        "sheets": [[sheet.width, sheet.height] for sheet in sprites.sheets],
    }
