"""Every action of the workbench in a real Chromium, with undo, reload and a second window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from windows import Screen

from newkinds.app.serving import Serving
from newkinds.corrections import State
from newkinds.runs import RunFolder
from newkinds.runs.journal import Journal

pytestmark = pytest.mark.browser


@pytest.fixture
def state(run: Path) -> Callable[[], State]:
    """Return a function that reads the state from the journal on the disk."""
    return lambda: Journal.open(RunFolder.open(run)).state


def names(state: State, rows: list[int]) -> list[str]:
    return [state.names[row] for row in rows]


def kinds(state: State, rows: list[int]) -> set[str]:
    return {state.kind_of(name) for name in names(state, rows)}


def test_the_first_screen_shows_pictures_and_asks_nobody_else(screen: Screen, serving: Serving) -> None:
    loaded = (
        "return [...document.querySelectorAll('.card img')].filter((i) => i.complete && i.naturalWidth).length >= 24"
    )
    screen.until(loaded)
    assert screen.hosts() == {f"127.0.0.1:{serving.port}"}
    assert screen.complaints() == []


def test_pictures_are_picked_moved_and_moved_back(screen: Screen, state: Callable[[], State]) -> None:
    screen.open("new:1")
    rows = screen.tiles()[:3]
    for row in rows:
        screen.click_tile(row)
    screen.until("return document.querySelector('#tray b').textContent === '3 pictures selected'")
    screen.click("Move to ...", "#tray")
    screen.choose("new:4")
    screen.version(1)
    screen.until("return document.getElementById('status').textContent.startsWith('Saved')")
    assert kinds(state(), rows) == {"new:4"}
    assert state().confirmed.sum() == 3
    screen.until("return !document.querySelector(`.tile[data-row='${arguments[0]}']`)", rows[0])
    screen.click("Undo")
    screen.version(2)
    assert kinds(state(), rows) == {"new:1"}
    screen.until("return !!document.querySelector(`.tile[data-row='${arguments[0]}']`)", rows[0])
    screen.click("Redo")
    screen.version(3)
    assert kinds(state(), rows) == {"new:4"}
    screen.driver.refresh()
    screen.until("return document.querySelectorAll('.tile').length > 0")
    assert not set(rows) & set(screen.tiles())


@pytest.mark.parametrize(("key", "kind"), [("n", "new:6"), ("x", "none")])
def test_pictures_go_to_a_new_kind_or_to_none_by_one_key(
    screen: Screen, state: Callable[[], State], key: str, kind: str
) -> None:
    screen.open("new:2")
    rows = screen.tiles()[:2]
    for row in rows:
        screen.click_tile(row)
    screen.press(key)
    screen.version(1)
    assert kinds(state(), rows) == {kind}
    screen.press("z", modifiers=2)
    screen.version(2)
    assert kinds(state(), rows) == {"new:2"}
    screen.press("y", modifiers=2)
    screen.version(3)
    assert kinds(state(), rows) == {kind}


def test_pictures_are_of_a_known_kind(screen: Screen, state: Callable[[], State]) -> None:
    screen.open("new:2")
    row = screen.tiles()[0]
    screen.click_tile(row)
    screen.press("m")
    screen.until("return !!document.querySelector('dialog #choose')")
    for letter in "nut":
        screen.press(letter)
    screen.until("return document.querySelectorAll('dialog .choices li').length === 1")
    screen.press("Enter")
    screen.version(1)
    assert kinds(state(), [row]) == {"known:nut"}


def test_pictures_are_confirmed_by_the_keyboard_alone(screen: Screen, state: Callable[[], State]) -> None:
    screen.open("new:3")
    rows = screen.tiles()
    screen.run("document.querySelector('.grid').focus()")
    screen.press(" ")
    screen.press("ArrowRight")
    screen.press("ArrowRight", modifiers=8)
    screen.press("ArrowDown", modifiers=8)
    count = screen.run("return document.querySelectorAll('.tile[aria-selected=true]').length")
    assert count > 4
    screen.press("c")
    screen.version(1)
    found = state()
    assert found.confirmed.sum() == count
    assert found.confirmed[rows[0]]
    screen.until("return document.querySelectorAll('.tile.sure').length === arguments[0]", count)
    assert f"{count} of 240" in screen.text("#progress")
    screen.click("Undo")
    screen.version(2)
    assert not state().confirmed.any()


def test_a_name_is_text_whatever_it_says_and_survives_a_reload(screen: Screen, state: Callable[[], State]) -> None:
    name = "<img src=x onerror=alert(1)> & <b>nuts</b>"
    screen.open("new:0")
    field = screen.driver.find_element("id", "name")
    field.send_keys(name + "\n")
    screen.version(1)
    assert state().called == {"new:0": name}
    screen.driver.refresh()
    screen.until(
        "return document.querySelector('#name') && document.querySelector('#name').value === arguments[0]", name
    )
    screen.go("#/")
    screen.until("return !!document.querySelector('.card')")
    assert name in screen.text(".card[data-kind='new:0'] h2")
    assert not screen.run("return document.querySelectorAll('main b, main img[src=x]').length")
    screen.click("Undo")
    screen.version(2)
    assert state().called == {}
    assert screen.complaints() == []


def test_two_kinds_with_one_name_are_merged_after_asking(screen: Screen, state: Callable[[], State]) -> None:
    screen.open("new:0")
    screen.driver.find_element("id", "name").send_keys("washer\n")
    screen.version(1)
    size = len(state().rows_of("new:0")) + len(state().rows_of("new:5"))
    for answer, lines in (("Cancel", 1), ("Merge them", 2)):
        screen.open("new:5")
        screen.driver.find_element("id", "name").send_keys("Washer\n")
        screen.click(answer, "dialog")
        screen.version(lines)
    found = state()
    assert found.merged == {"new:5": "new:0"}
    assert found.called["new:0"] == "washer"
    assert len(found.rows_of("new:0")) == size
    screen.click("Undo")
    screen.version(3)
    assert state().merged == {}


def test_several_kinds_are_merged_accepted_and_rejected_at_once(screen: Screen, state: Callable[[], State]) -> None:
    def pick(*some: str) -> None:
        for kind in some:
            screen.until("const c = document.querySelector(`.card[data-kind='${arguments[0]}'] input`); "
                         "if (c) c.click(); return !!c", kind)  # fmt: skip

    pick("new:1", "new:2", "new:4")
    screen.click("Merge", "main")
    screen.click("Merge", "dialog")
    screen.version(1)
    assert state().merged == {"new:2": "new:1", "new:4": "new:1"}
    pick("new:1", "new:0")
    screen.click("Accept", "main")
    screen.version(2)
    pick("new:3")
    screen.click("Not a kind", "main")
    screen.version(3)
    assert state().status == {"new:1": "accepted", "new:0": "accepted", "new:3": "rejected"}
    for lines in (4, 5, 6):
        screen.click("Undo")
        screen.version(lines)
    assert state().is_untouched


def test_a_kind_is_split_in_a_number_of_parts(screen: Screen, state: Callable[[], State]) -> None:
    screen.open("new:1")
    size = len(state().rows_of("new:1"))
    screen.click("Split ...", "main")
    screen.run("const f = document.getElementById('parts'); f.value = '3'; f.dispatchEvent(new Event('change'))")
    screen.until("return document.querySelectorAll('dialog .parts h3').length === 3")
    screen.click("Split", "dialog")
    screen.version(1)
    sizes = [len(state().rows_of(kind)) for kind in ("new:1", "new:6", "new:7")]
    assert sum(sizes) == size
    assert min(sizes) > 0
    assert not state().confirmed.any()
    screen.click("Undo")
    screen.version(2)
    assert len(state().rows_of("new:1")) == size


def test_a_kind_is_split_around_two_pictures(screen: Screen, state: Callable[[], State]) -> None:
    screen.open("new:1")
    screen.run("const s = document.getElementById('sort'); s.value = 'doubtful'; s.dispatchEvent(new Event('change'))")
    screen.until("return document.getElementById('sort').value === 'doubtful'")
    rows = screen.tiles()
    seeds = [rows[0], rows[-1]]
    for row in seeds:
        screen.run("document.querySelector(`.tile[data-row='${arguments[0]}']`).click()", row)
    screen.click("Split around these", "#tray")
    screen.click("Split", "dialog")
    screen.version(1)
    assert len(kinds(state(), seeds)) == 2


def test_pictures_are_sorted_by_likeness_to_one_and_enlarged_with_their_path(screen: Screen, made_up: Path) -> None:
    screen.open("new:1")
    row = screen.tiles()[5]
    screen.click_tile(row)
    screen.press("l")
    screen.until("return document.querySelector('.tile').dataset.row === String(arguments[0])", row)
    screen.press("Escape")
    screen.click_tile(row, clicks=2)
    screen.until(
        "const i = document.querySelector('dialog .large img'); return i && i.complete && i.naturalWidth === 24"
    )
    path = screen.until("const p = document.querySelector('dialog .path bdi'); return p && p.textContent")
    assert Path(path).is_relative_to(made_up / "pictures")
    assert Path(path).is_file()
    before = screen.text("dialog h2")
    screen.press("ArrowRight")
    screen.until("return document.querySelector('dialog h2').textContent !== arguments[0]", before)
    screen.press("Escape")
    screen.until("return !document.querySelector('dialog')")


def test_a_second_window_sees_what_the_first_says(
    screen: Screen, serving: Serving, state: Callable[[], State], another: Callable[[], str]
) -> None:
    first = screen.driver.current_window_handle
    another()
    screen.driver.get(f"http://127.0.0.1:{serving.port}/")
    screen.until("return !!document.querySelector('.card')")
    second = screen.driver.current_window_handle
    screen.driver.switch_to.window(first)
    screen.open("new:0")
    screen.driver.find_element("id", "name").send_keys("washer\n")
    screen.version(1)
    screen.driver.switch_to.window(second)
    screen.until("return document.querySelector(`.card[data-kind='new:0'] h2`).textContent.includes('washer')")
    screen.click("Undo")
    screen.version(2)
    screen.driver.switch_to.window(first)
    screen.until("return document.getElementById('name').value === ''")
    assert state().is_untouched


def test_missing_pictures_are_shown_as_missing(browser: Any, serving: Serving, tmp_path: Path) -> None:
    serving.bench.pictures._what = tmp_path  # where there are none
    screen = Screen(browser, serving)
    screen.until("return document.querySelectorAll('.card .missing').length > 8")
    assert "missing" in screen.text(".card .missing")


def test_when_the_server_goes_the_page_says_so_and_says_nothing_is_saved(screen: Screen, serving: Serving) -> None:
    screen.open("new:1")
    row = screen.tiles()[0]
    screen.click_tile(row)
    serving.stop()
    screen.until("return !document.getElementById('alarm').hidden", seconds=20)
    screen.press("x")
    screen.until("return document.getElementById('alarm').textContent.includes('does not answer')")
    assert "Saved" not in screen.text("#status")
