"""The registry of methods: one line each. A method brings everything else with it, see `base.py`."""

from __future__ import annotations

from importlib import import_module

from newkinds.methods.base import Auxiliary, Method
from newkinds.networks import Head

MODULES = (  # of this package; each has METHODS, and the first of all is the default
    "dtc",
    "kmeans",
    "dec",
    "lpnmf",
    "lsc",
    "pairwise",
    "centroid_networks",
    "pim",
    "gcd",
    "simgcd",
    "nearest_known",
)

METHODS: dict[str, Method] = {
    method.name: method for name in MODULES for method in import_module(f"newkinds.methods.{name}").METHODS
}
DEFAULT = next(iter(METHODS))
AUXILIARIES: dict[str, Auxiliary] = {
    method.auxiliary.name: method.auxiliary for method in METHODS.values() if method.auxiliary is not None
}
HEADS: dict[str, type[Head]] = {head.name: head for method in METHODS.values() for head in method.heads}
COMPARED = ("kmeans", "lsc", "mcl", DEFAULT)  # what `compare` runs by default
