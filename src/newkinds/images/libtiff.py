"""The words of libtiff, which it would print to standard error by itself: kept for the file that they are about.

Pillow passes on that decoding failed, but not why, and nothing at all where libtiff goes on after an error. So its
handler of errors is replaced, where that can be done: in Pillow's own copy of it, on Linux.
"""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_MACHINES = ("x86_64", "aarch64")  # on which a va_list is passed on as a pointer
_LONGEST = 200

_said = threading.local()


@contextmanager
def libtiff_errors() -> Iterator[list[str]]:
    """Yield a list to which each error of libtiff in this thread is added, as one line, until the block ends."""
    _install()
    _said.errors = []
    try:
        yield _said.errors
    finally:
        _said.errors = None


@cache
def _install() -> Any:
    """Set the handlers once, and return what must not be freed; None where it cannot be done."""
    library = _loaded()
    if library is None:
        return None
    try:
        form = ctypes.CDLL(None).vsnprintf
        form.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)

        def keep(module: bytes | None, words: bytes, values: int) -> None:
            errors = getattr(_said, "errors", None)
            if errors is None:
                return
            text = ctypes.create_string_buffer(_LONGEST)
            form(text, _LONGEST, words, values)
            errors.append(" ".join(text.value.decode("ascii", "backslashreplace").split()).rstrip("."))

        handlers = kind(keep), kind(lambda *_: None)
        library.TIFFSetErrorHandler.argtypes = library.TIFFSetWarningHandler.argtypes = (kind,)
        library.TIFFSetErrorHandler(handlers[0])
        library.TIFFSetWarningHandler(handlers[1])
    except (AttributeError, OSError, ctypes.ArgumentError):
        return None
    return handlers, library


def _loaded() -> ctypes.CDLL | None:
    """Return the libtiff that is loaded in this process."""
    if platform.system() != "Linux" or platform.machine() not in _MACHINES:
        return None
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/libtiff" in line}
        return ctypes.CDLL(sorted(paths)[0]) if paths else None
    except (OSError, IndexError):
        return None
