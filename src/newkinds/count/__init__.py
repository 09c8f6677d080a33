"""How many new kinds there are: Algorithm 2, the estimate by rehearsals, those of generalized category discovery."""

from newkinds.count.algorithm2 import Division, divide, probe_kinds
from newkinds.count.estimate import count_kinds
from newkinds.count.rehearsed import Rehearsal, can_rehearse, count_rehearsed, hidden_draws
from newkinds.count.result import Count, Point, in_words

__all__ = [
    "Count",
    "Division",
    "Point",
    "Rehearsal",
    "can_rehearse",
    "count_kinds",
    "count_rehearsed",
    "divide",
    "hidden_draws",
    "in_words",
    "probe_kinds",
]
