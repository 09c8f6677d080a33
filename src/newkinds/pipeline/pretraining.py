"""Training on the known kinds alone: f, and the auxiliary networks of methods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from newkinds.errors import DataError, unknown_name
from newkinds.images import check_known
from newkinds.images.imageset import ImageSet
from newkinds.methods.base import KnownProblem, Tensors
from newkinds.methods.registry import AUXILIARIES
from newkinds.networks import UNTRAINED, Foreign, Network
from newkinds.networks.files import network_from_bytes, network_to_bytes
from newkinds.parallel.processes import make_accelerator
from newkinds.pipeline.backbone import pretrained_digest, pretrained_network
from newkinds.pipeline.known_quality import MEASURES, keep_quality, quality_of_training
from newkinds.pipeline.resolve import resolved
from newkinds.pretrain.pretraining import about_learnt, pretrain
from newkinds.pretrain.resolve import why_loss
from newkinds.progress import QUIET, Progress
from newkinds.runs import RunFolder, names
from newkinds.settings import CoreSettings
from newkinds.tensors import from_bytes, read_bytes, to_bytes


def network_of_run(
    run: RunFolder,
    known: ImageSet,
    settings: CoreSettings,
    accelerator: Accelerator,
    why: str,
    progress: Progress = QUIET,
    start: Network | None = None,
) -> Network:
    """Return the network of a run, after training it on `known` if it is not there yet.

    why: the reason for its loss, in words. start: a network to continue training from.
    """
    if not run.has(names.NETWORK):
        if settings.network not in UNTRAINED:
            progress.say(f"Training with the {settings.pretrain.loss} loss: {why}.")
        found = pretrain(
            known,
            settings.pretrain,
            network=settings.network,
            network_size=None if settings.network_size == "auto" else settings.network_size,
            start=start,
            seed=settings.seed,
            precision=settings.precision,
            accelerator=accelerator,
            checkpoints=run.checkpoints(),
            log=run.log,
            progress=progress,
        )
        told: dict[str, Any] = {"classes": list(known.classes)}
        if found.network.has_weights:
            told |= {found.measure: found.score, "held_out": len(found.held_out), "loss": found.loss}
            told |= {"epochs": found.epochs, **about_learnt(known, settings.pretrain, settings.seed)}
            told |= {} if start is None else {"after": run.data["weights"]}
        run.put(names.NETWORK, network_to_bytes(found.network, **told))
        run.sync()
    where = str(run.path / names.NETWORK)
    network, told = network_from_bytes(run.get(names.NETWORK), where, admitted=settings.network)
    if any(measure in told for measure in MEASURES):
        keep_quality(run, quality_of_training(told, known, settings), progress)
    return network.to(accelerator.device)


def pretrain_run(
    known: ImageSet,
    out: Path,
    settings: CoreSettings,
    weights: Path | None = None,
    progress: Progress = QUIET,
    device: str | None = None,
    foreign: Foreign | None = None,
) -> Path:
    """Train f on the known kinds in its own run folder, and return the file of its weights.

    weights: the file of a network to continue training from. foreign: the network from elsewhere that the settings
    name, if they do.
    """
    with _on_known(known, out, settings, weights, progress, device, foreign) as (run, settings, accelerator, given):
        network_of_run(run, known, settings, accelerator, why_loss(settings.pretrain, known), progress, given)
        run.checkpoints().clear()
        return run.path / names.NETWORK


def auxiliary_run(
    known: ImageSet,
    out: Path,
    name: str,
    settings: CoreSettings,
    weights: Path | None,
    progress: Progress = QUIET,
    device: str | None = None,
    foreign: Foreign | None = None,
) -> Path:
    """Train an auxiliary network on the known kinds in its own run folder, and return the file of its weights.

    f is that of `weights`, or `foreign`, or is trained in the same folder first.
    """
    with _on_known(known, out, settings, weights, progress, device, foreign) as (run, settings, accelerator, given):
        if given is not None and not run.has(names.NETWORK):
            run.put(names.NETWORK, network_to_bytes(given))
            run.sync()
        network = network_of_run(run, known, settings, accelerator, why_loss(settings.pretrain, known), progress)
        file = names.auxiliary(name)
        if not run.has(file):
            checkpoints = run.checkpoints()
            problem = KnownProblem(network, known, settings, accelerator, checkpoints, run.log, progress)
            run.put(file, to_bytes(AUXILIARIES[name].learn(problem), _about_auxiliary(name, known, settings)))
            run.sync()
            checkpoints.clear()
        return run.path / file


@contextmanager
def _on_known(
    known: ImageSet,
    out: Path,
    settings: CoreSettings,
    weights: Path | None,
    progress: Progress,
    device: str | None,
    foreign: Foreign | None,
) -> Iterator[tuple[RunFolder, CoreSettings, Accelerator, Network | None]]:
    """Open a run folder for training on the known kinds alone, with settings without "auto" and any pretrained f."""
    check_known(known)
    accelerator = make_accelerator(device)
    given = pretrained_network(settings, known, weights, foreign)
    settings = resolved(settings, known, given, accelerator.device)
    data = {"known": about(known), "weights": pretrained_digest(given, weights)}
    run = RunFolder.start(out, settings, data, {"known": known.source}, progress)
    try:
        torch.set_num_threads(run.threads)
        yield run, settings, accelerator, given
    finally:
        run.close()


def read_auxiliary(file: Path, name: str, known: ImageSet, settings: CoreSettings) -> Tensors:
    """Return the weights that `auxiliary_run` wrote, or refuse a file that does not fit; settings: without "auto"."""
    if name not in AUXILIARIES:
        raise unknown_name("auxiliary network", name, AUXILIARIES)
    tensors, told = from_bytes(read_bytes(file), str(file))
    wanted = _about_auxiliary(name, known, settings)
    differing = [
        f"{key} is {told[key]!r}, not {value!r}" if key in told else f"it does not give its {key}"
        for key, value in wanted.items()
        if told.get(key) != value
    ]
    if differing:
        raise DataError(
            f"{file} is not the auxiliary network {name!r} for these pictures: {'; '.join(differing)}.",
            hint="Give the file that was trained on the same known pictures with the same network, or leave it out.",
        )
    return tensors


def _about_auxiliary(name: str, known: ImageSet, settings: CoreSettings) -> dict[str, Any]:
    """Return the metadata of an auxiliary network's file, which decides whether its weights fit."""
    shape = {"channels": known.channels, "size": known.size, "network_size": settings.network_size}
    return {"auxiliary": name, "network": settings.network, **shape}


def about(images: ImageSet) -> dict[str, Any]:
    """Return what a run folder records about a set of pictures."""
    return {"fingerprint": images.fingerprint, "pictures": len(images)}
