"""Try every promise of docs/reliability.md many times and keep how each try ended; the same line again goes on."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from newkinds_bench.house import DOCS, HOUSE
from studies.tools.results import RESULTS, put_table

FILE = RESULTS / "reliability.jsonl"
PAGE = DOCS / "reliability.md"
TESTS = HOUSE.parent / "tests" / "hold"


def main() -> None:
    """Run the tests of promises that are not recorded yet, and put the table of all into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those whose name matches, as in pytest -k")
    parser.add_argument("--again", action="store_true", help="forget what is recorded, and try all of it anew")
    parser.add_argument("--render", action="store_true", help="only make the table from what is recorded")
    chosen = parser.parse_args()
    if chosen.again and not chosen.only:
        FILE.unlink(missing_ok=True)
    if not chosen.render:
        line = [sys.executable, "-m", "pytest", str(TESTS), "-m", "", "-q", "-p", "no:cacheprovider", "-n", "0"]
        environment = {**os.environ, "NEWKINDS_RELIABILITY": str(FILE)}
        subprocess.run([*line, "-k", chosen.only], env=environment, cwd=HOUSE.parent, check=False)
    render(read())


def read() -> list[dict[str, Any]]:
    """Return the last outcome of each test."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return list({line["test"]: line for line in map(json.loads, lines)}.values())


def render(tests: list[dict[str, Any]]) -> None:
    """Put the table into the page."""
    put_table(PAGE, "promises", table(tests))


def table(tests: list[dict[str, Any]]) -> list[str]:
    """Return a row for each promise: the tests, how often it was tried, and how that ended."""
    lines = ["| promise | tests | tried | outcome | last tried |", "|---|---|---|---|---|"]
    for promise in sorted({test["promise"] for test in tests}):
        own = [test for test in tests if test["promise"] == promise]
        files = sorted({test["test"].split("::")[0] for test in own})
        shown = ", ".join(f"[{Path(file).name}](../{file})" for file in files)
        tried, day = sum(test["tried"] for test in own), max(test["day"] for test in own)
        lines.append(f"| {promise} | {shown} | {tried:,} | {_outcome(own)} | {day}, {own[-1]['version']} |")
    return lines


def _outcome(tests: list[dict[str, Any]]) -> str:
    """Return how tries ended in words: what is wrong first, then how many ended how, and what they took at most."""
    broken = [test["test"].split("::")[1] for test in tests if not test["held"]]
    counts: dict[str, int] = {}
    most: dict[str, float] = {}
    for test in tests:
        for name, number in (test["outcomes"] or {"held": test["tried"]}).items():
            counts[name] = counts.get(name, 0) + number
        for name, value in test["most"].items():
            most[name] = max(value, most.get(name, value))
    parts = [f"**broken: {', '.join(broken)}**"] if broken else []
    parts += [f"{name}: {number:,}" for name, number in sorted(counts.items(), key=lambda pair: -pair[1])]
    return "; ".join([*parts, *(f"at most {value:,.1f} {name}" for name, value in sorted(most.items()))])


if __name__ == "__main__":
    main()
