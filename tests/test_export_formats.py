"""Exports in the formats of other programs follow the journal, and read as those programs document them."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import numpy as np
import pytest

import newkinds as nk
from newkinds.errors import NewkindsError, UsageError
from newkinds.export import FORMATS
from newkinds.images.decode import probe
from newkinds.progress import Progress

QUIET = Progress("silent")
NAME = 'Ünter & <b>"scheibe"</b>'


@pytest.fixture(scope="module")
def run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run about which something was said: kinds 0 and 1 are one, a part of kind 2 is known, one is none."""
    out = tmp_path_factory.mktemp("runs") / "shop"
    settings = {"pretrain": {"epochs": 1}, "discover": {"warmup_epochs": 1, "epochs": 1}}
    options: dict[str, Any] = {"kinds": 3, "rehearsals": 0, "settings": settings, "page": False, "progress": QUIET}
    found = nk.discover(photos / "known", photos / "unsorted", out=out, **options)
    moved = [name for name, kind in zip(found.names, found.kinds, strict=True) if kind == "new:2"][:2]
    say = [
        {"do": "merge", "kinds": ["new:0", "new:1"]},
        {"do": "name", "kind": "new:0", "name": NAME},
        {"do": "move", "pictures": moved[:1], "to": "known:bolt"},
        {"do": "move", "pictures": moved[1:], "to": "none"},
    ]
    nk.journal(out, say=say, progress=QUIET)
    return out


def expected(run: Path) -> dict[str, str]:
    """Return what the kind of each picture is called."""
    found = nk.load(run)
    called = {"new:0": NAME, "new:2": "kind-2", "known:bolt": "bolt", "none": "none"}
    return {name: called[kind] for name, kind in zip(found.names, found.kinds.tolist(), strict=True)}


def made(run: Path, to: str, out: Path, **more: Any) -> Path:
    return nk.export(run, to, out, progress=QUIET, **more)


def test_every_format_is_tested_here_or_beside() -> None:
    tested = {"folders", "csv", "jsonl", "onnx", "parquet", "coco", "label-studio", "fiftyone", "imagefolder"}
    assert set(FORMATS) == tested


def test_folders_and_tables_follow_the_journal(run: Path, tmp_path: Path) -> None:
    folders = made(run, "folders", tmp_path / "sorted")
    safe = {NAME: "Ünter & _b__scheibe___b_"}
    found = {str(path.relative_to(folders)) for path in folders.rglob("*") if path.is_file()}
    assert found == {f"{safe.get(kind, kind)}/{name}" for name, kind in expected(run).items()}
    rows = list(csv.DictReader(io.StringIO(made(run, "csv", tmp_path / "kinds.csv").read_text())))
    assert {row["path"]: row["name"] for row in rows} == expected(run)
    lines = [json.loads(line) for line in made(run, "jsonl", tmp_path / "k.jsonl").read_text().splitlines()]
    assert {row["path"]: row["name"] for row in lines} == expected(run)


def test_parquet(run: Path, tmp_path: Path) -> None:
    from pyarrow.parquet import read_table

    table = read_table(made(run, "parquet", tmp_path / "kinds.parquet"))
    rows = table.to_pylist()
    assert {row["path"]: row["name"] for row in rows} == expected(run)
    found = nk.load(run)
    assert found.confirmed is not None
    assert [row["confirmed"] for row in rows] == found.confirmed.tolist()
    for number, column in enumerate(found.columns):
        np.testing.assert_array_equal(table[f"p {column}"].to_numpy(), found.probabilities[:, number])
    # and back, as corrections made elsewhere
    assert nk.journal(run, progress=QUIET).last == nk.journal(run, take=tmp_path / "kinds.parquet", progress=QUIET).last


def test_coco(run: Path, photos: Path, tmp_path: Path) -> None:
    whole = json.loads(made(run, "coco", tmp_path / "kinds.json").read_text())
    names = {one["id"]: one["name"] for one in whole["categories"]}
    files = {one["id"]: one for one in whole["images"]}
    assert {one["supercategory"] for one in whole["categories"]} == {"new", "known"}
    found = {}
    for one in whole["annotations"]:
        picture = files[one["image_id"]]
        header = probe(photos / "unsorted" / picture["file_name"])
        assert (picture["width"], picture["height"]) == (header.width, header.height)
        assert one["bbox"] == [0, 0, header.width, header.height]
        assert one["area"] == header.width * header.height
        found[picture["file_name"]] = names[one["category_id"]]
    assert found == {name: kind for name, kind in expected(run).items() if kind != "none"}
    assert len(files) == len(expected(run))
    assert len({one["id"] for one in whole["annotations"]}) == len(whole["annotations"])


