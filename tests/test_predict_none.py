"""Prediction with none of these, and by models whose heads tell known and new kinds apart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds as nk
from newkinds.errors import DataError, UsageError
from newkinds.methods.registry import HEADS
from newkinds.networks.files import model_from_bytes, model_to_bytes
from newkinds.runs import RunFolder, names

QUIET = nk.Progress("quiet")
WIDTH = 24
SETTINGS = {"kinds": 4, "profile": "embeddings", "rehearse": {"rehearsals": 0}, "discover": {"epochs": 2}}


def pictures(kinds: range, each: int, seed: int) -> tuple[Any, Any]:
    """Return embeddings around the means of kinds, the same ones for any seed, and their kinds."""
    rows = [
        np.random.default_rng([7, kind]).normal(size=WIDTH)
        + 0.35 * np.random.default_rng([seed, kind, 1]).normal(size=(each, WIDTH))
        for kind in kinds
    ]
    return np.concatenate(rows).astype(np.float32), np.repeat(list(kinds), each)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with 12 known kinds, 0 to 11, and 4 new ones, 12 to 15."""
    known, labels = pictures(range(12), 25, 1)
    out = tmp_path_factory.mktemp("runs") / "run"
    nk.discover((known, [f"k{n}" for n in labels]), pictures(range(12, 16), 30, 2)[0], out=out, settings=SETTINGS,
                page=False, progress=QUIET)  # fmt: skip
    return out


def test_strangers_are_none_and_members_are_not(run: Path) -> None:
    strangers = nk.predict(run, pictures(range(30, 50), 5, 3)[0], progress=QUIET)
    members = nk.predict(run, pictures(range(16), 20, 3)[0], progress=QUIET)
    assert strangers.columns[-1] == "none"
    assert (strangers.kinds == "none").mean() > 0.8
    assert (members.kinds == "none").mean() < 0.12
    none = [nk.predict(run, pictures(range(16), 20, 3)[0], none=rate, progress=QUIET) for rate in (0.01, 0.3)]
    assert (none[0].kinds == "none").sum() < (none[1].kinds == "none").sum()


def test_zero_switches_it_off(run: Path) -> None:
    strangers = nk.predict(run, pictures(range(30, 50), 5, 3)[0], none=0, progress=QUIET)
    assert "none" not in strangers.columns
    again = nk.predict(run, pictures(range(30, 50), 5, 3)[0], progress=QUIET)
    kept = again.kinds != "none"
    np.testing.assert_array_equal(again.probabilities[kept][:, :-1], strangers.probabilities[kept])


def test_bad_rates(run: Path) -> None:
    rows = pictures(range(2), 2, 3)[0]
    for rate in (-0.1, 1, 2):
        with pytest.raises(UsageError, match="is no share of pictures"):
            nk.predict(run, rows, none=rate, progress=QUIET)
    with pytest.raises(UsageError, match="--among new leaves some out"):
        nk.predict(run, rows, among="new", none=0.1, progress=QUIET)
    assert "none" not in nk.predict(run, rows, among="new", progress=QUIET).columns


def changed(run: Path, tmp_path: Path, **about: Any) -> Path:
    """Return a copy of the run whose model has no references, and other words about it."""
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    with RunFolder.open(copy, writing=True) as folder:
        model, extra, told = model_from_bytes(folder.get(names.MODEL), "model", HEADS)
        kept = {name: value for name, value in extra.items() if not name.startswith("unlike.")}
        folder.put(names.MODEL, model_to_bytes(model, kept, known_classes=told["known_classes"], **about))
    return copy


def test_a_model_without_references_calls_nothing_none(run: Path, tmp_path: Path) -> None:
    older, rows = changed(run, tmp_path), pictures(range(30, 40), 5, 3)[0]
    assert "none" not in nk.predict(older, rows, progress=QUIET).columns
    with pytest.raises(UsageError, match="keeps no pictures of its kinds"):
        nk.predict(older, rows, none=0.05, progress=QUIET)


