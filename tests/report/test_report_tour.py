"""All that a person can do on the page, in one go, on the pages of whole runs: in a real Chromium, from disk."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import around, load_names, saved_names, selected, shown, typed
from made_up_runs import near_known

import newkinds as nk

pytestmark = pytest.mark.browser

WIDTHS = (360, 1180, 2560)


def tour(open_page: Any, page: Path, folder: Path, seen: Path, called: str) -> Any:
    """Hover, lasso, slide, name, save, load, use the keyboard and look in every width and theme; returns the page."""
    screen = open_page(page)
    screen.map_into_view()
    assert screen.run("return newkinds.map.drawnBy()") == "webgl"
    n, kinds = screen.run("return [newkinds.map.n, newkinds.data.kinds.length]")

    point = n // 2
    screen.hover(point)
    assert screen.run("return !document.getElementById('tip').hidden")
    assert screen.text("tip-name")
    screen.save(seen / f"{called}-hover.png")

    screen.run("document.querySelector('[data-tool=lasso]').click()")
    screen.drag(around(screen, [point], margin=30))
    assert point in selected(screen)
    shown_there = screen.run("return document.querySelectorAll('#selection-pictures li').length")
    assert 0 < shown_there <= len(selected(screen))
    screen.run("document.getElementById('selection').scrollIntoView({behavior: 'instant', block: 'center'})")
    screen.save(seen / f"{called}-selection.png")
    screen.run("newkinds.selection.clear(); document.querySelector('[data-tool=lasso]').click()")

    screen.map_into_view()
    points = "return [[...newkinds.map.x], [...newkinds.map.y]]"
    end = np.array(screen.run(points))
    for value in ("0", screen.run("return document.getElementById('map-epoch').max")):
        screen.set("map-epoch", value, "input")
        time.sleep(1)
        moved = np.abs(np.array(screen.run(points)) - end).max()
        screen.save(seen / f"{called}-epoch-{screen.text('map-when').replace(' ', '-')}.png")
        assert (moved > 0.01) == (value == "0")

    screen.run("document.getElementById('map-canvas').focus({preventScroll: true})")
    screen.press("ArrowRight", "ArrowUp", " ")
    assert len(selected(screen)) == 1
    assert screen.text("map-said").endswith(" selected")
    screen.press("Escape")

    typed(screen, kinds - 1, f"the last of {called}")
    file = saved_names(screen, folder)
    assert screen.complaints() == []
    assert [url for url in screen.requests() if not url.startswith(("file:", "data:", "blob:"))] == []

    screen = open_page(page)
    assert f"the last of {called}" not in shown(screen, kinds - 1)
    load_names(screen, file)
    assert shown(screen, kinds - 1) == {f"the last of {called}"}
    for width in WIDTHS:
        for dark in (False, True):
            screen.look(width, 900, dark)
            screen.painted()
            assert screen.run("return document.documentElement.scrollWidth") <= width
            screen.save(seen / f"{called}-{width}-{'dark' if dark else 'light'}.png", whole=True)
    assert screen.complaints() == []
    return screen


def test_a_small_run(open_page: Any, real_run: Path, tmp_path: Path, screenshots: Path) -> None:
    screen = tour(open_page, real_run / "report" / "index.html", tmp_path, screenshots, "small")
    assert screen.run("return newkinds.data.frames.epoch") == [0, 4, 8]
    assert screen.run("return newkinds.data.known") == ["bolt", "gear", "nut", "screw"]
    screen.look()
    screen.map_into_view()
    screen.hover(3)
    assert screen.text("tip-known").startswith("nearest known kind: ")
    assert screen.complaints() == []
    assert all(url.startswith(("file:", "data:")) for url in screen.requests())


@pytest.mark.slow
def test_the_demo(open_page: Any, tmp_path: Path, screenshots: Path, shut_out: Any) -> None:
    found = nk.demo(tmp_path / "demo")
    screen = tour(open_page, found.path / "report" / "index.html", tmp_path, screenshots, "demo")
    assert shut_out(screen) == []


@pytest.mark.data
def test_photographs(open_page: Any, tmp_path: Path, screenshots: Path, shut_out: Any) -> None:
    train = Path(os.environ.get("NEWKINDS_DATA", "data")) / "tiny-imagenet" / "train"
    classes = sorted(path for path in train.glob("n*") if path.is_dir())[:14]
    if len(classes) < 14:
        pytest.skip(f"no 14 classes of Tiny-ImageNet below {train}: set NEWKINDS_DATA")
    for number, one in enumerate(classes):
        target = tmp_path / ("known" if number < 8 else "unsorted") / one.name
        target.mkdir(parents=True)
        for file in sorted(one.rglob("*.JPEG"))[:60]:
            shutil.copy(file, target)
    found = nk.discover(
        tmp_path / "known",
        tmp_path / "unsorted",
        out=tmp_path / "run",
        kinds=6,
        truth="folders",
        settings={
            "network": "vgg6-5-1-slim",
            "pretrain": {"epochs": 10},
            "rehearse": {"rehearsals": 1},
            "discover": {"epochs": 10},
        },
    )
    page = found.path / "report" / "index.html"
    screen = tour(open_page, page, tmp_path, screenshots, "photographs")
    screen.show_pictures(screenshots / "photographs-map.png")
    assert screen.complaints() == []
    assert shut_out(screen) == []
    assert page.stat().st_size < 4_000_000


@pytest.mark.slow
def test_a_hundred_thousand_pictures(
    open_page: Any, large: Path, tmp_path: Path, screenshots: Path, shut_out: Any
) -> None:
    assert shut_out(tour(open_page, large, tmp_path, screenshots, "large")) == []


@pytest.fixture(scope="session")
def compared(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a comparison of methods."""
    settings = {
        "network": "vgg6-4-2-slim",
        "pretrain": {"epochs": 1},
        "rehearse": {"rehearsals": 1},
        "discover": {"warmup_epochs": 1, "epochs": 1},
    }
    made = nk.compare(
        photos / "known",
        photos / "unsorted",
        out=tmp_path_factory.mktemp("compared") / "run",
        methods=["kmeans", "dtc"],
        kinds=3,
        truth="folders",
        settings=settings,
    )
    return made.page


@pytest.fixture(scope="session")
def page_of(pages: Callable[..., Path], real_run: Path, compared: Path) -> Callable[[str], Path]:
    """Return a function that gives a page by what it is of."""
    known = {
        "made-up": lambda: pages("full", 60, 4, with_snapshots=True, nearest_known=near_known(60, 4)),
        "embeddings": lambda: pages("embeddings", 40, 3, pictures=False),
        "small": lambda: real_run / "report" / "index.html",
        "comparison": lambda: compared,
    }
    return lambda which: known[which]()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1180])
@pytest.mark.parametrize("which", ["made-up", "embeddings", "small", "comparison"])
def test_nothing_shuts_people_out(
    open_page: Any, page_of: Callable[[str], Path], shut_out: Any, which: str, width: int, dark: bool, screenshots: Path
) -> None:
    screen = open_page(page_of(which))
    screen.look(width, 900, dark)
    screen.run("newkinds.selection.toggle(0)")
    assert shut_out(screen) == []
    if not dark:
        screen.save(screenshots / f"axe-{which}-{width}.png", whole=True)
