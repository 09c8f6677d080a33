"""Sources: everything that can be given as pictures, and how they are told apart."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.errors import DataError, UsageError
from newkinds.files import as_path
from newkinds.images.arrays import Unfitted, load_array, load_npz, load_pictures, npz_labels, usable_labels
from newkinds.images.imageset import ImageSet
from newkinds.images.lists import (
    Listing,
    is_list,
    list_from_json,
    list_from_mapping,
    list_from_paths,
    list_from_table,
)
from newkinds.images.scan import Scan, scan
from newkinds.images.tables import is_table
from newkinds.progress import Progress

Source = (
    str  # a folder, a .csv or .parquet list, an .npz file; elsewhere also the name of a data set
    | Path
    | ImageSet
    | Listing
    | NDArray[Any]  # images, or embeddings
    | Sequence[str | Path]
    | Sequence[NDArray[Any]]
    | Mapping[Any, Sequence[str | Path]]  # kind to paths
    | tuple[Any, Any]  # images, embeddings, arrays or paths; and their labels
)

_IN_MEMORY = re.compile(r"\d+ (arrays?|embeddings|paths?)")
_VALID = (
    "a folder, a .csv or .parquet list, an .npz file, an array, a list of paths or of arrays, a mapping from kind to "
    "paths, or a pair of one of these and labels"
)


def in_memory(source: str) -> bool:
    """Return whether a source, by its name in an ImageSet, was given in memory and so cannot be reopened."""
    return _IN_MEMORY.fullmatch(source) is not None and not Path(source).exists()


def files_of(source: Source, *, labelled: bool = False) -> Path | Listing | None:
    """Return a source as a folder or a list of files; None for arrays, .npz files and ImageSets.

    labelled: every picture of a list needs a kind.
    """
    if isinstance(source, Listing):
        return source
    if isinstance(source, str | os.PathLike):
        path = as_path(source)
        if is_table(path):
            return list_from_table(path, labelled=labelled)
        if is_list(path):
            return list_from_json(path, labelled=labelled)
        return None if _is_npz(path) else path
    if isinstance(source, Mapping):
        return list_from_mapping(source, labelled=labelled)
    pictures, labels = _parted(source)
    if not _are_paths(pictures):
        return None
    kinds = None if labels is None else usable_labels(labels, len(pictures), labelled=labelled)
    return list_from_paths(pictures, None if kinds is None else kinds.tolist(), labelled=labelled)


def read_source(
    source: Source, *, labelled: bool, max_pixels: int, workers: int | None, progress: Progress
) -> ImageSet | Scan | Unfitted:
    """Return a source as pictures, as files that are scanned but not decoded, or as arrays of different sizes."""
    if isinstance(source, ImageSet):
        return source
    files = files_of(source, labelled=labelled)
    if files is not None:
        return scan(files, max_pixels=max_pixels, workers=workers, progress=progress)
    if isinstance(source, str | os.PathLike):
        return load_npz(Path(source), labelled=labelled)
    pictures, labels = _parted(source)
    if isinstance(pictures, np.ndarray):
        return load_array(pictures, labels, labelled=labelled)
    if isinstance(pictures, Sequence) and len(pictures) and isinstance(pictures[0], np.ndarray):
        return load_pictures(pictures, labels, labelled=labelled)
    if isinstance(pictures, Sequence) and not len(pictures):
        raise DataError("The list of pictures given is empty.", hint=f"Give {_VALID}.")
    what = type(pictures).__name__ + (f" of {type(pictures[0]).__name__}" if isinstance(pictures, Sequence) else "")
    raise UsageError(f"Pictures cannot be read from an object of type {what}.", hint=f"Give {_VALID}.")


def labels_of(source: Source) -> Any:
    """Return the labels that stand beside arrays, in an .npz file or in memory, as they are; None if there are none."""
    return npz_labels(Path(source)) if isinstance(source, str | os.PathLike) else _parted(source)[1]


def opened_once(source: Source, *, labelled: bool) -> Source:
    """Return an .npz file opened, so that it is read once however often it is looked at; all else as it is."""
    if isinstance(source, str | os.PathLike) and _is_npz(Path(source)):
        return load_npz(Path(source), labelled=labelled)
    return source


def _is_npz(path: Path) -> bool:
    return path.suffix.lower() == ".npz" and not path.is_dir()


def _parted(source: Any) -> tuple[Any, Any]:
    """Split what is neither a path nor a mapping into pictures and labels, None if there are none.

    A tuple of two is a pair if the second has one axis of labels and the first is no path: two paths are two paths,
    and two arrays of two or three axes are two pictures.
    """
    if isinstance(source, tuple) and len(source) == 2 and not isinstance(source[0], str | os.PathLike):
        labels = _as_array(source[1])
        if isinstance(labels, list | tuple) or (isinstance(labels, np.ndarray) and labels.ndim == 1):
            return _as_array(source[0]), labels
    return _as_array(source), None


def _as_array(given: Any) -> Any:
    """Convert a tensor, a pandas column and the like to an array, or to a list if it holds strings or objects."""
    if not hasattr(given, "__array__"):
        return given
    array = np.asarray(given)
    return array.tolist() if array.ndim == 1 and array.dtype.kind in "OTU" else array


def _are_paths(pictures: Any) -> bool:
    return isinstance(pictures, Sequence) and len(pictures) > 0 and isinstance(pictures[0], str | os.PathLike)
