"""Lists of picture files, on disk and in Python: as ImageSets, through a whole run, and what is refused."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import integers, picture, shop

import newkinds as nk
from newkinds import cli
from newkinds.errors import DataError, RunError, UsageError
from newkinds.evaluation.truth import read_truth
from newkinds.images import Listing, check_known, files_of, in_memory, open_images, open_pair, scan
from newkinds.images.lists import list_from_paths
from pictures import KNOWN, UNSORTED, write_embeddings, write_pictures

NAMES = ("caps/0.png", "caps/1.png", "caps/2.png", "mugs/0.png", "mugs/1.png", "mugs/2.png")
QUICK: dict[str, Any] = {
    "pretrain": {"epochs": 2},
    "rehearse": {"rehearsals": 1},
    "discover": {"warmup_epochs": 1, "epochs": 1},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two classes of three pictures, a broken one among them, and strays."""
    return shop(tmp_path)


def write_list(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def listed(folder: Path, names: Sequence[str] = NAMES) -> Path:
    """Write a list of pictures of a folder into it, each with the folder that it lies in as its label."""
    return write_list(folder / "list.csv", [("path", "label"), *((name, name.split("/")[0]) for name in names)])


# Tables


def test_a_list_is_what_the_folder_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = listed(folder)
    for labelled in (True, False):
        images = open_images(file, labelled=labelled)
        by_folder = open_images(folder, labelled=True).select(range(6))
        assert images.names == by_folder.names == NAMES
        assert (images.pixels == by_folder.pixels).all()
        assert images.labels is not None
        assert images.labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert images.classes == ("caps", "mugs")
        assert images.source == str(file)
        assert images.skipped == ()
    check_known(images)
    monkeypatch.chdir(folder.parent)  # relative paths start at the list, wherever one is
    assert open_images("shop/list.csv").names == NAMES
    assert open_images("shop/list.csv").source == "shop/list.csv"
    monkeypatch.chdir(folder)
    assert open_images("list.csv").names == NAMES


def test_the_order_is_that_of_the_list(folder: Path) -> None:
    images = open_images(listed(folder, NAMES[::-1]), labelled=True, workers=3)
    assert images.names == NAMES[::-1]
    assert images.labels is not None
    assert images.labels.tolist() == [1, 1, 1, 0, 0, 0]


def test_the_fingerprint_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    file = listed(folder)
    known, unsorted = open_images(file, labelled=True), open_images(file)
    assert known.fingerprint != unsorted.fingerprint
    for name in ("mugs/broken.png", "mugs/notes.txt", "stray.png", "words/a.txt"):
        (folder / name).unlink()
    assert open_images(folder).fingerprint == unsorted.fingerprint
    assert open_images(folder, labelled=True).fingerprint == known.fingerprint
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert open_images(moved / "list.csv", labelled=True).fingerprint == known.fingerprint
    other = listed(folder, NAMES[:5])
    assert open_images(other).fingerprint != unsorted.fingerprint
    bare = write_list(folder / "bare.csv", [["path"], *([name] for name in NAMES)])
    assert open_images(bare).fingerprint == unsorted.fingerprint  # labels of unsorted pictures are for scores only
    (moved / NAMES[0]).write_bytes(picture(77))
    assert open_images(moved / "list.csv").fingerprint != unsorted.fingerprint
    swapped = write_list(folder / "list.csv", [("path", "kind"), *((name, name[-5]) for name in NAMES)])
    assert open_images(swapped, labelled=True).fingerprint != known.fingerprint
    assert open_images(swapped).fingerprint == unsorted.fingerprint


def test_names_are_the_paths_as_written(folder: Path, tmp_path: Path) -> None:
    written = ["./caps/0.png", "caps//1.png", str(folder / "mugs" / "0.png"), "../shop/mugs/1.png", "mugs/./2.png"]
    images = open_images(write_list(folder / "list.csv", [["path"], *([path] for path in written)]))
    absolute = (folder / "mugs" / "0.png").as_posix()
    assert images.names == ("caps/0.png", "caps/1.png", absolute, "../shop/mugs/1.png", "mugs/2.png")
    odd = ["new\nline.png", "a,b;c.png", "ü ☆.png", ".hidden.png"]
    for name in odd:
        (folder / name).write_bytes(picture(1))
    odd_list = write_list(tmp_path / "odd.csv", [["path"], *([f"shop/{name}"] for name in odd)])
    names = open_images(odd_list).names
    assert names == ("shop/new\\x0aline.png", "shop/a,b;c.png", "shop/ü ☆.png", "shop/.hidden.png")


@pytest.mark.parametrize("again", ["caps/1.png", "./caps/1.png", "mugs/../caps/1.png", "{folder}/caps/1.png"])
def test_a_file_in_two_rows_is_named_with_both(folder: Path, again: str) -> None:
    file = listed(folder, [*NAMES, again.format(folder=folder)])
    with pytest.raises(DataError, match=r"list\.csv, caps/1\.png stands in row 3 and again in row 8") as caught:
        open_images(file)
    assert caught.value.hint


def test_files_that_do_not_exist_are_named_with_their_rows(folder: Path) -> None:
    with pytest.raises(DataError, match=r"list\.csv, 1 file does not exist: row 4 \(mugs/9\.png\)\.") as caught:
        open_images(listed(folder, [*NAMES[:2], "mugs/9.png", *NAMES[2:]]))
    assert str(folder) in caught.value.hint
    (folder / "dangling.png").symlink_to("nowhere.png")
    gone = ["dangling.png", "stray.png/x.png", "x" * 300, "gone/ä.png"]
    gone += [f"gone/{number}.png" for number in range(4)]
    with pytest.raises(DataError, match=r"8 files do not exist: row 8 \(dangling\.png\), row 9 .* and 3 more"):
        open_images(listed(folder, [*NAMES, *gone]))
    with pytest.raises(DataError, match=r"item 1 \(a\\x00b\.png\)"):
        open_images([folder / NAMES[0], "a\0b.png"])


def test_what_cannot_be_used_is_skipped_with_the_reason(folder: Path) -> None:
    os.mkfifo(folder / "pipe.png")
    (folder / "link.png").symlink_to("caps/0.png")
    more = ("mugs/broken.png", "words/a.txt", "pipe.png", "void", "link.png", "../../../../../../../../dev/zero")
    images = open_images(listed(folder, NAMES + more), labelled=True)
    assert images.names == (*NAMES, "link.png")
    assert [(one.name, one.reason.split(" (")[0]) for one in images.skipped] == [
        ("../../../../../../../../dev/zero", "not a file but a device"),
        ("mugs/broken.png", "cut short"),
        ("pipe.png", "not a file but a pipe"),
        ("void", "not a file but a folder"),
        ("words/a.txt", "not a JPEG, PNG, WebP, BMP, GIF or TIFF picture"),
    ]
    assert images.classes == ("caps", "link.png", "mugs")  # no class is left of what was skipped
    with pytest.raises(DataError, match=r"No picture in .*list\.csv can be used\. Skipped: 2") as caught:
        open_images(listed(folder, ["words/a.txt", "void"]))
    assert caught.value.hint.endswith(f"newkinds scan {folder / 'list.csv'}")


def test_labels_that_are_missing(folder: Path) -> None:
    rows = [("path", "label"), ("caps/0.png", "cap"), ("caps/1.png", ""), ("mugs/0.png",), ("mugs/1.png", "mug")]
    file = write_list(folder / "list.csv", rows)
    with pytest.raises(
        DataError, match=r"2 of 4 pictures have no label: row 3 \(caps/1\.png\), row 4 \(mugs/0\.png\)\."
    ):
        open_images(file, labelled=True)
    unsorted = open_images(file)
    assert read_truth("folders", unsorted) == ("cap", "", "", "mug")
    with pytest.raises(DataError, match="whose kind is the empty text"):
        check_known(unsorted)
    assert read_truth("folders", open_images(listed(folder))) == ("caps",) * 3 + ("mugs",) * 3
    none = open_images(write_list(folder / "list.csv", [("path", "label"), ("caps/0.png", ""), ("caps/1.png",)]))
    assert none.labels is None
    with pytest.raises(DataError, match=r"list\.csv, there is no path in row 3\."):
        open_images(write_list(folder / "list.csv", [("path", "label"), ("caps/0.png", "cap"), ("", "cap")]))
    with pytest.raises(DataError, match=r"There is no picture in .*list\.csv"):
        open_images(write_list(folder / "list.csv", [("path", "label")]))


def test_absolute_paths_have_no_folder_that_tells_the_truth(folder: Path, tmp_path: Path) -> None:
    images = open_images(write_list(tmp_path / "list.csv", [["path"], *([str(folder / name)] for name in NAMES)]))
    with pytest.raises(UsageError, match="has no folders that could give"):
        read_truth("folders", images)


def test_a_parquet_list(folder: Path) -> None:
    arrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = folder / "list.parquet"
    files.write_table(arrow.table({"path": list(NAMES), "label": [10, 10, 10, 9, 9, 9]}), file)
    images = open_images(file, labelled=True)
    assert images.names == NAMES
    assert images.classes == ("9", "10")  # in the order of numbers, as those of arrays
    assert images.source == str(file)
    files.write_table(arrow.table({"path": [*NAMES, "gone.png"], "label": [1, 1, 1, 2, 2, None, 2]}), file)
    with pytest.raises(DataError, match=r"1 of 7 pictures have no label: row 5 \(mugs/2\.png\)"):
        open_images(file, labelled=True)
    with pytest.raises(DataError, match=r"does not exist: row 6 \(gone\.png\)"):
        open_images(file)


def test_pixels_of_a_list_go_through_the_same_cache(folder: Path, tmp_path: Path) -> None:
    file = listed(folder, (*NAMES, "mugs/broken.png"))
    cached = [open_images(file, memory_mb=0, cache_dir=tmp_path / "cache") for _ in range(2)]
    plain = open_images(file)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    for images in cached:
        assert (images.pixels == plain.pixels).all()
        assert (images.names, images.fingerprint, images.skipped) == (plain.names, plain.fingerprint, plain.skipped)


def test_a_list_and_a_folder_get_one_shape(folder: Path) -> None:
    known, unsorted = open_pair(listed(folder), folder / "mugs")
    assert known.pixels.shape[1:] == unsorted.pixels.shape[1:] == (3, 12, 12)
    (folder / "large.png").write_bytes(picture(3, 20, 20, 1))
    _, unsorted = open_pair(folder, write_list(folder / "list.csv", [["path"], ["large.png"], ["caps/0.png"]]))
    assert unsorted.pixels.shape == (2, 3, 16, 16)  # the median of nine 12s and two 20s is raised to 16
    with pytest.raises(DataError, match=r"4 embeddings has embeddings of width 2, .*list\.csv has pictures"):
        open_pair(listed(folder), np.ones((4, 2)))


def test_a_folder_may_be_called_csv(folder: Path, tmp_path: Path) -> None:
    assert len(open_images(folder.rename(tmp_path / "x.csv"))) == 7


def test_scanning_a_list(folder: Path) -> None:
    found = scan(listed(folder, (*NAMES, "mugs/broken.png")), verify=True)
    assert [one.name for one in found.found] == list(NAMES)
    assert [one.name for one in found.skipped] == ["mugs/broken.png"]
    assert found.source == str(folder / "list.csv")
    assert {found.kind_of(name) for name in NAMES} == {"caps", "mugs"}
    bare = scan(write_list(folder / "bare.csv", [["path"], ["caps/0.png"]]))
    assert bare.kind_of("caps/0.png") is None


# Paths in Python


def test_paths_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    by_list = open_images(listed(folder), labelled=True)
    for paths in (list(NAMES), tuple(map(Path, NAMES)), np.array(NAMES), np.array(NAMES, dtype=object)):
        images = open_images(paths)
        assert images.names == NAMES
        assert images.labels is None
        assert images.source == "6 paths"
        assert images.fingerprint == open_images("list.csv").fingerprint
    kinds = {"caps": NAMES[:3], "mugs": [Path(name) for name in NAMES[3:]]}
    labels = ["caps"] * 3 + ["mugs"] * 3
    for known in (kinds, (NAMES, labels), (list(NAMES), np.array(labels)), (NAMES, np.array(labels, dtype=object))):
        images = open_images(known, labelled=True)
        assert images.fingerprint == by_list.fingerprint
        assert images.classes == ("caps", "mugs")
        assert open_images(known).fingerprint == open_images("list.csv").fingerprint
        assert read_truth("folders", open_images(known)) == tuple(labels)
    assert open_images({np.int64(10): NAMES[:3], 9: NAMES[3:]}, labelled=True).classes == ("9", "10")
    assert open_images((NAMES, [10, 10, 10, 9, 9, 9]), labelled=True).classes == ("9", "10")
    assert open_images(NAMES[:2]).names == NAMES[:2]  # a tuple of two paths is two paths
    assert open_images((NAMES[:2], ("a", "b"))).classes == ("a", "b")
    assert open_images((NAMES, [-1] * 6)).labels is None  # for scores only, and of no use
    assert open_images(NAMES[:1]).source == "1 path"


def test_a_column_of_pandas(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"file": [str(folder / name) for name in NAMES], "is": ["cap"] * 3 + ["mug"] * 3})
    assert len(open_images(frame["file"])) == 6
    assert open_images((frame["file"], frame["is"]), labelled=True).classes == ("cap", "mug")


