"""What a person does on the page, in a real Chromium: select, colour, go back in time, give names."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import around, load_names, saved_names, selected, shown, typed
from made_up_runs import near_known

from newkinds.report import kinds, sprites, write_report
from newkinds.report.palette import LIGHT

pytestmark = pytest.mark.browser


@pytest.fixture
def full(open_page: Any, pages: Callable[..., Path]) -> Any:
    screen = open_page(pages("full", 60, 4, with_snapshots=True, nearest_known=near_known(60, 4)))
    screen.map_into_view()
    return screen


def inside(screen: Any, path: list[tuple[float, float]]) -> set[int]:
    """Return the points in a rectangle, looked at one by one."""
    xs, ys = zip(*path, strict=True)
    found = set()
    for point in range(screen.run("return newkinds.map.n")):
        x, y = screen.place(point)
        if min(xs) < x < max(xs) and min(ys) < y < max(ys):
            found.add(point)
    return found


def colours(screen: Any) -> set[int]:
    """Return which of the palette's colours are on the map."""
    box = screen.run("const b = newkinds.map.canvas.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]")
    left, top, right, bottom = (max(0, round(v)) for v in box)
    pixels = screen.pixels()[top + 60 : bottom - 4, left + 4 : right - 4].reshape(-1, 3)
    values = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in LIGHT]
    return {i for i, value in enumerate(values) if (pixels == value).all(axis=1).sum() > 30}


def test_points_are_drawn_by_webgl_and_without_it_alike(full: Any, screenshots: Path) -> None:
    assert full.run("return newkinds.map.drawnBy()") == "webgl"
    drawn = colours(full)
    full.save(screenshots / "map-webgl.png")
    full.run("newkinds.map.fallBack()")
    assert full.run("return newkinds.map.drawnBy()") == "canvas"
    assert colours(full) == drawn
    assert drawn == {0, 1, 2, 3}
    full.save(screenshots / "map-canvas.png")
    full.hover(7)
    assert full.text("tip-name") == "unsorted/00007.png"


@pytest.mark.parametrize("how", ["button", "shift"])
def test_a_loop_selects_pictures_and_shows_them(full: Any, flat: Any, how: str, screenshots: Path) -> None:
    if how == "button":
        full.run("document.querySelector('[data-tool=lasso]').click()")
    path = around(full, [0, 4, 8])
    wanted = inside(full, path)
    full.drag(path, modifiers=8 if how == "shift" else 0)
    assert selected(full) == wanted >= {0, 4, 8}
    assert full.run("return newkinds.map.view.zoom") == 1
    assert full.text("selection-title") == f"{len(wanted)} pictures selected"
    assert "in Kind 0" in full.text("selection-kinds")
    titles = full.run("return [...document.querySelectorAll('#selection-pictures li')].map((e) => e.title)")
    assert {int(title[9:14]) for title in titles} == wanted
    full.run("document.getElementById('selection').scrollIntoView({behavior: 'instant', block: 'center'})")
    seen = full.colour_of("#selection-pictures .thumb")
    assert np.abs(seen - flat(60)[int(titles[0][9:14]), :, 0, 0].astype(int)).max() == 0
    full.save(screenshots / "selection.png")
    full.run("document.getElementById('selection-clear').click()")
    assert not full.run("return document.getElementById('selection').checkVisibility()")
    assert full.complaints() == []


def test_the_keyboard_selects_too(full: Any) -> None:
    full.run("document.getElementById('map-canvas').focus({preventScroll: true})")
    full.press("ArrowRight", " ", "ArrowLeft", " ")
    assert len(selected(full)) == 2
    assert full.text("selection-title") == "2 pictures selected"
    assert full.text("map-said").endswith(" selected")
    full.press(" ")
    assert len(selected(full)) == 1


