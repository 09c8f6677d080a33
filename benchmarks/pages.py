"""Put what was measured into the pages that show it: python benchmarks/pages.py.

A page has marks, <!-- NAME --> and <!-- /NAME -->; what stands between them is made from the result files alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from newkinds_bench.house import DOCS
from newkinds_bench.house import RESULTS as BENCH
from newkinds_bench.results import Results
from studies.tools.results import RESULTS, between_marks

PAGE = DOCS / "how-many-kinds.md"


def main() -> None:
    """Make the page again."""
    PAGE.write_text(rendered(PAGE.read_text()))


def rendered(text: str) -> str:
    """Return the text of the page with its tables made from the result files there are."""
    for name, (file, make) in TABLES.items():
        path = RESULTS / f"{file}.json"
        if path.exists():
            text = between_marks(text, name, make(json.loads(path.read_text())))
    return text


def known_numbers(values: dict[str, Any]) -> list[str]:
    """Return how the estimate fares where the number is known."""
    lines = [
        "| data | new kinds | cases | mean error | interval contains the truth | mean width |",
        "|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    counted = Results(BENCH).of("omniglot").items()
    alphabets = [alphabet(result) for name, result in counted if name.endswith("--count--k-auto--ours--0")]
    truths = [row["truth"] for row in alphabets]
    groups[("OmniGlot's alphabets", f"{min(truths)} to {max(truths)}")] = alphabets
    for row in values["runs"]:
        if "settings" not in row:
            name = f"mixtures, {row['data']}" if row["part"] == "mixtures" else row["part"]
            groups.setdefault((name, str(row["truth"])), []).append(row)
    for (name, truth), rows in groups.items():
        error = np.mean([abs(row["k"] - row["truth"]) for row in rows])
        width = np.mean([row["high"] - row["low"] for row in rows])
        held = sum(row["holds"] for row in rows)
        lines.append(f"| {name} | {truth} | {len(rows)} | {error:.2f} | {held} of {len(rows)} | {width:.1f} |")
    return lines


def alphabet(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result of `newkinds bench` as a row of estimates.json."""
    low, high, truth = result["count"]["low"], result["count"]["high"], result["true_kinds"]
    return {"truth": truth, "k": result["kinds"], "low": low, "high": high, "holds": low <= truth <= high}


def speed(values: dict[str, Any]) -> list[str]:
    """Return the sweep and the single k-means beside others."""
    lines = [
        "| sweep of 10,000 x 512, K = 0 to 100 | seconds | scikit-learn | times faster | largest inertia relative to "
        "scikit-learn | lower bound, seconds | memory, MB |",
        "|---" * 7 + "|",
    ]
    for name in ("mixture", "cifar100"):
        part = values[name]
        seconds = part["seconds"]
        lines.append(
            f"| {name} | {np.median(seconds['ours']):.1f} | {seconds['scikit-learn, all K interpolated']:.0f} | "
            f"{part['times_faster']:.1f} | {max(part['inertia_over_scikit_learns'].values()):.4f} | "
            f"{part['limit']['seconds']:.1f} | {values['memory'][name]:.0f} |"
        )
    fit = values["fit"]
    lines += ["", "| one k-means, 20,000 x 512, K = 100 | seconds | inertia relative to the least |", "|---|---|---|"]
    for name, seconds in fit["seconds"].items():
        lines.append(f"| {name} | {seconds:.2f} | {fit['mean_inertia_over_the_least'][name]:.4f} |")
    return lines


TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], list[str]]]] = {
    "known numbers": ("estimates", known_numbers),
    "speed": ("sweep", speed),
}


if __name__ == "__main__":
    main()
