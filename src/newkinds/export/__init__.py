"""Exports of a run for other programs: pictures in folders, tables, and the network as an ONNX file."""

from __future__ import annotations

import os
from pathlib import Path

from newkinds.assignment import Assignment
from newkinds.errors import RunError, UsageError, unknown_name
from newkinds.export.folders import plan_folders
from newkinds.export.names import read_names
from newkinds.export.network import onnx_bytes
from newkinds.export.place import check_free, placed
from newkinds.export.tables import csv_bytes, jsonl_bytes
from newkinds.images import Source
from newkinds.memory import explained
from newkinds.progress import Progress, automatic
from newkinds.runs import RunFolder
from newkinds.runs.pictures import is_remembered
from newkinds.runs.results import read_assignment

FORMATS = ("folders", "csv", "jsonl", "onnx")


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

    to: "folders", the unsorted pictures in one folder a kind; "csv" or "jsonl", a line a picture; "onnx", the network
    from pictures to p(k|i). names: a names file of the run's page; without it kinds are called "kind-0" and so on.
    link: folders of symbolic links instead of copies. data: as in `discover`.
    images: the run's unsorted pictures, if they have moved (which is remembered) or were given in memory. network: the
    run's, which has to be named again for "onnx" if it is a `module:function`.
    """
    if to not in FORMATS:
        raise unknown_name("format", to, FORMATS)
    if link and to != "folders":
        raise UsageError(f"There is nothing to link in an export to {to!r}.", hint="Leave --link out.")
    run, out, progress = Path(run), Path(out), automatic(progress)
    check_free(out, folder=to == "folders")
    with RunFolder.open(run, writing=is_remembered(images) and os.access(run, os.W_OK)) as folder:
        found = read_assignment(folder)
        kinds = len(found.columns)
        called = read_names(None if names is None else Path(names), kinds, run.resolve().name, progress)
        _write(folder, found, called, to, out, link, data, images, network, progress)
    return out


def _write(
    folder: RunFolder,
    found: Assignment,
    called: tuple[str, ...],
    to: str,
    out: Path,
    link: bool,
    data: str | Path | None,
    images: Source | None,
    network: str | None,
    progress: Progress,
) -> None:
    """Write an export, completely or not at all; the arguments are those of `export`."""
    try:
        if to == "folders":
            plan = plan_folders(folder, found, called, out, link=link, images=images, data=data, progress=progress)
            with placed(out, folder=True) as path:
                plan.write(path, progress)
        else:
            content = (
                onnx_bytes(folder, called, network, progress)
                if to == "onnx"
                else (csv_bytes if to == "csv" else jsonl_bytes)(found, called)
            )
            with placed(out, folder=False) as path:
                path.write_bytes(content)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise RunError(
            f"The export to {out} failed: {error.strerror or error}{where}.",
            hint="Nothing of it was left there. Mend that, or choose another --out.",
        ) from error


__all__ = ["FORMATS", "export"]