def test_label_studio_there_and_back(run: Path, tmp_path: Path) -> None:
    folder = made(run, "label-studio", tmp_path / "studio")
    view = ElementTree.fromstring((folder / "config.xml").read_text(encoding="utf-8"))
    (image,), (choices,) = view.findall("Image"), view.findall("Choices")
    tasks = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    for task in tasks:
        (predicted,) = task["predictions"]
        (result,) = predicted["result"]
        assert (result["from_name"], result["to_name"]) == (choices.get("name"), image.get("name"))
        assert image.get("value") == f"${image.get('name')}"
        assert parse_qs(urlsplit(task["data"]["image"]).query)["d"] == [task["data"]["path"]]
        assert result["value"]["choices"] == [expected(run)[task["data"]["path"]]]
        assert 0 <= predicted["score"] <= 1
    assert {choice.get("value") for choice in choices} == set(expected(run).values())
    found = nk.load(run)
    assert found.confirmed is not None
    assert [name for name, yes in zip(found.names, found.confirmed, strict=True) if yes] == [
        task["data"]["path"] for task in tasks if "annotations" in task
    ]
    # What was annotated comes back and says nothing new; a choice that was changed does.
    before = nk.journal(run, progress=QUIET).last
    assert nk.journal(run, take=folder / "tasks.json", progress=QUIET).last == before
    changed = tasks[0]["data"]["path"]
    tasks[0]["annotations"] = [{"result": [{**tasks[0]["predictions"][0]["result"][0], "value": {"choices": ["nut"]}}]}]
    (tmp_path / "back.json").write_text(json.dumps(tasks))
    assert nk.journal(run, take=tmp_path / "back.json", progress=QUIET).state.kind_of(changed) == "known:nut"
    nk.journal(run, undo=True, progress=QUIET)


def test_an_image_that_is_no_address_is_a_picture_of_no_such_name(run: Path, tmp_path: Path) -> None:
    choice = {"from_name": "kind", "to_name": "image", "type": "choices", "value": {"choices": ["nut"]}}
    task = {"data": {"image": "//[a].jpg"}, "annotations": [{"result": [choice]}]}
    (tmp_path / "odd.json").write_text(json.dumps([task]))
    with pytest.raises(NewkindsError, match=r"//\[a\].jpg"):
        nk.journal(run, take=tmp_path / "odd.json", progress=QUIET)


def test_places_that_are_not_utf8_are_refused_for_other_programs(run: Path, photos: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    try:
        shutil.copytree(photos / "unsorted", odd)
    except OSError:
        pytest.skip("this file system has no such names")
    shutil.copytree(run, tmp_path / "run")
    with pytest.raises(UsageError, match="not UTF-8") as caught:
        made(tmp_path / "run", "fiftyone", tmp_path / "out", images=odd)
    assert "--to csv" in caught.value.hint
    assert not (tmp_path / "out").exists()
    assert made(tmp_path / "run", "csv", tmp_path / "kinds.csv").is_file()


def test_fiftyone(run: Path, photos: Path, tmp_path: Path) -> None:
    folder = made(run, "fiftyone", tmp_path / "fiftyone")
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    places = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    assert labels["labels"].keys() == places.keys()
    assert not any(os.path.splitext(key)[1] for key in places)  # the importer leaves endings out
    root = os.path.abspath(photos / "unsorted")
    found = {os.path.relpath(places[key], root): one["label"] for key, one in labels["labels"].items()}
    assert found == expected(run)
    assert all(os.path.isfile(file) for file in places.values())
    assert set(found.values()) <= set(labels["classes"])


def test_imagefolder(run: Path, photos: Path, tmp_path: Path) -> None:
    folder = made(run, "imagefolder", tmp_path / "hf")
    lines = [json.loads(line) for line in (folder / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["path"]: row["label"] for row in lines} == expected(run)
    for row in lines:
        assert (folder / row["file_name"]).read_bytes() == (photos / "unsorted" / row["path"]).read_bytes()
    pictures = {str(path.relative_to(folder)) for path in folder.rglob("*.png")}
    assert pictures == {row["file_name"] for row in lines}
    linked = made(run, "imagefolder", tmp_path / "links", link=True)
    assert all(path.is_symlink() for path in linked.rglob("*.png"))


def test_onnx_sums_what_was_merged(run: Path, photos: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    file = made(run, "onnx", tmp_path / "kinds.onnx")
    session = runtime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["names"]) == [NAME, "kind-2"]
    assert told["kinds"] == "2"
    images = nk.open_images(photos / "unsorted", size=int(told["size"]), channels=3)
    (p,) = session.run(["p"], {"images": images.pixels.astype(np.float32) / 255})
    predicted = nk.predict(run, photos / "unsorted", among="new", progress=QUIET)
    np.testing.assert_allclose(p, predicted.probabilities, atol=1e-4)


def test_pictures_that_are_no_files_cannot_be_pointed_to(tmp_path: Path) -> None:
    settings = {"pretrain": {"epochs": 1}, "discover": {"warmup_epochs": 1, "epochs": 1}}
    options: dict[str, Any] = {"kinds": 5, "rehearsals": 0, "settings": settings, "page": False, "progress": QUIET}
    nk.discover("digits", "digits", out=tmp_path / "run", **options)
    for to in ("coco", "label-studio", "fiftyone"):
        with pytest.raises(UsageError, match="no files of their own") as caught:
            made(tmp_path / "run", to, tmp_path / "out")
        assert "imagefolder" in caught.value.hint
        assert not (tmp_path / "out").exists()
    folder = made(tmp_path / "run", "imagefolder", tmp_path / "out")
    lines = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines()]
    assert all((folder / row["file_name"]).is_file() for row in lines)
