"""The workbench with 50,000 pictures: first picture, scrolling, time of an action, memory.

    python benchmarks/study.py workbench_large FOLDER

FOLDER gets a made-up run with its pictures, if it does not have one; the command is then started as a user does, and a
headless Chromium opens it. Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from selenium import webdriver

from studies.tools.made_up_run import make_run
from studies.tools.results import write_result

NAME = "workbench_large"
PICTURES, KINDS, WIDTH, FEATURES = 50_000, 60, 64, 512
ACTIONS = 60
FIRST = """const done = arguments[0]; (async () => { for (;;) {
    const found = [...document.querySelectorAll('.card img')].some((i) => i.complete && i.naturalWidth);
    if (found) return done(performance.now()); await new Promise(requestAnimationFrame); } })()"""
SCROLL = """const done = arguments[0]; (async () => { const box = document.querySelector('.grid'); const gaps = [];
    let before = performance.now();
    for (let i = 0; i < 240; i += 1) { box.scrollTop += 300; await new Promise(requestAnimationFrame);
      const now = performance.now(); gaps.push(now - before); before = now; }
    done(gaps); })()"""


def memory(pid: int) -> int:
    """Return the peak memory of a process in bytes, without what it maps from files."""
    text = Path(f"/proc/{pid}/status").read_text()
    values = {
        line.split(":")[0]: line.split()[1] for line in text.splitlines() if line.startswith(("VmHWM", "RssFile"))
    }
    return (int(values["VmHWM"]) - int(values["RssFile"])) * 1024


def started(run: Path) -> tuple[subprocess.Popen[str], str, float]:
    """Start the command; return it, its address, and how long that took in seconds."""
    begun = time.monotonic()
    line = [sys.executable, "-u", "-m", "newkinds", "open", str(run), "--no-browser"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = next(text.strip() for text in process.stdout if "http://" in text)
    return process, url, time.monotonic() - begun


def actions(http: httpx.Client) -> dict[str, list[float]]:
    """Say random things, and return the seconds that each sort took."""
    draw, took = random.Random(0), dict[str, list[float]]()
    kinds = [f"new:{number}" for number in range(KINDS)]
    for number in range(ACTIONS):
        rows = draw.sample(range(PICTURES), 200)
        bodies: list[dict[str, Any]] = [
            {"do": "move", "rows": rows, "to": draw.choice(kinds)},
            {"do": "name", "kind": draw.choice(kinds), "name": f"name {number}"},
            {"do": "accept", "kinds": [draw.choice(kinds)]},
        ]
        action = bodies[number % 3]
        begun = time.monotonic()
        http.post("/api/say", json={"action": action}).raise_for_status()
        took.setdefault(action["do"], []).append(time.monotonic() - begun)
        for name, path in (("a kind", f"/api/kind?kind={draw.choice(kinds)}&order=doubtful"), ("queue", "/api/queue")):
            begun = time.monotonic()
            http.get(path).raise_for_status()
            took.setdefault(name, []).append(time.monotonic() - begun)
    for _ in range(10):
        begun = time.monotonic()
        http.get("/api/suggest").raise_for_status()
        took.setdefault("suggestions", []).append(time.monotonic() - begun)
        line = http.get("/api/state").json()["undo"]["line"]
        begun = time.monotonic()
        http.post("/api/undo", json={"line": line}).raise_for_status()
        took.setdefault("undo", []).append(time.monotonic() - begun)
    return took


def looked(url: str, http: httpx.Client) -> dict[str, Any]:
    """Open the page in a browser, and return the times of the first picture and of frames while it scrolls."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "window-size=1280,900"):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(shutil.which("chromedriver"))))
    try:
        begun = time.monotonic()
        driver.get(url)
        driver.execute_async_script(FIRST)
        first = time.monotonic() - begun
        for cookie in driver.get_cookies():
            http.cookies.set(cookie["name"], cookie["value"])
        driver.execute_script("location.hash = '#/kind/all'")
        while not driver.execute_script("return document.querySelectorAll('.tile').length"):
            time.sleep(0.05)
        gaps = sorted(driver.execute_async_script(SCROLL))
    finally:
        driver.quit()
    return {
        "first_picture_seconds": first,
        "frame_median_ms": statistics.median(gaps),
        "frame_99_ms": gaps[int(0.99 * len(gaps))],
        "frame_longest_ms": gaps[-1],
    }


def main() -> None:
    """Measure, and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    if not (folder / "run" / "kinds.csv").exists():
        make_run(folder, PICTURES, KINDS, width=WIDTH, embedding=FEATURES)
    run = Path(shutil.copytree(folder / "run", folder / "measured", dirs_exist_ok=True))
    (run / "journal.jsonl").unlink(missing_ok=True)
    process, url, command = started(run)
    try:
        origin = url.partition("/?")[0]
        with httpx.Client(base_url=origin, timeout=120, verify=False, headers={"Origin": origin}) as http:
            seen = looked(url, http)
            begun = time.monotonic()
            while not http.get("/api/suggest").json()["ready"]:
                time.sleep(0.5)
            compared = time.monotonic() - begun
            took = actions(http)
        peak = memory(process.pid)
    finally:
        process.terminate()
        process.wait()
    result = {
        "pictures": PICTURES,
        "command_seconds": command,
        **seen,
        "compared_seconds": compared,
        "median_ms": {name: 1000 * statistics.median(times) for name, times in took.items()},
        "longest_ms": {name: 1000 * max(times) for name, times in took.items()},
        "memory_mb": peak / 1e6,
    }
    for name, value in result.items():
        print(name, value)
    write_result(NAME, result)


if __name__ == "__main__":
    main()
