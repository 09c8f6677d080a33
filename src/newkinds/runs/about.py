"""run.json: what identifies a run, and what it has written so far."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newkinds.errors import RunError, told
from newkinds.files import read_plain, unsealed
from newkinds.runs import names
from newkinds.runs.log import is_mark
from newkinds.version import __version__

MOST_THREADS = 1024  # torch ends in a segmentation fault where it cannot start as many as it is told to
LAYOUT = 2  # of the folder; 1, which was not recorded, named kinds by bare numbers

# version, layout, threads: of newkinds, of the folder, of the run's first start. data: what identifies the pictures and
# weights. sources: where they were found last; where: the folder that relative ones start at. settings: the hash of
# settings.toml. outputs: those that count, with their hashes. log: how far log.jsonl went when a stage ended, and its
# hash up to there. fallen: outputs that are damaged, or were made from such, while they are made anew. follows: outputs
# as they are after what people said: the line of the journal that they go up to, and their hash, or that of
# what is about to be written, too. said: how many lines the journal had, where any of what it
# says holds.
KEYS = (
    "version", "layout", "threads", "data", "sources", "where", "settings", "outputs", "log", "fallen", "follows",
    "said",
)  # fmt: skip


def read_about(path: Path) -> dict[str, Any]:
    """Return what run.json of a run folder says; raise a RunError if it is damaged or of another layout."""
    file = path / names.ABOUT
    try:
        about = unsealed(read_plain(file))
        _check_form(about)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise RunError(
            f"{file} is damaged ({told(error)}).", hint=f"Delete {path} or choose another folder with --out."
        ) from None
    layout = about.get("layout", 1)
    if layout != LAYOUT:
        raise RunError(
            f"{path} was made by newkinds {about['version']} in layout {layout}; this is {__version__}, which "
            f"reads layout {LAYOUT}. Nothing in it was changed.",
            hint="Run `newkinds discover` again with another --out, or use the version that made it.",
        )
    return {key: about[key] for key in KEYS if key in about}


def _check_form(about: dict[str, Any]) -> None:
    """Raise an error if run.json does not have what a run folder needs to be read."""
    str(about["version"]), Path(about.get("where", ""))
    if type(about["threads"]) is not int or not 1 <= about["threads"] <= MOST_THREADS:
        raise ValueError(f"threads should be 1 to {MOST_THREADS}")
    fallen = about.get("fallen", {"stages": [], "outputs": {}})
    texts = [*about["sources"].values(), *about["outputs"].values(), *fallen["outputs"].values(), *fallen["stages"]]
    if not isinstance(about["data"], dict) or not all(isinstance(text, str) for text in texts):
        raise TypeError("texts are needed")
    if not all(map(is_mark, about.get("log", {}).values())):
        raise TypeError("marks are needed")
    if type(about.get("said", 0)) is not int:
        raise TypeError("a number of lines is needed")
    for one in about.get("follows", {}).values():
        int(one["line"]), [str.lower(known) for known in one["sha256"]]


def set_sources(about: dict[str, Any], sources: Mapping[str, str]) -> None:
    """Record where pictures are, and the folder that relative paths among that start at."""
    about["sources"] = dict(sources)
    about.pop("where", None)
    if any(not os.path.isabs(source) and os.path.exists(source) for source in sources.values()):
        about["where"] = os.getcwd()  # it is there, or no relative source would be


def source_of(about: Mapping[str, Any], which: str, path: Path) -> str:
    """Return where the "known" or "unsorted" pictures of the run at `path` are, or raise a RunError."""
    if which not in about["sources"]:
        raise RunError(
            f"The run in {path} has no {which} pictures.",
            hint="Give a folder that `newkinds discover` made: others make f or rehearse, and sort nothing.",
        )
    found: str = about["sources"][which]
    place = os.path.join(about.get("where", ""), found)
    return place if os.path.exists(place) else found
