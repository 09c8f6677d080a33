"""A real browser to look at the page with, and a real run."""

from __future__ import annotations

import base64
import io
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_runs import NASTY, MakeData, a_hundred_thousand, build, flat_colours
from numpy.typing import NDArray
from PIL import Image

from newkinds.report import write_report


class Screen:
    """A page open in the browser, with the few things that the tests do to it."""

    def __init__(self, driver: Any, page: Path) -> None:
        self.driver = driver
        driver.get_log("browser")
        driver.get_log("performance")
        self.look()
        driver.get(page.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def look(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the size of the screen and its theme."""
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def painted(self) -> None:
        """Wait until what was asked for is on the screen."""
        wait = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        self.driver.execute_async_script(wait)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        event = {"type": kind, "x": x, "y": y, **more}
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    def press(self, *keys: str) -> None:
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
                self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, "key": key, **text})

    def map_into_view(self) -> None:
        self.run("document.getElementById('map').scrollIntoView({behavior: 'instant'})")
        time.sleep(0.3)  # the wheel counts as scrolling for a moment after the page moved

    def place(self, point: int) -> tuple[float, float]:
        """Return where a point of the map is, in the window."""
        script = """const box = newkinds.map.canvas.getBoundingClientRect();
            const [x, y] = newkinds.map.toScreen(arguments[0]); return [box.left + x, box.top + y]"""
        x, y = self.run(script, point)
        return x, y

    def drag(self, path: list[tuple[float, float]], modifiers: int = 0) -> None:
        """Press the mouse at the first place, move it along and let go at the last; modifiers: 8 is Shift."""
        self.mouse("mousePressed", *path[0], button="left", clickCount=1, modifiers=modifiers)
        for place in path[1:]:
            self.mouse("mouseMoved", *place, button="left", modifiers=modifiers)
        self.mouse("mouseReleased", *path[-1], button="left", clickCount=1, modifiers=modifiers)
        self.painted()

    def set(self, element: str, value: Any, event: str) -> None:
        """Give a field a value as a person would, with the event that tells the page."""
        script = """const e = document.getElementById(arguments[0]); e.value = arguments[1];
            e.dispatchEvent(new Event(arguments[2], {bubbles: true}))"""
        self.run(script, element, value, event)

    def hover(self, point: int) -> None:
        self.mouse("mouseMoved", *self.place(point))
        self.painted()

    def text(self, element: str) -> str:
        return str(self.run("return document.getElementById(arguments[0]).textContent", element))

    def show_pictures(self, path: Path) -> None:
        """Show the pictures on the map, and keep a picture of it."""
        self.look()
        self.map_into_view()
        self.run("document.querySelector('[data-tool=pictures]').click()")
        time.sleep(0.5)
        self.save(path)

    def pixels(self) -> Any:
        self.painted()
        png = base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", {})["data"])
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)

    def colour_of(self, selector: str) -> Any:
        """Return the colour in the middle of an element, as it is on the screen."""
        box = self.run(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.left + b.width / 2, "
            "b.top + b.height / 2]",
            selector,
        )
        return self.pixels()[round(box[1]), round(box[0])]

    def save(self, path: Path, whole: bool = False) -> None:
        """Keep a picture of the window, or of the whole page, for people to look at."""
        options: dict[str, Any] = {}
        if whole:
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000), "scale": 1}
            options = {"captureBeyondViewport": True, "clip": clip}
        self.painted()
        path.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]))

    def complaints(self) -> list[str]:
        """Return what the browser's console says, but for remarks of its software WebGL on its own speed."""
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        return [message for message in messages if "GL Driver Message" not in message]

    def requests(self) -> list[str]:
        """Return the address of everything that the browser asked for, but for the parts of its own first page."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        sent = [url for url in sent if not url.startswith(("chrome:", "chrome-untrusted:"))]
        return sent + self.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")


@pytest.fixture(scope="session")
def make_data() -> MakeData:
    """Return `build`."""
    return build


@pytest.fixture(scope="session")
def nasty() -> tuple[str, ...]:
    """Return file names of the sort that breaks pages."""
    return NASTY


@pytest.fixture(scope="session")
def flat() -> Callable[..., NDArray[np.uint8]]:
    """Return `flat_colours`."""
    return flat_colours


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Return the folder in which the browser tests leave what they saw."""
    folder = Path(__file__).parents[2] / "test-output" / "report"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start Chromium without a window and with an empty profile, once for all tests."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("chromium and chromedriver are not installed (Debian: apt install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "enable-unsafe-swiftshader",  # WebGL without a graphics card; the page is our own
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "hide-scrollbars",
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def pages(make_data: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that writes a report once for each set of arguments."""
    made: dict[str, Path] = {}

    def page(name: str, *args: Any, **kwargs: Any) -> Path:
        if name not in made:
            made[name] = write_report(make_data(*args, **kwargs), tmp_path_factory.mktemp(name))
        return made[name]

    return page


@pytest.fixture
def open_page(browser: Any) -> Callable[[Path], Screen]:
    """Return a function that opens a page from disk."""
    return lambda page: Screen(browser, page)


@pytest.fixture(scope="session")
def real_run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small real run, with its page."""
    import newkinds as nk

    changes = {
        "pretrain": {"epochs": 3},
        "rehearse": {"rehearsals": 1},
        "discover": {"warmup_epochs": 2, "epochs": 6, "snapshots": 3, "settled": 0},
        "network": "vgg6-4-2-slim",
    }
    out = tmp_path_factory.mktemp("real") / "run"
    nk.discover(photos / "known", photos / "unsorted", out=out, kinds=3, truth="folders", settings=changes)
    return out


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a made-up run of 100,000 pictures."""
    data = a_hundred_thousand()
    started = time.monotonic()
    page = write_report(data, tmp_path_factory.mktemp("large"))
    print(f"page of {page.stat().st_size / 1e6:.1f} MB in {time.monotonic() - started:.0f} s")
    return page


@pytest.fixture(scope="session")
def shut_out(axe: str) -> Callable[[Screen], list[Any]]:
    """Return a function that lists what axe-core calls serious or critical on a page."""

    def found(screen: Screen) -> list[Any]:
        screen.painted()
        screen.run(axe + "; window.axe = axe")
        violations = screen.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then((r) => arguments[0](r.violations))"
        )
        return [
            (v["id"], v["impact"], [node["html"][:200] for node in v["nodes"][:3]])
            for v in violations
            if v["impact"] in ("serious", "critical")
        ]

    return found
