"""The formats of other programs: COCO, Label Studio, FiftyOne, Hugging Face's imagefolder and Parquet.

Each writes to the format that the program documents.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import NONE, Assignment, sort_of
from newkinds.errors import UsageError
from newkinds.export.pictures import Files
from newkinds.export.tables import exact, rows_of
from newkinds.report.text import visible
from newkinds.version import __version__

CHOICE, IMAGE = "kind", "image"  # what the choice and the picture are called in Label Studio's configuration


@dataclass(frozen=True)
class Sorted:
    """What is exported: the answer, what each of its kinds is called, and which pictures a person confirmed, (N,)."""

    found: Assignment
    called: tuple[str, ...]
    confirmed: NDArray[np.bool_]
    title: str

    @property
    def names(self) -> list[str]:
        """What the kind of each picture is called."""
        return [self.called[kind] for kind in self.found.labels.tolist()]


def coco(what: Sorted, files: Files) -> dict[str, bytes]:
    """Return a COCO file: each picture one annotation, whose box is all of it; a picture that is none has none."""
    kinds = [number for number, column in enumerate(what.found.columns) if column != NONE]
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    rows = zip(_relative(files), files.sizes, what.found.labels.tolist(), what.found.probability.tolist(), strict=True)
    for number, (place, (width, height), kind, p) in enumerate(rows, 1):
        images.append({"id": number, "file_name": place, "width": width, "height": height})
        if kind in kinds:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": kinds.index(kind) + 1,
                    "bbox": [0, 0, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                    "segmentation": [],
                    "score": exact(p),
                    "confirmed": bool(what.confirmed[number - 1]),
                }
            )
    categories = [
        {"id": place, "name": what.called[number], "supercategory": sort_of(what.found.columns[number])}
        for place, number in enumerate(kinds, 1)
    ]
    info = {"description": f"{what.title}, sorted by newkinds {__version__}", "version": __version__}
    whole = {"info": info, "licenses": [], "images": images, "annotations": annotations, "categories": categories}
    return {"": _json(whole)}


def label_studio(what: Sorted, files: Files) -> dict[str, bytes]:
    """Return tasks for Label Studio, and the configuration of the project that they go to.

    What the machine says is a prediction of each task; what a person confirmed is an annotation, too.
    """
    tasks = []
    rows = zip(what.found.names, _relative(files), what.names, what.found.probability.tolist(), strict=True)
    for number, (name, place, kind, p) in enumerate(rows):
        choice = {"from_name": CHOICE, "to_name": IMAGE, "type": "choices", "value": {"choices": [kind]}}
        task: dict[str, Any] = {
            "data": {IMAGE: f"/data/local-files/?d={quote(place)}", "path": name},
            "predictions": [{"model_version": f"newkinds {__version__}", "score": exact(p), "result": [choice]}],
        }
        if what.confirmed[number]:
            task["annotations"] = [{"result": [choice], "was_cancelled": False, "ground_truth": False}]
        tasks.append(task)
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in what.called)
    config = (
        f'<View>\n  <Image name="{IMAGE}" value="${IMAGE}"/>\n'
        f'  <Choices name="{CHOICE}" toName="{IMAGE}" choice="single">\n{choices}  </Choices>\n</View>\n'
    )
    return {"tasks.json": _json(tasks), "config.xml": config.encode()}


def fiftyone(what: Sorted, files: Files) -> dict[str, bytes]:
    """Return the labels of a FiftyOneImageClassificationDataset, and where its pictures are: none is copied."""
    labels, places = {}, {}
    digits = len(str(len(what.found)))
    absolute = _readable([os.path.abspath(file) for file in files.paths])
    rows = zip(what.found.names, absolute, what.names, what.found.probability.tolist(), strict=True)
    for number, (name, file, kind, p) in enumerate(rows):
        key = f"{number:0{digits}d}"
        column = what.found.columns[what.found.labels[number]]
        more = {"path": name, "kind": column, "confirmed": bool(what.confirmed[number])}
        labels[key] = {"label": kind, "confidence": exact(p), "attributes": more}
        places[key] = file
    return {"labels.json": _json({"classes": list(what.called), "labels": labels}), "data.json": _json(places)}


def imagefolder(what: Sorted, places: Sequence[str]) -> dict[str, bytes]:
    """Return the metadata of a folder that Hugging Face's `imagefolder` reads. places: of the pictures in it."""
    lines, places = [], _readable(places)
    for item, row in rows_of(what.found, what.called):
        values = {"file_name": places[item], "label": row["name"], "kind": row["kind"], "path": row["path"]}
        values |= {"probability": exact(row["probability"]), "confirmed": bool(what.confirmed[item])}
        lines.append(json.dumps(values, ensure_ascii=False) + "\n")
    return {"metadata.jsonl": "".join(lines).encode()}


def parquet(what: Sorted) -> bytes:
    """Return a Parquet table: that of --to csv, whether a picture is confirmed, and the probability of each kind."""
    try:
        import pyarrow
        from pyarrow.parquet import write_table
    except ImportError as error:
        raise UsageError(
            "A Parquet file needs pyarrow, which cannot be imported.",
            hint="Install it with: pip install 'newkinds[tables]'. Or use --to csv or --to jsonl.",
        ) from error
    rows = [row for _, row in rows_of(what.found, what.called)]
    columns: dict[str, Any] = {key: [row[key] for row in rows] for key in rows[0]}
    columns["confirmed"] = what.confirmed.tolist()
    columns |= {f"p {column}": what.found.probabilities[:, n] for n, column in enumerate(what.found.columns)}
    about: Mapping[str, str] = {"newkinds": __version__, "run": what.title}
    table = pyarrow.table(columns).replace_schema_metadata(about)
    buffer = io.BytesIO()
    write_table(table, buffer)
    return buffer.getvalue()


def _relative(files: Files) -> list[str]:
    """Return the paths of the pictures below the folder that they are in, with forward slashes."""
    return _readable([os.path.relpath(file, files.root).replace(os.sep, "/") for file in files.paths])


def _readable(places: Sequence[str]) -> list[str]:
    """Return the paths if all of them can be written as UTF-8, which other programs read; raise an error otherwise."""
    for place in places:
        if not _is_utf8(place):
            raise UsageError(
                f"{visible(place)} cannot be written into a file for another program: its name is not UTF-8.",
                hint="Rename it, and run newkinds discover again with another --out; or use --to csv or --to folders.",
            )
    return list(places)


def _is_utf8(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: names of files that are not have surrogates in them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()
