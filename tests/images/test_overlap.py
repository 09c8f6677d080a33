"""Known and unsorted pictures that are the same, one inside the other, swapped, or share pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import integers, picture, saved

import newkinds as nk
from newkinds.errors import DataError
from newkinds.images import open_images, open_pair
from newkinds.images.overlap import NEARLY_ALL, check_places, check_shared


def sorted_into(root: Path, *kinds: str, each: int = 3) -> Path:
    for number, kind in enumerate(kinds):
        (root / kind).mkdir(parents=True)
        for item in range(each):
            (root / kind / f"{item}.png").write_bytes(picture(100 * number + item))
    return root


def heap(root: Path, first: int = 1000, number: int = 6) -> Path:
    root.mkdir(parents=True)
    for item in range(number):
        (root / f"{item}.png").write_bytes(picture(first + item))
    return root


def refused(known: Any, unsorted: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        check_places(known, unsorted)
    return caught.value


# Places


def test_two_folders_beside_each_other_are_fine(tmp_path: Path) -> None:
    known = sorted_into(tmp_path / "known", "bolt", "nut")
    check_places(known, heap(tmp_path / "unsorted"))
    check_places(str(known), sorted_into(tmp_path / "truth", "a", "b", "c"))  # folders that are the truth
    check_places(known, tmp_path / "known-not")  # does not exist: said when it is opened


def test_the_same_folder_under_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = sorted_into(tmp_path / "known", "bolt", "nut")
    (tmp_path / "link").symlink_to(known)
    monkeypatch.chdir(tmp_path)
    for other in (known, str(known), "known", "./known/../known/", tmp_path / "link"):
        error = refused(known, other)
        assert "are the same folder" in error.message
        assert str(known) in error.message
        assert error.hint


def test_the_same_list(tmp_path: Path) -> None:
    sorted_into(tmp_path / "known", "bolt", "nut")
    table = tmp_path / "all.csv"
    table.write_text("path,label\nknown/bolt/0.png,bolt\nknown/nut/0.png,nut\n")
    assert f"are the same file: {table}." in refused(table, table).message


def test_one_inside_the_other(tmp_path: Path) -> None:
    known = sorted_into(tmp_path / "photos", "bolt", "nut")
    inside = heap(known / "unsorted")
    error = refused(known, inside)
    assert f"The unsorted pictures in {inside} lie inside the known ones in {known}" in error.message
    assert str(inside) in error.hint
    (tmp_path / "link").symlink_to(inside)
    assert "lie inside" in refused(known, tmp_path / "link").message
    assert f"The known pictures in {known} lie inside the unsorted ones" in refused(known, tmp_path).message


def test_inside_but_never_scanned(tmp_path: Path) -> None:
    known = sorted_into(tmp_path / "known", "bolt", "nut")
    check_places(known, heap(known / ".unsorted"))  # hidden folders are passed over
    elsewhere = heap(tmp_path / "elsewhere")
    (known / "link").symlink_to(elsewhere)  # links to folders are not followed
    check_places(known, known / "link")
    check_places(sorted_into(tmp_path / "known-2", "a", "b"), heap(tmp_path / "known-23"))  # a longer name, not inside


# Swapped


def test_folders_that_look_swapped(tmp_path: Path) -> None:
    known, unsorted = sorted_into(tmp_path / "the known", "bolt", "nut", "gear"), heap(tmp_path / "heap")
    error = refused(unsorted, known)
    assert f"The known pictures in {unsorted} have no folders of kinds and no labels" in error.message
    assert f"the unsorted ones in {known} are of 3 kinds." in error.message
    assert f"newkinds discover '{known}' {unsorted}?" in error.hint
    (unsorted / "monday").mkdir()
    assert "are all of one kind" in refused(unsorted, known).message
    check_places(unsorted, heap(tmp_path / "another"))  # no kinds on either side: opening says what is wrong


def test_lists_and_arrays_that_look_swapped(tmp_path: Path) -> None:
    with_labels, without = tmp_path / "known.csv", tmp_path / "heap.csv"
    with_labels.write_text("path,label\n1.png,bolt\n2.png,nut\n")
    without.write_text("path\n3.png\n4.png\n")
    assert f"newkinds discover {with_labels} {without}?" in refused(without, with_labels).hint
    check_places(with_labels, without)
    images, labels = integers(4, 8, 8), np.array([0, 0, 1, 1])
    assert "The known pictures come first." in refused(images, (images, labels)).hint
    files = saved(tmp_path / "a.npz", images=images), saved(tmp_path / "b.npz", images=images, labels=labels)
    assert "are of 2 kinds" in refused(*files).message
    opened = open_images(files[0]), open_images(files[1], labelled=True)
    assert "have no folders of kinds and no labels" in refused(*opened).message
    assert (
        "have no folders of kinds and no labels"
        in refused(["1.png", "2.png"], {"a": ["3.png"], "b": ["4.png"]}).message
    )


# Shared pictures


def pair(known: Any, unsorted: Any) -> str | None:
    return check_shared(*open_pair(known, unsorted))


def test_shared_pictures_are_counted_by_content(tmp_path: Path) -> None:
    known, unsorted = sorted_into(tmp_path / "known", "bolt", "nut"), heap(tmp_path / "heap")
    assert pair(known, unsorted) is None
    (unsorted / "copy.png").write_bytes((known / "bolt" / "1.png").read_bytes())
    (unsorted / "linked.png").symlink_to(known / "nut" / "0.png")
    told = pair(known, unsorted)
    assert told is not None
    assert told.startswith("2 of 8 unsorted pictures are also among the known ones, by content: ")
    assert "copy.png (bolt/1.png), linked.png (nut/0.png)" in told
    os.unlink(unsorted / "linked.png")
    told = pair(known, unsorted)
    assert told is not None
    assert told.startswith("1 of 7 unsorted picture is")


def test_nearly_all_shared_is_refused() -> None:
    pixels = integers(40, 8, 8)
    known = (pixels[:20], np.arange(20) % 2)
    with pytest.raises(DataError, match=r"20 of 20 unsorted pictures .* and 15 more\."):
        pair(known, pixels[:20])
    enough = round(NEARLY_ALL * 20)
    with pytest.raises(DataError, match=f"{enough} of 20"):
        pair(known, pixels[20 - enough : 40 - enough])
    assert pair(known, pixels[20 - enough + 1 : 40 - enough + 1]) is not None
    assert pair(known, pixels[20:]) is None


def test_embeddings_are_compared_like_pictures() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    told = pair((rows[:20], np.arange(20) % 2), np.concatenate([rows[20:], rows[3:4]]))
    assert told is not None
    assert "1 of 11" in told


# From the commands


@pytest.mark.parametrize("command", [nk.discover, nk.count, nk.compare])
def test_every_command_that_takes_both_refuses(command: Any, tmp_path: Path) -> None:
    known = sorted_into(tmp_path / "known", "bolt", "nut")
    with pytest.raises(DataError, match="are the same folder"):
        command(known, known, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [nk.discover, nk.count])
def test_copies_are_refused_before_anything_is_written(command: Any, tmp_path: Path) -> None:
    known = sorted_into(tmp_path / "known", "bolt", "nut")
    with pytest.raises(DataError, match="6 of 6 unsorted pictures"):
        command(known, sorted_into(tmp_path / "copies", "bolt", "nut"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
