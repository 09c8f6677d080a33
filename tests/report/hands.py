"""What hands do on the page, for the tests that do it: draw a loop, give names, save and load them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def around(screen: Any, points: list[int], margin: float = 14) -> list[tuple[float, float]]:
    """Return a rectangle around points, as a path."""
    places = np.array([screen.place(point) for point in points])
    (left, top), (right, bottom) = places.min(axis=0) - margin, places.max(axis=0) + margin
    return [(left, top), (right, top), (right, bottom), (left, bottom), (left, top + 2)]


def selected(screen: Any) -> set[int]:
    return set(screen.run("return [...newkinds.map.state.picked]"))


def typed(screen: Any, kind: int, name: str) -> None:
    script = """const e = document.querySelector(`[data-name-of="${arguments[0]}"]`);
        e.value = JSON.parse(arguments[1]);
        e.dispatchEvent(new Event('input', {bubbles: true}))"""
    screen.run(script, kind, json.dumps(name))  # as it is, a half of a surrogate pair does not get there


def shown(screen: Any, kind: int) -> set[str]:
    script = "return [...document.querySelectorAll(`[data-name='${arguments[0]}']`)].map((e) => e.textContent)"
    return set(screen.run(script, kind))


def waited(done: Callable[[], bool], seconds: float = 10) -> bool:
    """Return whether something came true within some seconds."""
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.1)
    return done()


def saved_names(screen: Any, folder: Path) -> Path:
    """Save the names with the page's button and return the file."""
    allow = {"behavior": "allow", "downloadPath": str(folder)}
    screen.driver.execute_cdp_cmd("Browser.setDownloadBehavior", allow)
    screen.run("document.getElementById('names-save').click()")
    file = folder / "names.json"
    assert waited(lambda: file.exists() and file.stat().st_size > 0)
    return file


def load_names(screen: Any, file: Path) -> None:
    """Load a file of names with the page's field."""
    screen.driver.find_element("id", "names-file").send_keys(str(file))
    assert waited(lambda: screen.text("names-said").endswith("loaded."))
