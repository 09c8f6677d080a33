"""Heaps that hold known kinds, too: what is found out, what the answer is, and the paper's setting as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import newkinds as nk
from newkinds.errors import UsageError
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names

KNOWN, NEW, EACH, WIDE = 10, 4, 24, 16
Arrays = tuple[NDArray[np.float32], NDArray[np.str_]]


def points(kinds: range, each: int, seed: int) -> Arrays:
    """Return points around the same centres whatever the seed, and the names of their kinds."""
    centres = np.random.default_rng(7).normal(size=(KNOWN + NEW, WIDE))
    rows = np.repeat(centres[kinds.start : kinds.stop], each, axis=0)
    rows = rows + 0.4 * np.random.default_rng(seed).normal(size=rows.shape)
    return rows.astype(np.float32), np.repeat([f"kind {number:02d}" for number in kinds], each)


def known() -> Arrays:
    return points(range(KNOWN), EACH, 0)


def heap(of_known: int, of_new: int) -> Arrays:
    """Return a heap with so many pictures of each known and of each new kind."""
    parts = [points(range(KNOWN), of_known, 1), points(range(KNOWN, KNOWN + NEW), of_new, 2)]
    rows, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return rows, labels


def discover(out: Path, pictures: NDArray[np.float32], **options: object) -> nk.Discovery:
    given: dict[str, object] = {"kinds": NEW, "rehearsals": 0, "progress": Progress("silent"), **options}
    return nk.discover(known(), pictures, out=out, **given)  # type: ignore[arg-type]


def share_named(found: nk.Discovery, truth: NDArray[np.str_]) -> float:
    """Return the share of pictures of known kinds that have their name."""
    is_known = np.char.less(truth, f"kind {KNOWN:02d}")
    return float((found.kinds[is_known] == np.char.add("known:", truth[is_known])).mean())


def test_known_kinds_in_the_heap_are_found_out_and_named(tmp_path: Path) -> None:
    pictures, truth = heap(12, 30)
    found = discover(tmp_path / "run", pictures)
    held = RunFolder.open(tmp_path / "run").get_json(names.NOVELTY)
    assert held["holds"] == "mixed"
    assert held["low"] <= 0.5 <= held["high"]
    assert share_named(found, truth) > 0.85
    is_new = truth >= f"kind {KNOWN:02d}"
    assert np.char.startswith(found.kinds[is_new], "new:").mean() > 0.85
    assert found.columns[:NEW] == tuple(f"new:{n}" for n in range(NEW))
    assert len(found.columns) == NEW + KNOWN


def test_a_heap_of_new_kinds_alone_is_sorted_as_in_the_paper(tmp_path: Path) -> None:
    pictures, _ = heap(0, 30)
    auto, new = discover(tmp_path / "auto", pictures), discover(tmp_path / "new", pictures, heap="new")
    assert RunFolder.open(tmp_path / "auto").get_json(names.NOVELTY)["holds"] == "new"
    assert not (tmp_path / "new" / names.NOVELTY).exists()
    for file in (names.KINDS, names.PROBABILITIES, names.MODEL, names.EMBEDDING):
        assert (tmp_path / "auto" / file).read_bytes() == (tmp_path / "new" / file).read_bytes()
    assert auto.columns == new.columns == tuple(f"new:{n}" for n in range(NEW))


def test_nothing_new_is_said_and_the_known_ones_are_named(tmp_path: Path) -> None:
    pictures, truth = heap(20, 0)
    found = discover(tmp_path / "run", pictures)
    assert RunFolder.open(tmp_path / "run").get_json(names.NOVELTY)["holds"] == "known"
    assert share_named(found, truth) > 0.9
    assert not any(column.startswith("new:") for column in found.columns)
    assert (tmp_path / "run" / names.PAGE).exists()


@pytest.mark.parametrize("method", ["kmeans", "lsc", "pim"])
def test_other_methods_sort_mixed_heaps_too(tmp_path: Path, method: str) -> None:
    pictures, truth = heap(12, 30)
    found = discover(tmp_path / "run", pictures, method=method, heap="mixed", settings={"pim": {"steps": 50}})
    assert share_named(found, truth) > 0.85
    assert len(found.columns) == NEW + KNOWN


def test_a_mixed_heap_is_rehearsed_mixed_and_counted(tmp_path: Path) -> None:
    pictures, _ = heap(12, 30)
    found = discover(tmp_path / "run", pictures, kinds="auto", rehearsals=2, heap="mixed")
    assert found.count is not None
    assert abs(found.count["k"] - NEW) <= 2
    assert found.trust is not None
    assert found.trust.rehearsals == 2
    assert 0.5 < found.trust.acc <= 1
    assert found.rehearsal is not None
    assert found.rehearsal["rehearsed"][0]["pictures"] > len(found.rehearsal["rehearsed"][0]["hidden"]) * EACH


def test_a_run_that_goes_on_ends_with_the_same_bytes(tmp_path: Path) -> None:
    pictures, _ = heap(12, 30)
    discover(tmp_path / "run", pictures)
    before = {file: (tmp_path / "run" / file).read_bytes() for file in (names.KINDS, names.NOVELTY, names.NOVELTIES)}
    (tmp_path / "run" / names.NOVELTIES).unlink()
    discover(tmp_path / "run", pictures)
    assert {file: (tmp_path / "run" / file).read_bytes() for file in before} == before


class Listening(Progress):
    """Remembers what is said and warned of."""

    def __init__(self) -> None:
        super().__init__("silent")
        self.heard: list[str] = []

    def say(self, text: str) -> None:
        self.heard.append(text)

    def warn(self, text: str) -> None:
        self.heard.append(f"warning: {text}")


def test_two_known_kinds_that_are_the_same_are_named(tmp_path: Path) -> None:
    rows, labels = known()
    twin = labels == "kind 05"
    rows, labels = np.concatenate([rows, rows[twin] + 0.01]), np.concatenate([labels, np.repeat("kind 99", twin.sum())])
    progress = Listening()
    options = {"kinds": NEW, "rehearsals": 0, "heap": "mixed", "progress": progress}
    found = nk.discover((rows, labels), heap(12, 30)[0], out=tmp_path / "run", **options)  # type: ignore[arg-type]
    assert len(found.columns) == NEW + KNOWN + 1
    assert any(
        said.startswith("warning: Some known kinds look the same: 'kind 05' and 'kind 99'.") for said in progress.heard
    )
    page = (tmp_path / "run" / names.PAGE).read_text(encoding="utf-8")
    assert "Some known kinds look the same: &#39;kind 05&#39; and &#39;kind 99&#39;." in page


def test_a_known_kind_with_one_picture(tmp_path: Path) -> None:
    rows, labels = known()
    kept = np.r_[np.flatnonzero(labels != "kind 03"), np.flatnonzero(labels == "kind 03")[:1]]
    pictures, truth = heap(12, 30)
    options = {"kinds": NEW, "rehearsals": 2, "heap": "mixed", "progress": Progress("silent")}
    found = nk.discover((rows[kept], labels[kept]), pictures, out=tmp_path / "run", **options)  # type: ignore[arg-type]
    single = found.kinds[truth == "kind 03"]
    assert (single == "known:kind 03").mean() > 0.5
    assert share_named(found, truth) > 0.8


def test_a_method_on_pixels_cannot_tell_known_kinds(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--heap new"):
        discover(
            tmp_path / "run", heap(12, 30)[0], method="kmeans", heap="mixed", settings={"kmeans": {"on": "pixels"}}
        )


def test_methods_are_compared_on_a_mixed_heap(tmp_path: Path) -> None:
    pictures, truth = heap(12, 30)
    options = {"kinds": NEW, "seeds": 1, "heap": "mixed", "progress": Progress("silent")}
    given = (pictures, truth)
    found = nk.compare(
        known(), given, out=tmp_path / "all", methods=["nearest-known", "kmeans"], truth="folders", **options
    )  # type: ignore[arg-type]
    assert [row["method"] for row in found.methods] == ["nearest-known", "kmeans"]
    assert all(row["all"] > 0.7 for row in found.methods)
    with pytest.raises(UsageError, match="kmeans on pixels cannot tell known kinds in the heap"):
        nk.compare(
            known(),
            pictures,
            out=tmp_path / "pixels",
            methods=["kmeans"],
            settings={"kmeans": {"on": "pixels"}},
            **options,  # type: ignore[arg-type]
        )
    assert not (tmp_path / "pixels").exists()
