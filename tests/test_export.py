"""Exports: pictures in folders, tables, ONNX; whole or not at all, nothing overwritten, nothing outside the target."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import newkinds as nk
from newkinds import api
from newkinds.datasets import named
from newkinds.errors import DataError, NewkindsError, NumericsError, RunError, UsageError
from newkinds.export import export as export_run
from newkinds.export import network
from newkinds.export.folders import unique_places
from newkinds.export.names import LONGEST, fold, folder_names, safe_component
from newkinds.export.place import placed
from newkinds.files import digest
from newkinds.images import ImageSet
from newkinds.images.decode import decode, encode
from newkinds.methods.registry import HEADS
from newkinds.networks import SoftmaxHead
from newkinds.networks.files import model_from_bytes
from newkinds.progress import QUIET, Progress
from pictures import write_embeddings

QUICK = {"pretrain": {"epochs": 2}, "rehearse": {"rehearsals": 1}, "discover": {"warmup_epochs": 1, "epochs": 1}}
BRIEF = {"epochs": 3, "milestones": [2]}


@pytest.fixture(scope="module")
def shop(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run over a folder of colour pictures, in which the same file name is in several folders."""
    out = tmp_path_factory.mktemp("runs") / "shop"
    arguments: Any = {"kinds": 3, "network": "vgg6-4-2-slim", "settings": QUICK, "page": False}
    nk.discover(photos / "known", photos / "unsorted", out=out, **arguments)
    return out


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run over a named data set."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    nk.discover("digits", "digits", out=out, kinds=5, settings=QUICK, page=False)
    return out


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the runs of a method without a model and of one with a softmax, over embeddings."""
    folder = tmp_path_factory.mktemp("embedded")
    known, unsorted = write_embeddings(folder)
    settings = {"kinds": 3, "lsc": {"landmarks": 20}, "similarity": BRIEF, "pairs": BRIEF}
    for method in ("lsc", "mcl"):
        nk.discover(known, unsorted, out=folder / method, method=method, settings=settings, page=False)
    return folder / "lsc", folder / "mcl"


def names_file(folder: Path, names: Any, **more: Any) -> Path:
    path = folder / "names.json"
    path.write_text(json.dumps({"newkinds": "names", "names": names, **more}))
    return path


def result(run: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((run / "kinds.csv").read_text())))


def number(column: str) -> int:
    """Return the number of a new kind."""
    return int(column.removeprefix("new:"))


def tree(folder: Path) -> set[str]:
    """Return all files below a folder, links among them."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


# Folders


def test_copies_are_the_files_in_one_folder_a_kind(shop: Path, photos: Path, tmp_path: Path) -> None:
    names = names_file(tmp_path, {"0": "circle", "2": "Ärmel ☆"}, run="shop")
    out = export_run(shop, "folders", tmp_path / "new" / "sorted", names=names)
    called = {"new:0": "circle", "new:1": "kind-1", "new:2": "Ärmel ☆"}
    assert tree(out) == {f"{called[row['kind']]}/{row['path']}" for row in result(shop)}
    for row in result(shop):
        copy, original = out / called[row["kind"]] / row["path"], photos / "unsorted" / row["path"]
        assert copy.read_bytes() == original.read_bytes()
        assert copy.stat().st_mtime == original.stat().st_mtime
        assert not copy.is_symlink()
    assert sorted(path.name for path in out.parent.iterdir()) == ["sorted"]  # nothing is left beside it


def test_links_lead_to_the_files(shop: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos.parent)
    out = export_run(shop, "folders", tmp_path / "sorted", link=True, images="photos/unsorted")
    for row in result(shop):
        link = out / f"kind-{number(row['kind'])}" / row["path"]
        assert os.readlink(link) == str(photos / "unsorted" / row["path"])  # absolute: wherever the target is moved


