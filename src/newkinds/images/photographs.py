"""Are these photographs, which a pretrained network suits, or small or drawn pictures? A look at some of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.errors import NewkindsError
from newkinds.images.arrays import Unfitted
from newkinds.images.decode import ImageError, decode, fit_pixels, probe
from newkinds.images.imageset import ImageSet
from newkinds.images.lists import Listing
from newkinds.images.scan import Scan, list_files, read_file
from newkinds.images.sources import Source, files_of, read_source
from newkinds.progress import QUIET

LOOKED_AT = 64  # pictures at most
SIDE = 64  # pixels that each is brought to
LARGEST_SMALL = 48  # pixels: the side of pictures that networks of their own suit, such as CIFAR's 32
FEWEST_COLOURS = 256  # of the typical photograph, see `colours`
FEWEST_TONES = 3.0  # bits, of the typical photograph without colours, see `tones`


@dataclass(frozen=True)
class Look:
    """What some pictures look like.

    side: that of the typical one, the shorter of two, in pixels; less where less is asked for. colours: how many the
    typical one has. tones: how evenly its grey levels are used, in bits.
    """

    side: int
    colours: int
    tones: float

    @property
    def are_photographs(self) -> bool:
        """Whether they are photographs, large enough to be given to a network that was trained on such.

        Measured at 64 x 64: photographs of groceries have 1,150 colours (median), Tiny-ImageNet 710, objects on white
        600; coloured letters 100 to 180, ink on yellow paper 100. Without colours, photographs are told by their tones:
        4.5 bits, where characters in ink have .9. Pictures of many coloured shapes pass for photographs.
        """
        return self.side > LARGEST_SMALL and (self.colours >= FEWEST_COLOURS or self.tones >= FEWEST_TONES)

    def __str__(self) -> str:
        why = f"typically {self.side} pixels a side and {self.colours:,} colours"
        if self.colours < FEWEST_COLOURS:
            why += f" in {'many' if self.tones >= FEWEST_TONES else 'few'} shades"
        limits = f"photographs have more than {LARGEST_SMALL} pixels, and {FEWEST_COLOURS} colours or many shades"
        return why if self.are_photographs else f"{why}; {limits}"


def look_at(known: Source, *, size: int | None, largest: int, max_pixels: int) -> Look | None:
    """Look at some pictures, spread evenly over all; None of embeddings, or where none can be read.

    known: as of `open_images`, with kinds; what is wrong with it is said when it is opened, not here. size, largest,
    max_pixels: as of `open_images`.
    """
    try:
        files = files_of(known, labelled=True)
        if files is not None:
            sides, looked = _from_files(files, max_pixels)
        else:
            sides, looked = _from_arrays(
                read_source(known, labelled=True, max_pixels=max_pixels, workers=None, progress=QUIET)
            )
    except NewkindsError:
        return None
    if not looked:
        return None
    side = int(np.median(sides)) if size is None else size
    if size is None and largest <= LARGEST_SMALL:
        side = min(side, largest)
    return Look(
        side, int(np.median([colours(one) for one in looked])), float(np.median([tones(one) for one in looked]))
    )


def colours(pixels: NDArray[np.uint8]) -> int:
    """Return how many colours a picture, uint8 (C, H, W), has at 64 x 64 with 32 levels a channel."""
    levels = fit_pixels(pixels, size=SIDE, channels=3, fit="crop").astype(np.int64) >> 3
    return len(np.unique(levels[0] << 10 | levels[1] << 5 | levels[2]))


def tones(pixels: NDArray[np.uint8]) -> float:
    """Return the entropy, in bits, of 32 grey levels of a picture, uint8 (C, H, W), at 64 x 64: from 0 to 5."""
    levels = fit_pixels(pixels, size=SIDE, channels=3, fit="crop").astype(np.int64).mean(axis=0).astype(np.int64) >> 3
    shares = np.unique(levels, return_counts=True)[1] / levels.size
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def _from_files(source: Path | Listing, max_pixels: int) -> tuple[list[int], list[NDArray[np.uint8]]]:
    """Return the shorter sides of some files, and their pixels at a smaller size; what is no picture is left out."""
    sides, looked = [], []
    files = list_files(source)
    for item in _spread(len(files)):
        with suppress(ImageError):
            data = read_file(files[item])
            header = probe(data, max_pixels=max_pixels)
            looked.append(decode(data, size=SIDE, channels=3, max_pixels=max_pixels))
            sides.append(min(header.width, header.height))
    return sides, looked


def _from_arrays(ready: ImageSet | Scan | Unfitted) -> tuple[list[int], list[NDArray[np.uint8]]]:
    """Return the shorter sides and the pixels of some pictures in memory; of embeddings nothing."""
    if isinstance(ready, Unfitted):
        looked = [ready.pictures[item] for item in _spread(len(ready.pictures))]
        return [min(one.shape[1:]) for one in looked], looked
    assert isinstance(ready, ImageSet)
    if ready.is_embedding:
        return [], []
    return [ready.size], [ready.pixels[item] for item in _spread(len(ready))]


def _spread(number: int) -> Sequence[int]:
    """Return up to LOOKED_AT of so many numbers, spread evenly."""
    return np.unique(np.linspace(0, number - 1, min(number, LOOKED_AT)).astype(np.int64)).tolist() if number else []
