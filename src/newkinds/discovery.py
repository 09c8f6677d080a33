"""What a run found, as an object."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment
from newkinds.evaluation.known_quality import KnownQuality
from newkinds.evaluation.scores import Scores
from newkinds.files import as_path
from newkinds.images import Source
from newkinds.predict import predict_images
from newkinds.progress import Progress, automatic
from newkinds.rehearsal.trust import Trust
from newkinds.runs import RunFolder, names
from newkinds.runs.claim import check_table
from newkinds.runs.following import read_answer, read_current_scores, read_current_trust, read_since
from newkinds.runs.growth import Since
from newkinds.runs.results import read_known_quality, read_rehearsal


@dataclass(frozen=True, repr=False)
class Discovery:
    """New kinds among unsorted pictures.

    path: the run folder. assignment: the answer, of which names, columns, labels, kinds, probabilities and n_kinds are
    shown here, too. scores, kmeans_scores: where the truth is known, those of the kinds and those of k-means on the
    features that discovery started from, with the number of pictures that have a truth. count: how the number of kinds
    was estimated, if it was. choice: which epoch's state was kept, "last" or "best", and why. known_quality: how well
    the known kinds are told apart, where the run says so. trust: how many pictures are probably right, and how pure
    each kind is, by rehearsals; rehearsal: what each showed, what was tried and chosen; None where none were asked for,
    and then `probabilities` are the method's own scores, which order pictures and say nothing else. network: code of
    the user's that the run's network is, `module:function`, which `predict` may build again because the user has named
    it. called: the names that people gave to kinds, {"new:3": "washer"}. since: what is new since the last week, where
    the run goes on from another one. machine: the answer before anybody said
    anything, where `assignment` follows the run's journal; confirmed: which pictures a person looked at, bool (N,).
    """

    path: Path
    assignment: Assignment
    scores: Scores | None = None
    kmeans_scores: Scores | None = None
    count: dict[str, Any] | None = None
    choice: dict[str, Any] | None = None
    network: str | None = None
    known_quality: KnownQuality | None = None
    trust: Trust | None = None
    rehearsal: dict[str, Any] | None = None
    called: Mapping[str, str] = field(default_factory=dict)
    machine: Assignment | None = None
    confirmed: NDArray[np.bool_] | None = None
    since: Since | None = None

    @property
    def known_accuracy(self) -> float | None:
        """The share of pictures of known kinds that are named rightly by what has not seen them, where measured."""
        return None if self.known_quality is None else self.known_quality.accuracy

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the N pictures."""
        return self.assignment.names

    @property
    def columns(self) -> tuple[str, ...]:
        """The kinds, in the order of the columns of `probabilities`."""
        return self.assignment.columns

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """p(k|i), float32 (N, K)."""
        return self.assignment.probabilities

    @property
    def labels(self) -> NDArray[np.int64]:
        """The column of each picture's most probable kind, int64 (N,)."""
        return self.assignment.labels

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The name of each picture's most probable kind, such as "new:3", (N,)."""
        return self.assignment.kinds

    @property
    def n_kinds(self) -> int:
        """How many kinds hold a picture; `probabilities` also has columns for kinds that stayed empty."""
        return self.assignment.n_kinds

    def to_csv(self, path: str | Path) -> None:
        """Write path, kind, probability and runner-up of each picture, whole or not at all."""
        check_table(as_path(path))
        self.assignment.to_csv(path)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: path, kind, probability and a column of probabilities for each kind."""
        return self.assignment.to_frame()

    def report(self, folder: str | Path) -> Path:
        """Copy the report to a folder that does not exist yet and return its page."""
        return Path(shutil.copytree(self.path / names.REPORT, folder)) / Path(names.PAGE).name

    def predict(
        self,
        images: Source,
        among: str = "all",
        *,
        none: float | None = None,
        data: str | Path | None = None,
        device: str | None = None,
        progress: Progress | None = None,
    ) -> Assignment:
        """Return the kinds of new pictures; the arguments are those of `newkinds.predict`."""
        run, say = RunFolder.open(self.path), automatic(progress)
        return predict_images(
            run, images, among=among, none=none, network=self.network, data=data, device=device, progress=say
        )

    def __repr__(self) -> str:
        return f"<Discovery in {self.path}: {self.assignment.summary()}{self._trusted()}{self._scored()}>"

    def _trusted(self) -> str:
        """Return the share of pictures that are probably right, where rehearsals say so."""
        if self.trust is None:
            return ""
        return f", probably {self.trust.acc:.0%} right ({self.trust.low:.0%} to {self.trust.high:.0%})"

    def _scored(self) -> str:
        """Return ACC, and of which pictures where that is not all of them."""
        if self.scores is None:
            return ""
        acc = "no ACC" if self.scores.acc is None else f"ACC {self.scores.acc:.3f}"
        covered = self.scores.coverage
        part = "" if covered.complete else f" ({covered.part} with a truth)"
        return f", {acc}{part}"

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for notebooks."""
        return self.assignment._repr_html_()


def read_discovery(run: RunFolder, network: str | None = None) -> Discovery:
    """Return what a finished run found, and people said since. network: the one that the user named, if any."""
    answer = read_answer(run)
    scored = read_current_scores(run, answer)
    found = Discovery(
        run.path,
        answer.assignment,
        count=run.get_json(names.COUNT) if run.lists(names.COUNT) else None,
        choice=run.get_json(names.CHOICE) if run.lists(names.CHOICE) else None,
        network=network,
        known_quality=read_known_quality(run),
        trust=read_current_trust(run, answer),
        rehearsal=read_rehearsal(run),
        called=answer.called,
        machine=answer.machine if answer.is_corrected else None,
        confirmed=None if answer.state is None else answer.state.confirmed.copy(),
        since=read_since(run, answer),
    )
    return found if scored is None else replace(found, scores=scored[0], kmeans_scores=scored[1])