def test_mistakes_in_memory_are_named(folder: Path) -> None:
    paths = [str(folder / name) for name in NAMES]
    bad: list[tuple[Any, type[Exception], str]] = [
        (paths, DataError, r"In 6 paths, 6 of 6 pictures have no label: item 0 \(.*caps/0\.png\), .* and 1 more"),
        ((paths, ["a", "b"]), DataError, r"`labels` of type <U1 and shape \(2,\); 6 integers or strings"),
        ((paths, [0, 1, 2, -1, -1, 0]), DataError, "2 negative label"),
        ((paths, [0.5] * 6), DataError, "type float64"),
        ((paths, [["a"], ["b", "c"]]), DataError, "labels that make no array"),
        ([], DataError, "is empty"),
        ({}, DataError, "There is no picture in 0 paths"),
        ({"bolt": []}, DataError, "There is no picture in 0 paths"),
        ({"bolt": paths[0]}, UsageError, "a str for the kind 'bolt'; a sequence of paths"),
        ({"bolt": iter(paths)}, UsageError, "a list_iterator for the kind 'bolt'"),
        ({"bolt": paths[:2], 3: paths[2:]}, UsageError, "the kinds 'bolt', 3; all should be strings"),
        ({-1: paths[:2], 3: paths[2:]}, UsageError, "the kinds -1, 3; "),
        ({"": paths[:2]}, UsageError, "the kinds ''; "),
        ({"bolt": [1]}, UsageError, "item 0 of 'bolt' is of type int; str or Path"),
        ({"bolt": paths[:2], "nut": paths[1:2]}, DataError, r"in item 1 of 'bolt' and again in item 0 of 'nut'"),
        ([*paths[:2], integers(4, 4)], UsageError, "item 2 is of type ndarray; str or Path is needed"),
        ([*paths[:2], b"x.png"], UsageError, "item 2 is of type bytes"),
        ([*paths[:2], ""], DataError, "there is no path in item 2"),
        ([*paths, paths[2]], DataError, r"caps/2\.png stands in item 2 and again in item 6"),
        (iter(paths), UsageError, "type list_iterator"),
        ({1, 2}, UsageError, "type set"),
        ([1, 2], UsageError, "type list of int"),
        (3, UsageError, "type int"),
        (b"photos", UsageError, "type bytes of int"),
    ]
    for source, error, message in bad:
        with pytest.raises(error, match=message) as caught:
            open_images(source, labelled=True)
        assert caught.value.hint  # type: ignore[attr-defined]


