"""The marks of kinds on the map: a colour, then a shape, always with a number beside it.

The colours were found by a search, starting from hues that look good together, so that any two are at least 0.09 apart
in OKLab for normal, protanopic, deuteranopic and tritanopic vision (Okabe and Ito's set: 0.076), on the light page and
on the dark one. `tests/report/test_report_palette.py` measures it.
"""

from __future__ import annotations

from dataclasses import dataclass

LIGHT = ("#2865bc", "#d69b3c", "#0d9e7a", "#9c2040", "#9769f1", "#42b1ea", "#807403", "#f762a9")
DARK = ("#5884c1", "#f6953c", "#45cc92", "#df4360", "#a676fe", "#a0e1fb", "#d0da63", "#d7a1db")

# SVG paths around (0, 0) of about the same area, used by the legend's SVG and by the map's canvas alike.
SHAPES = (
    "M-1 0A1 1 0 1 1 1 0A1 1 0 1 1-1 0Z",  # circle
    "M-.88-.88H.88V.88H-.88Z",  # square
    "M0-1.22L1.16.82H-1.16Z",  # triangle
    "M0-1.28L1.08 0L0 1.28L-1.08 0Z",  # diamond
    "M-.4-1.15H.4V-.4H1.15V.4H.4V1.15H-.4V.4H-1.15V-.4H-.4Z",  # plus
    "M0 1.22L-1.16-.82H1.16Z",  # triangle upside down
    "M0-1.35L.4-.45L1.28-.42L.58.17L.8 1.05L0 .55L-.8 1.05L-.58.17L-1.28-.42L-.4-.45Z",  # star
)


@dataclass(frozen=True)
class Mark:
    """How one kind is drawn: a colour's index, an SVG path, and whether the shape is an outline only."""

    colour: int
    path: str
    hollow: bool


def mark(kind: int) -> Mark:
    """Return the kind's mark; there are 112, after which they repeat."""
    colour = kind % len(LIGHT)
    shape = kind // len(LIGHT)
    return Mark(colour, SHAPES[shape % len(SHAPES)], (shape // len(SHAPES)) % 2 == 1)


def palette_css() -> str:
    """Return the colours as CSS variables --c0, --c1, ... for both themes, and classes .c0, .c1, ... to pick one."""
    light = "".join(f"--c{i}:{c};" for i, c in enumerate(LIGHT))
    dark = "".join(f"--c{i}:{c};" for i, c in enumerate(DARK))
    classes = "".join(f".c{i}{{--kind:var(--c{i})}}\n" for i in range(len(LIGHT)))
    return f":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{classes}"
