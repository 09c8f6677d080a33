"""What there is of a row of a table: the results on a data set, and their means over parts and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, stdev

from newkinds_bench.cells import row_name
from newkinds_bench.results import Result
from newkinds_bench.setups import SETUPS
from newkinds_bench.tables import Row


@dataclass(frozen=True)
class Measured:
    """The results of a row on a data set: by part and seed."""

    results: tuple[Result, ...]
    parts: int

    @property
    def complete(self) -> int:
        """How many parts have a result."""
        return len({result["data"] for result in self.results})

    @property
    def seeds(self) -> list[int]:
        """The seeds that all parts that have any result have."""
        by_part: dict[str, set[int]] = {}
        for result in self.results:
            by_part.setdefault(result["data"], set()).add(result["seed"])
        return sorted(set.intersection(*by_part.values())) if by_part else []

    def over_seeds(self, key: str) -> list[float]:
        """Return for each seed that all parts have the mean over the parts."""
        return [mean(r[key] for r in self.results if r["seed"] == seed) for seed in self.seeds]

    def text(self, key: str, scale: float, digits: int) -> str:
        """Return the mean over the seeds, with its spread, and how many parts it is of where some are missing."""
        values = [scale * value for value in self.over_seeds(key)]
        if not values:
            return ""
        spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
        of = "" if self.complete == self.parts else f" ({self.complete} of {self.parts})"
        return f"{mean(values):.{digits}f}{spread}{of}"


def measured(results: Mapping[str, Result], setup: str, row: Row, preset: str) -> Measured:
    """Return the results of a row of a table."""
    middle = "--".join(row_name(setup, row))
    parts = SETUPS[setup].unsorted
    starts = tuple(f"{part.replace(':', '-')}--{middle}--{preset}--" for part in parts)
    whole = (value for name, value in results.items() if name.startswith(starts) and not is_of_a_part(value))
    return Measured(tuple(whole), len(parts))


def is_of_a_part(result: Result) -> bool:
    """Return whether a result is of fewer pictures than were published."""
    setup = SETUPS[result["setup"]]
    return "each" in result or bool(result.get("pictures", setup.whole) < setup.whole)
