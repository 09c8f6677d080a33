"""The content of the page, computed from the run's data: numbers, picks, map and thumbnails for the templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from newkinds.evaluation.coverage import Coverage
from newkinds.evaluation.same_kinds import in_words as same_in_words
from newkinds.progress import QUIET, Progress
from newkinds.report import text
from newkinds.report.curves import Chart
from newkinds.report.data import ReportData
from newkinds.report.embedding_map import EmbeddingMap, make_map
from newkinds.report.groups import Group, group_kinds, heap_in_words, touched
from newkinds.report.history import Alternative, CountRange, alternatives, count_charts, count_range, training_charts
from newkinds.report.journey import Journey, heat_uri, make_journey
from newkinds.report.kinds import DOUBTFUL, KindSummary, Pick, runners_up, summarise_kinds
from newkinds.report.mistakes import Mistakes, find_mistakes
from newkinds.report.oddities import Oddities, find_oddities
from newkinds.report.payload import page_data
from newkinds.report.sprites import Sprites, make_sprites
from newkinds.report.trust import HowFar, how_far
from newkinds.runs import names

COMPARED: list[tuple[str, str, Callable[[float | None], str]]] = [
    ("acc", "ACC", text.percent),
    ("nmi_geometric", "NMI", text.number),
    ("ari", "ARI", text.number),
    ("all", "All", text.percent),
    ("old", "Old", text.percent),
    ("new", "New", text.percent),
    ("named", "Right by name", text.percent),
    ("auroc", "Known or new, AUROC", text.number),
    ("kinds", "Kinds", lambda value: "–" if value is None else f"{value:.3g}"),
    ("seconds", "Seconds", text.number),
    ("megabytes", "Memory, MB", text.number),
]
STANDS_OUT = 0.02  # below the mean of all kinds: a kind to look at first
MAX_SKIPPED = 200  # listed by name; the others are counted

SCORES = {
    "acc": ("ACC", True, "Share of pictures in the right kind, with kinds matched one to one with the true ones"),
    "nmi_geometric": ("NMI", False, "Normalised mutual information, geometric mean"),
    "nmi_arithmetic": ("NMI, arithmetic", False, "Normalised mutual information, arithmetic mean"),
    "ari": ("ARI", False, "Adjusted Rand index"),
    "kmeans_acc": ("ACC of k-means alone", True, "What clustering the features gives without further training"),
    "all": ("All", True, "Share of pictures that are right under one matching of all kinds, known and new"),
    "old": ("Old", True, "The same among pictures of known kinds"),
    "new": ("New", True, "The same among pictures of new kinds"),
    "named": ("Right by name", True, "Pictures of known kinds must be under their own name; new kinds are matched"),
    "auroc": ("Known or new, AUROC", False, "How often a new picture seems newer than a known one"),
    "rejected_rightly": ("None of these, correctly", True, "Share of the pictures called none of these that truly are"),
}


@dataclass(frozen=True)
class Score:
    """A score against the truth, as shown, and what it means. key: as in SCORES."""

    key: str
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
    how_far: HowFar | None
    picks: dict[int, Pick]
    groups: list[Group]
    touched: dict[int, list[tuple[str, int]]]
    scores: list[Score]
    settings: list[tuple[str, list[tuple[str, str]]]]
    payload: dict[str, Any]

    @property
    def doubtful(self) -> int | None:
        """How many pictures are more likely wrong than right, None where that cannot be told."""
        return int((self.data.own_probability < DOUBTFUL).sum()) if self.data.calibrated else None

    @property
    def look_first(self) -> KindSummary | None:
        """The kind that is least likely to be one, or else the last in the method's order, where one stands out."""
        used = [k for k in self.kinds if k.mean_probability is not None]
        if len(used) < 2:
            return None
        pure = {k.kind: k.mean_probability or 0.0 if k.purity is None else k.purity for k in used}
        worst = min(used, key=lambda k: pure[k.kind])
        stands_out = pure[worst.kind] < float(np.mean(list(pure.values()))) - STANDS_OUT
        return worst if stands_out or worst.doubtful else None

    @property
    def heap(self) -> str:
        """How many pictures are of known kinds, "" where the heap is of new kinds alone."""
        return heap_in_words(self.data)

    @property
    def same_kinds(self) -> str:
        """Which known kinds cannot be told from one another, and what to do about it; "" where none are."""
        return same_in_words((self.data.heap or {}).get("same", ()))

    @property
    def right(self) -> Score | None:
        """The share of pictures that are right by the truth, where it is known, in plain words."""
        found = next((score for score in self.scores if score.key == "acc"), None)
        return found and replace(found, label=f"Actually right{_part(self.data.coverage)}")

    @property
    def count_range(self) -> CountRange | None:
        """The range that the estimated number of kinds comes with."""
        return count_range(self.data.count)

    @property
    def how(self) -> bool:
        """Whether there is anything to say about how the kinds were found."""
        return bool(self.scores or self.count or self.training or self.journey)

    @property
    def hopeless(self) -> str:
        """Why rehearsals say that it does not work, "" where they do not."""
        return str((self.data.rehearsal or {}).get("hopeless") or "")

    @property
    def trust_is_damaged(self) -> bool:
        """Whether the run said how far to trust the answer, and that was lost."""
        return names.TRUST in self.data.damaged

    @property
    def cannot_tell(self) -> str:
        """Why the number of kinds cannot be told, as a clause, "" where it was given or can be."""
        return str((self.data.count or {}).get("cannot_tell") or "")

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
    def news(self) -> list[str]:
        """What is new since the last week, in sentences that call kinds as the page does."""
        since = self.data.since
        if since is None:
            return []
        there = (*self.data.assignment.columns, *since.gone)
        return replace(since, called={kind: text.kind_name(kind, self.data.called) for kind in there}).in_words()

    def came(self, kind: int) -> str:
        """Return what is new about a kind since the last week: that it is, or how many pictures came; "" if nothing."""
        since, column = self.data.since, self.data.assignment.columns[kind]
        if since is None:
            return ""
        if column in since.found:
            return "new this time"
        number = since.known.get(column, 0) or since.open.get(column, 0)
        return f"+{text.whole(number)} this time" if number else ""

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
    journey = make_journey(data.snapshots, layout, data.labels, data.own_probability, data.seed, progress=progress)
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
        how_far=how_far(data),
        picks=_picks(data, on_cards),
        groups=group_kinds(data, kinds),
        touched=touched(data),
        scores=_scores(data.scores, data.coverage),
        settings=text.flat_settings(data.settings),
        payload=page_data(data, kinds, layout, sprites, journey, (*training, *count)),
    )


def _picks(data: ReportData, items: list[int]) -> dict[int, Pick]:
    """Return the caption of each of these pictures."""
    second, probability = runners_up(data)
    own = data.own_probability
    return {i: Pick(i, float(own[i]), int(second[i]) if second[i] >= 0 else None, float(probability[i])) for i in items}


def _scores(scores: dict[str, float] | None, covered: Coverage | None) -> list[Score]:
    """Return the scores as shown; those of a part of the pictures say so in their labels."""
    shown = []
    for key in sorted(scores or {}, key=lambda k: list(SCORES).index(k) if k in SCORES else len(SCORES)):
        label, share, hint = SCORES.get(key, (text.visible(key).replace("_", " "), False, ""))
        value = (scores or {})[key]
        shown.append(Score(key, label + _part(covered), text.percent(value) if share else text.number(value), hint))
    return shown


def _part(covered: Coverage | None) -> str:
    """Return on how many pictures there is a truth, where that is a part of them: " on 40"."""
    return "" if covered is None or covered.complete else f" on {text.whole(covered.pictures)}"
