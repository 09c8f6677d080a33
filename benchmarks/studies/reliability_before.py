"""Run the attacks of tests/hold/test_attacks.py on an older checkout of newkinds, and count by promise how they end.

TREE is a throw-away checkout of that code (git worktree add --detach TREE eb60424, an earlier version).
What of the tests needs code that it does not have counts as not run, and not as broken.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from newkinds_bench.house import HOUSE
from studies.reliability import PAGE
from studies.tools.results import RESULTS, put_table

FILE = RESULTS / "reliability-before.json"
TESTS = HOUSE.parent / "tests"
ENDS = ("broken", "held", "not run")
OTHERWISE = {  # looked at one by one: what is asserted is not what was promised then
    "test_a_signal_does_not_crash_the_map": "not run",  # half of it is about a function that is new
    "test_kinds_of_a_single_picture": "held",  # they were refused
    "test_ulimit_is_noticed_before_libraries_crash[1000000]": "held",  # the libraries took less
}
LATER = '''"""What later code has, where this code has it; otherwise, a test that uses it is not run."""

import importlib
import pytest


class Missing:
    def __call__(self, *_, **__):
        pytest.skip("not in this code")

    __truediv__ = __iter__ = __call__

    def __getattr__(self, name):
        if name.startswith(("_", "pytest")):
            raise AttributeError(name)
        return self()


def later(module, *names):
    try:
        found = importlib.import_module(module)
    except ImportError:
        found = None
    return [getattr(found, name, Missing()) for name in names]
'''
PLUGIN = """import json, os
import pytest

LATER = ("unexpected keyword argument", "has no attribute", "cannot import name", "No module named 'newkinds",
         "Usage: newkinds", "Command '[")  # the last: it did not end in time


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    mark = item.get_closest_marker("promise")
    if mark is not None and (call.when == "call" or (call.when == "setup" and not report.passed)):
        told = "" if call.excinfo is None else str(call.excinfo.value)
        missing = report.skipped or call.when == "setup" or any(text in told for text in LATER)
        end = "held" if report.passed else "not run" if missing else "broken"
        with open(os.environ["ENDS"], "a") as stream:
            stream.write(json.dumps([mark.args[0], item.name, end, told[:200]]) + "\\n")
    return report
"""


def main() -> None:
    """Run them, keep the counts and put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="a checkout of the older code")
    tree = parser.parse_args().tree.resolve()
    place = tree / "attacks"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    adapt(place)
    ends = place / "ends.jsonl"
    line = [sys.executable, "-m", "pytest", str(place / "test_attacks.py"), "-q", "-p", "no:cacheprovider", "-n", "0"]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{place}", "ENDS": str(ends)}
    subprocess.run([*line, "-m", "not slow", "-c", os.devnull, "-p", "ending"], env=environment, cwd=place, check=False)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=tree, capture_output=True, text=True)
    counts: dict[str, dict[str, int]] = {}
    for promise, name, end, _ in map(json.loads, ends.read_text(encoding="utf-8").splitlines()):
        counts.setdefault(promise, dict.fromkeys(ENDS, 0))[OTHERWISE.get(name, end)] += 1
    FILE.write_text(json.dumps({"commit": commit.stdout.strip(), "attacks": counts}, indent=1, sort_keys=True) + "\n")
    put_table(PAGE, "before", table(counts))


def adapt(place: Path) -> None:
    """Write the tests and what they need into a folder, so that they ask for later code only when they use it."""
    for name in ("test_attacks", "children", "commands", "damage", "conftest", "tallies"):
        text = (TESTS / "hold" / f"{name}.py").read_text(encoding="utf-8")
        text = re.sub(r"^from (newkinds[\w.]*) import (.+)$", _asked, text, flags=re.MULTILINE)
        text = text.replace('    "rehearse": {"rehearsals": 2, "choose": "off"},\n', "")
        text = text.replace(
            "    return nk.discover(*sets", '    given.pop("rehearsals", None)\n    return nk.discover(*sets'
        )
        text = text.replace('_SETTLED", 0.01', '_SETTLED", 0.01, raising=False')
        (place / f"{name}.py").write_text(text, encoding="utf-8")
    shutil.copyfile(TESTS / "pictures.py", place / "pictures.py")
    (place / "later.py").write_text(LATER, encoding="utf-8")
    (place / "ending.py").write_text(PLUGIN, encoding="utf-8")


def _asked(found: re.Match[str]) -> str:
    names = [name.strip() for name in found[2].partition("#")[0].split(",")]
    asked = ", ".join(f'"{name}"' for name in names)
    return f'from later import later\n({", ".join(names)},) = later("{found[1]}", {asked})'


def table(counts: dict[str, dict[str, int]]) -> list[str]:
    """Return a row for each promise, and one for all of them."""
    total = {end: sum(one[end] for one in counts.values()) for end in ENDS}
    rows = [*sorted(counts.items()), ("**all**", total)]
    lines = [f"| {promise} | {' | '.join(f'{one[end]:,}' for end in ENDS)} |" for promise, one in rows]
    return ["| promise | broke then | held then | not run |", "|---|---|---|---|", *lines]


if __name__ == "__main__":
    main()
