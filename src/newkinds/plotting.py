"""matplotlib, imported so that it draws into files: with a MPLBACKEND that does not exist it cannot be imported."""

from __future__ import annotations

from newkinds.environment import variable

with variable("MPLBACKEND", "agg"):
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.ft2font import FT2Font
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage
    from matplotlib.ticker import MaxNLocator

__all__ = ["AnnotationBbox", "Axes", "FT2Font", "Figure", "ListedColormap", "MaxNLocator", "OffsetImage", "mpl"]
