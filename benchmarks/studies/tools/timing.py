"""Timing of several ways to do one thing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np


def seconds_in_turn(
    ways: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the median time of each way, all of them run in turn, once more than `repeats` to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, way in ways.items():
            started = clock()
            way()
            if turn:
                taken[name].append(clock() - started)
    return {name: float(np.median(values)) for name, values in taken.items()}
