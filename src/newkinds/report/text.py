"""Formatting of numbers and names for people."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from typing import Any

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINERS = "\u200c\u200d"  # invisible, but emoji and several scripts are written with them
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def visible(text: str) -> str:
    """Escape control, bidirectional and undecodable characters, so that a name is shown as it is.

    A file name may contain a newline, a character that reverses the rest of the line, or bytes that are not text
    (surrogates, which no UTF-8 file can contain).
    """
    return "".join(_escape(c) if unicodedata.category(c) in _INVISIBLE and c not in _JOINERS else c for c in text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that could not be decoded (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    return _NAMED.get(char) or (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def whole(value: int) -> str:
    """Format an integer with thousands separators."""
    return f"{value:,}"


def plural(value: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun: "1 picture", "1,200 pictures"."""
    return f"{whole(value)} {one if value == 1 else many or one + 's'}"


def percent(share: float | None, digits: int = 1) -> str:
    """Format a share as a percentage, never rounding to 0% or 100% what is neither."""
    if share is None or not math.isfinite(share):
        return "–"
    step = 10.0**-digits
    value = share * 100
    if 0 < value < step / 2:
        return f"<{step:.{digits}f}%"
    if 100 - step / 2 < value < 100:
        return f">{100 - step:.{digits}f}%"
    return f"{value:.{digits}f}%" if value not in (0, 100) else f"{value:.0f}%"


def of_100(share: float) -> int:
    """Return a share as a whole number of 100, never 0 or 100 for what is neither."""
    return round(share * 100) if share in (0, 1) else min(99, max(1, round(share * 100)))


def cases(share: float) -> str:
    """Format how often something happens: "8 of 10", "85 of 100"."""
    tenths = round(share * 10)
    return f"{tenths} of 10" if abs(share * 10 - tenths) < 0.05 and 0 < tenths < 10 else f"{of_100(share)} of 100"


def number(value: float | None) -> str:
    """Format a number with three significant digits."""
    if value is None or not math.isfinite(value):
        return "–"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}"
    digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def kind_name(column: str, called: Mapping[str, str]) -> str:
    """Return the name of a kind: as people called it; else its number in the run's table, or that of a known kind."""
    sort, _, own = column.partition(":")
    if column in called:
        return visible(called[column])
    return "None of these" if sort == "none" else visible(own) if sort == "known" else f"Kind {own}"


def flat_settings(settings: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (table, [(key, value), ...]) for each table of nested settings, in their order, the top level first."""
    tables: dict[str, list[tuple[str, str]]] = {}

    def walk(table: dict[str, Any], path: tuple[str, ...]) -> None:
        rows = tables.setdefault(".".join(path), [])
        for key, value in table.items():
            if isinstance(value, dict):
                walk(value, (*path, visible(str(key))))
            else:
                rows.append((visible(str(key)), _setting(value)))

    walk(settings, ())
    return [(name, rows) for name, rows in tables.items() if rows]


def _setting(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(_setting(v) for v in value) or "none"
    if isinstance(value, str):
        return visible(value)
    return json.dumps(value, default=lambda v: visible(str(v)))