def test_a_folder_of_odd_file_names_keeps_them(photos: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    files = [b"\xff.png", b"new\nline.png", b"..a.PNG", b"-rf.png", "ü ☆.png".encode(), b"a\\b.png", b"nul.png"]
    for number, name in enumerate(files):
        pixels = np.full((3, 12, 12), 30 * number, dtype=np.uint8)
        (odd / os.fsdecode(name)).write_bytes(encode(pixels, "png"))
    settings = {**QUICK, "kinds": 2}
    nk.discover(photos / "known", odd, out=tmp_path / "run", settings=settings, page=False)
    out = export_run(tmp_path / "run", "folders", tmp_path / "sorted")
    copies = [path for path in out.rglob("*") if path.is_file()]
    shown = [name for name in files if not name.startswith(b".")]
    assert sorted(os.fsencode(path.name) for path in copies) == sorted(shown)
    assert all(path.read_bytes() == (odd / path.name).read_bytes() for path in copies)


def test_pixels_of_a_named_set_become_png_files(digits: Path, tmp_path: Path) -> None:
    out = export_run(digits, "folders", tmp_path / "sorted")
    images = named("digits:unsorted")
    assert images is not None
    assert tree(out) == {f"kind-{number(row['kind'])}/{row['path']}.png" for row in result(digits)}
    for row in result(digits)[::50]:
        written = (out / f"kind-{number(row['kind'])}" / f"{row['path']}.png").read_bytes()
        assert (decode(written, size=8, channels=1) == images.pixels[images.names.index(row["path"])]).all()


def test_names_in_arrays_lead_nowhere_else(photos: Path, tmp_path: Path) -> None:
    hostile = [
        "../../up.png",
        "/etc/passwd",
        "a/x.png",
        "a/x.jpg",
        "A/X",
        "a",
        "a.png/b",
        "..",
        "",
        "nul",
        "x" * 400,
        ".",
    ]
    hostile += ["x" * 401, "C:\\boot.ini", "a//x", "tab\t", "~/.profile"]
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (len(hostile), 12, 12, 3), dtype=np.uint8)
    np.savez(tmp_path / "hostile.npz", images=pixels, names=np.array(hostile))
    run, deep = tmp_path / "run", tmp_path / "very" / "deep"
    nk.discover(photos / "known", tmp_path / "hostile.npz", out=run, kinds=2, settings=QUICK, page=False)
    before = tree(tmp_path)
    out = export_run(run, "folders", deep / "sorted")
    assert len(tree(out)) == len(hostile)
    assert tree(tmp_path) - before == {f"very/deep/sorted/{name}" for name in tree(out)}
    found = {(out / name).read_bytes() for name in tree(out)}
    assert found == {encode(np.ascontiguousarray(one.transpose(2, 0, 1)), "png") for one in pixels}
    assert tree(export_run(run, "folders", tmp_path / "again")) == tree(out)  # the same names get the same places


def test_an_image_set_is_given_again(photos: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 12, 12), dtype=np.uint8)
    images = ImageSet(pixels, tuple("abcdef"), None, (), "memory", "0" * 32)
    nk.discover(photos / "known", images, out=tmp_path / "run", kinds=2, settings=QUICK, page=False)
    with pytest.raises(RunError, match=r"came from memory, which is not there.*`images`"):
        export_run(tmp_path / "run", "folders", tmp_path / "sorted")
    out = export_run(tmp_path / "run", "folders", tmp_path / "sorted", images=images)
    assert sorted(path.name for path in out.rglob("*.png")) == [f"{name}.png" for name in "abcdef"]
    with pytest.raises(RunError, match=r"2 of the 6 pictures .* are not in memory, such as 'a'"):
        export_run(tmp_path / "run", "folders", tmp_path / "other", images=images.select(range(2, 6)))


