"""Opening a source as an ImageSet: its shape, its kinds, and checks that it is usable."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newkinds.cache import Cache
from newkinds.errors import DataError, UsageError, unknown_name
from newkinds.images.arrays import Unfitted
from newkinds.images.decode import FITS, MAX_PIXELS
from newkinds.images.decoding import MEMORY_MB, Decoding, Options
from newkinds.images.formats import left_out
from newkinds.images.imageset import ImageSet, Skipped, image_set, numbered, printable
from newkinds.images.scan import Scan
from newkinds.images.sources import Source, read_source
from newkinds.progress import QUIET, Progress

SMALLEST, LARGEST = 16, 64  # limits of an inferred side


@dataclass(frozen=True)
class Shape:
    """The shape that pictures are resized to: the side of the square in pixels, and 1 or 3 channels."""

    size: int
    channels: int


def open_images(
    source: Source,
    *,
    labelled: bool = False,
    size: int | None = None,
    channels: int | None = None,
    largest: int = LARGEST,
    fit: str = "crop",
    max_pixels: int = MAX_PIXELS,
    memory_mb: int = MEMORY_MB,
    cache_dir: Path | None = None,
    cache: Cache | None = None,
    workers: int | None = None,
    progress: Progress = QUIET,
) -> ImageSet:
    """Open pictures on disk or in memory, or embeddings, as an ImageSet; one that is given is returned as it is.

    source: a folder of pictures; a .csv or .parquet list with the column `path` and, for kinds, `label` or `kind`; an
        .npz file, see `load_npz`; a sequence of paths; a mapping from kind to paths; an array of images or embeddings
        by the rules of `load_npz`; a sequence of uint8 arrays (H, W), (H, W, C) or (C, H, W) of any sizes; or a pair
        of paths, of an array or of arrays and their labels, (N,) integers or strings.
    labelled: every picture needs a kind: the first folder below `source`, or a label. Otherwise labels, if any, are
        kept for scores.
    size, channels, largest: the shape of files and sequences of arrays, see `infer_shape`; a single array must have
        it already.
    fit: "crop" or "squash", see `decode`. max_pixels: of one file, at most.
    memory_mb, cache_dir, cache, workers: see `load`. progress: where progress is shown.
    """
    ready = read_source(source, labelled=labelled, max_pixels=max_pixels, workers=workers, progress=progress)
    if isinstance(ready, ImageSet):
        _check_shape(ready, size, channels)
        return ready
    options = Options(fit, max_pixels, memory_mb, cache_dir, workers, progress, cache or Cache())
    return _load(ready, infer_shape([ready], size, channels, largest), labelled, options)


def open_pair(
    known: Source,
    unsorted: Source,
    *,
    size: int | None = None,
    channels: int | None = None,
    largest: int = LARGEST,
    fit: str = "crop",
    max_pixels: int = MAX_PIXELS,
    memory_mb: int = MEMORY_MB,
    cache_dir: Path | None = None,
    cache: Cache | None = None,
    workers: int | None = None,
    progress: Progress = QUIET,
) -> tuple[ImageSet, ImageSet]:
    """Open the known pictures, with their kinds, and the unsorted ones, which need none, in one shape.

    Two folders or lists: the shape is inferred from both. One of these and an array: the array's shape is used. Two
    arrays: their shapes must agree. The arguments are those of `open_images`.
    """
    first = read_source(known, labelled=True, max_pixels=max_pixels, workers=workers, progress=progress)
    second = read_source(unsorted, labelled=False, max_pixels=max_pixels, workers=workers, progress=progress)
    scans = [one for one in (first, second) if not isinstance(one, ImageSet)]
    arrays = [one for one in (first, second) if isinstance(one, ImageSet)]
    for images in arrays:
        _check_shape(images, size, channels)
    if len(arrays) == 2 and arrays[0].pixels.shape[1:] != arrays[1].pixels.shape[1:]:
        raise DataError(
            f"{arrays[0].source} has {_described(arrays[0])}, {arrays[1].source} has {_described(arrays[1])}.",
            hint="Known and unsorted data must have the same shape.",
        )
    if scans and arrays and arrays[0].is_embedding:
        raise DataError(
            f"{arrays[0].source} has {_described(arrays[0])}, {scans[0].source} has pictures.",
            hint="Give pictures for both, or embeddings for both.",
        )
    shape = Shape(arrays[0].size, arrays[0].channels) if arrays else infer_shape(scans, size, channels, largest)
    options = Options(fit, max_pixels, memory_mb, cache_dir, workers, progress, cache or Cache())
    return (
        first if isinstance(first, ImageSet) else _load(first, shape, True, options),
        second if isinstance(second, ImageSet) else _load(second, shape, False, options),
    )


def infer_shape(
    scans: Sequence[Scan | Unfitted], size: int | None, channels: int | None = None, largest: int = LARGEST
) -> Shape:
    """Infer one shape for all pictures of the scans, if `size` or `channels` is None.

    The size is the side that all pictures have in common if all are square and that is at most `largest`, otherwise
    the median of their shorter sides, at least 16 and at most `largest`. One channel if every picture is grey.
    """
    found = [picture for one in scans for picture in one.found]
    if not found:
        raise _nothing_usable(scans[0].source, [skip for one in scans for skip in one.skipped])
    if size is None:
        shorter = [min(picture.width, picture.height) for picture in found]
        common = all(picture.width == picture.height == shorter[0] for picture in found) and shorter[0] <= largest
        size = shorter[0] if common else min(max(int(np.median(shorter)), SMALLEST), largest)
    elif size < 1:
        raise UsageError(f"size={size} should be >= 1.")
    if channels is None:
        channels = max(picture.channels for picture in found)
    elif channels not in (1, 3):
        raise UsageError(
            f"{scans[0].source} has pictures, which have 1 or 3 channels; channels={channels} was asked for.",
            hint="A run that was made of ready-made embeddings takes such embeddings.",
        )
    return Shape(size, channels)


def load(
    scan: Scan,
    shape: Shape,
    *,
    sorted_into_folders: bool,
    fit: str = "crop",
    max_pixels: int = MAX_PIXELS,
    memory_mb: int = MEMORY_MB,
    cache_dir: Path | None = None,
    cache: Cache | None = None,
    workers: int | None = None,
    progress: Progress = QUIET,
) -> ImageSet:
    """Decode the pictures of a scan, in its order; those that fail join `skipped`.

    sorted_into_folders: the first folder below the root is the class; classes are numbered in order of their names.
    memory_mb: if the pixels take more, they go to a file in `cache_dir`, which is memory-mapped and reused by the next
        call with the same files and options.
    cache_dir: default $NEWKINDS_CACHE, otherwise $XDG_CACHE_HOME/newkinds or ~/.cache/newkinds.
    cache: where the pixels of large files are looked for, and kept, if they take less; None: they are decoded.

    Returns an ImageSet with pixels uint8 (N, shape.channels, shape.size, shape.size).
    """
    options = Options(fit, max_pixels, memory_mb, cache_dir, workers, progress, cache or Cache())
    return _load(scan, shape, sorted_into_folders, options)


def check_known(images: ImageSet, fewest: int = 2) -> str | None:
    """Raise a DataError unless there are two classes or more, each of `fewest` pictures or more.

    Returns a warning where some have a single one, which is enough where no network is trained on them.
    """
    if images.labels is None:
        raise DataError(
            f"{images.source} does not say of which kind its pictures are.",
            hint="Use one folder a kind, a list with the column label, or an .npz file with the array `labels`.",
        )
    counts = np.bincount(images.labels, minlength=len(images.classes))
    present = [images.classes[index] for index in np.flatnonzero(counts)]
    if "" in present:
        raise DataError(
            f"{images.source} has pictures whose kind is the empty text.", hint="Every known picture needs a kind."
        )
    if len(present) < 2:
        only = f" ({present[0]})" if present else ""
        raise DataError(
            f"{images.source} has {len(present)} class(es){only}, at least 2 are needed.",
            hint=f"Sort the known pictures into one folder a kind, {images.source}/KIND/PICTURE, or label them.",
        )
    small = [f"{images.classes[index]} ({counts[index]})" for index in np.flatnonzero(counts < fewest)]
    if small:
        raise DataError(
            f"Every class of {images.source} needs at least {fewest} picture{'s' if fewest > 1 else ''}. Too small: "
            f"{_some_of(small)}.",
            hint="Add pictures to them, or take them out of the known ones.",
        )
    single = [images.classes[index] for index in np.flatnonzero(counts == 1)]
    if not single:
        return None
    return (
        f"A single picture is known of {_some_of(single)}: what varies within such a kind cannot be learnt, so its "
        "pictures in the heap may be taken for new ones. Two or more would help."
    )


def _some_of(names: Sequence[str]) -> str:
    """Return the first ten names, and how many more there are."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def check_unsorted(images: ImageSet) -> None:
    """Raise a DataError unless there are two pictures or more to cluster."""
    if len(images) < 2:
        raise DataError(
            f"{images.source} has {len(images)} usable picture(s), at least 2 are needed.",
            hint="Add the pictures whose kinds are to be found.",
        )


