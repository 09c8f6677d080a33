"""Algorithm 1: the unsorted pictures, f and a start, to kinds."""

from newkinds.discover.cluster import Clustered, cluster, dtc
from newkinds.discover.variants import VARIANTS

__all__ = ["VARIANTS", "Clustered", "cluster", "dtc"]
