"""Exports of a run for other programs: pictures in folders, tables, labels, and the network as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from newkinds.arguments import plain_arguments
from newkinds.errors import RunError, UsageError, unknown_name
from newkinds.export.folders import Plan, plan_folders
from newkinds.export.formats import Sorted, coco, fiftyone, imagefolder, label_studio, parquet
from newkinds.export.names import folder_names, read_names, unite_namesakes
from newkinds.export.network import onnx_bytes
from newkinds.export.pictures import Files, find_pictures
from newkinds.export.place import check_free, placed
from newkinds.export.tables import csv_bytes, jsonl_bytes
from newkinds.files import as_path
from newkinds.images import Source
from newkinds.memory import explained
from newkinds.progress import Progress, automatic
from newkinds.runs import RunFolder
from newkinds.runs.following import Answer, read_answer
from newkinds.runs.pictures import is_remembered

WITH_PICTURES = ("folders", "imagefolder")  # copied or linked
LABELS: dict[str, Callable[[Sorted, Files], dict[str, bytes]]] = {
    "coco": coco,
    "label-studio": label_studio,
    "fiftyone": fiftyone,
}
TABLES: dict[str, Callable[[Sorted], bytes]] = {
    "csv": lambda what: csv_bytes(what.found, what.called),
    "jsonl": lambda what: jsonl_bytes(what.found, what.called),
    "parquet": parquet,
}
FORMATS = ("folders", "csv", "jsonl", "parquet", "coco", "label-studio", "fiftyone", "imagefolder", "onnx")
_FOLDERS = (*WITH_PICTURES, "label-studio", "fiftyone")
_PICTURES = "pictures"  # the folder of them in an imagefolder


@plain_arguments
@explained("export")
def export(
    run: str | Path,
    to: str,
    out: str | Path,
    *,
    names: str | Path | None = None,
    link: bool = False,
    data: str | Path | None = None,
    images: Source | None = None,
    network: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Export a finished run to `out`, completely or not at all, and return `out`. Nothing is overwritten.

    to: "folders", the unsorted pictures in one folder a kind; "csv", "jsonl" or "parquet", a row a picture; "coco", one
    JSON file; "label-studio", "fiftyone" or "imagefolder" (Hugging Face), a folder that these programs read; "onnx",
    the network from pictures to p(k|i). All follow the run's journal. names: a names file of the run's page, which wins
    over names in the journal; without any, kinds are called "kind-0" and so on. Kinds of one name are one, which is
    said. link: links to the pictures instead of copies. data: as in `discover`. images: the run's unsorted pictures, if
    they have moved (which is remembered) or were given in memory. network: the run's, which has to be named again for
    "onnx" if it is a `module:function`.
    """
    if to not in FORMATS:
        raise unknown_name("format", to, FORMATS)
    if link and to not in WITH_PICTURES:
        raise UsageError(f"There is nothing to link in an export to {to!r}.", hint="Leave --link out.")
    if images is not None and (to in TABLES or to == "onnx"):
        raise UsageError(f"An export to {to!r} looks at no pictures.", hint="Leave --images out.")
    if network is not None and to != "onnx":
        raise UsageError(f"An export to {to!r} needs no network.", hint="Leave --network out.")
    run, out, progress = as_path(run), as_path(out), automatic(progress)
    check_free(out, folder=to in _FOLDERS)
    with RunFolder.open(run, writing=is_remembered(images) and os.access(run, os.W_OK)) as folder:
        answer = read_answer(folder, progress)
        title = run.resolve().name
        given = read_names(
            None if names is None else as_path(names), answer.assignment.columns, answer.called, title, progress
        )
        found, called = unite_namesakes(answer.assignment, given, progress)
        confirmed = np.zeros(len(found), dtype=np.bool_) if answer.state is None else answer.state.confirmed
        what = Sorted(found, called, confirmed, title)
        try:
            _write(folder, what, answer, to, out, link, data, images, network, progress)
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise RunError(
                f"The export to {out} failed: {error.strerror or error}{where}.",
                hint="Nothing of it was left there. Mend that, or choose another --out.",
            ) from error
    return out


def _write(
    folder: RunFolder,
    what: Sorted,
    answer: Answer,
    to: str,
    out: Path,
    link: bool,
    data: str | Path | None,
    images: Source | None,
    network: str | None,
    progress: Progress,
) -> None:
    """Write an export, completely or not at all; the arguments are those of `export`."""
    if to in TABLES or to == "onnx":
        content = TABLES[to](what) if to in TABLES else onnx_bytes(folder, answer, what, network, progress)
        _put(out, {"": content})
        return
    places = folder_names(what.found.columns, what.called, progress) if to == "folders" else ()
    pictures = find_pictures(folder, what.found, out, images, data, progress)
    if to in WITH_PICTURES:
        folders = [places[kind] if places else _PICTURES for kind in what.found.labels.tolist()]
        plan = plan_folders(pictures, what.found.names, folders, link=link)
        _put(out, imagefolder(what, plan.places) if to == "imagefolder" else {}, plan, progress)
    elif isinstance(pictures, Files):
        _put(out, LABELS[to](what, pictures))
    else:
        raise UsageError(
            f"The pictures of {pictures.images.source} are no files of their own, which {to} could point to.",
            hint="Use --to imagefolder or --to folders, which write PNG files.",
        )


def _put(out: Path, files: Mapping[str, bytes], plan: Plan | None = None, progress: Progress | None = None) -> None:
    """Write files into a folder, with pictures if there is a plan of them, or one file that is called ""."""
    with placed(out, folder="" not in files) as path:
        if plan is not None and progress is not None:
            plan.write(path, progress)
        elif "" not in files:
            path.mkdir()
        for name, content in files.items():
            (path / name if name else path).write_bytes(content)


__all__ = ["FORMATS", "export"]