def test_a_head_that_tells_known_kinds(run: Path, tmp_path: Path) -> None:
    """The head of four kinds is said to be of two new ones and two known ones."""
    rows = pictures(range(12, 16), 3, 3)[0]
    plain = nk.predict(run, rows, among="new", progress=QUIET).probabilities
    mixed = changed(run, tmp_path, columns=["new:0", "new:1", "known:k3", "known:k7"])
    whole, new, known = (nk.predict(mixed, rows, among=among, progress=QUIET) for among in ("all", "new", "known"))
    assert whole.columns == ("new:0", "new:1", "known:k3", "known:k7")
    np.testing.assert_allclose(whole.probabilities, plain, rtol=1e-5)
    assert (new.columns, known.columns) == (("new:0", "new:1"), ("known:k3", "known:k7"))
    np.testing.assert_allclose(new.probabilities, plain[:, :2] / plain[:, :2].sum(axis=1, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(known.probabilities.sum(axis=1), 1, rtol=1e-4)


@pytest.mark.parametrize("columns", [["new:0"], "new:0", ["new:0", "new:1", "new:2", 3], [*"abcd"]])
def test_a_model_that_says_wrong_columns(run: Path, tmp_path: Path, columns: Any) -> None:
    with pytest.raises(DataError, match=r"does not say which 4 kinds|is neither"):
        nk.predict(changed(run, tmp_path, columns=columns), pictures(range(2), 2, 3)[0], progress=QUIET)


def test_pictures_that_come_together_are_judged_together(run: Path) -> None:
    strangers = pictures(range(30, 32), 20, 4)[0]
    together = (nk.predict(run, strangers, progress=QUIET).kinds == "none").mean()
    alone = np.mean([nk.predict(run, row[None], progress=QUIET).kinds[0] == "none" for row in strangers[::4]])
    assert together >= alone


def test_a_network_file_has_the_column_none(run: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    file = nk.export(run, "onnx", tmp_path / "kinds.onnx", progress=QUIET)
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["names"])[-1] == "none"
    rows = np.concatenate([pictures(range(12, 16), 10, 3)[0], pictures(range(30, 50), 4, 3)[0]])
    (p,) = session.run(["p"], {"images": rows})
    assert p.shape == (len(rows), 5)
    alone = np.concatenate([nk.predict(run, row[None], progress=QUIET).kinds for row in rows[::8]])
    np.testing.assert_array_equal(p[::8].argmax(axis=1) == 4, alone == "none")
    assert (p[40:].argmax(axis=1) == 4).mean() > 0.7


def test_odd_pictures_of_a_heap_are_none(tmp_path: Path) -> None:
    known, labels = pictures(range(12), 25, 1)
    rows, _ = pictures(range(8, 16), 30, 2)
    odd = pictures(range(100, 112), 1, 3)[0]
    heap, given = np.concatenate([rows, odd]), (known, [f"k{n}" for n in labels])
    settings = {**SETTINGS, "heap": "mixed", "kinds": 5}  # four, and one for odd pictures before they are called none
    found = nk.discover(given, heap, out=tmp_path / "run", settings=settings, progress=QUIET)
    assert found.columns[-1] == "none"
    is_none = found.kinds == "none"
    assert is_none[len(rows) :].mean() > 0.6
    assert is_none[: len(rows)].mean() < 0.05
    page = (tmp_path / "run" / names.PAGE).read_text(encoding="utf-8")
    assert "None of these" in page
    assert "in none of them" in page
    nk.export(tmp_path / "run", "csv", tmp_path / "kinds.csv", progress=QUIET)
    assert ",none," in (tmp_path / "kinds.csv").read_text(encoding="utf-8")
    truth = tmp_path / "truth.csv"
    true = [f"k{8 + n // 30}" if n < len(rows) else "none" for n in range(len(heap))]
    lines = [f"{path},{kind}" for path, kind in zip(found.names, true, strict=True)]
    truth.write_text("\n".join(["path,kind", *lines]), encoding="utf-8")
    scores = nk.evaluate(tmp_path / "run", truth, images=heap, progress=QUIET)[0]
    assert scores.mixed is not None
    assert scores.mixed.rejected == is_none.sum()
    assert scores.mixed.rejected - scores.mixed.rejected_wrongly == is_none[len(rows) :].sum()
    papers = nk.discover(given, heap, out=tmp_path / "new", settings={**SETTINGS, "heap": "new"}, progress=QUIET)
    assert "none" not in papers.columns  # the paper's setting: every picture is of a new kind


def test_a_heap_in_which_all_is_unlike_anything_is_said(tmp_path: Path) -> None:
    known, labels = pictures(range(12), 25, 1)
    heap = pictures(range(100, 180), 1, 3)[0]
    found = nk.discover(
        (known, [f"k{n}" for n in labels]), heap, out=tmp_path / "run", settings=SETTINGS, progress=QUIET
    )
    assert found.assignment.source["remark"].startswith("Most pictures in the heap are unlike one another")
    assert "may mean nothing" in (tmp_path / "run" / names.PAGE).read_text(encoding="utf-8")
