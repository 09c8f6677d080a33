"""Pages that show what was measured say what the result files say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_the_page_on_how_many_kinds_matches_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import pages

    text = pages.PAGE.read_text()
    assert pages.rendered(text) == text
    # And it would not, were a figure another: the table is really there.
    row = next(line for line in text.splitlines() if line.startswith("| OmniGlot's alphabets | 20 to 47 | 20 | "))
    assert pages.rendered(text.replace(row, row + "9")) == text
    for name in ("pages", "results"):
        sys.modules.pop(name, None)
