"""Every action of the workbench by mouse, by touch and by keyboard."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from windows import Hands, Screen

from newkinds.corrections import State
from newkinds.runs import RunFolder
from newkinds.runs.journal import Journal

pytestmark = pytest.mark.browser


@pytest.fixture(params=["touch", pytest.param("mouse", marks=pytest.mark.slow),
                        pytest.param("keyboard", marks=pytest.mark.slow)])  # fmt: skip
def hands(request: pytest.FixtureRequest, screen: Screen) -> Iterator[Hands]:
    """Return hands over the page. Mouse and keyboard are also tried one by one, in test_app_browser.py."""
    yield Hands(screen, request.param)
    Hands(screen, "mouse")  # no touch any more


class Story:
    """A page, its run, and how many lines its journal has."""

    def __init__(self, hands: Hands, run: Path) -> None:
        self.hands, self.screen, self.run, self.lines = hands, hands.screen, run, 0

    @property
    def state(self) -> State:
        return Journal.open(RunFolder.open(self.run)).state

    def said(self) -> State:
        """Wait until one more line is on the disk and on the page, and return what holds."""
        self.lines += 1
        self.screen.version(self.lines)
        time.sleep(0.3)  # the page shows other pictures now: a finger would wait, too
        return self.state

    def kinds(self, rows: list[int]) -> set[str]:
        return {self.state.kind_of(self.state.names[row]) for row in rows}

    def open(self, kind: str) -> list[int]:
        """Open a kind by its card, and return its pictures in sight."""
        self.screen.go("#/")
        self.hands.press(f".card[data-kind='{kind}'] h2 a")
        self.screen.until("return document.querySelectorAll('.tile').length > 0")
        return self.screen.tiles()


def test_pictures(hands: Hands, run: Path) -> None:
    """Move, undo, redo, none, a new kind, confirm, by likeness, enlarge."""
    story = Story(hands, run)
    rows = story.open("new:1")[:2]
    hands.pick(rows)
    hands.press("#tray button", "Move to ...")
    hands.press("dialog [data-kind='new:4']")
    story.said()
    assert story.kinds(rows) == {"new:4"}
    hands.press("#undo")
    story.said()
    assert story.kinds(rows) == {"new:1"}
    hands.press("#redo")
    story.said()
    assert story.kinds(rows) == {"new:4"}
    for text, kind in (("None of these", "none"), ("New kind", "new:6"), ("Right here", "new:1")):
        story.screen.until("return document.getElementById('tray').hidden")
        one = story.screen.tiles()[:1]
        hands.pick(one)
        hands.press("#tray button", text)
        story.said()
        assert story.kinds(one) == {kind}
        assert story.state.confirmed[one].all()
    story.screen.until("return document.getElementById('tray').hidden")
    row = story.screen.tiles()[3]
    hands.pick([row])
    hands.press("#tray button", "Similar to this")
    story.screen.until("return document.querySelector('.tile').dataset.row === String(arguments[0])", row)
    hands.press("#tray button", "Clear")
    story.screen.until("return document.getElementById('tray').hidden")
    hands.pick([row], long=True)
    story.screen.until(
        "const i = document.querySelector('dialog .large img'); return i && i.complete && i.naturalWidth"
    )
    hands.press("dialog button", "Close")
    story.screen.until("return !document.querySelector('dialog')")


def test_kinds(hands: Hands, run: Path) -> None:
    """Name, split around pictures and in a number of parts, accept, reject, open again; merge several at once."""
    story = Story(hands, run)
    rows = story.open("new:1")
    hands.press("#name")
    for letter in "star":
        story.screen.press(letter)
    story.screen.press("Enter")
    assert story.said().called == {"new:1": "star"}
    hands.pick([rows[0], rows[5]])
    hands.press("#tray button", "Split around these")
    hands.press("dialog button", "Split")
    assert "new:6" in story.said().sizes
    hands.press("main button", "Split ...")
    hands.press("dialog button", "Split")
    assert "new:7" in story.said().sizes
    hands.press("main button", "Accept")
    assert story.said().status == {"new:1": "accepted"}
    hands.press("main button", "Open again")
    assert story.said().status == {}
    hands.press("main button", "Not a kind")
    assert story.said().status == {"new:1": "rejected"}
    story.screen.go("#/")
    for kind in ("new:2", "new:3", "new:4"):
        hands.press(f".card[data-kind='{kind}'] input")
    hands.press(".viewbar button", "Merge")
    hands.press("dialog button", "Merge")
    assert story.said().merged == {"new:3": "new:2", "new:4": "new:2"}


def test_questions_suggestions_and_the_map(hands: Hands, run: Path) -> None:
    story = Story(hands, run)
    story.screen.go("#/next")
    story.screen.until("return document.querySelectorAll('.tile').length > 5")
    hands.press(".answers button", "Yes, all of them")
    assert len(story.said().status) == 1
    story.screen.go("#/suggestions")
    story.screen.until("return document.querySelectorAll('.elsewhere .tile').length > 5", seconds=60)
    hands.pick(story.screen.tiles()[:1])
    hands.press(".elsewhere button", "Move only the 1 picked")
    story.said()
    story.screen.go("#/map")
    story.screen.until("return !!(window.newkindsMap && newkindsMap.size.width)", seconds=60)
    if hands.name == "keyboard":
        story.screen.run("newkindsMap.canvas.focus()")
        story.screen.press("ArrowRight")
        story.screen.press(" ")
    else:
        x, y = story.screen.run(
            """const box = newkindsMap.canvas.getBoundingClientRect();
            const { kind, kinds } = newkindsMap.data;
            const one = newkindsMap.toScreen(kind.findIndex((k) => kinds[k] === 'new:2'));
            return [box.left + one[0], box.top + one[1]]"""
        )
        hands.loop([(x - 25, y - 25), (x + 25, y - 25), (x + 25, y + 25), (x - 25, y + 25), (x - 25, y - 20)])
    rows = story.screen.until("return newkindsMap.picked.size && [...newkindsMap.picked]")
    hands.press("#tray button", "New kind")
    story.said()
    assert len(story.kinds(rows)) == 1
    hands.press("#again")
    hands.press("dialog button", "Not now")
    story.screen.until("return !document.querySelector('dialog')")
    assert story.screen.complaints() == []
