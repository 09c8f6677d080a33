"""The stages of a finished run, from its folder alone: for what is done to it later, such as sorting it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from newkinds.cache import Cache
from newkinds.configure import make_settings
from newkinds.errors import RunError
from newkinds.images import in_memory
from newkinds.images.imageset import ImageSet
from newkinds.networks import is_foreign
from newkinds.networks.foreign import check_admitted
from newkinds.pipeline.backbone import open_pretrained
from newkinds.pipeline.composing import Composed
from newkinds.pipeline.earlier import picture_files
from newkinds.pipeline.growing import GrowingPipeline
from newkinds.pipeline.stages import Pipeline
from newkinds.progress import QUIET, Progress
from newkinds.runs import RunFolder, names
from newkinds.runs.claim import flat
from newkinds.runs.growth import read_growth
from newkinds.runs.pictures import Which, open_for, source_of
from newkinds.runs.results import read_rehearsal
from newkinds.settings import CoreSettings


def reopened(path: Path, *, cache: Cache | None = None, progress: Progress = QUIET) -> Pipeline:
    """Return the stages of a run that is finished, as the line that made it would; its lock is held until they end.

    Raises a RunError if that needs something that the folder does not have: pictures or networks that were given in
    memory, code, files of auxiliary networks.
    """
    run = RunFolder.open(path)
    settings = run.settings
    check_admitted(settings.network, None, str(path / names.SETTINGS))
    if "auxiliary" in run.data:
        raise _missing(run, "files of auxiliary networks that were given")
    known, unsorted = _opened(run, "known", cache, progress), _opened(run, "unsorted", cache, progress)
    given = run.data.get("weights") if not is_foreign(settings.network) else None
    weights = None if given is None else path / names.NETWORK
    options: dict[str, Any] = {
        "weights": weights,
        "weights_digest": given,
        "foreign": open_pretrained(settings, weights, offline=True),
        "asked": _asked(run, settings),
        "cache": cache,
        "progress": progress,
    }
    growth = read_growth(run)
    if growth is None:
        return Pipeline(known, unsorted, path, settings, **options)
    files = [picture_files(images, source_of(run, which=which)) for images, which in _both(known, unsorted)]
    composed = Composed(run, known, files[0], unsorted, files[1], growth, run.data["grown"], {})
    return GrowingPipeline(composed, path, settings, **options)


def _both(known: ImageSet, unsorted: ImageSet) -> tuple[tuple[ImageSet, Which], tuple[ImageSet, Which]]:
    return (known, "known"), (unsorted, "unsorted")


def _opened(run: RunFolder, which: Which, cache: Cache | None, progress: Progress) -> ImageSet:
    source = source_of(run, which=which)
    if isinstance(source, str) and in_memory(source):
        raise _missing(run, f"its {which} pictures, which were given from memory ({source})")
    return open_for(run, source, None, progress, labelled=which == "known", cache=cache)


def _missing(run: RunFolder, what: str) -> RunError:
    return RunError(
        f"The folder {run.path} does not have {what}.",
        hint="Run the command that made it with --again, or do so in Python.",
    )


def _asked(run: RunFolder, settings: CoreSettings) -> CoreSettings:
    """Return the settings with those left out that the user had left to rehearsals."""
    changes = (read_rehearsal(run) or {}).get("changes", {})
    left = {key for one in changes.values() for key in one}
    nested: dict[str, Any] = {}
    for key, value in flat(settings.model_dump(mode="json")).items():
        if key not in left:
            section, _, last = key.rpartition(".")
            (nested.setdefault(section, {}) if section else nested)[last] = value
    return make_settings(nested)
