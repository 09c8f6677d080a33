"""newkinds discovers new visual categories among unsorted pictures, with the help of sorted ones."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from newkinds.memory import check_libraries, explained, limit_data
from newkinds.version import __version__

if TYPE_CHECKING:  # the same names again, for type checkers and editors
    from newkinds.api import (
        count,
        discover,
        evaluate,
        figures,
        grow,
        load,
        predict,
        prepare,
        pretrain,
        rehearse,
        report,
        scan,
    )
    from newkinds.app import open
    from newkinds.assignment import Assignment
    from newkinds.cache import cache
    from newkinds.clustering import ConstrainedKMeans
    from newkinds.compare import Comparison, compare
    from newkinds.configure import Settings
    from newkinds.count import count_kinds
    from newkinds.demo import demo
    from newkinds.discovery import Discovery
    from newkinds.errors import NewkindsError
    from newkinds.export import export
    from newkinds.features import extract_features
    from newkinds.images import ImageSet, open_images
    from newkinds.journal import journal
    from newkinds.listing import datasets, methods, networks, presets, profiles, settings
    from newkinds.methods.dtc import cluster
    from newkinds.progress import Progress
    from newkinds.trained_network import TrainedNetwork, load_network

# The modules of the public names, which are imported on first use: torch alone takes seconds.
_HOMES = {
    "Assignment": "newkinds.assignment",
    "Comparison": "newkinds.compare",
    "ConstrainedKMeans": "newkinds.clustering",
    "Discovery": "newkinds.discovery",
    "ImageSet": "newkinds.images",
    "NewkindsError": "newkinds.errors",
    "Progress": "newkinds.progress",
    "Settings": "newkinds.configure",
    "TrainedNetwork": "newkinds.trained_network",
    "cache": "newkinds.cache",
    "cluster": "newkinds.methods.dtc",
    "compare": "newkinds.compare",
    "count": "newkinds.api",
    "count_kinds": "newkinds.count",
    "datasets": "newkinds.listing",
    "demo": "newkinds.demo",
    "discover": "newkinds.api",
    "evaluate": "newkinds.api",
    "export": "newkinds.export",
    "extract_features": "newkinds.features",
    "figures": "newkinds.api",
    "grow": "newkinds.api",
    "journal": "newkinds.journal",
    "load": "newkinds.api",
    "load_network": "newkinds.trained_network",
    "methods": "newkinds.listing",
    "networks": "newkinds.listing",
    "open": "newkinds.app",
    "open_images": "newkinds.images",
    "predict": "newkinds.api",
    "prepare": "newkinds.api",
    "presets": "newkinds.listing",
    "pretrain": "newkinds.api",
    "rehearse": "newkinds.api",
    "profiles": "newkinds.listing",
    "report": "newkinds.api",
    "scan": "newkinds.api",
    "settings": "newkinds.listing",
}

_LIGHT = ("NewkindsError", "Progress")  # needs none of the large libraries


class _Package(ModuleType):
    """The package as a module that imports its public names on first use.

    Some of them are also names of submodules. The import system sets a submodule as an attribute of its package when it
    is first imported, which would hide the function from then on: such an assignment is ignored, and `newkinds.report`
    is always the function. `from newkinds.report import ...` looks in `sys.modules`, and finds the submodule.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name not in _LIGHT:
            check_libraries()
        with explained("newkinds and its libraries"):
            value = getattr(import_module(_HOMES[name]), name)
        if name not in _LIGHT:
            limit_data()
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_HOMES})


sys.modules[__name__].__class__ = _Package

__all__ = [
    "Assignment",
    "Comparison",
    "ConstrainedKMeans",
    "Discovery",
    "ImageSet",
    "NewkindsError",
    "Progress",
    "Settings",
    "TrainedNetwork",
    "__version__",
    "cache",
    "cluster",
    "compare",
    "count",
    "count_kinds",
    "datasets",
    "demo",
    "discover",
    "evaluate",
    "export",
    "extract_features",
    "figures",
    "grow",
    "journal",
    "load",
    "load_network",
    "methods",
    "networks",
    "open",
    "open_images",
    "predict",
    "prepare",
    "presets",
    "pretrain",
    "profiles",
    "rehearse",
    "report",
    "scan",
    "settings",
]