def test_pictures_that_are_gone(shop: Path, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "unsorted", tmp_path / "moved")
    (tmp_path / "moved" / "hinge" / "03.png").unlink()
    with pytest.raises(RunError, match=r"1 of the 48 pictures .* such as 'hinge/03.png'"):
        export_run(shop, "folders", tmp_path / "sorted", images=tmp_path / "moved")
    assert not (tmp_path / "sorted").exists()


def test_folders_are_not_made_of_embeddings_nor_links_of_pixels(
    embedded: tuple[Path, Path], digits: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"embeddings.*--to csv"):
        export_run(embedded[0], "folders", tmp_path / "sorted")
    with pytest.raises(UsageError, match=r"digits:unsorted.*linked to.*--copy"):
        export_run(digits, "folders", tmp_path / "sorted", link=True)
    with pytest.raises(UsageError, match=r"nothing to link.*'csv'"):
        export_run(digits, "csv", tmp_path / "kinds.csv", link=True)
    assert not list(tmp_path.iterdir())


def test_the_target_is_not_among_the_pictures(shop: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(photos / "unsorted")
    for out in (photos / "unsorted" / "sorted", tmp_path / "link" / "sorted"):
        with pytest.raises(UsageError, match="among the pictures"):
            export_run(shop, "folders", out)
    assert not (photos / "unsorted" / "sorted").exists()


# Tables


def test_csv(digits: Path, tmp_path: Path) -> None:
    names = names_file(tmp_path, {"1": 'with "quotes", and a comma', "4": "=1+1"})
    out = export_run(digits, "csv", tmp_path / "kinds.csv", names=names)
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    head = ["path", "kind", "name", "probability", "runner_up", "runner_up_name", "runner_up_probability"]
    assert list(rows[0]) == head
    called = ["kind-0", 'with "quotes", and a comma', "kind-2", "kind-3", "'=1+1"]  # as a text, for spreadsheets
    p = np.sort(np.load(digits / "features" / "probabilities.npy"), axis=1)
    assert len(rows) == len(p)
    for row, old, best in zip(rows, result(digits), p, strict=True):
        assert {key: row[key] for key in old} == old  # what the run's own table says, and more
        assert (row["name"], row["runner_up_name"]) == (called[number(row["kind"])], called[number(row["runner_up"])])
        assert float(row["probability"]) == pytest.approx(best[-1], abs=1e-6)
        assert float(row["runner_up_probability"]) == pytest.approx(best[-2], abs=1e-6)


def test_jsonl_has_all_probabilities_to_the_last_bit(digits: Path, tmp_path: Path) -> None:
    out = export_run(digits, "jsonl", tmp_path / "kinds.jsonl", names=names_file(tmp_path, {"0": "Fünf"}))
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    p = np.load(digits / "features" / "probabilities.npy")
    assert (np.array([row["probabilities"] for row in rows], dtype=np.float32) == p).all()
    assert [row["path"] for row in rows] == [row["path"] for row in result(digits)]
    assert [number(row["kind"]) for row in rows] == p.argmax(axis=1).tolist()
    assert {row["name"] for row in rows if row["kind"] == "new:0"} == {"Fünf"}
    for row in rows:
        first, second = number(row["kind"]), number(row["runner_up"])
        assert row["probability"] == row["probabilities"][first] == max(row["probabilities"])
        others = row["probabilities"][:first] + row["probabilities"][first + 1 :]
        assert row["runner_up_probability"] == row["probabilities"][second] == max(others)


def test_tables_of_a_method_without_a_model(embedded: tuple[Path, Path], tmp_path: Path) -> None:
    out = export_run(embedded[0], "jsonl", tmp_path / "kinds.jsonl")
    found = np.load(embedded[0] / "features/probabilities.npy").max(axis=1)
    said = [json.loads(line)["probability"] for line in out.read_text().splitlines()]
    assert np.allclose(said, found, atol=1e-5)
    assert found.max() < 1  # such a method says 1 of all; rehearsals know better


# ONNX


def session(path: Path) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    return runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])