# Folders


def _load(scan: Scan | Unfitted, shape: Shape, labelled: bool, options: Options) -> ImageSet:
    if options.fit not in FITS:
        raise unknown_name("fit", options.fit, FITS)
    if isinstance(scan, Unfitted):
        return scan.fitted(shape.size, shape.channels, options.fit, options.workers, options.progress)
    files, skipped = scan.found, list(scan.skipped)
    in_folders = labelled and scan.listing is None
    if in_folders:
        files = tuple(file for file in files if scan.kind_of(file.name) is not None)
        skipped += [Skipped(one.name, "not inside a class folder") for one in scan.found if "/" not in one.name]
    if not files:
        raise _nothing_usable(scan.source, skipped)
    decoding = Decoding(files, shape.size, shape.channels, options)
    pixels, dropped, digest = decoding.into_memory() if decoding.fits_in_memory else decoding.into_file()
    skipped += dropped
    if not len(pixels):
        raise _nothing_usable(scan.source, skipped)
    gone = {one.name for one in dropped}
    names = tuple(file.name for file in files if file.name not in gone)
    labels, classes = numbered(list(map(scan.kind_of, names))) if labelled or scan.has_kinds else (None, ())
    if in_folders:
        skipped += _without_pictures(scan.root, {*classes, *(one.name for one in skipped)})
    skipped.sort(key=lambda one: (one.name, one.reason))
    unread = left_out(skipped)
    if unread is not None:
        options.progress.warn(f"{scan.source}: {unread[0]} left out, {len(names):,} other pictures taken. {unread[1]}")
    return image_set(pixels, names, labels, classes, scan.source, labelled=labelled, skipped=skipped, digest=digest)