def test_colours_by_kind_known_probability_and_truth(full: Any, screenshots: Path) -> None:
    assert full.run("return [...document.querySelectorAll('#map-colour option')].map((o) => o.value)") == [
        "kind",
        "known",
        "probability",
        "truth",
    ]
    labels = "return [...document.querySelectorAll('#legend bdi')].map((e) => e.textContent)"
    assert full.run(labels) == ["Kind 0", "Kind 1", "Kind 2", "Kind 3"]
    full.set("map-colour", "known", "change")
    assert full.run(labels) == ["cat", "dog"]
    assert colours(full) == {0, 1}
    full.save(screenshots / "map-known.png")
    full.run("document.querySelector('#legend button:nth-child(2)').click()")
    assert full.run("return newkinds.map.state.kind") == 1
    full.hover(1)
    assert full.text("tip-known") == "nearest known kind: dog"
    full.set("map-colour", "truth", "change")
    assert full.run(labels) == [f"class {k}" for k in range(4)]
    assert full.run("return newkinds.map.state.kind") == -1
    full.set("map-colour", "probability", "change")
    assert "90 to 100 of 100" in full.run(labels)
    full.save(screenshots / "map-probability.png")
    full.run("document.querySelector('[data-show=\"2\"]').click()")
    assert full.run("return document.getElementById('map-colour').value") == "kind"
    assert full.run("return newkinds.map.state.kind") == 2
    assert full.complaints() == []


def test_the_slider_goes_back_in_time(full: Any) -> None:
    end = full.place(5)
    full.set("map-epoch", 0, "input")
    assert full.text("map-when") == "the start"
    time.sleep(0.8)
    start = full.place(5)
    assert np.hypot(start[0] - end[0], start[1] - end[1]) > 5
    x, y = full.run("const f = newkinds.data.frames; return [f.x[0][5] / 10000, f.y[0][5] / 10000]")
    assert full.run("return [newkinds.map.x[5], newkinds.map.y[5]]") == pytest.approx([x, y], abs=1e-6)
    full.hover(5)
    assert "; at the end Kind 1, " in full.text("tip-kind")
    full.run("document.getElementById('map-epoch').focus({preventScroll: true})")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
        code = {"key": key, "code": key, "windowsVirtualKeyCode": 39}
        full.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyDown", **code})
        full.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": "keyUp", **code})
    assert full.text("map-when") == "the end"
    assert full.run("return document.getElementById('map-epoch').getAttribute('aria-valuetext')") == "the end"
    time.sleep(0.8)
    assert full.place(5) == pytest.approx(end, abs=0.5)
    assert full.complaints() == []


def test_playing_ends_at_the_end(full: Any) -> None:
    full.run("document.getElementById('map-play').click()")
    assert full.text("map-when") == "the start"
    assert full.text("map-play") == "Pause"
    time.sleep(4.5)
    assert full.text("map-when") == "the end"
    assert full.text("map-play") == "Play"


def test_later_sheets_are_taken_in_when_asked_for(
    make_data: Any, flat: Any, open_page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, screenshots: Path
) -> None:
    monkeypatch.setattr(sprites, "SHEET_SIDE", 200)  # nine on a sheet
    monkeypatch.setattr(kinds, "PICTURES", 2)
    monkeypatch.setattr(kinds, "FEW_PICTURES", 1)
    colours = flat(60, 64)
    truth = tuple(f"class {i % 4}" for i in range(60))
    screen = open_page(write_report(make_data(60, 4, pixels=colours, truth=truth), tmp_path))
    later = "return [...document.querySelectorAll('script[id^=sheet]')].map((e) => Number(e.id.slice(5)))"
    waiting = screen.run(later)
    assert waiting
    places = screen.run("return newkinds.data.points.sprite")
    point = next(i for i, place in enumerate(places) if place[0] == waiting[-1])
    screen.map_into_view()
    screen.hover(point)
    seen = screen.colour_of("#tip-picture")
    assert np.abs(colours[:, :, 0, 0].astype(int) - seen).sum(axis=1).argmin() == point
    assert waiting[-1] not in screen.run(later)
    screen.run("document.querySelector('[data-tool=pictures]').click()")
    time.sleep(0.3)
    assert screen.run(later) == []
    screen.save(screenshots / "map-pictures.png")
    assert screen.complaints() == []


