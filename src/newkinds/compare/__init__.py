"""Several methods side by side, on the same pictures and the same f."""

from newkinds.compare.comparing import compare
from newkinds.compare.folder import COST
from newkinds.compare.table import Comparison

__all__ = ["COST", "Comparison", "compare"]