def _without_pictures(root: Path, mentioned: set[str]) -> list[Skipped]:
    """Return the class folders that yielded no picture and were not skipped themselves."""
    with os.scandir(root) as entries:
        folders = [printable(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [Skipped(name, "class folder without a usable picture") for name in folders if name not in mentioned]


def _nothing_usable(source: str, skipped: Sequence[Skipped]) -> DataError:
    if not skipped:
        return DataError(f"There is no file in {source}.", hint="Give a folder with pictures in it.")
    unread = left_out(skipped)
    if unread is not None:
        what, use = unread
        return DataError(f"No picture in {source} can be used: {what} among {len(skipped):,} files skipped.", hint=use)
    # The part in brackets differs from file to file.
    reason = Counter(one.reason.split(" (")[0] for one in skipped).most_common(1)[0][0]
    return DataError(
        f"No picture in {source} can be used. Skipped: {len(skipped)}, most often because of this: {reason}.",
        hint=f"To see each with its reason: newkinds scan {source}",
    )


def _described(images: ImageSet) -> str:
    if images.is_embedding:
        return f"embeddings of width {images.channels}"
    return f"pictures of {images.size} x {images.size} pixels and {images.channels} channel(s)"


def _check_shape(images: ImageSet, size: int | None, channels: int | None) -> None:
    if size not in (None, images.size) or channels not in (None, images.channels):
        asked = [f"{name}={value}" for name, value in (("size", size), ("channels", channels)) if value is not None]
        raise DataError(
            f"{images.source} has {_described(images)}, but {' and '.join(asked)} was asked for.",
            hint="Arrays are taken as they are: leave that out, or make the arrays in that shape.",
        )
