"""Every method by name: one line each. A method brings everything else with it, see `base.py`."""

from __future__ import annotations

from newkinds.methods import centroid_networks, dec, dtc, kmeans, lpnmf, lsc, pairwise
from newkinds.methods.base import Auxiliary, Method
from newkinds.networks import Head

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        dtc.METHOD,  # the first is the default
        kmeans.PLAIN,
        kmeans.CONSTRAINED,
        dec.METHOD,
        lpnmf.METHOD,
        lsc.METHOD,
        pairwise.KCL,
        pairwise.MCL,
        centroid_networks.METHOD,
    )
}
DEFAULT = next(iter(METHODS))
AUXILIARIES: dict[str, Auxiliary] = {
    method.auxiliary.name: method.auxiliary for method in METHODS.values() if method.auxiliary is not None
}
HEADS: dict[str, type[Head]] = {head.name: head for method in METHODS.values() for head in method.heads}
