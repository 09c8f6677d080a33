"""The page of a mixed heap: new kinds, known kinds in the heap, and none of these."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
from made_up_runs import build

from newkinds.assignment import Assignment
from newkinds.report import ReportData
from newkinds.report.content import gather
from newkinds.report.page import make_page

COLUMNS = ("new:0", "new:1", "known:bolt", "known:<nut>", "known:gear", "none")


def mixed(kinds: list[int], columns: tuple[str, ...] = COLUMNS, **more: Any) -> ReportData:
    """Return a run whose pictures are in these columns; every third touches the third column."""
    n = len(kinds)
    data = build(n, 2, rehearsals=0, with_truth=False)
    p = np.full((n, len(columns)), 0.02, dtype=np.float32)
    p[:, 2 % len(columns)] = np.where(np.arange(n) % 3 == 0, 0.3, 0.02)
    p[np.arange(n), kinds] = 0.5
    names = data.assignment.names
    return replace(data, assignment=Assignment(names, columns, p), nearest_known=None, snapshots=(), **more)


def test_groups_and_words() -> None:
    heap = {"holds": "mixed", "known": 0.45, "low": 0.3, "high": 0.6}
    data = mixed([0] * 9 + [1] * 6 + [2] * 10 + [4] * 2 + [5] * 3, heap=heap)
    shown = gather(data)
    assert [(group.heading, [kind.kind for kind in group.kinds]) for group in shown.groups] == [
        ("New kinds", [0, 1]),
        ("Known kinds in the heap", [2, 4]),
        ("None of these", [5]),
    ]
    assert shown.groups[1].about == "No pictures of: <nut>."
    assert shown.heap == (
        "About 14 of 30 pictures are of known kinds (9 to 18). In this result: 12 in 2 known kinds, 15 in 2 new "
        "kinds, 3 in none of them."
    )
    assert shown.touched == {0: [("bolt", 3)], 1: [("bolt", 2)]}  # rows 0, 3, 6 and 9, 12
    page = make_page(data).decode()
    assert '<h3 id="known-kinds">Known kinds in the heap</h3>' in page
    assert "No pictures of: &lt;nut&gt;." in page
    assert re.search(r"Doubtful pictures may be</span>\s*<span class=\"truth\"><bdi>bolt</bdi> ×3</span>", page)
    assert 'id="kind-5"' in page
    assert 'id="kind-3"' not in page  # a known kind without a picture
    assert page.count("data-name-of") >= 2
    assert 'data-name-of="2"' not in page  # known kinds have their names


def test_nothing_new() -> None:
    page = make_page(mixed([0] * 4 + [1] * 6, ("known:bolt", "known:nut"), heap={"holds": "known"})).decode()
    assert "<strong>nothing new found</strong>" in page
    assert "In this result: 10 in 2 known kinds." in page
    assert ">New kinds</h3>" not in page


def test_new_kinds_alone_have_no_groups() -> None:
    data = build(20, 2)
    shown = gather(data)
    assert (shown.heap, shown.touched, len(shown.groups), shown.groups[0].heading) == ("", {}, 1, "")
    page = make_page(data).decode()
    assert "new-kinds" not in page
    assert "2 new kinds" in page
