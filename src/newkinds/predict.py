"""Prediction: which kind a new picture belongs to, one that was discovered or one that was known before.

The model tells the new kinds apart, but knows nothing of the known ones. So it keeps a prototype of every kind, known
and new: the kind's mean feature under the final f. A picture is compared with all of them (Eq. 1 on distances in units
of the spread within kinds), which gives the probability that it is of a known kind, and of which; the rest is divided
among the new kinds as the model says. A model that was made on a mixed heap tells known and new kinds apart by itself.

What is unlike all kinds is none of them, by the references that the model keeps (`newkinds.unlike`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.assignment import NONE, Assignment, known_kind, new_kinds, sort_of
from newkinds.corrections import State
from newkinds.corrections.corrected import current_column, in_order, of_other_pictures
from newkinds.equations import assignment
from newkinds.errors import DataError, NumericsError, UsageError, unknown_name
from newkinds.features import model_outputs
from newkinds.images import Source
from newkinds.images.imageset import ImageSet
from newkinds.memory import row_blocks
from newkinds.methods.registry import HEADS
from newkinds.networks import Model
from newkinds.networks.files import model_from_bytes
from newkinds.parallel.devices import pick_device
from newkinds.progress import QUIET, Progress
from newkinds.rehearsal.calibration import of_other_pictures as calibrated
from newkinds.runs import RunFolder, names
from newkinds.runs.following import Answer, read_answer
from newkinds.runs.pictures import open_for, unsorted_of
from newkinds.runs.results import method_of
from newkinds.unlike import Unlike

AMONG = ("all", "new", "known")
_SHARP = 8  # with a typical distance of 1, Eq. 1 is nearly flat; sharpened by this power, it decides between kinds


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
    near = near**_SHARP * extra["present"]
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
    none: float | None = None,
    network: str | None = None,
    data: str | Path | None = None,
    device: str | None = None,
    progress: Progress = QUIET,
) -> Assignment:
    """Return the kinds of pictures.

    among: "all" kinds, or only the "new" or the "known" ones. none: the share of true members that may be called none
    of these, 0 for nothing being called that; None: the run's setting, where all kinds are asked for and the model can
    tell. network: the run's, which has to be named if it is a `module:function`. data: the folder of named data sets.
    device: where to compute; None: the best there is.
    """
    if among not in AMONG:
        raise unknown_name("value of --among", among, AMONG)
    _check_none(none, among)
    if not run.lists(names.MODEL):
        raise UsageError(
            f"The method {method_of(run)!r} says nothing about pictures that it was not given.",
            hint="Discover with another method, or with these pictures among the unsorted ones.",
        )
    pictures = open_for(run, images, data, progress)
    where = str(run.path / names.MODEL)
    model, extra, about = model_from_bytes(run.get(names.MODEL), where, HEADS, admitted=network)
    with run.understood(names.MODEL):
        head = columns_of(model, about, where)
        _check_prototypes(extra, about.get("known_classes"), model, head)
    model.to(pick_device(device))
    said = model_outputs(model, pictures, title="Predicting", progress=progress)
    source: dict[str, Any] = {"run": str(run.path), "method": method_of(run), "version": run.version}
    log_p = said.log_p
    mixed = any(sort_of(column) == "known" for column in head)
    if "calibration" in extra:
        _check_finite(np.exp(log_p), pictures)
        own = calibrated(torch.from_numpy(np.exp(log_p)), extra["calibration"]).numpy()
        log_p = np.log(np.maximum(own, np.finfo(np.float32).tiny))
        source["calibrated"] = among == ("all" if mixed else "new")  # between the kinds that the head tells apart
    columns, probabilities = _chosen(head, log_p, said.features, extra, about, among)
    _check_finite(probabilities, pictures)
    found = Assignment(pictures.names, columns, probabilities, source)
    found = _as_said(run, found, model, head, said.features, extra, among, data, progress)
    rate = rate_of_none(run, none)
    with run.understood(names.MODEL):
        unlike = Unlike.from_tensors(extra, model.network.feature_dim) if rate and among == "all" else None
    if unlike is None:
        if none and among == "all":
            raise UsageError(
                f"The model in {run.path} keeps no pictures of its kinds that others could be compared with.",
                hint="Leave --none out: runs keep them only where f is not trained on their pictures.",
            )
        return found
    return unlike.apply(found, unlike(said.features), rate)


def rate_of_none(run: RunFolder, none: float | None) -> float:
    """Return the share of true members that may be called none of these: what was asked, or the run's setting."""
    return run.settings.none if none is None else none


