"""The input of the report: everything the page shows, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment, sort_of
from newkinds.errors import DataError
from newkinds.evaluation.coverage import Coverage, coverage
from newkinds.evaluation.known_quality import KnownQuality
from newkinds.images.imageset import Skipped
from newkinds.methods.base import Snapshot
from newkinds.rehearsal.trust import Trust
from newkinds.report import text
from newkinds.report.known_kinds import NearestKnown
from newkinds.runs.growth import Since

ROUNDING = 1e-3  # how far outside [0, 1] a probability may be and still count as a rounding error


@dataclass(frozen=True, eq=False)
class ReportData:
    """The result of a run on N pictures, and how it was found.

    assignment: the answer, to K kinds, of which some may be empty. Names are any text: shown as text, never run.
    pixels: uint8 (N, C, H, W) with C 1 or 3, or None for ready-made embeddings.
    features: float32 (N, c), which the map is made from.
    truth: the N true kinds, "" where they are not known, or None where none is.
    history: the log's records, e.g. {"stage": "pretrain", "epoch": 3, "loss": 0.4, "held_out_accuracy": 0.9} and
        {"stage": "discover", "phase": "main", "epoch": 5, "loss": 0.2, "kl": 0.1, "consistency": 0.1, "changed": 0.02}.
    count: Algorithm 2's estimate, as `Count.to_dict` returns it, or None if the number of kinds was given.
    scores: {"acc", "nmi_geometric", "nmi_arithmetic", "ari", "kmeans_acc"}, and of a mixed heap "all", "old", "new",
        "named", "auroc" and "rejected_rightly"; None where the truth is not known, or of too few pictures.
    settings: all values of the run, resolved; tables in tables.
    comparison: where several methods were run, {"methods": rows of "method", "line" and means with "_std" of "acc",
        "nmi_geometric", "ari", "kinds", "seconds" and "megabytes", of mixed heaps also of "all", "old", "new", "named"
        and "auroc", each or None; "agreement": (M, M) in [0, 1];
        "remark": on which pictures they were scored, if not on all}.
    choice: which epoch's state was kept and why: {"kept": "last" or "best", "epoch": from 0, -1 the start, "why"}.
    stages: the method's training stages before pictures get their kinds, with the title of their chart; assigns: the
        stage in which they get them.
    snapshots: of the training, the start first; without them, the page leaves out what shows them.
    nearest_known: distances to the known kinds, if the run has a model.
    known_quality: how well the known kinds are told apart, where the run says so.
    trust: what to expect of the answer; rehearsal: what rehearsals showed, what was tried and chosen, as rehearsal.json
        has it; both None where none were asked for.
    damaged: files of the run that are not what it wrote: what they would tell is left out.
    called: names that people gave to kinds, {"new:3": "washer"}; said: how many of their corrections the page follows.
    heap: what the heap was found to hold, as novelty.json has it: {"holds", "known", "low", "high"}, the last three
        shares of pictures; None where that was not asked.
    since: what is new since the last week, where the run goes on from another one.
    """

    title: str
    assignment: Assignment
    pixels: NDArray[np.uint8] | None
    features: NDArray[np.float32]
    truth: tuple[str, ...] | None
    history: list[dict[str, Any]]
    count: dict[str, Any] | None
    scores: dict[str, float] | None
    settings: dict[str, Any]
    seed: int
    version: str
    skipped: tuple[Skipped, ...]
    known_classes: tuple[str, ...]
    choice: dict[str, Any] | None = None
    comparison: dict[str, Any] | None = None
    stages: Mapping[str, str] = field(default_factory=dict)
    assigns: str | None = None
    snapshots: tuple[Snapshot, ...] = ()
    nearest_known: NearestKnown | None = None
    known_quality: KnownQuality | None = None
    trust: Trust | None = None
    rehearsal: dict[str, Any] | None = None
    damaged: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    said: int = 0
    heap: dict[str, Any] | None = None
    since: Since | None = None

    def __post_init__(self) -> None:
        n = len(self.names)
        if n == 0:
            raise DataError("There are no pictures to report on.", hint="Give the report at least one picture.")
        _check_shape("features", self.features.shape, (n, None))
        if self.pixels is not None:
            _check_shape("pixels", self.pixels.shape, (n, None, None, None))
            if self.pixels.shape[1] not in (1, 3) or 0 in self.pixels.shape:
                raise DataError(f"pixels has shape {self.pixels.shape}; (N, 1 or 3, H, W) is needed.")
        if self.truth is not None and len(self.truth) != n:
            raise DataError(f"truth has {len(self.truth)} entries for {n} pictures.")
        if self.trust is not None and len(self.trust.purity) != self.n_kinds:
            raise DataError(f"trust is of {len(self.trust.purity)} kinds, and there are {self.n_kinds}.")
        bad = ~np.isfinite(self.features).all(axis=1)
        low, high = -ROUNDING, 1 + ROUNDING
        bad |= ~((self.probabilities >= low) & (self.probabilities <= high)).all(axis=1)  # false for NaN, too
        if bad.any():
            raise DataError(
                f"{int(bad.sum())} of {n} pictures have features that are not finite or probabilities "
                f"outside [0, 1]; the first is {self.names[int(bad.argmax())]!r}."
            )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the pictures."""
        return self.assignment.names

    @property
    def labels(self) -> NDArray[np.int64]:
        """The number of each picture's kind, int64 (N,) in 0..K-1."""
        return self.assignment.labels

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """p(k|i), float32 (N, K)."""
        return self.assignment.probabilities

    @property
    def coverage(self) -> Coverage | None:
        """How many pictures have a truth, if any."""
        return None if self.truth is None else coverage(self.truth)

    @property
    def n_kinds(self) -> int:
        """K, empty kinds included."""
        return len(self.assignment.columns)

    @property
    def n_new(self) -> int:
        """How many of them are new."""
        return sum(sort_of(column) == "new" for column in self.assignment.columns)

    def kind_name(self, kind: int) -> str:
        """Return what a kind is called: the name that it was given, or its number in the run's table."""
        return text.kind_name(self.assignment.columns[kind], self.called)

    def kind_key(self, kind: int) -> str:
        """Return what stands for a kind in a names file: the number of a new one."""
        return self.assignment.columns[kind].removeprefix("new:")

    @property
    def nothing_new(self) -> bool:
        """Whether no picture is of a new kind."""
        sizes = self.assignment.sizes.tolist()
        return not any(size for size, one in zip(sizes, self.assignment.columns, strict=True) if sort_of(one) == "new")

    def sort_of(self, kind: int) -> str:
        """Return whether a kind is "new", "known" or "none"."""
        return sort_of(self.assignment.columns[kind])

    def is_new(self, kind: int) -> bool:
        """Return whether a kind is new: those alone can be named."""
        return sort_of(self.assignment.columns[kind]) == "new"

    @property
    def calibrated(self) -> bool:
        """Whether probabilities say how often such a picture is right; if not, they only order the pictures."""
        return self.assignment.calibrated

    @property
    def own_probability(self) -> NDArray[np.float64]:
        """The probability of each picture's own kind, float64 (N,) in [0, 1]; see `calibrated`."""
        own = self.probabilities[np.arange(len(self)), self.labels]
        return np.clip(own.astype(np.float64), 0.0, 1.0)


def _check_shape(name: str, shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> None:
    if len(shape) != len(wanted) or any(w is not None and w != s for s, w in zip(shape, wanted, strict=True)):
        text = ", ".join("any" if w is None else str(w) for w in wanted)
        raise DataError(f"{name} has shape {shape}; ({text}) is needed.")
