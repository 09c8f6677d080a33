"""How far to trust the answer: what rehearsals showed and what was chosen by them, as the page tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from newkinds.rehearsal.trust import COVERAGE, Trust
from newkinds.report import text
from newkinds.report.data import ReportData


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal: the names of the hidden kinds, and which share of their pictures was sorted right, by what.

    chance: by kinds drawn at random. pixels: by k-means on the pixels, None for embeddings.
    """

    hidden: tuple[str, ...]
    pictures: int
    right: float
    chance: float
    pixels: float | None


@dataclass(frozen=True)
class Candidate:
    """Settings that were tried, and how many pictures were right with them, as a mean over the rehearsals.

    changes: the settings that they change; words: what that means. gain: in the share right, against the settings as
    they were; gain_error: of it.
    """

    name: str
    changes: str
    words: str
    right: float
    gain: float
    gain_error: float | None
    chosen: bool


@dataclass(frozen=True)
class HowFar:
    """What the section shows; rehearsals and candidates are empty where there were none."""

    trust: Trust
    rehearsed: tuple[Rehearsed, ...] = ()
    tried: tuple[Candidate, ...] = ()

    @property
    def cases(self) -> str:
        """In how many cases the range should hold the true share: "8 of 10"."""
        return text.cases(COVERAGE)

    @property
    def missed(self) -> str:
        """By how many of 100 pictures what was said missed what was right, in words; "" where it cannot be told."""
        error = self.trust.error
        return "" if error is None else "less than 1" if error < 0.005 else f"{error * 100:.0f}"


def how_far(data: ReportData) -> HowFar | None:
    """Return how far to trust the answer, None where nothing says it."""
    if data.trust is None:
        return None
    if data.rehearsal is None:
        return HowFar(data.trust)
    chosen = data.rehearsal["chosen"]
    return HowFar(
        data.trust,
        tuple(
            Rehearsed(
                tuple(text.visible(name) for name in one["hidden"]),
                one["pictures"],
                one["trials"][chosen]["acc"],
                one["chance"],
                one["pixels"],
            )
            for one in data.rehearsal["rehearsed"]
        ),
        tuple(
            Candidate(
                text.visible(one["name"]),
                _changes(data.rehearsal["changes"].get(one["name"], {})),
                _words(data.rehearsal["changes"].get(one["name"], {})),
                one["acc"],
                one["gain"],
                one["gain_error"],
                one["name"] == chosen,
            )
            for one in data.rehearsal["tried"]
        ),
    )


def _changes(values: Mapping[str, Any]) -> str:
    """Return changed settings in a line: "discover.neighbours = 3"."""
    return ", ".join(f"{text.visible(key)} = {text.visible(str(value))}" for key, value in values.items())


def _words(values: Mapping[str, Any]) -> str:
    """Return what changed settings mean to somebody who does not know them; "" where only their names can tell."""
    if "initialise.neighbours" in values:
        number = values["initialise.neighbours"]
        how = f"together with the {number} most similar ones" if number else "on its own"
        return f"each picture is sorted {how}"
    if values.get("transfer.kind") == "none":
        return "nothing learnt from the known kinds is used"
    if "method" in values:
        return f"another method, {text.visible(str(values['method']))}"
    return ""
