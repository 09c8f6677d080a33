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


# The queue, suggestions, the map


def test_the_queue_asks_and_its_answers_are_saved(screen: Screen, state: Callable[[], State]) -> None:
    screen.go("#/next")
    screen.until("return document.querySelectorAll('.tile').length > 5")
    shown = screen.tiles()
    (kind,) = kinds(state(), shown)
    screen.click_tile(shown[0])
    screen.click("All but the 1 picked", ".answers")
    screen.version(1)
    found = state()
    assert found.status == {kind: "accepted"}
    assert not found.confirmed[shown[0]]
    assert found.confirmed[shown[1]]
    screen.until("return !document.querySelector(`.tile[data-row='${arguments[0]}']`)", shown[1])
    other = kinds(state(), screen.tiles())
    assert other != {kind}
    screen.click("Not a kind", ".answers")
    screen.version(2)
    screen.click("Later", ".answers")
    screen.click("Undo")
    screen.version(3)
    assert state().status == {kind: "accepted"}


def test_the_queue_grows_accepted_kinds_until_nothing_is_left(screen: Screen, state: Callable[[], State]) -> None:
    screen.go("#/next")
    asked = set()
    for lines in range(1, 60):
        screen.until("return document.querySelector('.answers button') || /left to ask/.test(document.body.innerText)")
        if not screen.run("return document.querySelectorAll('.answers button').length"):
            break
        asked.add(screen.text(".question h2"))
        truth = [int(name[:2]) for name in names(state(), screen.tiles())]
        most = max(set(truth), key=truth.count)
        for row, true in zip(screen.tiles(), truth, strict=True):
            if true != most:
                screen.run("document.querySelector(`.tile[data-row='${arguments[0]}']`).click()", row)
        screen.run("document.querySelector('.answers .main').click()")
        screen.until("return import('/static/store.js').then((m) => m.store.version >= arguments[0])", lines)
        screen.until("return !document.querySelector('.tile[aria-selected=true]')")
        if state().confirmed.mean() > 0.93:
            break
    assert any("too?" in question for question in asked)
    found = state()
    pairs = {(found.kind_of(name), name[:2]) for name, sure in zip(found.names, found.confirmed, strict=True) if sure}
    assert found.confirmed.mean() > 0.9
    assert len(pairs) == 6


def test_find_more_like_a_kind_takes_all_but_the_picked(screen: Screen, state: Callable[[], State]) -> None:
    screen.open("new:1")
    rows = screen.tiles()[:10]
    for row in rows:
        screen.click_tile(row)
    screen.press("c")
    screen.version(1)
    screen.click("Find more like it", "main")
    screen.until("return !!document.querySelector('.growing')")
    screen.until("return !document.querySelector(`.tile[data-row='${arguments[0]}']`)", rows[0])
    offered = screen.tiles()
    screen.click_tile(offered[-1])
    screen.click("Take all but the picked ones", "main")
    screen.version(2)
    found = state()
    assert found.confirmed[offered[:-1]].all()
    assert not found.confirmed[offered[-1]]
    assert kinds(found, offered[:-1]) == {"new:1"}


def test_suggested_pictures_are_moved_and_merges_are_suggested(screen: Screen, state: Callable[[], State]) -> None:
    before = state()
    wrong = sum(before.kind_of(name) != f"new:{int(name[:2])}" for name in before.names)
    screen.go("#/suggestions")
    screen.until("return document.querySelectorAll('.elsewhere .tile').length > 10")
    seen: set[int] = set()
    while rows := [row for row in screen.tiles() if row not in seen]:  # a page is longer than the window
        for row in rows:
            guess = screen.text(f".tile[data-row='{row}'] .guess")
            if guess != f"Kind {int(before.names[row][:2])}":
                screen.run("document.querySelector(`.tile[data-row='${arguments[0]}']`).click()", row)
        seen.update(rows)
        screen.run("document.querySelector(`.tile[data-row='${arguments[0]}']`).scrollIntoView()", rows[-1])
        screen.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    screen.run(
        "[...document.querySelectorAll('.elsewhere button')].find((b) => /^Move all/.test(b.textContent)).click()"
    )
    screen.version(1)
    found = state()
    assert sum(found.kind_of(name) != f"new:{int(name[:2])}" for name in found.names) < wrong / 3
    screen.open("new:1")
    screen.click("Split ...", "main")
    screen.click("Split", "dialog")
    screen.version(2)
    screen.go("#/suggestions")
    screen.click("Merge them", "main")
    screen.version(3)
    assert len(state().merged) == 1
    screen.click("Undo")
    screen.version(4)
    assert not state().merged


