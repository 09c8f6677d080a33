"""Which f a run takes: the one that was named, a pretrained one for photographs, or one that is trained here."""

from __future__ import annotations

from pathlib import Path

from newkinds.datasets import is_named
from newkinds.errors import NewkindsError, UsageError
from newkinds.images import Source
from newkinds.images.photographs import look_at
from newkinds.networks import Foreign, open_foreign
from newkinds.networks.hub import DINOV2
from newkinds.pipeline.backbone import open_pretrained
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names
from newkinds.settings import CoreSettings

FOR_PHOTOGRAPHS = (DINOV2, "efficientnet-lite0")  # in order of preference
_INSTALL = "pip install 'newkinds[photos]'"


def choose_backbone(
    settings: CoreSettings, known: Source, weights: Path | None, *, out: Path, offline: bool, progress: Progress
) -> tuple[CoreSettings, Foreign | None]:
    """Return the settings with the network that was chosen and, if it is from elsewhere, that network.

    If "auto" comes to a network that is trained here, it stays "auto": `resolved` chooses among those by the decoded
    pictures. Data sets called by name train their own, as in the paper. out: the run folder; a run that was begun keeps
    its network. offline: whether to download nothing.
    """
    foreign = None
    if settings.network == "auto" and weights is None:
        begun = _begun_with(out)
        if begun is None:
            foreign = _chosen(settings, known, offline, progress)
        elif begun in FOR_PHOTOGRAPHS:
            foreign = open_pretrained(settings.with_changes({"network": begun}), None, offline)
        settings = settings if foreign is None else settings.with_changes({"network": foreign.name})
    foreign = foreign or open_pretrained(settings, weights, offline)
    for remark in () if foreign is None else foreign.remarks:
        progress.say(remark)
    return settings, foreign


def _chosen(settings: CoreSettings, known: Source, offline: bool, progress: Progress) -> Foreign | None:
    """Return a pretrained network if one suits the known pictures and is at hand, and say why, or why not."""
    if settings.profile == "photos":
        return _pretrained(settings, offline, progress, "as the profile says")
    if settings.profile not in ("auto", "none") or is_named(known):
        return None
    images = settings.images
    size = None if images.size == "auto" else images.size
    look = look_at(known, size=size, largest=images.largest, max_pixels=images.max_pixels)
    if look is None:
        return None
    if not look.are_photographs:
        progress.say(
            f"A network will be trained here on the known pictures: {look}. To use a pretrained one "
            "instead, add --network efficientnet-lite0 or another from `newkinds networks`."
        )
        return None
    try:
        return _pretrained(settings, offline, progress, f"as the known pictures are photographs: {look}")
    except UsageError as error:
        progress.warn(
            "The known pictures are photographs, but no pretrained network is available, so a small one "
            f"will be trained here, which will sort them much worse. {error.hint} ({error.message})"
        )
        return None


def _pretrained(settings: CoreSettings, offline: bool, progress: Progress, why: str) -> Foreign:
    """Return the first pretrained network that is at hand, and say why it is taken."""
    refused = []
    for name in FOR_PHOTOGRAPHS:
        try:
            found = open_foreign(name, admitted=None, features=settings.network_features, offline=offline)
        except NewkindsError as error:
            refused.append(error.message)
            continue
        preferred = f"{' '.join(refused)} " if refused else ""
        others = "".join(f"--network {other} or " for other in FOR_PHOTOGRAPHS[FOR_PHOTOGRAPHS.index(name) + 1 :])
        progress.say(f"Using the pretrained network {name}, {why}.")
        progress.say(f"{preferred}To use another one: {others}any other from `newkinds networks`.")
        return found
    raise UsageError(
        f"No pretrained network is available: {' '.join(refused)}",
        hint=f"To get one: {_INSTALL}; or name one with --network.",
    )


def _begun_with(out: Path) -> str | None:
    """Return the network of the run that was begun in a folder, None if there is none."""
    run = RunFolder.open(out) if (out / names.ABOUT).is_file() else None
    return None if run is None or not run.has_settings else run.settings.network
