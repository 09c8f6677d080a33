"""Those who look at a workbench: by requests, and with hands in a real browser."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from newkinds.app.serving import Serving, open_workbench


class Window:
    """Somebody who has opened the workbench: requests as the page sends them."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.origin = f"http://127.0.0.1:{serving.port}"
        self.http = httpx.Client(base_url=self.origin, timeout=30, verify=False)  # which spares a look at certificates

    def enter(self) -> Window:
        assert self.http.get(self.serving.url).status_code == 200
        return self

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.http.get(path, params=params or None)

    def asked(self, path: str, **params: Any) -> Any:
        answer = self.get(path, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return self.http.post(path, json=body, headers={"Origin": self.origin, **headers})

    def say(self, **action: Any) -> Any:
        answer = self.post("/api/say", {"action": action})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def kind(self, kind: str) -> Any:
        return next(one for one in self.asked("/api/state")["kinds"] if one["kind"] == kind)


def serve_elsewhere(run: Path, told: Connection) -> None:
    """Serve a workbench in a process of its own, and tell its address."""
    serving = Serving(open_workbench(run), log=lambda text: None)
    told.send(serving.url)
    serving.run()


@dataclass(frozen=True)
class House:
    """A workbench that is served for many tests, none of which changes anything."""

    run: Path
    serving: Serving
    refused: list[str]


class Screen:
    """The workbench in the browser, and what hands do to it."""

    def __init__(self, driver: Any, serving: Serving) -> None:
        self.driver = driver
        self.host = f"127.0.0.1:{serving.port}"
        driver.get_log("browser")
        driver.get_log("performance")
        self.look()
        driver.get(serving.url)
        self.until("return !!document.querySelector('.card')")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments: Any, seconds: float = 10) -> Any:
        """Wait for a script to return something true."""
        end = time.monotonic() + seconds
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < end, (
                f"{script} stayed {found!r}; the page: {self.run('return document.body.innerText')[:600]}"
            )
            time.sleep(0.03)
        return found

    def look(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the size of the screen and its theme."""
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def go(self, place: str) -> None:
        self.run("location.hash = arguments[0]", place)

    def open(self, kind: str) -> None:
        """Open a kind by its link in the overview."""
        self.go("#/")
        script = (
            "const a = document.querySelector(`.card[data-kind='${arguments[0]}'] h2 a`); if (a) a.click(); return !!a"
        )
        self.until(script, kind)
        self.until("return document.querySelectorAll('.tile').length > 0")

    def tiles(self) -> list[int]:
        """Return the rows of the pictures in sight."""
        return [
            int(row) for row in self.run("return [...document.querySelectorAll('.tile')].map((t) => t.dataset.row)")
        ]

    def click_tile(self, row: int, clicks: int = 1, modifiers: int = 0) -> None:
        """Click on a picture with a real mouse; modifiers: 8 is Shift."""
        script = """const b = document.querySelector(`.tile[data-row='${arguments[0]}']`).getBoundingClientRect();
            return [b.left + b.width / 2, b.top + b.height / 2]"""
        x, y = self.run(script, row)
        for count in range(1, clicks + 1):
            for kind in ("mousePressed", "mouseReleased"):
                event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": count, "modifiers": modifiers}
                self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    def click(self, text: str, within: str = "body") -> None:
        """Click on the button with a text, when it is there and can be pressed."""
        script = """const box = [...document.querySelectorAll(arguments[1])].at(-1);
            const all = box ? [...box.querySelectorAll('button, a')] : [];
            const found = all.find((b) => b.textContent.trim() === arguments[0] && !b.disabled);
            if (found) found.click(); return !!found"""
        self.until(script, text, within)

    def choose(self, kind: str) -> None:
        """Choose a kind in the question that is open."""
        script = (
            "const b = document.querySelector(`dialog [data-kind='${arguments[0]}']`); if (b) b.click(); return !!b"
        )
        self.until(script, kind)

    def press(self, key: str, modifiers: int = 0) -> None:
        codes = {"Enter": 13, "Escape": 27, " ": 32, "ArrowDown": 40, "ArrowRight": 39, "Home": 36}
        for kind in ("keyDown", "keyUp"):
            event = {
                "type": kind,
                "key": key,
                "modifiers": modifiers,
                "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper())),
            }
            if kind == "keyDown" and (len(key) == 1 or key == "Enter") and not modifiers & 2:
                event["text"] = "\r" if key == "Enter" else key
            self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", event)

    def version(self, expected: int) -> None:
        """Wait until the page has taken a line of the journal."""
        script = "return import('/static/store.js').then((m) => m.store.version === arguments[0])"
        self.until(script, expected)

    def text(self, selector: str) -> str:
        return str(self.run("const e = document.querySelector(arguments[0]); return e ? e.textContent : ''", selector))

    def save(self, path: Path) -> None:
        """Keep a picture of the window, for people to look at."""
        time.sleep(0.4)
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", {})["data"]))

    def complaints(self) -> list[str]:
        """Return what the browser's console says about this page, but for remarks of WebGL on its own speed."""
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        return [message for message in messages if self.host in message and "GL Driver Message" not in message]

    def hosts(self) -> set[str]:
        """Return the hosts of everything that the browser asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return {url.split("/")[2] for url in sent if url.startswith("http")}


class Hands:
    """A mouse, a finger or the keyboard, by the events that the browser itself makes of them."""

    def __init__(self, screen: Screen, name: str) -> None:
        self.screen, self.name = screen, name
        touching = {"enabled": name == "touch", **({"maxTouchPoints": 2} if name == "touch" else {})}
        screen.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", touching)

    def press(self, selector: str, text: str | None = None, *, long: bool = False) -> None:
        """Press on an element, when it is there and can be pressed. text: of a button. long: to enlarge a picture."""
        find = """const all = [...document.querySelectorAll(arguments[0])];
            const fits = (e) => !e.disabled && (arguments[1] === null || e.textContent.trim() === arguments[1]);
            const one = all.filter(fits).at(-1);
            if (!one) return null; one.scrollIntoView({block: 'nearest'}); const b = one.getBoundingClientRect();
            if (arguments[2]) one.focus(); return [b.left + b.width / 2, b.top + b.height / 2, one.type || '']"""
        x, y, kind = self.screen.until(find, selector, text, self.name == "keyboard")
        if self.name == "keyboard":
            if kind != "text":
                self.screen.press(" " if kind == "checkbox" else "Enter")
        elif self.name == "mouse":
            self._mouse(x, y, 2 if long else 1)
        else:
            self._touch("touchStart", x, y)
            if long:
                self.screen.until("return !!document.querySelector('dialog')")
            self._touch("touchEnd")

    def pick(self, rows: list[int], *, long: bool = False) -> None:
        """Pick pictures of the grid; or enlarge one."""
        for row in rows:
            if self.name != "keyboard":
                self.press(f".tile[data-row='{row}']", long=long)
                continue
            self.screen.run("document.querySelector('.grid').focus()")
            self.screen.press("Home")
            for _ in range(self.screen.tiles().index(row)):
                self.screen.press("ArrowRight")
            self.screen.press("Enter" if long else " ")

    def loop(self, points: list[tuple[float, float]]) -> None:
        """Draw a loop on the map."""
        if self.name == "touch":
            self._touch("touchStart", *points[0])
            for point in points[1:]:
                self._touch("touchMove", *point)
            time.sleep(0.2)  # a finger lifted in motion throws the page, and the next tap only stops that
            self._touch("touchEnd")
            return
        for number, (x, y) in enumerate([*points, points[-1]]):
            kind = "mousePressed" if not number else "mouseReleased" if number == len(points) else "mouseMoved"
            event = {"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
            self.screen.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    def _mouse(self, x: float, y: float, clicks: int) -> None:
        for count in range(1, clicks + 1):
            for kind in ("mousePressed", "mouseReleased"):
                event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": count}
                self.screen.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    def _touch(self, kind: str, *at: float) -> None:
        points = [{"x": at[0], "y": at[1]}] if at else []
        self.screen.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
