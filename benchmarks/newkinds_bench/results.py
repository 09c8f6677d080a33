"""The result files: one for each data set, one line of JSON for each run."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from newkinds.errors import DataError
from newkinds.files import digest, write_atomic

Result = dict[str, Any]
SHARED = ("machine", "f", "differs_from_paper")  # long, and the same for many runs: each stands in a file once


class Results:
    """A folder with a file SETUP.jsonl for each data set that has results.

    The first lines of a file hold what many of its runs share, {"shared": ID, "value": ...}; then comes one line for
    each run, {"name": ..., ...}, sorted by name, in which an ID stands for the value. A file is a function of its
    results alone: the same bytes in whatever order they were measured.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, setup: str) -> dict[str, Result]:
        """Return the results on a data set by the names of their runs."""
        file = self._file(setup)
        return _read(file) if file.exists() else {}

    def all(self) -> dict[str, Result]:
        """Return all results by the names of their runs, sorted, each with the data set as "setup"."""
        found = {
            name: {**result, "setup": file.stem}
            for file in self.folder.glob("[!.]*.jsonl")  # not what an interrupted write left
            for name, result in _read(file).items()
        }
        return dict(sorted(found.items()))

    def put(self, setup: str, name: str, result: Result) -> None:
        """Write a result, instead of the one of that name if there is one.

        Other processes may do the same at the same time, and a kill leaves the file as it was before or after.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            write_atomic(self._file(setup), _text({**self.of(setup), name: result}).encode())

    def _file(self, setup: str) -> Path:
        return self.folder / f"{setup}.jsonl"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Wait until no other process writes; the system ends the lock with the process that has it."""
        lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _text(results: Mapping[str, Result]) -> str:
    """Return the text of a file."""
    shared: dict[str, Any] = {}
    lines = []
    for name, result in sorted(results.items()):
        line = {"name": name, **result}
        for key in SHARED:
            if key in line:
                value = line[key]
                line[key] = f"{key}-{digest(_json(value).encode())[:8]}"
                shared[line[key]] = value
        lines.append(line)
    head = [{"shared": key, "value": value} for key, value in sorted(shared.items())]
    return "".join(f"{_json(line)}\n" for line in [*head, *lines])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read(file: Path) -> dict[str, Result]:
    """Return the results in a file by name."""
    shared: dict[str, Any] = {}
    found: dict[str, Result] = {}
    for number, text in enumerate(file.read_text(encoding="utf-8").rstrip("\n").split("\n"), start=1):
        try:
            line = json.loads(text)
            if "shared" in line:
                shared[line["shared"]] = line["value"]
                continue
            name = line.pop("name")
            result = {key: shared[value] if key in SHARED else value for key, value in line.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _broken(file, number, f"is no result: {type(error).__name__}, {error}") from None
        if name in found:
            raise _broken(file, number, f"is the second result called {name}")
        found[name] = result
    return found


def _broken(file: Path, number: int, what: str) -> DataError:
    return DataError(f"Line {number} of {file} {what}.", hint="Remove the line; its run can be measured again.")