def answers(session: Any, images: ImageSet, batch: int) -> Any:
    pixels = images.pixels.astype(np.float32) / (1 if images.is_embedding else 255)
    parts = [pixels[start : start + batch] for start in range(0, len(pixels), batch)]
    return np.concatenate([session.run(["p"], {"images": part})[0] for part in parts])


@pytest.fixture
def needs_onnx() -> None:
    for package in network.PACKAGES:
        pytest.importorskip(package)


@pytest.mark.usefixtures("needs_onnx")
def test_onnx_says_of_real_pictures_what_predict_says(
    digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = names_file(tmp_path, {"0": "Fünf", "3": "eight"})
    out = export_run(digits, "onnx", tmp_path / "digits.onnx", names=names)
    assert capfd.readouterr() == ("", "")  # the exporter has much to say
    file = session(out)
    images = named("digits:unsorted")
    assert images is not None
    expected = api.predict(digits, "digits:unsorted", among="new").probabilities
    for batch in (1, 100, len(images)):
        few = images.select(range(7)) if batch == 1 else images
        assert np.abs(answers(file, few, batch) - expected[: len(few)]).max() < 1e-4
    assert expected.max(axis=1).std() > 1e-3  # pictures differ, so equal answers say something
    assert [file.get_inputs()[0].name, file.get_inputs()[0].shape] == ["images", ["N", 1, 8, 8]]
    about = file.get_modelmeta()
    told = about.custom_metadata_map
    assert json.loads(told["names"]) == ["Fünf", "kind-1", "kind-2", "eight", "kind-4"]
    assert (told["kinds"], told["size"], told["channels"]) == ("5", "8", "1")
    assert (told["version"], about.producer_name) == (nk.__version__, "newkinds")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits.onnx", "names.json"]  # weights are inside
    assert b"newkinds/networks" not in out.read_bytes()  # nor whose files it was traced in
    again = export_run(digits, "onnx", tmp_path / "again.onnx", names=names)
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.usefixtures("needs_onnx")
def test_onnx_in_colour(shop: Path, photos: Path, tmp_path: Path) -> None:
    file = session(export_run(shop, "onnx", tmp_path / "shop.onnx"))
    images = nk.open_images(photos / "today", size=12, channels=3)
    expected = api.predict(shop, photos / "today", among="new").probabilities
    assert file.get_inputs()[0].shape == ["N", 3, 12, 12]
    assert np.abs(answers(file, images, 4) - expected).max() < 1e-4


@pytest.mark.usefixtures("needs_onnx")
def test_onnx_of_a_softmax_over_embeddings(embedded: tuple[Path, Path], tmp_path: Path) -> None:
    run = embedded[1]
    model = model_from_bytes((run / "model" / "weights.safetensors").read_bytes(), "", HEADS)[0]
    assert isinstance(model.head, SoftmaxHead)
    file = session(export_run(run, "onnx", tmp_path / "mcl.onnx"))
    images = nk.open_images(run.parent / "unsorted.npz")
    expected = api.predict(run, run.parent / "unsorted.npz", among="new").probabilities
    assert file.get_inputs()[0].shape == ["N", 8]
    assert np.abs(answers(file, images, 10) - expected).max() < 1e-4


@pytest.mark.usefixtures("needs_onnx")
def test_an_onnx_file_that_says_something_else_is_not_written(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = network._converted

    def wrong(module: network.Probabilities, example: torch.Tensor) -> Any:
        made = convert(module, example)
        with torch.no_grad():
            module.model.head.bottleneck.bias += 1
        return made

    monkeypatch.setattr(network, "_converted", wrong)
    with pytest.raises(NumericsError, match=r"differ from the network.*0.0001 is allowed"):
        export_run(digits, "onnx", tmp_path / "digits.onnx")
    assert not list(tmp_path.iterdir())


def test_onnx_needs_a_model(embedded: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_packages", lambda: (None, None))
    with pytest.raises(UsageError, match=r"'lsc', keeps no network.*--to csv"):
        export_run(embedded[0], "onnx", tmp_path / "lsc.onnx")


@pytest.mark.parametrize("package", network.PACKAGES)
def test_onnx_needs_packages(package: str, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in network.PACKAGES:
        monkeypatch.setitem(sys.modules, name, None if name == package else sys)
    with pytest.raises(UsageError, match=rf"needs {package}, .*pip install 'newkinds\[onnx\]'"):
        export_run(digits, "onnx", tmp_path / "digits.onnx")
    assert not list(tmp_path.iterdir())


# Names


HOSTILE = ["../../etc", "/etc/cron.d", "..", "a\\..\\b", "CON", "nul.txt", "a\0b", ".ssh", "x. ", "\u202etxt", "\ud800"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_of_a_kind_leads_nowhere_else(name: str, shop: Path, tmp_path: Path) -> None:
    box = tmp_path / "a" / "b" / "c"
    box.mkdir(parents=True)
    names = names_file(tmp_path, {str(kind): f"{name}" if kind == 0 else f"{name}{kind}" for kind in range(3)})
    said = io.StringIO()
    out = export_run(shop, "folders", box / "sorted", names=names, link=True, progress=Progress("quiet", said))
    assert tree(tmp_path) == {"names.json"} | {f"a/b/c/sorted/{file}" for file in tree(out)}
    folders = {path.name for path in out.iterdir()}
    assert folders == {safe_component(f"{name}{kind or ''}") for kind in {number(row["kind"]) for row in result(shop)}}
    assert len(tree(out)) == 48
    assert "kind 0" in said.getvalue() or name in ("x. ", "\u202etxt", "\ud800")


def test_safe_names_by_hand() -> None:
    expected = {
        "circle": "circle",
        "two words.x": "two words.x",
        "../../etc": "_._.._etc",
        "/abs": "_abs",
        "C:\\x": "C__x",
        "..": "_",
        "": "_",
        " . ": "_",
        ".hidden": "_hidden",
        "NUL": "_NUL",
        "com1.png": "_com1.png",
        "lpt¹": "_lpt¹",
        "console": "console",
        "a\0b": "a_x00b",
        "Thumbs.db": "_Thumbs.db",
        "end. .": "end",
    }
    assert {name: safe_component(name) for name in expected} == expected


@given(st.text())
def test_any_text_becomes_one_component(name: str) -> None:
    safe = safe_component(name)
    assert safe
    assert PurePosixPath(safe).parts == (safe,)
    assert not safe.startswith(".")
    assert not safe.endswith((".", " "))
    assert safe_component(safe) == safe
    assert not any(character < " " or character in '\x7f<>:"/\\|?*' for character in safe)
    safe.encode()


PARTS = st.sampled_from(["a", "A", "b", "a.png", "..", ".", "a-2", "ä", "a\u0308", "x" * 300, "con", ""])


@given(st.lists(st.lists(PARTS, min_size=1, max_size=3).map("/".join), max_size=12))
def test_places_are_unique_and_inside(names: list[str]) -> None:
    places = unique_places(names, ["kind-0"] * len(names))
    assert len({fold(place) for place in places}) == len(places)
    above = {fold(str(parent)) for place in places for parent in PurePosixPath(place).parents}
    assert not above & {fold(place) for place in places}  # no picture is where a folder has to be
    for place in places:
        assert place.startswith("kind-0/")
        assert place.endswith(".png")
        assert ".." not in place.split("/")
        assert all(0 < len(part.encode()) <= LONGEST for part in place.split("/"))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"0": "kind-2"}, "kinds 0 and 2 have the same name 'kind-2'"),
        ({"3": "star"}, "does not have: '3'. Its kinds are 0 to 2"),
        ({"00": "star", "-1": "b", "x": "c"}, "does not have: '-1', '00', 'x'. Its kinds are 0 to 2"),
        ({"0": 7}, "a text as the name of kind '0', not 7"),
        ({"0": None}, "a text as the name of kind '0', not None"),
        (["star"], "is not a names file"),
        (None, "is not a names file"),
    ],
)
@pytest.mark.parametrize("to", ["csv", "folders"])
def test_names_that_are_refused(to: str, names: Any, words: str, shop: Path, tmp_path: Path) -> None:
    file = names_file(tmp_path, names)
    with pytest.raises(NewkindsError) as caught:
        export_run(shop, to, tmp_path / "out", names=file)
    assert words in str(caught.value)
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["names.json"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"0": "Star", "1": "star"}, "kinds 0 and 1 would share the folder 'star'"),
        ({"0": "a/b", "1": "a:b"}, "kinds 0 and 1 would share the folder 'a_b'"),
        ({"1": "ü" * 200}, "name of kind 1 has 400 bytes, a folder's may have 255"),
    ],
)
def test_names_that_are_refused_as_folders_only(names: Any, words: str, shop: Path, tmp_path: Path) -> None:
    file = names_file(tmp_path, names)
    with pytest.raises(UsageError) as caught:
        export_run(shop, "folders", tmp_path / "out", names=file)
    assert words in str(caught.value)
    assert not (tmp_path / "out").exists()
    export_run(shop, "csv", tmp_path / "kinds.csv", names=file)


