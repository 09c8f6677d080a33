"""Cells of CSV tables that a spreadsheet shows as text, whatever a picture or a kind is called."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # how a cell begins that a spreadsheet may compute, behind apostrophes


def safe_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula: with an apostrophe before it, if need be."""
    return f"'{text}" if _FORMULA.match(text) else text


def plain_cell(cell: str) -> str:
    """Return the text of such a cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
