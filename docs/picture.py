"""Take the README's picture: python docs/picture.py, after `make demo`. Needs chromium and chromedriver."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from selenium import webdriver

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "runs" / "demo" / "report" / "index.html", ROOT / "docs" / "report.png"


def main() -> None:
    """Open the demo's report and save what a browser window shows of it."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in (
            "headless=new",
            "no-sandbox",
            "disable-gpu",
            "enable-unsafe-swiftshader",  # WebGL without a graphics card
            "hide-scrollbars",
            "window-size=1180,1480",
            f"user-data-dir={profile}",
        ):
            options.add_argument(f"--{flag}")
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            browser.get(PAGE.as_uri())
            time.sleep(1)  # the map draws itself after the page has loaded
            browser.save_screenshot(str(PICTURE))
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