@pytest.mark.parametrize(
    ("names", "name", "one"),
    [
        ({"0": "star", "2": "star"}, "star", ("new:0", "new:2")),
        ({"0": "moon", "1": " star ", "2": "star"}, "star", ("new:1", "new:2")),
        ({"0": "\u00e4", "1": "a\u0308"}, "\u00e4", ("new:0", "new:1")),
    ],
)
def test_kinds_of_one_name_are_one_which_is_said(
    names: Any, name: str, one: tuple[str, str], shop: Path, tmp_path: Path
) -> None:
    said, file = io.StringIO(), names_file(tmp_path, names)
    out = export_run(shop, "csv", tmp_path / "kinds.csv", names=file, progress=Progress("quiet", said))
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    for before, row in zip(result(shop), rows, strict=True):
        assert row["kind"] == (one[0] if before["kind"] in one else before["kind"])
        assert (row["name"] == name) == (before["kind"] in one)
    assert f"{one[0]} and {one[1]} are both called {name!r}" in " ".join(said.getvalue().split())
    folders = {path.name for path in export_run(shop, "folders", tmp_path / "sorted", names=file).iterdir()}
    assert len(folders) == 2
    assert name in folders


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"circle, star",
        b"\xff\xfe",
        b"[]",
        b'{"names": {"0": "star"}}',
        b'{"newkinds": "report", "names": {}}',
        b'{"newkinds": "names", "run": 3, "names": {}}',
        b'{"newkinds": "names", "names": {"0": "a", "0": "b"}}',
        b"[" * 100_000,
    ],
)
def test_a_malformed_names_file(content: bytes, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "names.json").write_bytes(content)
    with pytest.raises(DataError, match=r"is not a names file.*\"newkinds\": \"names\""):
        export_run(shop, "csv", tmp_path / "out", names=tmp_path / "names.json")


