"""Opening what the arguments of the Python interface name: pictures, a network, and the run folder they go to."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from newkinds.cache import Cache, open_cache
from newkinds.datasets import named
from newkinds.errors import UsageError
from newkinds.files import as_path
from newkinds.images import Source, check_out, check_places, check_shared, open_images, open_pair, opened_once
from newkinds.images.imageset import ImageSet
from newkinds.methods.registry import METHODS
from newkinds.networks import UNTRAINED, Foreign, is_foreign
from newkinds.networks.foreign import check_admitted
from newkinds.pipeline.backbone import largest_side, open_pretrained
from newkinds.pipeline.choice import choose_backbone
from newkinds.pipeline.composing import compose
from newkinds.pipeline.earlier import Elsewhere
from newkinds.pipeline.growing import GrowingPipeline
from newkinds.pipeline.stages import Pipeline
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names
from newkinds.runs.claim import check_writable
from newkinds.runs.results import read_rehearsal
from newkinds.settings import CoreSettings


def open_pipeline(
    known: Source,
    unsorted: Source,
    out: str | Path,
    settings: CoreSettings,
    truth: str | Path | None,
    weights: str | PathLike[str] | None,
    data: str | Path | None,
    device: str | None,
    offline: bool,
    cache: bool,
    progress: Progress,
    auxiliary: Mapping[str, str | Path] | None = None,
) -> Pipeline:
    """Open the pictures of a discovery, choose its network and make or continue its run; arguments as in `discover`."""
    check_out(as_path(out), known, unsorted)
    check_writable(as_path(out))  # before minutes of decoding
    check_places(known, unsorted)
    if auxiliary is not None and not isinstance(auxiliary, Mapping):
        raise UsageError(
            f"auxiliary={auxiliary!r:.60} is no table.", hint='Give {"similarity": "network.safetensors"}.'
        )
    kept = open_cache(progress) if cache else Cache()
    file = None if weights is None else as_path(weights)
    known = opened_once(known, labelled=True)
    if METHODS[settings.method].takes_features(settings):
        settings, foreign = choose_backbone(settings, known, file, out=as_path(out), offline=offline, progress=progress)
    else:
        foreign = open_pretrained(settings, file, offline)
    pair = open_sets(known, unsorted, settings, foreign, data, kept, progress)
    progress.say(f"{_summary(pair[0])} of {len(pair[0].classes)} kinds")
    progress.say(_summary(pair[1]))
    shared = check_shared(*pair)
    if shared is not None:
        progress.warn(shared)
    return Pipeline(
        *pair,
        as_path(out),
        settings,
        weights=file,
        foreign=foreign,
        auxiliary={name: as_path(file) for name, file in (auxiliary or {}).items()},
        truth=truth,
        device=device,
        cache=kept,
        progress=progress,
    )


def open_growing(
    run: str | Path,
    heap: Source,
    out: str | Path,
    settings: Mapping[str, Any],
    where: Elsewhere,
    truth: str | Path | None,
    network: str | None,
    device: str | None,
    offline: bool,
    cache: bool,
    progress: Progress,
) -> GrowingPipeline:
    """Open what goes on from a run with a new heap, and make or continue its run folder; arguments as in `grow`.

    settings: what differs from the earlier run's, by dotted keys.
    """
    check_writable(as_path(out))
    earlier = RunFolder.open(as_path(run))
    before = {**{which: earlier.source(which) for which in earlier.sources}, **where.given}
    check_out(as_path(out), heap, *before.values())
    if as_path(out).resolve().is_relative_to(earlier.path.resolve()):
        raise UsageError(
            f"{out} is the run to go on from, or lies in it.",
            hint="Choose another --out: each week has its own folder.",
        )
    kept = open_cache(progress) if cache else Cache()
    chosen = _as_before(earlier, network).with_changes(settings)
    composed = compose(earlier, heap, where=where, line=_line_of(as_path(out)), cache=kept, progress=progress)
    own = None if is_foreign(chosen.network) or chosen.network in UNTRAINED else earlier.path / names.NETWORK
    return GrowingPipeline(
        composed,
        as_path(out),
        chosen,
        weights=own,
        foreign=open_pretrained(chosen, own, offline),
        truth=truth,
        device=device,
        cache=kept,
        progress=progress,
    )


def _as_before(earlier: RunFolder, network: str | None) -> CoreSettings:
    """Return the settings of a run to go on from, with what its rehearsals chose; how many kinds is asked anew.

    network: the one that the user named, which may run code.
    """
    settings = earlier.settings
    check_admitted(settings.network, network, str(earlier.path / names.SETTINGS))
    if network not in (None, settings.network):
        raise UsageError(
            f"{earlier.path} is of the network {settings.network!r}, not {network!r}.", hint="Leave --network out."
        )
    rehearsal = read_rehearsal(earlier) or {}
    changes = dict(rehearsal.get("changes", {}).get(rehearsal.get("chosen"), {}))
    return settings.with_changes({**changes, "kinds": "auto", "heap": "mixed"})


def _line_of(out: Path) -> int | None:
    """Return up to which line of the earlier run's journal a run that was begun goes, None if there is none."""
    begun = RunFolder.open(out).data.get("grown") if (out / names.ABOUT).is_file() else None
    return None if begun is None else int(begun["line"])


def open_sets(
    known: Source,
    unsorted: Source,
    settings: CoreSettings,
    foreign: Foreign | None,
    data: str | Path | None,
    cache: Cache,
    progress: Progress,
) -> tuple[ImageSet, ImageSet]:
    """Open known and unsorted pictures as a discovery with these settings does. foreign: its network from elsewhere."""
    shape = _shape(settings, foreign, progress)
    return open_pair(
        named(known, labelled=True, data=data, **shape) or known,
        named(unsorted, data=data, **shape) or unsorted,
        **shape,
        cache=cache,
    )


def open_known(
    source: Source,
    out: str | Path,
    settings: CoreSettings,
    foreign: Foreign | None,
    data: str | Path | None,
    say: Progress,
) -> ImageSet:
    """Open known pictures where there are no unsorted ones."""
    check_out(as_path(out), source)
    check_writable(as_path(out))
    shape = _shape(settings, foreign, say)
    images = open_images(named(source, labelled=True, data=data, **shape) or source, labelled=True, **shape)
    say.say(f"{_summary(images)} of {len(images.classes)} kinds")
    return images


def _shape(settings: CoreSettings, foreign: Foreign | None, progress: Progress) -> dict[str, Any]:
    """Return what the settings and a network from elsewhere say about opening pictures, as arguments."""
    options = settings.images
    return {
        "size": None if options.size == "auto" else options.size,
        "largest": largest_side(settings, foreign),
        "fit": options.fit,
        "max_pixels": options.max_pixels,
        "progress": progress,
    }


def _summary(images: ImageSet) -> str:
    shape = f"{images.channels} numbers each" if images.is_embedding else f"{images.size}x{images.size}"
    skipped = f"; {len(images.skipped)} files skipped" if images.skipped else ""
    return f"{images.source}: {len(images)} pictures, {shape}{skipped}"
