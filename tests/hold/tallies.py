"""How the attacks of a campaign ended."""

from __future__ import annotations

from collections import Counter


class Tally:
    """How many attacks of a campaign ended in which way."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.most: dict[str, float] = {}

    def add(self, outcome: str) -> None:
        """Count one."""
        self.outcomes[outcome] += 1

    def at_most(self, what: str, value: float) -> None:
        """Keep the largest of some values, such as the seconds that an attack took."""
        self.most[what] = max(value, self.most.get(what, value))