def test_a_names_file_that_cannot_be_read(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.json does not exist"):
        export_run(shop, "csv", tmp_path / "out", names=tmp_path / "none.json")
    with pytest.raises(DataError, match=r"is not a file"):
        export_run(shop, "csv", tmp_path / "out", names=tmp_path)
    big = tmp_path / "big.json"
    with big.open("wb") as file:
        file.truncate(10_000_001)
    with pytest.raises(DataError, match=r"10,000,001 bytes, 10,000,000 are allowed"):
        export_run(shop, "csv", tmp_path / "out", names=big)


def test_blank_names_and_other_runs_names(shop: Path, tmp_path: Path) -> None:
    said = io.StringIO()
    file = names_file(tmp_path, {"0": "  ", "1": "star"}, run="other", more="later")
    out = export_run(shop, "csv", tmp_path / "a.csv", names=file, progress=Progress("quiet", said))
    assert {row["name"] for row in csv.DictReader(io.StringIO(out.read_text()))} <= {"kind-0", "star", "kind-2"}
    assert "names of the run 'other', this is 'shop'" in said.getvalue()
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"newkinds": "names", "run": "shop", "names": {}}).encode())
    said.truncate(0)
    export_run(shop, "csv", tmp_path / "b.csv", names=file, progress=Progress("quiet", said))
    assert not said.getvalue().strip("\0")


