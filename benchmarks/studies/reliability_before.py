"""Run the attacks of tests/hold/test_attacks.py on an older checkout of newkinds, and count by promise how they end.

TREE is a throw-away checkout of that code (git worktree add --detach TREE eb60424, an earlier version).
What of the tests needs code that it does not have counts as not run, and not as broken. A test without an answer after
some minutes (code that waits for a process that does not exist, say) is ended, and counts as broken. Every end is
written at once into TREE/attacks/ends.jsonl: the same line goes on after the last, --again begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from newkinds_bench.house import HOUSE
from studies.reliability import PAGE
from studies.tools.results import RESULTS, put_table

FILE = RESULTS / "reliability-before.json"
TESTS = HOUSE.parent / "tests"
ENDS = ("broken", "held", "not run")
UNANSWERED = "no answer"
OTHERWISE = {  # by how names begin, looked at one by one: what is asserted is not what was promised then
    "test_arrays_that_are_to_be_scanned": "held",  # they were refused, in other words
    "test_a_signal_does_not_crash_the_map": "not run",  # half of it is about a function that is new
    "test_kinds_of_a_single_picture": "held",  # they were refused
    "test_output[$N cache > /dev/full": "held",  # the disk was called full, in other words
    "test_pipes_among_pictures_are_left_out": "held",  # they were refused, without the reason
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
PLUGIN = """import json, os, re
import pytest

ENDS = os.environ["ENDS"]
LATER = re.compile("unexpected keyword argument|cannot import name|No module named 'newkinds|Usage: newkinds|"
                   "extra.unlike|('module' object|module '|<module |<later.Missing).* has no attribute")


def write(item, end, told=""):
    with open(ENDS, "a") as stream:
        stream.write(json.dumps([item.get_closest_marker("promise").args[0], item.name, end, told]) + "\\n")


def pytest_collection_modifyitems(config, items):
    done = set()
    if os.path.exists(ENDS):
        with open(ENDS) as stream:
            done = {json.loads(line)[1] for line in stream}
    kept = [item for item in items if item.get_closest_marker("promise") and item.name not in done]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    write(item, "begun")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" or (call.when == "setup" and not report.passed):
        told = "" if call.excinfo is None else str(call.excinfo.value)
        missing = report.skipped or call.when == "setup" or LATER.search(told)
        end = "held" if report.passed else "not run" if missing else "broken"
        write(item, end, told[:200])
    return report
"""


def main() -> None:
    """Run them, keep the counts and put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="a checkout of the older code")
    parser.add_argument("--again", action="store_true", help="forget how tests ended, and run all of them anew")
    parser.add_argument("--seconds", type=int, default=300, help="how long a test may take; default %(default)s")
    given = parser.parse_args()
    tree = given.tree.resolve()
    place = tree / "attacks"
    if given.again:
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(exist_ok=True)
    adapt(place)
    while attack(tree, place, given.seconds):
        pass
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=tree, capture_output=True, text=True)
    counts: dict[str, dict[str, int]] = {}
    ends = read(place)
    for name, (promise, end, _) in ends.items():
        counted = next((other for begin, other in OTHERWISE.items() if name.startswith(begin)), end)
        counts.setdefault(promise, dict.fromkeys(ENDS, 0))[counted] += 1
    unanswered = sorted(name for name, (_, _, told) in ends.items() if told.startswith(UNANSWERED))
    result = {"commit": commit.stdout.strip(), "attacks": counts, "no answer": unanswered}
    FILE.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    put_table(PAGE, "before", table(counts))


def attack(tree: Path, place: Path, seconds: int) -> bool:
    """Run the tests that have not ended yet; return whether one of them ended the program, and others are to follow."""
    line = [sys.executable, "-m", "pytest", str(place / "test_attacks.py"), "-q", "-p", "no:cacheprovider", "-n", "0"]
    # A thread that ends the program: what waits in a library hears no signal.
    line += ["-m", "not slow", "-c", os.devnull, "-p", "ending", f"--timeout={seconds}", "--timeout-method=thread"]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{place}", "ENDS": str(place / "ends.jsonl")}
    program = subprocess.Popen(line, env=environment, cwd=place, start_new_session=True)
    code = program.wait()
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)  # what a test has started, and that did not end with it
    begun = [(name, promise) for name, (promise, end, _) in read(place).items() if end == "begun"]
    with (place / "ends.jsonl").open("a", encoding="utf-8") as stream:
        for name, promise in begun:
            told = f"{UNANSWERED} after {seconds} s, or it ended the program, with {code}"
            stream.write(json.dumps([promise, name, "broken", told]) + "\n")
    return bool(begun)


def read(place: Path) -> dict[str, tuple[str, str, str]]:
    """Return by the name of each test its promise, how it ended, and what was told."""
    file = place / "ends.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {name: (promise, end, told) for promise, name, end, told in map(json.loads, lines)}


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
