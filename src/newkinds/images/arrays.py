"""Open an .npz file of images or embeddings as an ImageSet."""

from __future__ import annotations

import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.errors import DataError
from newkinds.images.imageset import ImageSet, fingerprint, numbered

_NAMES = ("images", "embeddings", "labels", "names")
_HINT = "Write it with numpy.savez(path, images=..., labels=..., names=...)."


def load_npz(path: str | Path, *, labelled: bool) -> ImageSet:
    """Open an .npz file of arrays, which are taken as they are; nothing in it is unpickled.

    images: uint8 (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3 and H equal to W. What could be read as both of
        the last two, such as (N, 3, 3, 3), is taken for (N, H, W, C).
    embeddings: instead of images, float (N, d), all finite; they become float32.
    labels: (N,) integers from 0 on, or strings; needed where `labelled`. Otherwise they serve for scores only: they are
        kept if they can be used, and the fingerprint leaves them out, so that it is the same with and without them.
    names: (N,) unique strings; otherwise each picture is called by the number of its row.
    """
    path = Path(path)
    arrays = _read(path)
    if ("images" in arrays) == ("embeddings" in arrays):
        raise _error(path, f"should have one of the arrays `images` and `embeddings`; it has {_listed(arrays)}.")
    is_image = "images" in arrays
    pixels = _images(path, arrays["images"]) if is_image else _embeddings(path, arrays["embeddings"])
    names = _names(path, arrays, len(pixels))
    bad = [] if is_image else np.flatnonzero(~np.isfinite(pixels).all(axis=1)).tolist()
    if bad:
        rows = ", ".join(f"{row} ({names[row]})" if "names" in arrays else str(row) for row in bad[:10])
        raise _error(path, f"has embeddings that are not finite in {len(bad)} row(s): {rows}.", "Leave them out.")
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    if labelled:
        labels, classes = _labels(path, arrays, len(pixels))
    elif "labels" in arrays:
        with suppress(DataError):  # a file whose labels cannot be used, such as -1 for unknown, is one without
            labels, classes = _labels(path, arrays, len(pixels))
    mark = fingerprint(pixels, names, labels, classes) if labelled else fingerprint(pixels, names, None, ())
    return ImageSet(pixels, names, labels, classes, str(path), mark)


def _error(path: Path, what: str, hint: str = _HINT) -> DataError:
    return DataError(f"{path} {what}", hint=hint)


def _listed(arrays: dict[str, NDArray[Any]]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(arrays)) or "none"


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays that have a meaning here; others are left empty, their names are for the messages."""
    if not path.exists():
        raise DataError(f"{path} does not exist.", hint="Give a folder of pictures or an .npz file of arrays.")
    try:
        if not zipfile.is_zipfile(path):
            raise _error(path, "is not an .npz file.")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] if name in _NAMES else np.empty(0) for name in file.files}
    except DataError:
        raise
    except MemoryError as error:
        raise _error(path, "needs more memory than there is.", "Give a folder of pictures instead.") from error
    except Exception as error:  # on broken bytes zipfile, zlib and numpy raise what they like
        what = "holds Python objects, which are not read." if "pickle" in str(error) else f"is broken ({error})."
        raise _error(path, what) from error


def _images(path: Path, images: NDArray[Any]) -> NDArray[np.uint8]:
    """Return images as contiguous (N, C, H, W)."""
    if images.dtype != np.uint8:
        raise _error(path, f"has `images` of type {images.dtype}; uint8, 0 to 255, is needed.")
    shape = images.shape
    if 0 in shape:
        raise _error(path, f"has `images` of shape {shape}: there is nothing in it.")
    if images.ndim == 3:
        planes = images[:, None]
    elif images.ndim == 4 and shape[3] in (1, 3) and (shape[1] == shape[2] or shape[1] not in (1, 3)):
        planes = images.transpose(0, 3, 1, 2)
    elif images.ndim == 4 and shape[1] in (1, 3):
        planes = images
    else:
        raise _error(path, f"has `images` of shape {shape}; (N, H, W) or (N, H, W, C) with C 1 or 3 is needed.")
    if planes.shape[2] != planes.shape[3]:
        raise _error(
            path,
            f"has `images` of {planes.shape[2]} x {planes.shape[3]} pixels; arrays are taken as they are, so height "
            "and width must be equal.",
            "Crop or pad them to a square.",
        )
    return np.ascontiguousarray(planes)


def _embeddings(path: Path, embeddings: NDArray[Any]) -> NDArray[np.float32]:
    if embeddings.dtype.kind != "f" or embeddings.ndim != 2 or 0 in embeddings.shape:
        raise _error(
            path, f"has `embeddings` of type {embeddings.dtype} and shape {embeddings.shape}; floats (N, d) are needed."
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, and is reported as that
        return np.ascontiguousarray(embeddings, dtype=np.float32)


def _names(path: Path, arrays: dict[str, NDArray[Any]], n: int) -> tuple[str, ...]:
    if "names" not in arrays:
        return tuple(f"{row:0{len(str(n - 1))}d}" for row in range(n))
    names = arrays["names"]
    if names.dtype.kind != "U" or names.shape != (n,):
        raise _error(path, f"has `names` of type {names.dtype} and shape {names.shape}; {n} strings are needed.")
    counts = Counter(names.tolist())
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise _error(path, f"has {len(twice)} name(s) more than once in `names`, such as {twice[0]!r}.")
    return tuple(names.tolist())


def _labels(path: Path, arrays: dict[str, NDArray[Any]], n: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if "labels" not in arrays:
        raise _error(path, f"needs the array `labels`, the kind of each picture; it has {_listed(arrays)}.")
    labels = arrays["labels"]
    if labels.dtype.kind not in "iuU" or labels.shape != (n,):
        what = f"has `labels` of type {labels.dtype} and shape {labels.shape}; {n} integers or strings are needed."
        raise _error(path, what)
    if labels.dtype.kind == "i" and labels.min() < 0:
        rows = np.flatnonzero(labels < 0)
        what = f"has {len(rows)} negative label(s), the first in row {rows[0]}; every known picture needs a kind."
        raise _error(path, what, "Leave those pictures out.")
    return numbered(labels.tolist())
