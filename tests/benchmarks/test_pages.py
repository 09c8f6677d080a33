"""Pages that show what was measured say what the result files say."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pages
import study
from newkinds_bench import TABLES
from newkinds_bench.house import HOUSE
from studies.tools.results import RESULTS


def test_the_page_on_how_many_kinds_matches_the_results() -> None:
    text = pages.PAGE.read_text()
    assert pages.rendered(text) == text
    # And it would not, were a figure another: the table is really there.
    row = next(line for line in text.splitlines() if line.startswith("| OmniGlot's alphabets | 20 to 47 | 20 | "))
    assert pages.rendered(text.replace(row, row + "9")) == text


@pytest.mark.parametrize("name", ["ablation", "growth", "recipes", "starts"])
def test_the_tables_of_studies_match_their_results(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study: Any = import_module(f"studies.{name}")
    tables: list[list[str]] = []
    monkeypatch.setattr(study, "put_table", lambda page, mark, lines: tables.append(lines))
    drawn = tmp_path / "drawn.svg"  # by those that draw
    monkeypatch.setattr(study, "PICTURE", drawn, raising=False)
    study.render(json.loads((RESULTS / f"{name}.json").read_text())["runs"])
    (lines,) = tables
    assert len(lines) > 5
    assert "\n".join(lines) in study.PAGE.read_text()
    assert drawn.exists() == (name == "growth")


def test_the_table_of_promises_matches_its_results() -> None:
    reliability: Any = import_module("studies.reliability")
    lines = reliability.table(reliability.read())
    assert "\n".join(["<!-- promises -->", *lines, "<!-- /promises -->"]) in reliability.PAGE.read_text()
    for file in re.findall(r"\]\(\.\./(tests/[^)]+)\)", "\n".join(lines)):
        assert (HOUSE.parent / file).is_file()


def test_the_house_says_how_each_table_and_study_is_made() -> None:
    page = (HOUSE / "README.md").read_text()
    for table in TABLES:
        assert re.search(rf"`newkinds bench {table}[ `]|`{table}`", page), table
    for name in study.STUDIES:
        assert f"`.venv/bin/python benchmarks/study.py {name}" in page, name
    for target in re.findall(r"\]\(([^)]+)\)", page):
        assert (HOUSE / target).is_file(), target
