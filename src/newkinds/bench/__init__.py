"""The paper's tables and figures, measured again: theirs beside ours."""

from newkinds.bench.cells import cells
from newkinds.bench.measure import bench
from newkinds.bench.render import render
from newkinds.bench.setups import SETUPS
from newkinds.bench.starts import Where
from newkinds.bench.tables import TABLES

__all__ = ["SETUPS", "TABLES", "Where", "bench", "cells", "render"]
