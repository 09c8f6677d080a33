"""The paper's tables and figures, measured again: theirs beside ours."""

from newkinds.bench.measure import Where, bench, cells
from newkinds.bench.render import render
from newkinds.bench.setups import SETUPS
from newkinds.bench.tables import TABLES

__all__ = ["SETUPS", "TABLES", "Where", "bench", "cells", "render"]