def test_folder_names_of_many_kinds() -> None:
    columns, called = [f"new:{kind}" for kind in range(1000)], [f"kind-{kind}" for kind in range(1000)]
    assert folder_names(columns, called, QUIET) == tuple(called)


# What is there already, what fails, what is killed


@pytest.mark.parametrize("to", ["folders", "csv", "jsonl", "onnx"])
def test_nothing_is_overwritten(to: str, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "to-empty").symlink_to(tmp_path / "empty")
    before = sorted(map(str, tmp_path.rglob("*")))
    for name in ("file", "folder", "link", "to-empty", "file/below"):
        with pytest.raises(UsageError, match=r"--out"):
            export_run(shop, to, tmp_path / name)
    assert sorted(map(str, tmp_path.rglob("*"))) == before
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "file").read_text() == "mine"


def test_an_empty_folder_is_filled_but_never_a_file(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="overwrites nothing"):
        export_run(shop, "csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(tree(export_run(shop, "folders", Path("sorted")))) == 48
    (tmp_path / "empty").mkdir()
    assert len(tree(export_run(shop, "folders", tmp_path / "empty"))) == 48
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "sorted"]


def test_what_somebody_puts_there_meanwhile_stays(tmp_path: Path) -> None:
    def write_file() -> None:
        with placed(tmp_path / "kinds.csv", folder=False) as path:
            path.write_text("ours")
            (tmp_path / "kinds.csv").write_text("mine")

    def write_folder() -> None:
        with placed(tmp_path / "sorted", folder=True) as path:
            path.mkdir()
            (tmp_path / "sorted").mkdir()
            (tmp_path / "sorted" / "file").write_text("mine")

    with pytest.raises(FileExistsError):
        write_file()
    with pytest.raises(OSError, match="not empty"):
        write_folder()
    assert tree(tmp_path) == {"kinds.csv", "sorted/file"}
    assert (tmp_path / "kinds.csv").read_text() == "mine"


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with placed(tmp_path / "kinds.csv", folder=False) as path:
        path.write_text("ours")
    with pytest.raises(FileExistsError), placed(tmp_path / "kinds.csv", folder=False) as path:
        path.write_text("again")
    assert (tmp_path / "kinds.csv").read_text() == "ours"
    assert tree(tmp_path) == {"kinds.csv"}


def test_nothing_that_others_put_beside_the_target_is_used_or_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "new").mkdir()
    (precious / "new" / "file").write_text("mine")
    begin = f".tmp-newkinds-{digest(b'kinds.csv')[:16]}-"
    (tmp_path / f"{begin}0").symlink_to(precious)
    (tmp_path / f".tmp-newkinds-newkinds-{digest(b'kinds.csv')[:16]}").symlink_to(precious)
    before = tree(tmp_path)
    seen = []
    for _ in range(2):
        with placed(tmp_path / "kinds.csv", folder=False) as path:
            seen.append(path.parent.name)
            assert path.parent.stat().st_mode & 0o777 == 0o700
            path.write_text("ours")
        (tmp_path / "kinds.csv").unlink()
    assert seen[0] != seen[1]
    assert tree(tmp_path) == before
    assert (precious / "new" / "file").read_text() == "mine"


