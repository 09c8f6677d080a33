"""How the pictures found their kinds: their places on the map and their probabilities, at each moment that was kept."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.images.decode import encode
from newkinds.methods.base import Snapshot
from newkinds.progress import QUIET, Progress
from newkinds.report.embedding_map import EmbeddingMap, follow, thin

MAX_MOVING = 1_000  # points that move; t-SNE of them takes about two seconds a moment
MAX_FRAMES = 12  # moments that are shown, spread evenly
MAX_ROWS = 120  # pictures in a heat map
# From dark to bright, evenly for the eye: about what matplotlib's viridis is, readable on both themes.
RAMP = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


@dataclass(frozen=True)
class Frame:
    """One moment of the map: after how many epochs, where the moving points lie (P, 2) in [0, 1], their kinds (P,)."""

    epoch: int
    places: NDArray[np.float64]
    kinds: NDArray[np.int64]


@dataclass(frozen=True)
class Panel:
    """The probabilities and the targets of some pictures at one moment, each a picture of a pixel a number."""

    epoch: int
    p: str
    q: str


@dataclass(frozen=True)
class Journey:
    """How it went. points: which of the map's points move, (P,), and in each frame, where and in which kind they are.

    panels: the heat maps, of so many rows and columns; snapshots: how many there were to choose from.
    """

    points: NDArray[np.int64]
    frames: tuple[Frame, ...]
    panels: tuple[Panel, ...]
    rows: int
    columns: int
    snapshots: int


def make_journey(
    snapshots: Sequence[Snapshot],
    layout: EmbeddingMap,
    kinds: NDArray[np.int64],
    confidence: NDArray[np.float64],
    seed: int,
    *,
    limit: int = MAX_MOVING,
    progress: Progress = QUIET,
) -> Journey | None:
    """Follow some of the map's points back to the start. kinds, confidence: of all pictures, (N,).

    The last moment starts from the map, and each one from the moment after it, so that points move smoothly from frame
    to frame and end where the map has them.
    """
    shown = _spread(snapshots)
    if not shown or any(not np.array_equal(m.items, shown[0].items) for m in shown):
        return None
    items = shown[0].items
    on_map = np.flatnonzero(np.isin(layout.items, items))
    points = on_map[thin(kinds[layout.items[on_map]], seed, limit)]
    rows = np.searchsorted(items, layout.items[points])
    places = layout.places[points]
    frames: list[Frame] = []
    if len(points) > 1:
        with progress.step("Map at each moment", len(shown)) as step:
            for moment in reversed(shown):
                places = follow(moment.embedding[rows], places, seed)
                frames.insert(0, Frame(moment.epoch, places, moment.p[rows].argmax(axis=1)))
                step.advance()
    order = _heat_rows(items, kinds, confidence, seed)
    panels = tuple(Panel(m.epoch, _heat(m.p[order]), _heat(m.q[order])) for m in shown)
    return Journey(points, tuple(frames), panels, len(order), shown[0].p.shape[1], len(snapshots))


def _spread(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return at most MAX_FRAMES snapshots, the first and the last among them; broken ones are no use."""
    sound = [m for m in snapshots if all(np.isfinite(values).all() for values in (m.embedding, m.p, m.q))]
    if len(sound) <= MAX_FRAMES:
        return sound
    return [sound[i] for i in np.linspace(0, len(sound) - 1, MAX_FRAMES).round().astype(int)]


def _heat_rows(
    items: NDArray[np.int64], kinds: NDArray[np.int64], confidence: NDArray[np.float64], seed: int
) -> NDArray[np.int64]:
    """Return which of the items the heat maps show: by final kind, inside a kind the surest first."""
    some = thin(kinds[items], seed, MAX_ROWS)
    return some[np.lexsort((-confidence[items[some]], kinds[items[some]]))]


def ramp(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return colours (3, ...) of values in [0, 1]."""
    stops = np.linspace(0, 1, len(RAMP))
    return (
        np.stack([np.interp(values, stops, [colour[i] for colour in RAMP]) for i in range(3)]).round().astype(np.uint8)
    )


def heat_uri(values: NDArray[np.floating]) -> str:
    """Return values (rows, columns) in [0, 1] as a data: URI of a PNG, a pixel each."""
    data = encode(ramp(values), "png")
    return f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"


def _heat(probabilities: NDArray[np.float32]) -> str:
    return heat_uri(np.sqrt(np.clip(probabilities, 0.0, 1.0)))  # the root shows small ones, too
