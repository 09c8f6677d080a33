"""The content of the page, computed from the run's data: numbers, picks, map and thumbnails for the templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.evaluation.coverage import Coverage
from newkinds.progress import QUIET, Progress
from newkinds.report import text
from newkinds.report.curves import Chart, chart_json
from newkinds.report.data import ReportData
from newkinds.report.embedding_map import EmbeddingMap, make_map
from newkinds.report.history import Alternative, alternatives, count_charts, training_charts
from newkinds.report.journey import Journey, heat_uri, make_journey
from newkinds.report.kinds import DOUBTFUL, KindSummary, Pick, runners_up, summarise_kinds
from newkinds.report.mistakes import Mistakes, find_mistakes
from newkinds.report.oddities import Oddities, find_oddities
from newkinds.report.palette import LIGHT, SHAPES, mark
from newkinds.report.sprites import Sprites, make_sprites

COMPARED: list[tuple[str, str, Callable[[float | None], str]]] = [
    ("acc", "ACC", text.percent),
    ("nmi_geometric", "NMI", text.number),
    ("ari", "ARI", text.number),
    ("kinds", "Kinds", lambda value: "–" if value is None else f"{value:.3g}"),
    ("seconds", "Seconds", text.number),
    ("megabytes", "Memory, MB", text.number),
]
MAX_SKIPPED = 200  # listed by name; the others are counted
GRID = 10_000  # map coordinates are whole numbers up to this: finer than any screen

SCORES = {
    "acc": ("ACC", True, "Share of pictures in the right kind, kinds matched one to one with the true ones"),
    "nmi_geometric": ("NMI", False, "Normalised mutual information, geometric mean"),
    "nmi_arithmetic": ("NMI, arithmetic", False, "Normalised mutual information, arithmetic mean"),
    "ari": ("ARI", False, "Adjusted Rand index"),
    "kmeans_acc": ("ACC of k-means alone", True, "What clustering the features without training on them gives"),
}


@dataclass(frozen=True)
class Score:
    """A score against the truth, as shown, and what it means."""

    label: str
    value: str
    hint: str


@dataclass(frozen=True)
class Content:
    """All that the templates need; `payload` is what the page's script gets as JSON."""

    data: ReportData
    kinds: list[KindSummary]
    map: EmbeddingMap
    sprites: Sprites | None
    on_cards: list[int]
    training: list[Chart]
    count: list[Chart]
    alternatives: list[Alternative]
    journey: Journey | None
    mistakes: Mistakes | None
    oddities: Oddities
    picks: dict[int, Pick]
    scores: list[Score]
    settings: list[tuple[str, list[tuple[str, str]]]]
    payload: dict[str, Any]

    @property
    def mean_confidence(self) -> float:
        """The mean probability of the pictures' own kinds."""
        return float(self.data.confidence.mean())

    @property
    def doubtful(self) -> int:
        """How many pictures probably do not belong to their kind."""
        return int((self.data.confidence < DOUBTFUL).sum())

    @property
    def look_first(self) -> KindSummary | None:
        """The kind that its own pictures are least sure of, where one stands out."""
        used = [k for k in self.kinds if k.confidence is not None]
        if len(used) < 2:
            return None
        worst = min(used, key=lambda k: k.confidence or 0.0)
        return worst if (worst.confidence or 0.0) < self.mean_confidence - 0.02 or worst.doubtful else None

    @property
    def sure(self) -> float:
        """The share of pictures whose kind is more probable than all others together."""
        return 1 - self.doubtful / len(self.data)

    @property
    def confusion_picture(self) -> str:
        """The confusion matrix as an image, if it is too large for a table."""
        assert self.mistakes is not None
        return heat_uri(np.sqrt(self.mistakes.shares))

    def nearest_known(self, kind: int) -> tuple[str, float] | None:
        """Return the known kind nearest to a new one and how far it is, where the run says so."""
        near = self.data.nearest_known
        if near is None or near.of_kinds[kind] < 0 or near.of_kinds[kind] >= len(self.data.known_classes):
            return None
        return self.data.known_classes[near.of_kinds[kind]], float(near.kind_distances[kind])

    @property
    def shown_method(self) -> str:
        """The method whose kinds the page shows."""
        return str(self.data.settings["method"])

    @property
    def comparison_columns(self) -> list[tuple[str, str, Callable[[float | None], str]]]:
        """The columns of the table of methods that have a value: key, label, and how a value is written."""
        rows = (self.data.comparison or {}).get("methods", [])
        return [column for column in COMPARED if any(row.get(column[0]) is not None for row in rows)]

    @property
    def points_without_picture(self) -> int:
        """How many of the map's points have no thumbnail although there are pictures."""
        if self.sprites is None:
            return 0
        return sum(item not in self.sprites.places for item in self.map.items.tolist())

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The first skipped files, with the reason."""
        return [(s.name, s.reason) for s in self.data.skipped[:MAX_SKIPPED]]


def gather(data: ReportData, progress: Progress = QUIET) -> Content:
    """Compute everything that the page shows."""
    kinds = summarise_kinds(data)
    mistakes, oddities = find_mistakes(data), find_oddities(data)
    layout = make_map(data.features, data.labels, data.seed, progress=progress)
    journey = make_journey(data.snapshots, layout, data.labels, data.confidence, data.seed, progress=progress)
    on_cards = [p.item for kind in kinds for p in (*kind.central_picks, *kind.doubtful_picks, *kind.border_picks)]
    on_cards += [item for mistake in (mistakes.largest if mistakes else ()) for item in mistake.items]
    on_cards = list(dict.fromkeys([*on_cards, *oddities.items]))
    sprites = None
    if data.pixels is not None:
        # Only what the page shows gets a thumbnail; cards come first, in case the limit is reached.
        moving = layout.items[journey.points].tolist() if journey else []
        on_map = [*moving, *layout.items[layout.first].tolist(), *layout.items.tolist()]
        wanted = np.asarray(list(dict.fromkeys([*on_cards, *on_map])), dtype=np.int64)
        sprites = make_sprites(data.pixels, wanted, needed=len(on_cards))
    training, count = training_charts(data.history, data.stages, data.assigns), count_charts(data.count)
    if data.coverage is not None and not data.coverage.enough:
        training = [chart for chart in training if chart.key != "acc"]  # the log may be older than this truth
    return Content(
        data=data,
        kinds=kinds,
        map=layout,
        sprites=sprites,
        on_cards=on_cards,
        training=training,
        count=count,
        alternatives=alternatives(data.count),
        journey=journey,
        mistakes=mistakes,
        oddities=oddities,
        picks=_picks(data, on_cards),
        scores=_scores(data.scores, data.coverage),
        settings=text.flat_settings(data.settings),
        payload={
            "title": data.title,
            "kinds": [_kind_json(kind) for kind in kinds],
            "points": _points_json(data, layout, sprites),
            "frames": _frames_json(journey),
            "known": [text.visible(name) for name in data.known_classes] if data.nearest_known else [],
            "sprites": _sprites_json(sprites),
            "marks": {"paths": SHAPES, "colours": len(LIGHT)},
            "charts": {chart.key: chart_json(chart) for chart in (*training, *count)},
        },
    )


def _picks(data: ReportData, items: list[int]) -> dict[int, Pick]:
    """Return the caption of each of these pictures."""
    second, probability = runners_up(data)
    own = data.confidence
    return {i: Pick(i, float(own[i]), int(second[i]) if second[i] >= 0 else None, float(probability[i])) for i in items}


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


def _scores(scores: dict[str, float] | None, covered: Coverage | None) -> list[Score]:
    """Return the scores as shown; those of a part of the pictures say so in their labels."""
    part = "" if covered is None or covered.complete else f" on {text.whole(covered.pictures)}"
    shown = []
    for key in sorted(scores or {}, key=lambda k: list(SCORES).index(k) if k in SCORES else len(SCORES)):
        label, share, hint = SCORES.get(key, (text.visible(key).replace("_", " "), False, ""))
        value = (scores or {})[key]
        shown.append(Score(label + part, text.percent(value) if share else text.number(value), hint))
    return shown


def _kind_json(kind: KindSummary) -> dict[str, Any]:
    style = mark(kind.kind)
    return {
        "name": text.kind_name(kind.kind),
        "size": kind.size,
        "colour": style.colour,
        "path": style.path,
        "hollow": style.hollow,
    }


def _points_json(data: ReportData, layout: EmbeddingMap, sprites: Sprites | None) -> dict[str, Any]:
    """Return the map's points by column, which is half as long as a list of records."""
    items = layout.items
    second, second_probability = runners_up(data)
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
        "probability": [text.percent(p) for p in data.confidence[items]],
        "second": second[items].tolist(),
        "second_probability": [text.percent(p) for p in second_probability[items]],
        "percent": np.rint(data.confidence[items] * 100).astype(int).tolist(),
        "truth": None if data.truth is None else [truth_number[data.truth[i]] for i in items],
        "truths": [text.visible(name) for name in truths],
        "known": _known_json(data, items),
        "sprite": [None if place is None else [place.sheet, place.x, place.y] for place in found],
    }


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
