"""The training in snapshots: the pictures' places on the map and their probabilities over the epochs."""

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

MAX_MOVING = 1_000  # points that move; t-SNE of them takes about two seconds for each snapshot
MAX_FRAMES = 12  # snapshots that are shown, spread evenly
MAX_ROWS = 120  # pictures in a heat map
# From dark to bright, perceptually uniform: close to matplotlib's viridis, readable on both themes.
RAMP = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


@dataclass(frozen=True)
class Frame:
    """The map at one snapshot: its epoch, the places (P, 2) in [0, 1] of the moving points, and their kinds (P,)."""

    epoch: int
    places: NDArray[np.float64]
    kinds: NDArray[np.int64]


@dataclass(frozen=True)
class Panel:
    """The probabilities and the targets of some pictures at one snapshot, each as an image, one pixel a number."""

    epoch: int
    p: str
    q: str


@dataclass(frozen=True)
class Journey:
    """The training over time. points: which of the map's points move, (P,); frames: their places and kinds.

    panels: the heat maps, of `rows` and `columns`; snapshots: how many there were to choose from.
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
    own: NDArray[np.float64],
    seed: int,
    *,
    limit: int = MAX_MOVING,
    progress: Progress = QUIET,
) -> Journey | None:
    """Trace some of the map's points back to the start. kinds, own: of all pictures, and how probable, (N,).

    The last snapshot's layout is initialised by the map, and each other one by the snapshot after it, so that points
    move smoothly from frame to frame and end where the map has them.
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
        with progress.step("Map at each snapshot", len(shown)) as step:
            for snapshot in reversed(shown):
                places = follow(snapshot.embedding[rows], places, seed)
                frames.insert(0, Frame(snapshot.epoch, places, snapshot.p[rows].argmax(axis=1)))
                step.advance()
    order = _heat_rows(items, kinds, own, seed)
    panels = tuple(Panel(m.epoch, _heat(m.p[order]), _heat(m.q[order])) for m in shown)
    return Journey(points, tuple(frames), panels, len(order), shown[0].p.shape[1], len(snapshots))


def _spread(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return at most MAX_FRAMES snapshots, including the first and the last; broken ones are skipped."""
    sound = [m for m in snapshots if all(np.isfinite(values).all() for values in (m.embedding, m.p, m.q))]
    if len(sound) <= MAX_FRAMES:
        return sound
    return [sound[i] for i in np.linspace(0, len(sound) - 1, MAX_FRAMES).round().astype(int)]


def _heat_rows(
    items: NDArray[np.int64], kinds: NDArray[np.int64], own: NDArray[np.float64], seed: int
) -> NDArray[np.int64]:
    """Return which of the items the heat maps show: sorted by final kind, within a kind the most certain first."""
    some = thin(kinds[items], seed, MAX_ROWS)
    return some[np.lexsort((-own[items[some]], kinds[items[some]]))]


def ramp(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return colours (3, ...) of values in [0, 1]."""
    stops = np.linspace(0, 1, len(RAMP))
    return (
        np.stack([np.interp(values, stops, [colour[i] for colour in RAMP]) for i in range(3)]).round().astype(np.uint8)
    )


def heat_uri(values: NDArray[np.floating]) -> str:
    """Return values (rows, columns) in [0, 1] as a data: URI of a PNG, one pixel each."""
    data = encode(ramp(values), "png")
    return f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"


def _heat(probabilities: NDArray[np.float32]) -> str:
    return heat_uri(np.sqrt(np.clip(probabilities, 0.0, 1.0)))  # the root makes small ones visible
