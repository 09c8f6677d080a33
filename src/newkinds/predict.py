"""Prediction: which kind a new picture belongs to, one that was discovered or one that was known before.

The model tells the new kinds apart, but knows nothing of the known ones. So it keeps a prototype of every kind, known
and new: the kind's mean feature under the final f. A picture is compared with all of them (Eq. 1 on distances in units
of the spread within kinds), which gives the probability that it is of a known kind, and of which; the rest is divided
among the new kinds as the model says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.assignment import Assignment, known_kind, new_kind
from newkinds.equations import assignment
from newkinds.errors import NumericsError, UsageError, unknown_name
from newkinds.features import model_outputs
from newkinds.images import Source
from newkinds.images.imageset import ImageSet
from newkinds.memory import row_blocks
from newkinds.methods.registry import HEADS
from newkinds.networks.files import model_from_bytes
from newkinds.parallel.devices import pick_device
from newkinds.progress import QUIET, Progress
from newkinds.rehearsal.calibration import of_other_pictures
from newkinds.runs import RunFolder, names
from newkinds.runs.pictures import open_for
from newkinds.runs.results import method_of

AMONG = ("all", "new", "known")


def prototypes(
    known: ImageSet,
    known_features: NDArray[np.float32],
    features: NDArray[np.float32],
    labels: NDArray[np.int64],
    new: int,
) -> dict[str, Tensor]:
    """Return the mean feature of every known and new kind, and the spread of each feature within kinds.

    known_features, features: of the known and of the unsorted pictures under the model's f, float32 (L, d) and (N, d).
    labels: the new kinds of the latter, int64 (N,). new: how many there are.
    """
    assert known.labels is not None
    parts = ((known_features, known.labels), (features, len(known.classes) + labels))
    blocks = [(rows[some], kinds[some]) for rows, kinds in parts for some in row_blocks(*rows.shape)]
    means = np.zeros((len(known.classes) + new, features.shape[1]))
    for rows, kinds in blocks:
        np.add.at(means, kinds, rows.astype(np.float64))
    sizes = np.bincount(np.concatenate([kinds for _, kinds in blocks]), minlength=len(means))
    means /= np.maximum(sizes, 1)[:, None]
    squares = np.zeros(features.shape[1])
    for rows, kinds in blocks:
        squares = np.concatenate([squares[None], np.square(rows - means[kinds])]).sum(axis=0)
    variance = squares / sizes.sum()
    floor = max(float(variance.mean()) * 1e-3, 1e-12)
    present = sizes > 0
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
    # With a typical distance of 1, Eq. 1 is nearly flat; sharpened, it decides between kinds.
    near = near**8 * extra["present"]
    near = near / near.sum(dim=1, keepdim=True)
    known = near[:, :-kinds].numpy()
    if among == "new":
        return new
    if among == "known":
        result: NDArray[np.float32] = known / np.maximum(known.sum(axis=1, keepdims=True), 1e-30)
        return result
    return np.concatenate([new * (1 - known.sum(axis=1, keepdims=True)), known], axis=1).astype(np.float32)


def predict_images(
    run: RunFolder,
    images: Source,
    *,
    among: str = "all",
    network: str | None = None,
    data: str | Path | None = None,
    device: str | None = None,
    progress: Progress = QUIET,
) -> Assignment:
    """Return the kinds of pictures.

    among: "all" kinds, or only the "new" or the "known" ones. network: the run's, which has to be named if it is a
    `module:function`. data: the folder of named data sets. device: where to compute; None: the best there is.
    """
    if among not in AMONG:
        raise unknown_name("value of --among", among, AMONG)
    if not run.lists(names.MODEL):
        raise UsageError(
            f"The method {method_of(run)!r} says nothing about pictures that it was not given.",
            hint="Discover with another method, or with these pictures among the unsorted ones.",
        )
    pictures = open_for(run, images, data, progress)
    where = str(run.path / names.MODEL)
    model, extra, about = model_from_bytes(run.get(names.MODEL), where, HEADS, admitted=network)
    model.to(pick_device(device))
    said = model_outputs(model, pictures, title="Predicting", progress=progress)
    new = tuple(new_kind(number) for number in range(model.kinds))
    known = tuple(known_kind(name) for name in about["known_classes"])
    columns = {"all": new + known, "new": new, "known": known}[among]
    source: dict[str, Any] = {"run": str(run.path), "method": method_of(run), "version": run.version}
    log_p = said.log_p
    if "calibration" in extra:
        _check_finite(np.exp(log_p), pictures)
        own = of_other_pictures(torch.from_numpy(np.exp(log_p)), extra["calibration"]).numpy()
        log_p = np.log(np.maximum(own, np.finfo(np.float32).tiny))
        source["calibrated"] = among == "new"  # how known kinds compare with new ones is not calibrated
    probabilities = combined(log_p, said.features, extra, among)
    _check_finite(probabilities, pictures)
    return Assignment(pictures.names, columns, probabilities, source)


def _check_finite(probabilities: NDArray[np.float32], pictures: ImageSet) -> None:
    """Raise an error, naming the first of them, if pictures have probabilities that are no numbers."""
    bad = np.flatnonzero(~np.isfinite(probabilities).all(axis=1))
    if len(bad):
        raise NumericsError(
            f"{len(bad):,} of {len(pictures):,} pictures of {pictures.source} are so unlike those of the run that the "
            f"numbers overflow; the first is {pictures.names[bad[0]]!r}.",
            hint="Leave them out. Embeddings should come from the network, and have the scale, of those of the run.",
        )