def test_a_loop_on_the_map_splits_off_a_kind(screen: Screen, state: Callable[[], State]) -> None:
    screen.go("#/map")
    screen.until("return !!(window.newkindsMap && newkindsMap.size.width)", seconds=60)
    script = """const map = newkindsMap; const box = map.canvas.getBoundingClientRect();
        const one = map.toScreen(map.data.kind.findIndex((k) => map.data.kinds[k] === 'new:2'));
        return [box.left + one[0], box.top + one[1]]"""
    x, y = screen.run(script)
    path = [(x - 25, y - 25), (x + 25, y - 25), (x + 25, y + 25), (x - 25, y + 25), (x - 25, y - 20)]
    for number, (px, py) in enumerate([*path, path[-1]]):
        kind = "mousePressed" if not number else "mouseReleased" if number == len(path) else "mouseMoved"
        event = {"type": kind, "x": px, "y": py, "button": "left", "buttons": 1, "clickCount": 1}
        screen.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    rows = screen.until("return newkindsMap.picked.size && [...newkindsMap.picked]")
    before = {row: state().kind[row] for row in rows}
    screen.press("n")
    screen.version(1)
    assert kinds(state(), rows) == {"new:6"}
    assert not state().confirmed.any()  # a loop is no close look
    screen.click("Undo")
    screen.version(2)
    assert {row: state().kind[row] for row in rows} == before


# For everybody


@pytest.mark.parametrize(("width", "height", "dark"), [(390, 844, True), (1280, 900, False), (2560, 1400, True)])
def test_nothing_shuts_people_out_on_any_screen(
    screen: Screen, axe: str, screenshots: Path, width: int, height: int, dark: bool
) -> None:
    screen.look(width, height, dark)
    views = {
        "#/": ".card",
        "#/kind/new%3A1": "#name",
        "#/next": ".answers button",
        "#/suggestions": ".elsewhere .tile",
        "#/map": ".map-frame canvas",
    }
    for view, shown in views.items():
        screen.go(view)
        screen.until("return !!document.querySelector(arguments[0])", shown, seconds=60)
        if view.startswith("#/kind"):
            screen.until("const t = document.querySelector('.tile'); if (t) t.click(); return !!t")
        screen.save(screenshots / f"{view.strip('#/').partition('/')[0] or 'kinds'}-{width}.png")
        wide = screen.run("return document.documentElement.scrollWidth")
        assert wide <= width, view
        screen.run(axe + "; window.axe = axe")
        violations = screen.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then((r) => arguments[0](r.violations))"
        )
        serious = [
            (one["id"], [node["html"][:160] for node in one["nodes"][:3]])
            for one in violations
            if one["impact"] in ("serious", "critical")
        ]
        assert not serious, (view, serious)
    assert screen.complaints() == []


def test_dialogs_take_the_focus_and_give_it_back(screen: Screen) -> None:
    screen.run("document.getElementById('keys').focus(); document.getElementById('keys').click()")
    screen.until("return document.activeElement.closest('dialog') !== null")
    screen.press("Escape")
    screen.until("return document.activeElement.id === 'keys'")


def test_ten_thousand_pictures_are_scrolled_with_few_in_the_page(screen: Screen) -> None:
    script = """const { Grid } = await import('/static/grid.js'); const done = arguments[0];
        const grid = new Grid({label: 'many'}); const main = document.getElementById('main');
        main.className = 'full'; main.replaceChildren(grid.box);
        grid.set(Array.from({length: 12000}, (_, i) => i % 240));
        const seen = []; let most = 0;
        for (let y = 0; y < grid.box.scrollHeight; y += grid.box.scrollHeight / 40) {
          grid.box.scrollTop = y; await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);
          most = Math.max(most, document.querySelectorAll('.tile').length);
          seen.push(grid.tiles.size > 0);
        }
        done([most, seen.every(Boolean), Number([...grid.tiles.keys()].at(-1))])"""
    most, always, last = screen.driver.execute_async_script(f"(async () => {{ {script} }}).apply(null, arguments)")
    assert always
    assert most < 200
    assert last > 11_000