PARTS = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.lists(PARTS, min_size=1, max_size=4).map("/".join), min_size=1, max_size=6))
def test_names_of_a_list_are_unique_and_on_one_line(paths: list[str]) -> None:
    files = [os.path.abspath(path) for path in paths]
    if len(set(files)) < len(files):
        with pytest.raises(DataError, match=r"stands in item \d+ and again in item \d+"):
            list_from_paths(paths)
        return
    found = list_from_paths(paths)
    assert len(set(found.names)) == len(paths)
    assert all("\n" not in name for name in found.names)
    assert [os.path.abspath(path) for path in found.paths] == files


def test_which_sources_are_files(folder: Path, tmp_path: Path) -> None:
    assert files_of(str(folder)) == folder
    assert files_of(tmp_path / "a.npz") is None
    assert files_of(integers(4, 8, 8)) is None
    assert isinstance(files_of(listed(folder)), Listing)
    assert isinstance(files_of([folder / NAMES[0]]), Listing)


def test_what_was_given_in_memory_can_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in ([*NAMES], integers(4, 8, 8), integers(1, 8, 8), np.ones((4, 2)), [integers(4, 4)]):
        text = list_from_paths(source).source if isinstance(source, list) and isinstance(source[0], str) else ""
        assert in_memory(text or open_images(source).source)
    assert not in_memory("photos/unsorted")
    assert not in_memory("list.csv")
    (tmp_path / "6 paths").mkdir()
    assert not in_memory("6 paths")


