"""The paper's tables and figures, measured again: theirs beside ours."""

from newkinds.bench.measure import Where, bench
from newkinds.bench.render import render
from newkinds.bench.tables import TABLES

__all__ = ["TABLES", "Where", "bench", "render"]
