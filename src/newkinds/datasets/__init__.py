"""Sets of pictures that are known by name, `NAME:PART`, wherever a folder is taken."""

from __future__ import annotations

from collections.abc import Callable

from newkinds.datasets.digits import digits
from newkinds.images.imageset import ImageSet

DATASETS: dict[str, Callable[[str], ImageSet]] = {"digits": digits}


def named(source: object) -> ImageSet | None:
    """Return the set of pictures called `source`, or None if it is not written NAME:PART with a name known here."""
    if not isinstance(source, str) or source.split(":")[0] not in DATASETS or ":" not in source:
        return None
    name, part = source.split(":", 1)
    return DATASETS[name](part)


__all__ = ["DATASETS", "named"]
