"""Algorithm 1: the unsorted pictures, f and a start, to kinds."""

from newkinds.methods.dtc.algorithm import Clustered, cluster, dtc
from newkinds.methods.dtc.variants import VARIANTS

__all__ = ["VARIANTS", "Clustered", "cluster", "dtc"]
