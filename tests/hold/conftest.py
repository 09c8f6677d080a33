"""Promises, and how often each was tried: what `benchmarks/study.py reliability` keeps of the tests here.

A test with the mark `promise("...")` counts as one try, or as what it adds to its `tally`. Where the variable
NEWKINDS_RELIABILITY names a file, every outcome becomes a line of it, and what is there already is not tried again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Commands
from tallies import Tally

from newkinds.version import __version__

RESULTS = "NEWKINDS_RELIABILITY"
ROOT = Path(__file__).parents[2]
_TALLY = pytest.StashKey[Tally]()


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """Return every command that writes, over a folder with a finished run in it."""
    return Commands(tmp_path_factory.mktemp("commands"))


@pytest.fixture(autouse=True, scope="session")
def impatient() -> Iterator[None]:
    """Let readers of a damaged file not wait a second for somebody to write it: here, nobody does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("newkinds.runs.folder._SETTLED", 0.01)
        yield


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    request.node.stash[_TALLY] = Tally()
    found: Tally = request.node.stash[_TALLY]
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is recorded, if outcomes are."""
    if RESULTS not in os.environ:
        return
    held = {line["test"] for line in recorded(Path(os.environ[RESULTS])) if line["held"]}
    kept = [item for item in items if item.get_closest_marker("promise") and _name(item) not in held]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def recorded(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of outcomes, the last one of each test."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return list({line["test"]: line for line in map(json.loads, lines)}.values())


def _name(item: pytest.Item) -> str:
    return f"{item.path.relative_to(ROOT)}::{item.name}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    report: Any = yield
    mark = item.get_closest_marker("promise")
    if call.when == "call" and mark is not None and RESULTS in os.environ and report.outcome != "skipped":
        found = item.stash.get(_TALLY, None)
        line: dict[str, Any] = {
            "promise": mark.args[0],
            "test": _name(item),
            "held": report.outcome == "passed",
            "tried": 1 if found is None else found.outcomes.total(),
            "outcomes": {} if found is None else dict(sorted(found.outcomes.items())),
            "most": {} if found is None else {key: round(value, 3) for key, value in sorted(found.most.items())},
            "seconds": round(call.duration, 1),
            "version": __version__,
            "day": time.strftime("%Y-%m-%d"),
        }
        with open(os.environ[RESULTS], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
    return report  # type: ignore[return-value]
