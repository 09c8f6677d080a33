"""The log of a run, a line of JSON for each epoch: only appended to, and hashed up to where a stage ended."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from newkinds.files import digest, open_plain
from newkinds.training import Record

Mark = dict[str, Any]  # {"bytes": how many from the beginning, "sha256": their hash}


class RunLog:
    """log.jsonl of a run folder."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lines: set[str] | None = None  # of which a continued run need not write any twice

    def read(self) -> bytes:
        """Return its bytes, none if there is no log."""
        return self.file.read_bytes() if self.file.is_file() else b""

    def append(self, record: Record) -> None:
        """Append a record, unless the same one is there: a run that is continued repeats some."""
        if self._lines is None:
            self._lines = set(self.read().decode("utf-8", "replace").splitlines())
        line = json.dumps(record)
        if line in self._lines:
            return
        self._lines.add(line)
        with open(open_plain(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as stream:
            stream.write(f"{line}\n".encode())

    def mark(self) -> Mark:
        """Return how long the log is and what hash it has, after making sure that it survives a loss of power."""
        if self.file.is_file():
            descriptor = open_plain(self.file, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        data = self.read()
        return {"bytes": len(data), "sha256": digest(data)}

    def is_intact(self, marks: Iterable[Mark]) -> list[bool]:
        """Return of each mark whether the log still begins as it did then."""
        data = self.read()
        return [_holds(data, mark) for mark in marks]

    def is_whole(self, marks: Iterable[Mark]) -> bool:
        """Return whether the log is as it was at each of the marks, and ends at the last of them."""
        marks = list(marks)
        longest = max((mark["bytes"] for mark in marks), default=0)
        return all(self.is_intact(marks)) and len(self.read()) == longest

    def cut(self, marks: Iterable[Mark]) -> None:
        """Cut off what comes after the last of the marks that hold: nothing tells whether that is what was written."""
        data = self.read()
        length = max((mark["bytes"] for mark in marks if _holds(data, mark)), default=0)
        self._lines = None
        if len(data) > length:
            descriptor = open_plain(self.file, os.O_WRONLY)
            try:
                os.ftruncate(descriptor, length)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def end_line(self) -> None:
        """End a line that was half-written when the run was killed, so that the next one is separate."""
        data = self.read()
        if data and not data.endswith(b"\n"):
            with open(open_plain(self.file, os.O_WRONLY | os.O_APPEND), "ab") as stream:
                stream.write(b"\n")

    def records(self) -> list[Record]:
        """Return the records, the last one of each stage and epoch."""
        records: dict[tuple[Any, ...], Record] = {}
        for line in self.read().decode("utf-8", "replace").splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue  # the line that was being written when the run was killed
            if isinstance(record, Mapping):
                records[str(record.get("stage")), str(record.get("epoch"))] = dict(record)
        return list(records.values())


def is_mark(value: Any) -> bool:
    """Return whether a value has the form of a mark."""
    return isinstance(value, dict) and isinstance(value.get("bytes"), int) and isinstance(value.get("sha256"), str)


def _holds(data: bytes, mark: Mark) -> bool:
    length: int = mark["bytes"]
    return 0 <= length <= len(data) and hashlib.sha256(data[:length]).hexdigest() == mark["sha256"]
