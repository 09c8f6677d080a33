"""Lines of JSON that are hashed to the one before: a file of them can only be appended to without being noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from newkinds.errors import RunError
from newkinds.files import digest

HASH = "sha256"  # the key of a line's hash: of the hash before, and of the line without its own


class BrokenJournalError(RunError):
    """A journal is not what was written, or about other pictures. line: the number of the first that is wrong."""

    def __init__(self, message: str, *, hint: str, line: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.line = line


@dataclass(frozen=True)
class Link:
    """A line as plain values, its hash, and where it ends in the file."""

    values: dict[str, Any]
    hash: str
    end: int


def sealed_line(values: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """Return a line with its hash in it, and the hash. before: that of the line before, "" of the first."""
    mark = digest(f"{before}\n{_as_json(values)}".encode())
    return f"{_as_json({**values, HASH: mark})}\n".encode(), mark


def links(data: bytes, before: str, start: int) -> Iterator[Link]:
    """Yield the whole lines in some bytes; raise a ValueError at the first that is not what was written.

    before: the hash of the line before them. start: where they begin in the file.
    """
    position = 0
    while (end := data.find(b"\n", position) + 1) > 0:
        text = data[position:end]
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None
        if not isinstance(values, dict):
            raise ValueError("it is no table")
        values.pop(HASH, None)
        again, before = sealed_line(values, before)
        if again != text:
            raise ValueError("its hash differs")
        yield Link(values, before, start + end)
        position = end


def _as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
