"""Limits on what one picture, or many threads with a picture each, may take: parts of a file, and memory."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from newkinds.errors import DataError

MAX_READS = 100_000  # of a file, beyond one for each READ_BYTES: each takes microseconds
READ_BYTES = 1024  # encoders write parts of thousands of bytes, an attack ones of four
MAX_HEADER = 1 << 24  # bytes of a JPEG before its pixels: Pillow copies all EXIF read so far for each further segment


class ImageError(DataError):
    """A file is not a picture that can be used; the text is the reason on one line."""


class Meter:
    """Counts how often a file is read and how many bytes that gave, and ends what would take for ever."""

    def __init__(self) -> None:
        self.header = False  # whether a header is being read
        self._reads = 0
        self._bytes = 0

    def count(self, data: bytes) -> bytes:
        """Return what was read, or raise an ImageError if that was one part too many."""
        self._reads += 1
        self._bytes += len(data)
        if self._reads > MAX_READS + self._bytes // READ_BYTES:
            raise ImageError(f"made of too many small parts (more than {MAX_READS:,})")
        if self.header and self._bytes > MAX_HEADER:
            raise ImageError(f"its header is longer than {MAX_HEADER:,} bytes")
        return data


class MeteredBytes(io.BytesIO):
    """A file in memory."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.meter = Meter()

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as `io.BytesIO` does, and count it."""
        return self.meter.count(super().read(size))


class MeteredFile(io.BufferedReader):
    """A file on disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(open(path, "rb", buffering=0))  # noqa: SIM115  closed with this
        self.meter = Meter()

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as `io.BufferedReader` does, and count it."""
        return self.meter.count(super().read(size))


class Room:
    """Memory that threads share: who needs some waits until there is enough of it, or nobody else has any.

    A thread may wait for one room while it has some of another, always in the same order: files, then pixels.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def of(self, need: int) -> Iterator[None]:
        """Take `need` bytes for the duration of the block."""
        with self._changed:
            self._changed.wait_for(lambda: need == 0 or self._taken == 0 or self._taken + need <= self.size)
            self._taken += need
        try:
            yield
        finally:
            with self._changed:
                self._taken -= need
                self._changed.notify_all()


FILES = Room(1 << 30)  # as much as the largest file
PIXELS = Room(1 << 30)  # about what a picture of MAX_PIXELS takes
