"""Cells of CSV tables that a spreadsheet shows as text, whatever a picture or a kind is called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")  # how a cell begins that a spreadsheet may compute, behind apostrophes


def safe_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula: with an apostrophe before it, if need be."""
    return f"'{text}" if _FORMULA.match(text) else text


def by_cell(names: Sequence[str]) -> dict[str, str]:
    """Return names by what a table that is read may have: each as it is, as a `safe_cell`, and without blanks around.

    Blanks around a cell are lost when it is read. What would then be two names is neither of them.
    """
    bare = [(safe_cell(name).strip(), name) for name in names]
    often = Counter(cell for cell, _ in bare)
    found = {cell: name for cell, name in bare if often[cell] == 1}
    return found | {safe_cell(name): name for name in names} | {name: name for name in names}


def plain_cell(cell: str) -> str:
    """Return the text of such a cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
