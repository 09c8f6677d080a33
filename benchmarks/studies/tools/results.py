"""How a study keeps what it measured, and how it comes onto a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.version import __version__
from newkinds_bench import house

RESULTS = house.RESULTS / house.STUDIES


def write_result(name: str, values: dict[str, Any]) -> None:
    """Write benchmarks/results/studies/NAME.json, with the version."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"version": __version__, **_rounded(values)}, indent=2) + "\n")
    print(f"wrote {path}")


def read_result(name: str, key: str) -> dict[str, Any]:
    """Return what benchmarks/results/studies/NAME.json has under a key, nothing where there is no such file."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text())[key]) if path.exists() else {}


def between_marks(text: str, name: str, lines: list[str]) -> str:
    """Return a page's text with lines put between its marks, <!-- NAME --> and <!-- /NAME -->."""
    block = "\n".join([f"<!-- {name} -->", *lines, f"<!-- /{name} -->"])
    return re.sub(rf"<!-- {name} -->.*<!-- /{name} -->", lambda match: block, text, flags=re.S)


def put_table(page: Path, name: str, lines: list[str]) -> None:
    """Put a table into a page, between its marks, and print it."""
    page.write_text(between_marks(page.read_text(), name, lines))
    print("\n".join(lines))


def standard_error(values: NDArray[np.float64]) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 4) if isinstance(value, float) else value