def test_a_killed_export_that_was_complete_leaves_nothing_for_good(embedded: tuple[Path, Path], tmp_path: Path) -> None:
    left = tmp_path / f".tmp-newkinds-{digest(b'kinds.csv')[:16]}-0"
    left.mkdir()
    for file in (left / "lock", left / "new", tmp_path / "kinds.csv"):
        file.touch()
    with pytest.raises(UsageError, match="an export overwrites nothing"):
        nk.export(embedded[0], "csv", tmp_path / "kinds.csv")
    assert tree(tmp_path) == {"kinds.csv"}


def test_two_exports_to_one_place(tmp_path: Path) -> None:
    with placed(tmp_path / "kinds.csv", folder=False) as path:
        path.write_text("first")
        with (
            pytest.raises(RunError, match="Another process is exporting"),
            placed(tmp_path / "kinds.csv", folder=False),
        ):
            pass
        with placed(tmp_path / "others.csv", folder=False) as other:
            other.write_text("second")
    assert tree(tmp_path) == {"kinds.csv", "others.csv"}


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("to", ["csv", "jsonl", "folders"])
def test_a_write_that_fails_leaves_nothing(to: str, shop: Path, tmp_path: Path) -> None:
    with largest_file(200), pytest.raises(RunError, match=r"export to .* failed: File too large.*Nothing of it"):
        export_run(shop, to, tmp_path / "new" / "folder" / "out")
    assert not list(tmp_path.iterdir())
    assert export_run(shop, to, tmp_path / "new" / "folder" / "out").exists()


def test_a_stop_in_the_middle_leaves_nothing(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []

    def copy(source: Path, target: Path) -> None:
        copied.append(target.write_bytes(source.read_bytes()))
        if len(copied) == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copyfile", copy)
    with pytest.raises(KeyboardInterrupt):
        export_run(shop, "folders", tmp_path / "sorted")
    assert len(copied) == 20
    assert not list(tmp_path.iterdir())


SLOW = """
import shutil, sys, time
from pathlib import Path
from newkinds.export import export
copy, copied = shutil.copyfile, []
def slow(source, target):
    copied.append(copy(source, target))
    if len(copied) == 20:
        print("in the middle", flush=True)
        time.sleep(600)
shutil.copyfile = slow
export(Path(sys.argv[1]), "folders", Path(sys.argv[2]))
"""


def test_a_kill_leaves_no_target_and_the_next_export_clears_up(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "sorted"
    with subprocess.Popen([sys.executable, "-c", SLOW, str(shop), str(out)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in the middle\n"
        with pytest.raises(RunError, match="Another process is exporting"):
            export_run(shop, "folders", out)
        process.send_signal(signal.SIGKILL)
    assert not out.exists()
    assert len(tree(tmp_path)) > 20  # what it had copied lies beside the target
    assert len(tree(export_run(shop, "folders", out))) == 48
    assert [path.name for path in tmp_path.iterdir()] == ["sorted"]


# Runs


def test_runs_that_cannot_be_exported(shop: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        export_run(tmp_path, "csv", tmp_path / "out")
    with pytest.raises(UsageError, match=r"Unknown format 'cvs'. Did you mean 'csv'"):
        export_run(shop, "cvs", tmp_path / "out")
    begun = tmp_path / "begun"
    shutil.copytree(shop, begun)
    (begun / "kinds.csv").unlink()
    for to in ("folders", "csv", "jsonl", "onnx"):
        with pytest.raises(RunError, match=r"kinds.csv is missing. Run the same `newkinds discover` again"):
            export_run(begun, to, tmp_path / "out")
    damaged = tmp_path / "damaged"
    shutil.copytree(shop, damaged)
    (damaged / "kinds.csv").write_text("path,kind,probability,runner_up\n../../x,0,1,1\n")
    with pytest.raises(RunError, match="its hash differs"):
        export_run(damaged, "folders", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "damaged"]
