"""Cells that no spreadsheet computes."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import newkinds as nk
from newkinds.assignment import Assignment
from newkinds.cells import by_cell, plain_cell, safe_cell
from newkinds.evaluation.truth import read_truth
from newkinds.export.tables import csv_bytes
from newkinds.images.imageset import image_set
from newkinds.runs import RunFolder
from newkinds.runs.results import put_assignment, read_assignment

NAMES = ("=cmd|' /C calc'!A0.png", "+1.png", "-1.png", "@SUM(A1)", "\tx", "'=quoted", "plain.png", "a=b.png", "'plain")


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_is_text_and_comes_back(name: str) -> None:
    assert safe_cell(name)[0] not in "=+-@\t\r\n"
    assert plain_cell(safe_cell(name)) == name
    assert (safe_cell(name) == name) == (name in ("plain.png", "a=b.png", "'plain"))


@given(st.text("'=+-@\t\r\nab", max_size=6))
def test_any_text_comes_back(text: str) -> None:
    assert plain_cell(safe_cell(text)) == text
    assert not safe_cell(text).startswith(tuple("=+-@\t\r\n"))


def test_names_are_found_by_what_a_table_says() -> None:
    found = by_cell(["=1.png", " a.png", "b.png", "c.png ", "c.png", "'=2.png"])
    assert found["=1.png"] == found["'=1.png"] == "=1.png"
    assert found["a.png"] == found[" a.png"] == " a.png"  # blanks around a cell are lost when it is read
    assert found["c.png"] == "c.png"  # and one that has none keeps its name
    assert found["''=2.png"] == "'=2.png"


def test_blanks_that_would_make_two_names_one_lead_to_neither() -> None:
    assert "c.png" not in by_cell([" c.png", "c.png "])


def found() -> Assignment:
    probabilities = np.tile(np.array([[0.75, 0.25]], dtype=np.float32), (len(NAMES), 1))
    return Assignment(NAMES, ("new:0", "known:=HYPERLINK(1)"), probabilities)


def test_no_table_has_a_formula() -> None:
    for table in (found().table(), csv_bytes(found(), ["=1+1", "@name"])):
        rows = list(csv.reader(io.StringIO(table.decode(), newline="")))
        assert len(rows) == len(NAMES) + 1
        assert not [cell for row in rows for cell in row if cell.startswith(tuple("=+-@\t\r"))]


def test_a_run_and_a_truth_read_the_names_that_were_written(tmp_path: Path) -> None:
    pixels = np.zeros((len(NAMES), 1, 2, 2), dtype=np.uint8)
    images = image_set(pixels, NAMES, None, (), "memory", labelled=False)  # writes the tab of a name as \\x09
    run = RunFolder.start(tmp_path / "run", nk.Settings(), {}, {})
    put_assignment(run, replace(found(), names=images.names))
    run.close()
    assert read_assignment(RunFolder.open(tmp_path / "run")).names == images.names
    assert read_truth(tmp_path / "run" / "kinds.csv", images) == ("new:0",) * len(NAMES)