def columns_of(model: Model, about: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the kinds that a model's head tells apart: as its file says, or else new ones."""
    told = about.get("columns")
    if told is None:
        return new_kinds(model.kinds)
    if not isinstance(told, list) or len(told) != model.kinds or not all(isinstance(one, str) for one in told):
        raise DataError(f"{where} does not say which {model.kinds} kinds it tells apart.", hint="The file is damaged.")
    for column in told:
        sort_of(column)
    return tuple(told)


def _chosen(
    head: tuple[str, ...],
    log_p: NDArray[np.float32],
    features: NDArray[np.float32],
    extra: dict[str, Tensor],
    about: Mapping[str, Any],
    among: str,
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return the columns asked for and their probabilities: by the head, and by prototypes of kinds that it has not."""
    sorts = [sort_of(column) for column in head]
    if "known" not in sorts:
        known = tuple(known_kind(name) for name in about["known_classes"])
        return {"all": head + known, "new": head, "known": known}[among], combined(log_p, features, extra, among)
    rows = [row for row, sort in enumerate(sorts) if among in ("all", sort)]
    p = np.exp(log_p[:, rows])
    if among != "all":
        p /= np.maximum(p.sum(axis=1, keepdims=True), 1e-30)
    return tuple(head[row] for row in rows), p


def _as_said(
    run: RunFolder,
    found: Assignment,
    model: Model,
    head: tuple[str, ...],
    features: NDArray[np.float32],
    extra: dict[str, Tensor],
    among: str,
    data: str | Path | None,
    progress: Progress,
) -> Assignment:
    """Return what was predicted in the kinds as people made them, where they said anything."""
    answer = read_answer(run, progress)
    if answer.state is None or not (answer.is_corrected or answer.is_again):
        return found
    parts = _parts(run, answer, model, head, data, progress) if among != "known" else {}
    return _followed(found, answer.state, parts, features, extra["spread"].numpy(), among)


def _parts(
    run: RunFolder,
    answer: Answer,
    model: Model,
    head: tuple[str, ...],
    data: str | Path | None,
    progress: Progress,
) -> dict[str, dict[str, NDArray[np.float32]]]:
    """Return the mean features of what the model's kinds were split into, by the model's kind and the kind now.

    The run's own pictures of those kinds pass through the model again: where no kind was made, none do.
    """
    state = answer.state
    assert state is not None
    now = answer.assignment.kinds
    made = sorted({str(kind) for kind in now if sort_of(kind) == "new" and kind not in head})
    rows = np.flatnonzero(np.isin(now, made))
    if not len(rows):
        return {}
    everyone = unsorted_of(run, data, progress)
    outputs = model_outputs(model, everyone.select(rows), title="Kinds that were made", progress=progress)
    origin = outputs.log_p.argmax(axis=1)  # the kind that the model takes each of them for
    found: dict[str, dict[str, NDArray[np.float32]]] = {}
    for number in np.unique(origin).tolist():
        there = current_column(state, head[number])
        for kind in made:
            of = (origin == number) & (now[rows] == kind)
            if of.any():
                found.setdefault(head[number], {})[kind] = outputs.features[of].mean(axis=0)
        stayed = np.flatnonzero(now == there)
        if len(stayed) and there != NONE:
            title = "Kinds that they were made from"
            own = model_outputs(model, everyone.select(stayed), title=title, progress=progress)
            found[head[number]][there] = own.features.mean(axis=0)
    return found


def _followed(
    found: Assignment,
    state: State,
    parts: Mapping[str, Mapping[str, NDArray[np.float32]]],
    features: NDArray[np.float32],
    spread: NDArray[np.float32],
    among: str,
) -> Assignment:
    """Return what was predicted in the kinds as people made them: what was split goes to the part that is nearest."""
    result = of_other_pictures(found, state)
    columns = {column: number for number, column in enumerate(result.columns)}
    numbers = [*result.probabilities.T]
    for origin, means in parts.items():
        there = current_column(state, origin)
        own = found.probabilities[:, found.columns.index(origin)]
        unit = spread * np.sqrt(len(spread))
        far = np.stack([np.square((features - mean) / unit).sum(axis=1) for mean in means.values()], axis=1)
        near = (1 + far) ** -_SHARP
        near /= near.sum(axis=1, keepdims=True)
        numbers[columns[there]] = np.maximum(numbers[columns[there]] - own, 0)
        for kind, share in zip(means, near.T, strict=True):
            if kind not in columns:
                columns[kind] = len(numbers)
                numbers.append(np.zeros(len(found), dtype=np.float32))
            numbers[columns[current_column(state, kind)]] += (own * share).astype(np.float32)
    order = [one for one in in_order(columns) if among != "new" or sort_of(one) == "new"]
    probabilities = np.stack([numbers[columns[one]] for one in order], axis=1)
    if among == "new":  # what is known or none by now is left out
        probabilities /= np.maximum(probabilities.sum(axis=1, keepdims=True), 1e-30)
    return replace(result, columns=tuple(order), probabilities=np.clip(probabilities, 0, 1).astype(np.float32))


def _check_prototypes(extra: dict[str, Tensor], known: Any, model: Model, head: tuple[str, ...]) -> None:
    """Raise a ValueError if what a model's file has beside the model does not go with it. head: its kinds."""
    sorts = [sort_of(column) for column in head]
    if not isinstance(known, list) or not all(isinstance(name, str) for name in known) or len(set(known)) < len(known):
        raise ValueError("known_classes are no different names")
    kinds, width = len(known) + sorts.count("new"), model.network.feature_dim
    if "known" in sorts and "present" in extra:  # beside the head's there may be kinds that it does not tell
        kinds = max(kinds, extra["present"].numel())
    wanted = {"means": (kinds, width), "spread": (width,), "present": (kinds,)}
    if any(name not in extra or tuple(extra[name].shape) != shape for name, shape in wanted.items()):
        raise ValueError("the prototypes are not those of its kinds")
    if not (extra["means"].isfinite().all() and extra["spread"].isfinite().all() and (extra["spread"] > 0).all()):
        raise ValueError("the prototypes are not finite, or have no spread")


def _check_none(none: float | None, among: str) -> None:
    """Raise an error if the rate of none is no share, or asked for where it has no meaning."""
    if none is None:
        return
    if type(none) is bool or not isinstance(none, Real) or not 0 <= none < 1:
        raise UsageError(
            f"--none {none!r:.60} is no share of pictures: it should be at least 0 and below 1.",
            hint="0.05 lets one in twenty members be called none; 0 calls none that.",
        )
    if none and among != "all":
        raise UsageError(
            f"--none compares pictures with all kinds, and --among {among} leaves some out.", hint="Leave one out."
        )


def _check_finite(probabilities: NDArray[np.float32], pictures: ImageSet) -> None:
    """Raise an error, naming the first of them, if pictures have probabilities that are no numbers."""
    bad = np.flatnonzero(~np.isfinite(probabilities).all(axis=1))
    if len(bad):
        raise NumericsError(
            f"{len(bad):,} of {len(pictures):,} pictures of {pictures.source} are so unlike those of the run that the "
            f"numbers overflow; the first is {pictures.names[bad[0]]!r}.",
            hint="Leave them out. Embeddings should come from the network, and have the scale, of those of the run.",
        )
