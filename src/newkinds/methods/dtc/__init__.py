"""Deep transfer clustering (Algorithm 1), in its four variants."""

from newkinds.methods.base import Method
from newkinds.methods.dtc.algorithm import cluster, dtc
from newkinds.methods.dtc.settings import Discover, resolve, rivals
from newkinds.methods.dtc.variants import VARIANTS

METHODS = (
    Method(
        "dtc",
        "deep transfer clustering, in the variant that --variant says (the default)",
        dtc,
        {"discover": Discover},
        assigns="discover",
        resolve=resolve,
        rivals=rivals,
        takes_known=True,
        advice="Kinds have merged. Ask for fewer with --kinds, or try a lower discover.learning_rate or "
        "discover.consistency in a new run folder.",
    ),
)

__all__ = ["METHODS", "VARIANTS", "Discover", "cluster", "dtc"]
