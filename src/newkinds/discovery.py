"""What a run found, as an object."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from newkinds.evaluation.scores import Scores
from newkinds.files import write_atomic
from newkinds.predict import Predictions, kinds_csv

if TYPE_CHECKING:
    from newkinds.images import Source


@dataclass(frozen=True)
class Discovery:
    """New kinds among unsorted pictures.

    names: of the N pictures. probabilities: p(k|i), float32 (N, K). scores, kmeans_scores: where the truth is known,
    those of the kinds and those of k-means on the features that discovery started from. count: what Algorithm 2 found
    if the number of kinds was estimated. choice: which epoch's state was kept, "last" or "best", and why. path: the
    run folder. network: the one that the run was asked for by name, which `predict` may therefore build again.
    """

    path: Path
    names: tuple[str, ...]
    probabilities: NDArray[np.float32]
    scores: Scores | None = None
    kmeans_scores: Scores | None = None
    count: dict[str, Any] | None = None
    choice: dict[str, Any] | None = None
    network: str | None = None

    @property
    def kinds(self) -> NDArray[np.int64]:
        """The most probable kind of each picture, int64 (N,), numbered from 0."""
        kinds: NDArray[np.int64] = self.probabilities.argmax(axis=1)
        return kinds

    @property
    def n_kinds(self) -> int:
        """How many kinds there are pictures of; `probabilities` also has columns for kinds that stayed empty."""
        return len(np.unique(self.kinds))

    def to_csv(self, path: str | Path) -> None:
        """Write path, kind, probability and runner-up of each picture, whole or not at all."""
        columns = [str(kind) for kind in range(self.probabilities.shape[1])]
        write_atomic(Path(path), kinds_csv(self.names, columns, self.probabilities))

    def report(self, folder: str | Path) -> Path:
        """Copy the report to a folder that does not exist yet and return its page."""
        return Path(shutil.copytree(self.path / "report", folder)) / "index.html"

    def predict(self, images: Source, among: str = "all", *, data: str | Path | None = None) -> Predictions:
        """Return the kinds of new pictures. data: the folder that data sets called by name lie in."""
        from newkinds.api import predict_images  # here, because the api gives out these objects

        return predict_images(self.path, images, among=among, network=self.network, data=data)
