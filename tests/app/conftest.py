"""A workbench over a made-up run, asked directly or by a real browser."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from windows import House, Screen, Window

from newkinds.app.serving import Serving, open_workbench
from studies.tools.made_up_run import make_run


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run and its pictures, to be copied."""
    folder = tmp_path_factory.mktemp("made up")
    make_run(folder, 240, 6, wrong=0.15)
    return folder


@pytest.fixture
def run(made_up: Path, tmp_path: Path) -> Path:
    """Return a run folder of the test's own; the pictures are where they were."""
    return Path(shutil.copytree(made_up / "run", tmp_path / "shop"))


@pytest.fixture(scope="session")
def house(made_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Serve a workbench that is only looked at."""
    run, refused = Path(shutil.copytree(made_up / "run", tmp_path_factory.mktemp("house") / "shop")), list[str]()
    found = House(run, Serving(open_workbench(run), log=refused.append), refused)
    thread = threading.Thread(target=found.serving.run, daemon=True)
    thread.start()
    yield found
    found.serving.stop()
    thread.join(10)


@pytest.fixture
def locked(house: House) -> Iterator[House]:
    """Return the house as it is before anybody has come; afterwards, nothing has changed in it."""
    house.refused.clear()
    house.serving.keys._is_used = False
    yield house
    journal = house.run / "journal.jsonl"
    assert not journal.exists() or not journal.read_bytes()


@pytest.fixture
def inside(locked: House) -> Window:
    """Return somebody who is in the house."""
    return Window(locked.serving).enter()


@pytest.fixture
def refused() -> list[str]:
    """Return what the server of the test refused, as it comes."""
    return []


@pytest.fixture
def serving(run: Path, refused: list[str]) -> Iterator[Serving]:
    """Serve a workbench while a test lasts."""
    found = Serving(open_workbench(run), log=refused.append)
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()
    yield found
    found.stop()
    thread.join(10)


@pytest.fixture
def window(serving: Serving) -> Window:
    """Return somebody who is inside."""
    return Window(serving).enter()


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Return the folder in which the browser tests leave what they saw."""
    folder = Path(__file__).parents[2] / "test-output" / "app"
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
        "enable-unsafe-swiftshader",
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
def screen(browser: Any, serving: Serving) -> Screen:
    """Return the workbench in the browser."""
    return Screen(browser, serving)


@pytest.fixture
def another(browser: Any) -> Iterator[Callable[[], str]]:
    """Return a function that opens a second window and returns its handle; they are closed afterwards."""
    first, opened = browser.current_window_handle, []

    def made() -> str:
        browser.switch_to.new_window("window")
        opened.append(browser.current_window_handle)
        return str(opened[-1])

    yield made
    for handle in opened:
        browser.switch_to.window(handle)
        browser.close()
    browser.switch_to.window(first)
