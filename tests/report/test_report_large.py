"""A hundred thousand pictures: the page stays small and quick, and says what it leaves out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

MOST_BYTES, MOST_SECONDS = 15_000_000, 3.0
READY = """const done = arguments[0];
    const load = performance.getEntriesByType('navigation')[0].loadEventEnd;
    requestAnimationFrame(() => requestAnimationFrame(() => done([load, newkinds.map.drawnBy()])))"""


@pytest.mark.slow
def test_the_page_stays_small_and_says_what_is_left_out(large: Path) -> None:
    assert large.stat().st_size <= MOST_BYTES
    text = " ".join(large.read_text(encoding="utf-8").split())
    assert "The map shows 20,000 of 100,000 pictures; 80,000 are left out where many lie together." in text
    assert "t-SNE was computed for 5,000 of them" in text
    assert "points have no thumbnail" in text


@pytest.mark.slow
@pytest.mark.browser
def test_it_is_soon_ready(large: Path, open_page: Any, screenshots: Path) -> None:
    started = time.monotonic()
    screen = open_page(large)
    load, drawn_by = screen.driver.execute_async_script(READY)
    ready = time.monotonic() - started
    print(f"loaded after {load / 1000:.2f} s, drawn by {drawn_by} and ready after {ready:.2f} s")
    assert ready < MOST_SECONDS
    screen.map_into_view()
    started = time.monotonic()
    screen.hover(1234)
    screen.hover(4321)
    assert screen.run("return !document.getElementById('tip').hidden")
    assert time.monotonic() - started < 2
    screen.save(screenshots / "large.png")
    assert screen.complaints() == []