def test_names_stand_everywhere(full: Any, screenshots: Path) -> None:
    typed(full, 2, "  yellow star ")
    assert shown(full, 2) == {"yellow star"}
    for part in ("legend", "kinds", "wrong"):
        assert full.run("return document.querySelectorAll(arguments[0]).length", f'#{part} [data-name="2"]') > 0
    full.hover(2)
    assert full.text("tip-kind").startswith("yellow star, ")
    full.save(screenshots / "named.png")
    label = "return document.querySelector('[data-show=\"2\"]').getAttribute('aria-label')"
    assert full.run(label) == "Show yellow star on the map"
    typed(full, 2, "")
    assert shown(full, 2) == {"Kind 2"}


def test_names_are_saved_and_loaded(full: Any, pages: Any, open_page: Any, tmp_path: Path) -> None:
    full.run("document.getElementById('names-save').click()")
    assert full.text("names-said") == "There are no names yet."
    typed(full, 3, 'star "*"')
    typed(full, 0, "Kreis ○")
    file = saved_names(full, tmp_path)
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert saved == {"newkinds": "names", "run": "a made-up run", "names": {"0": "Kreis ○", "3": 'star "*"'}}
    assert full.text("names-said") == "2 names saved as names.json."
    assert full.complaints() == []
    again = open_page(pages("full"))
    assert shown(again, 0) == {"Kind 0"}
    typed(again, 1, "gone after loading")
    load_names(again, file)
    assert again.text("names-said") == "2 names loaded."
    assert (shown(again, 0), shown(again, 1), shown(again, 3)) == ({"Kreis ○"}, {"Kind 1"}, {'star "*"'})
    assert again.run("return document.querySelector('[data-name-of=\"3\"]').value") == 'star "*"'
    assert again.complaints() == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "not JSON"),
        ("[]", "not a names file"),
        ('{"newkinds": "kinds", "names": {}}', "not a names file"),
        ('{"newkinds": "names", "names": {"4": "a"}}', "does not have: 4. The kinds here are 0, 1, 2, 3."),
        ('{"newkinds": "names", "names": {"01": "a", "-1": "b"}}', "does not have: 01, -1."),
        ('{"newkinds": "names", "names": {"__proto__": "a"}}', "does not have: __proto__."),
        ('{"newkinds": "names", "names": {"<img src=x onerror=alert(1)>": "a"}}', "have: <img src=x"),
        ('{"newkinds": "names", "names": {"1": ["a"]}}', "kind 1 in the file is not text"),
    ],
)
def test_other_files_are_refused_and_change_nothing(full: Any, text: str, says: str) -> None:
    typed(full, 0, "mine")
    full.run("newkinds.names.load(arguments[0])", text)
    assert says in full.text("names-said")
    assert shown(full, 0) == {"mine"}
    assert full.complaints() == []


def test_nasty_names_are_text(full: Any, nasty: tuple[str, ...]) -> None:
    before = full.run("return document.querySelectorAll('*').length")
    for name in nasty:
        typed(full, 1, name)
        names = json.dumps({"newkinds": "names", "run": name, "names": {"2": name}})
        full.run("newkinds.names.load(arguments[0])", names)
        typed(full, 0, name)
        (seen,) = shown(full, 2)
        assert not set("\n\r\x00\u202e\u2066\u2028") & set(seen)
        full.hover(2)
        assert full.text("tip-kind").startswith(seen)
        full.run("newkinds.selection.clear(); newkinds.selection.toggle(2)")
        assert seen in full.text("selection-kinds")
    full.run("newkinds.selection.clear()")
    assert full.run("return document.querySelectorAll('*').length") == before
    assert full.run("return document.querySelectorAll('main img:not(.cells)').length") == 0
    full.look(360, 800)
    assert full.run("return document.documentElement.scrollWidth") <= 360
    assert full.complaints() == []
    assert all(url.startswith(("file:", "data:")) for url in full.requests())
