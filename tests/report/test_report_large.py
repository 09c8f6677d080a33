"""A hundred thousand pictures: the page stays small and quick, and says what it leaves out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_runs import moments

from newkinds.report import write_report

N, K = 100_000, 50
MOST_BYTES, MOST_SECONDS = 15_000_000, 3.0
READY = """const done = arguments[0];
    const load = performance.getEntriesByType('navigation')[0].loadEventEnd;
    requestAnimationFrame(() => requestAnimationFrame(() => done([load, newkinds.map.drawnBy()])))"""


def photographs(n: int, side: int = 48) -> np.ndarray:
    """Return n pictures that compress about as badly as photographs do."""
    rng = np.random.default_rng(0)
    some = rng.normal(128, 40, (400, 3, side // 4, side // 4)).repeat(4, axis=2).repeat(4, axis=3)
    some = np.clip(some + rng.normal(0, 12, some.shape), 0, 255).astype(np.uint8)
    pictures = some[np.arange(n) % 400]
    pictures[:, 0, 0, 0] = np.arange(n) % 251  # so that most of them are of their own
    pictures[:, 1, 0, 0] = np.arange(n) // 400
    return pictures


@pytest.fixture(scope="module")
def large(make_data: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = make_data(N, K, pixels=photographs(N))
    some = np.sort(np.random.default_rng(0).permutation(N)[:5_000])
    parts = moments(data, (0, 4, 8))
    kept = [replace(m, items=some, embedding=m.embedding[some], p=m.p[some], q=m.q[some]) for m in parts]
    started = time.monotonic()
    page = write_report(replace(data, moments=tuple(kept)), tmp_path_factory.mktemp("large"))
    print(f"page of {page.stat().st_size / 1e6:.1f} MB in {time.monotonic() - started:.0f} s")
    return page


@pytest.mark.slow
def test_the_page_stays_small_and_says_what_is_left_out(large: Path) -> None:
    assert large.stat().st_size <= MOST_BYTES
    text = " ".join(large.read_text(encoding="utf-8").split())
    assert "The map shows 20,000 of 100,000 pictures; 80,000 are left out where many lie together." in text
    assert "t-SNE was made of 5,000 of them" in text
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
