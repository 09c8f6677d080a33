"""Opening pictures for a finished run: new ones in the shape that its model takes, and its own unsorted ones again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from newkinds.datasets import named
from newkinds.errors import RunError
from newkinds.images import Source, in_memory, open_images
from newkinds.images.imageset import ImageSet
from newkinds.networks.files import network_about
from newkinds.progress import Progress
from newkinds.runs import names
from newkinds.runs.folder import RunFolder
from newkinds.runs.results import read_assignment


def open_for(run: RunFolder, source: Source, data: str | Path | None, progress: Progress) -> ImageSet:
    """Open pictures in the shape that a run's model takes. data: the folder of named data sets."""
    about = network_about(run.get(names.NETWORK), str(run.path / names.NETWORK))
    options = run.settings.images
    shape: dict[str, Any] = {
        "size": None if about["network"] == "identity" else about["size"],
        "channels": about["channels"],
        "fit": options.fit,
        "max_pixels": options.max_pixels,
        "progress": progress,
    }
    return open_images(named(source, data=data, **shape) or source, **shape)


def unsorted_of(run: RunFolder, data: str | Path | None, progress: Progress, images: Source | None = None) -> ImageSet:
    """Reopen a run's unsorted pictures: `images`, if given, otherwise from where the run found them."""
    source = run.sources["unsorted"] if images is None else images
    if isinstance(source, str) and in_memory(source):
        raise RunError(
            f"The unsorted pictures of the run in {run.path} were given in memory ({source}).",
            hint="Give them again, in Python, with images=.",
        )
    opened = open_for(run, source, data, progress)
    # Pictures of an array are named by number, as those of any other array of that length.
    others = images is not None and opened.fingerprint != run.data["unsorted"]["fingerprint"]
    if others or opened.names != read_assignment(run).names:
        raise RunError(
            f"The pictures in {opened.source} are not, or no longer, those of the run in {run.path}.",
            hint="Put them back, or run `newkinds discover` again with another --out.",
        )
    return opened
