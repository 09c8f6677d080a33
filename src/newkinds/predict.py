"""Which kind a new picture belongs to: one that was discovered, or one that was known before.

The clustering network tells the new kinds apart, but says nothing of the known ones. So the model keeps a prototype of
every kind, known and new: its mean feature under the final f. A picture is compared with all of them (Eq. 1 on
distances in units of the spread inside kinds), which gives the probability that it is of a known kind, and of which;
what is left is shared among the new kinds as the clustering network says.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.equations import assignment
from newkinds.errors import UsageError, unknown_name
from newkinds.features import apply
from newkinds.files import write_atomic
from newkinds.images.imageset import ImageSet
from newkinds.networks import ClusteringNetwork, SoftmaxNetwork
from newkinds.networks.files import clustering_from_bytes
from newkinds.progress import QUIET, Progress
from newkinds.runs import RunFolder

AMONG = ("all", "new", "known")
MODEL = "model/weights.safetensors"


@dataclass(frozen=True)
class Predictions:
    """Kinds of new pictures.

    kinds: the N names of the most probable kinds; probabilities: float32 (N, columns); columns: the kinds' names, new
    ones by number ("0", "1", ...), known ones as "known:NAME".
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    probabilities: NDArray[np.float32]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The most probable kind of each picture."""
        return tuple(self.columns[best] for best in self.probabilities.argmax(axis=1))

    def table(self) -> bytes:
        """Return path, kind, probability and runner-up of each picture as CSV."""
        return kinds_csv(self.names, self.columns, self.probabilities)

    def to_csv(self, path: str | Path) -> None:
        """Write path, kind, probability and runner-up of each picture, whole or not at all."""
        write_atomic(Path(path), self.table())


def kinds_csv(names: Sequence[str], columns: Sequence[str], probabilities: NDArray[np.float32]) -> bytes:
    """Return a CSV table with path, kind, probability and runner_up of each picture."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["path", "kind", "probability", "runner_up"])
    for name, row in zip(names, probabilities, strict=True):
        order = np.argsort(-row, kind="stable")
        runner_up = columns[order[1]] if len(order) > 1 else ""
        writer.writerow([name, columns[order[0]], f"{row[order[0]]:.6f}", runner_up])
    return buffer.getvalue().encode()


def prototypes(
    model: ClusteringNetwork | SoftmaxNetwork, known: ImageSet, unsorted: ImageSet, kinds: NDArray[np.int64]
) -> dict[str, Tensor]:
    """Return the mean feature of every known and new kind, and the spread of each feature inside kinds."""
    assert known.labels is not None
    features = np.concatenate([apply(model.network, known), apply(model.network, unsorted)]).astype(np.float64)
    classes = len(known.classes)
    labels = np.concatenate([known.labels, classes + kinds])
    means = np.zeros((classes + model.kinds, features.shape[1]))
    np.add.at(means, labels, features)
    means /= np.maximum(np.bincount(labels, minlength=len(means)), 1)[:, None]
    variance = np.square(features - means[labels]).mean(axis=0)
    floor = max(float(variance.mean()) * 1e-3, 1e-12)
    present = np.bincount(labels, minlength=len(means)) > 0
    return {
        "means": torch.from_numpy(means.astype(np.float32)),
        "spread": torch.from_numpy(np.sqrt(np.maximum(variance, floor)).astype(np.float32)),
        "present": torch.from_numpy(present),
    }


def combined(
    log_p: NDArray[np.float32], features: NDArray[np.float32], extra: dict[str, Tensor], among: str
) -> NDArray[np.float32]:
    """Return probabilities over the new kinds and then the known ones, float32 (N, K + L), or over those of `among`."""
    new = np.exp(log_p)
    kinds = new.shape[1]
    spread = extra["spread"] * np.sqrt(features.shape[1])
    near = assignment(torch.from_numpy(features) / spread, extra["means"] / spread, alpha=1.0)
    # With one unit as the typical distance Eq. 1 is nearly flat; its sharpened form decides between kinds.
    near = near**8 * extra["present"]
    near = near / near.sum(dim=1, keepdim=True)
    known = near[:, :-kinds].numpy()
    if among == "new":
        return new
    if among == "known":
        result: NDArray[np.float32] = known / np.maximum(known.sum(axis=1, keepdims=True), 1e-30)
        return result
    return np.concatenate([new * (1 - known.sum(axis=1, keepdims=True)), known], axis=1).astype(np.float32)


def predict(
    run: RunFolder, images: ImageSet, *, among: str = "all", network: str | None = None, progress: Progress = QUIET
) -> Predictions:
    """Return the kinds of pictures, which must have the size and channels of the model's.

    among: "all" kinds, or only the "new" or the "known" ones. network: the run's, which has to be said where it is a
    `module:function`.
    """
    if among not in AMONG:
        raise unknown_name("value of --among", among, AMONG)
    if not run.has(MODEL):
        raise UsageError(
            f"The method {run.settings.method!r} says nothing about pictures that it was not given.",
            hint="Discover with another method, or with these pictures among the unsorted ones.",
        )
    model, extra, about = clustering_from_bytes(run.get(MODEL), str(run.path / MODEL), admitted=network)
    log_p = apply(model, images, title="Predicting", progress=progress)
    features = apply(model.network, images)
    new = tuple(str(kind) for kind in range(log_p.shape[1]))
    known = tuple(f"known:{name}" for name in about["known_classes"])
    columns = {"all": new + known, "new": new, "known": known}[among]
    return Predictions(images.names, columns, combined(log_p, features, extra, among))