# Whole runs


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pictures, known.csv and heap.csv, whose columns are separated by semicolons."""
    root = tmp_path_factory.mktemp("lists")
    for name, kinds in (("known", KNOWN), ("heap", UNSORTED)):
        write_pictures(root / "files", kinds)
        rows = [f"files/{kind}/{number:02d}.png;{kind}" for kind in kinds for number in range(16)]
        (root / f"{name}.csv").write_text("\ufeffpath;label\n" + "\n".join(rows) + "\n;\n")
    return root


@pytest.fixture(scope="module")
def run(lists: Path) -> Path:
    """Return a run over two lists, made by the command line."""
    command = [sys.executable, "-m", "newkinds", "discover", "known.csv", "heap.csv", "--out", "run", "--kinds", "3"]
    command += ["--truth", "folders", "--set", "pretrain.epochs=2", "--set", "discover.epochs=1"]
    command += ["--set", "discover.warmup_epochs=1"]
    done = subprocess.run(command, cwd=lists, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "known.csv: 64 pictures, 12x12 of 4 kinds" in done.stderr
    assert "48 pictures in" in done.stdout
    return lists / "run"


def test_discovery_from_lists(run: Path) -> None:
    rows = list(csv.DictReader((run / "kinds.csv").open()))
    assert [row["path"] for row in rows[:2]] == ["files/hinge/00.png", "files/hinge/01.png"]
    assert json.loads((run / "scores.json").read_text())["truth"] == [kind for kind in UNSORTED for _ in range(16)]
    assert json.loads((run / "known.json").read_text()) == sorted(KNOWN)
    assert json.loads((run / "run.json").read_text())["sources"] == {"known": "known.csv", "unsorted": "heap.csv"}


def test_a_run_over_lists_finds_its_pictures_again(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    assert nk.report("run").is_file()
    assert nk.evaluate("run", "folders") == nk.evaluate("run", "heap.csv")  # the list itself is a table of the truth
    predicted = nk.predict("run", "heap.csv")
    assert len(predicted.names) == 48
    monkeypatch.chdir(tmp_path)
    assert nk.report(run).is_file()  # relative paths start where the run was started
    assert nk.report(run, images=run.parent / "heap.csv").is_file()
    with pytest.raises(RunError, match=r"known\.csv are not, or no longer, those of the run"):
        nk.report(run, images=run.parent / "known.csv")


@pytest.mark.parametrize("link", [True, False])
def test_export_takes_the_files_that_a_list_names(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: bool
) -> None:
    monkeypatch.chdir(run.parent)
    out = nk.export("run", "folders", tmp_path / "sorted", link=link)
    for row in csv.DictReader((run / "kinds.csv").open()):
        made = out / row["kind"].replace("new:", "kind-") / row["path"].removeprefix("files/")
        assert made.is_symlink() == link
        assert made.read_bytes() == (run.parent / row["path"]).read_bytes()


def test_the_command_line_names_rows(lists: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (lists / "gone.csv").write_text("path\nfiles/nut/00.png\nfiles/nut/99.png\n")
    for arguments, printed in (
        (["discover", lists / "known.csv", lists / "gone.csv"], "does not exist: row 3 (files/nut/99.png)."),
        (["discover", lists / "gone.csv", lists / "heap.csv"], "no folders of kinds and no labels"),
    ):
        monkeypatch.setattr(sys, "argv", ["newkinds", *map(str, arguments), "--out", str(lists / "other")])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 1
        assert printed in capsys.readouterr().err
    assert not (lists / "other").exists()
    monkeypatch.setattr(sys, "argv", ["newkinds", "scan", str(lists / "known.csv"), "-q"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code in (0, None)
    assert [line.split() for line in capsys.readouterr().out.splitlines()[:4]] == [
        ["16", kind] for kind in sorted(KNOWN)
    ]


def test_discovery_from_python(photos: Path, tmp_path: Path) -> None:
    known = {kind: sorted((photos / "known" / kind).iterdir()) for kind in KNOWN}
    heap = sorted(str(path) for path in (photos / "unsorted").rglob("*.png"))
    out = tmp_path / "run"
    found = nk.discover(known, heap, out=out, kinds=3, settings=QUICK, page=False)
    assert found.names == tuple(heap)
    assert json.loads((out / "run.json").read_text())["sources"] == {"known": "64 paths", "unsorted": "48 paths"}
    again = nk.discover(known, heap, out=out, kinds=3, settings=QUICK, page=False)
    assert (again.probabilities == found.probabilities).all()
    with pytest.raises(UsageError, match=r"other data or settings: data\.unsorted\.fingerprint"):
        nk.discover(known, heap[::-1], out=out, kinds=3, settings=QUICK, page=False)
    with pytest.raises(RunError, match=r"given in memory \(48 paths\)") as caught:
        nk.report(out)
    assert "images=" in caught.value.hint
    assert nk.report(out, images=heap).is_file()
    truth = [Path(path).parent.name for path in heap]
    scores, _ = nk.evaluate(out, "folders", images=(heap, truth))
    assert scores.n == 48
    with pytest.raises(RunError, match="give them as `images`"):
        nk.export(out, "folders", tmp_path / "sorted")
    made = nk.export(out, "folders", tmp_path / "sorted", images=heap)
    assert len(list(made.rglob("*.png"))) == 48
    assert len(found.predict(heap[:5]).kinds) == 5


def test_a_comparison_of_arrays(tmp_path: Path) -> None:
    known, heap = (np.load(path) for path in write_embeddings(tmp_path))
    given = (known["embeddings"], known["labels"]), (heap["embeddings"], heap["labels"])
    found = nk.compare(*given, out=tmp_path / "all", methods=["kmeans"], seeds=1, kinds=3, truth="folders")
    assert found.methods[0]["acc"] > 0.9
    assert found.page.is_file()


def test_presets_are_not_for_what_is_in_memory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'paper' is for .* and not for a tuple and a ndarray\."):
        nk.discover((integers(4, 8, 8), list("aabb")), integers(4, 8, 8), out=tmp_path / "run", preset="paper")


def test_discovery_from_arrays(photos: Path, tmp_path: Path) -> None:
    known, heap = (open_images(photos / name, labelled=True) for name in ("known", "unsorted"))
    labels = [known.classes[label] for label in known.labels]  # type: ignore[union-attr]
    out = tmp_path / "run"
    last = heap.pixels.transpose(0, 2, 3, 1)
    found = nk.discover((known.pixels, labels), last, out=out, kinds=3, settings=QUICK, page=False)
    assert found.names[:2] == ("00", "01")
    with pytest.raises(RunError, match=r"given in memory \(48 arrays\)"):
        nk.evaluate(out, "folders")
    scores, _ = nk.evaluate(out, "folders", images=(last, heap.labels))
    assert scores.n_true == 3
    with pytest.raises(RunError, match="are not, or no longer, those of the run"):  # the same names, other pictures
        nk.report(out, images=last[::-1])
    assert len(found.predict(list(last[:4])).kinds) == 4  # one by one, as files are
    assert nk.figures(out, images=last)
