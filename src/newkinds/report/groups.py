"""The kinds of a mixed heap in groups: new ones, known ones that are in it, and none of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newkinds.assignment import sort_of
from newkinds.report import text
from newkinds.report.data import ReportData
from newkinds.report.kinds import KindSummary, runners_up

TOUCHING = 0.5  # of the probability of a picture's own kind: a runner-up with so much is touched
TOUCHED = 3  # known kinds named on a card


@dataclass(frozen=True)
class Group:
    """Kinds of one sort, with a heading and a word about them; heading "" where the heap is of new kinds alone."""

    key: str
    heading: str
    about: str
    kinds: list[KindSummary]


def group_kinds(data: ReportData, kinds: Sequence[KindSummary]) -> list[Group]:
    """Return the kinds in groups; known kinds of which there is no picture have no card, and are named."""
    by = {sort: [kind for kind in kinds if data.sort_of(kind.kind) == sort] for sort in ("new", "known", "none")}
    if not (by["known"] or by["none"]):
        return [Group("new", "", "", by["new"])]
    found = [kind for kind in by["known"] if kind.size]
    absent = [data.kind_name(kind.kind) for kind in by["known"] if not kind.size]
    about = f"No pictures of: {', '.join(absent)}." if absent else ""
    nobody = "These pictures are unlike those of every kind, known or new."
    groups = [Group("new", "New kinds", "", by["new"]), Group("known", "Known kinds in the heap", about, found)]
    groups.append(Group("none", "None of these", nobody, [kind for kind in by["none"] if kind.size]))
    return [group for group in groups if group.kinds or (group.key == "known" and absent)]


def touched(data: ReportData) -> dict[int, list[tuple[str, int]]]:
    """Return, by new kind, the known kinds that its doubtful pictures might be of, and how many of these there are."""
    if all(sort_of(column) == "new" for column in data.assignment.columns):
        return {}
    second, probability = runners_up(data)
    found: dict[int, Counter[str]] = {}
    for row in np.flatnonzero(probability >= TOUCHING * data.own_probability).tolist():
        own, other = int(data.labels[row]), int(second[row])
        if data.is_new(own) and data.sort_of(other) == "known":
            found.setdefault(own, Counter())[data.kind_name(other)] += 1
    ranked = {kind: sorted(counts.items(), key=lambda one: (-one[1], one[0])) for kind, counts in found.items()}
    return {kind: counts[:TOUCHED] for kind, counts in ranked.items()}


def heap_in_words(data: ReportData) -> str:
    """Return how many pictures are of known kinds, as was estimated, and where they are; "" for new kinds alone."""
    sorts = [sort_of(column) for column in data.assignment.columns]
    if "known" not in sorts and "none" not in sorts:
        return ""
    n, said = len(data), []
    if data.heap is not None and data.heap["holds"] == "mixed":
        judged = int(data.heap.get("judged", n))
        known, low, high = (text.whole(round(judged * data.heap[key])) for key in ("known", "low", "high"))
        whom = "pictures" if judged == n else "pictures that nobody had said anything about"
        said.append(f"About {known} of {text.whole(judged)} {whom} are of known kinds ({low} to {high}).")
    sizes = data.assignment.sizes
    parts = []
    for sort in ("known", "new"):
        rows = [row for row, one in enumerate(sorts) if one == sort and sizes[row]]
        if rows:
            parts.append(f"{text.whole(int(sizes[rows].sum()))} in {text.plural(len(rows), f'{sort} kind')}")
    nobody = int(sum(size for size, sort in zip(sizes.tolist(), sorts, strict=True) if sort == "none"))
    if nobody:
        parts.append(f"{text.whole(nobody)} in none of them")
    return " ".join([*said, f"In this result: {', '.join(parts)}."])
