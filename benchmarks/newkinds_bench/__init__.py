"""The paper's tables and figures, measured again: theirs beside ours."""

from newkinds_bench.cells import cells
from newkinds_bench.folders import FOLDERS
from newkinds_bench.house import DOCS
from newkinds_bench.measure import bench
from newkinds_bench.render import render
from newkinds_bench.results import Results
from newkinds_bench.setups import SETUPS
from newkinds_bench.starts import Where
from newkinds_bench.tables import TABLES

__all__ = ["DOCS", "FOLDERS", "SETUPS", "TABLES", "Results", "Where", "bench", "cells", "render"]
