"""Made-up runs to report on, and a real browser to look at the page with."""

from __future__ import annotations

import base64
import colorsys
import io
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from newkinds.count import Count, Point
from newkinds.images.imageset import Skipped
from newkinds.report import ReportData

MakeData = Callable[..., ReportData]

NASTY = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\"quotes\" & 'more' &amp; {{ 7 * 7 }}",
    "line\nbreak\r\ttab\x00null",
    "\u202egnp.exe and \u2066isolate",
    "שלום עולם.png",
    "bad bytes \udcff\udc80.png",
    "\u2028separators\u2029",
    "👩‍🔬 café ﷽.jpg",
    "very/" + "long-" * 60 + "name.png",
)


def flat_colours(n: int, side: int = 8) -> NDArray[np.uint8]:
    """Return (n, 3, side, side): each picture one colour of its own."""
    colours = [colorsys.hsv_to_rgb(i / n, 0.5 + 0.5 * (i % 2), 0.55 + 0.4 * (i % 3) / 2) for i in range(n)]
    flat = np.rint(np.asarray(colours) * 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(flat[:, :, None, None], (n, 3, side, side)))


def history(truth: bool) -> list[dict[str, Any]]:
    """Return the records of a short run."""
    records: list[dict[str, Any]] = [
        {"stage": "pretrain", "epoch": e, "loss": 2 * 0.7**e, "held_out_accuracy": 1 - 0.8**e} for e in range(8)
    ]
    for e in range(12):
        record = {"stage": "discover", "phase": "warmup" if e < 4 else "main", "epoch": e, "changed": 0.4 * 0.6**e}
        record |= {"loss": 0.5 * 0.8**e, "kl": 0.3 * 0.8**e, "consistency": 0.2 * 0.8**e}
        records.append(record | ({"acc": 0.9 - 0.3 * 0.7**e} if truth else {}))
    return records


def build(
    n: int = 60, k: int = 4, *, pictures: bool = True, with_truth: bool = True, seed: int = 0, **more: Any
) -> ReportData:
    """Return a run over n pictures in k well separated kinds."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(n, dtype=np.int64) % k
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), kinds] += 4
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    fields: dict[str, Any] = {
        "title": "a made-up run",
        "names": tuple(f"unsorted/{i:05d}.png" for i in range(n)),
        "pixels": flat_colours(n) if pictures else None,
        "kinds": kinds,
        "probabilities": probabilities.astype(np.float32),
        "features": (rng.normal(size=(k, 6))[kinds] * 6 + rng.normal(size=(n, 6))).astype(np.float32),
        "truth": tuple(f"class {kind}" for kind in kinds) if with_truth else None,
        "history": history(with_truth),
        "count": counted(k),
        "scores": {"acc": 0.93, "nmi_geometric": 0.871, "ari": 0.852, "kmeans_acc": 0.8} if with_truth else None,
        "settings": {"variant": "pi", "discover": {"epochs": 60, "rates": [0.1, 0.01], "augment": {"flip": False}}},
        "seed": seed,
        "version": "1.2.3",
        "skipped": (Skipped("broken.png", "the file ends early"),),
        "known_classes": ("cat", "dog"),
    }
    return ReportData(**(fields | more))


def counted(k: int) -> dict[str, Any]:
    """Return what Algorithm 2 might have found."""
    curve = [Point(i, 1 / (1 + abs(i - k)), 0.02, 0.2 - 0.01 * abs(i - k - 1), 0.005, float(i)) for i in range(9)]
    remarks = ("The curves are <made up>.",)
    return Count(k, k - 1, k + 2, 0.8, k, k + 1, k, (k,) * 10, tuple(curve), 0.0, remarks).to_dict()


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

    def hover(self, point: int) -> None:
        self.mouse("mouseMoved", *self.place(point))
        self.painted()

    def text(self, element: str) -> str:
        return str(self.run("return document.getElementById(arguments[0]).textContent", element))

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
        return [entry["message"] for entry in self.driver.get_log("browser")]

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


@pytest.fixture
def open_page(browser: Any) -> Callable[[Path], Screen]:
    """Return a function that opens a page from disk."""
    return lambda page: Screen(browser, page)
