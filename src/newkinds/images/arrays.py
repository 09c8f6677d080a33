"""Arrays of images or embeddings, in an .npz file or in memory, as an ImageSet: the same rules for both."""

from __future__ import annotations

import math
import sys
import zipfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from newkinds.errors import DataError, NewkindsError
from newkinds.images.decode import Header, fit_pixels
from newkinds.images.imageset import ImageSet, Skipped, image_set, numbered
from newkinds.images.scan import GIVE, in_threads
from newkinds.memory import check_room
from newkinds.progress import Progress

_NAMES = ("images", "embeddings", "labels", "names")
_PICTURE = "uint8 (H, W), (H, W, C) or (C, H, W) with C 1 or 3"


@dataclass(frozen=True)
class _Origin:
    """Where arrays come from, for error messages: its name, and how to pass arrays correctly."""

    called: str
    hint: str

    def error(self, what: str, hint: str | None = None) -> DataError:
        return DataError(f"{self.called} {what}", hint=self.hint if hint is None else hint)


_MEMORY = _Origin(
    "The array given",
    "Give uint8 images (N, H, W), (N, H, W, 3) or (N, C, H, W), or float embeddings (N, d); with kinds, as a pair "
    "(images, labels).",
)


def load_npz(path: str | Path, *, labelled: bool) -> ImageSet:
    """Open an .npz file of arrays, which are taken as they are; nothing in it is unpickled.

    images: uint8 (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3 and H equal to W. A shape that fits both of
        the last two, such as (N, 3, 3, 3), is taken for (N, H, W, C).
    embeddings: instead of images, float (N, d), all finite; they become float32.
    labels: (N,) integers from 0 on, or strings; required if `labelled`. Otherwise they are for scores only: kept if
        usable, and left out of the fingerprint, so that it is the same with and without them.
    names: (N,) unique strings; without them each picture is named by its row number.
    """
    origin = _Origin(str(path), "Write it with numpy.savez(path, images=..., labels=..., names=...).")
    return _from_arrays(_read(Path(path), origin), origin, str(path), labelled)


def npz_labels(path: Path) -> NDArray[Any] | None:
    """Return the labels of an .npz file, (N,), without reading the rest of it; None if it has none."""
    return _read(path, _Origin(str(path), ""), ("labels",)).get("labels")


def load_array(array: NDArray[Any], labels: Any = None, *, labelled: bool) -> ImageSet:
    """Open an array in memory by the rules of `load_npz`, without a copy if its order of axes allows.

    array: `images`, or, if it holds floats and has two axes, `embeddings`. labels: (N,), None if there are none.
    """
    is_embedding = array.dtype.kind == "f" and array.ndim == 2
    arrays = {"embeddings" if is_embedding else "images": array}
    if labels is not None:
        arrays["labels"] = _as_labels(labels, _MEMORY)
    n = len(array) if array.ndim else 0
    return _from_arrays(arrays, _MEMORY, f"{n} embeddings" if is_embedding else called(n), labelled)


def called(n: int) -> str:
    """Return the source's name for n arrays that are given in memory."""
    return f"{n} array{'' if n == 1 else 's'}"


def usable_labels(labels: Any, n: int, *, labelled: bool) -> NDArray[Any] | None:
    """Return labels given in memory as an array (n,) of integers or strings.

    Unusable labels are an error if `labelled`; otherwise they are for scores only, and None is returned.
    """
    return _usable({"labels": _as_labels(labels, _MEMORY)}, _MEMORY, n, labelled)


@dataclass(frozen=True)
class Unfitted:
    """Pictures in memory, of different sizes, that have yet to be resized to one shape.

    pictures: N arrays, uint8 (C, H, W) with C 1 or 3. labels: int64 (N,) indices into `classes`, or None.
    labelled: whether the labels are part of the data, and not only for scores.
    """

    pictures: tuple[NDArray[np.uint8], ...]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    labelled: bool
    skipped: tuple[Skipped, ...] = ()

    @property
    def source(self) -> str:
        """The name of the source."""
        return called(len(self.pictures))

    @property
    def found(self) -> list[Header]:
        """The width, height and channels of each."""
        return [Header("array", one.shape[2], one.shape[1], one.shape[0]) for one in self.pictures]

    def fitted(self, size: int, channels: int, fit: str, workers: int | None, progress: Progress) -> ImageSet:
        """Resize the pictures to one shape, as files are."""
        pixels = np.empty((len(self.pictures), channels, size, size), dtype=np.uint8)

        def bring(item: int) -> None:
            pixels[item] = fit_pixels(self.pictures[item], size=size, channels=channels, fit=fit)

        for _ in in_threads(bring, range(len(pixels)), workers, "Resizing pictures", progress):
            pass
        names = _numbers(len(pixels))
        return image_set(pixels, names, self.labels, self.classes, self.source, labelled=self.labelled)


def load_pictures(pictures: Sequence[Any], labels: Any = None, *, labelled: bool) -> Unfitted:
    """Open arrays in memory, one for each picture, which may differ in size.

    pictures: N arrays, uint8 (H, W), (H, W, C) or (C, H, W) with C 1 or 3; a shape that fits both of the last two
        is taken as by `load_npz`. labels: (N,), as of `load_npz`; None where there are none.
    """
    planes = []
    for item, picture in enumerate(pictures):
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or 0 in picture.shape:
            raise _not_a_picture(item, picture)
        stacked = _planes(picture[None])
        if stacked is None:
            raise _not_a_picture(item, picture)
        planes.append(stacked[0])
    arrays = {} if labels is None else {"labels": _as_labels(labels, _MEMORY)}
    numbers, classes = _numbered(_usable(arrays, _MEMORY, len(planes), labelled))
    return Unfitted(tuple(planes), numbers, classes, labelled)


def _not_a_picture(item: int, picture: Any) -> DataError:
    is_array = isinstance(picture, np.ndarray)
    what = f"of type {picture.dtype} and shape {picture.shape}" if is_array else f"of type {type(picture).__name__}"
    return DataError(
        f"In the list of pictures, item {item} is {what}; {_PICTURE} is needed.",
        hint="Convert it, or leave it out. Embeddings are given as one array (N, d).",
    )


def _from_arrays(arrays: dict[str, NDArray[Any]], origin: _Origin, source: str, labelled: bool) -> ImageSet:
    if ("images" in arrays) == ("embeddings" in arrays):
        raise origin.error(f"should have one of the arrays `images` and `embeddings`; it has {_listed(arrays)}.")
    is_image = "images" in arrays
    pixels = _images(arrays["images"], origin) if is_image else _embeddings(arrays["embeddings"], origin)
    names = _names(arrays, origin, len(pixels))
    bad = [] if is_image else np.flatnonzero(~np.isfinite(pixels).all(axis=1)).tolist()
    if bad:
        rows = ", ".join(f"{row} ({names[row]})" if "names" in arrays else str(row) for row in bad[:10])
        raise origin.error(f"has embeddings that are not finite in {len(bad)} row(s): {rows}.", "Leave them out.")
    labels, classes = _numbered(_usable(arrays, origin, len(pixels), labelled))
    return image_set(pixels, names, labels, classes, source, labelled=labelled)


def _listed(arrays: dict[str, NDArray[Any]]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(arrays)) or "none"


def _read(path: Path, origin: _Origin, wanted: Sequence[str] = _NAMES) -> dict[str, NDArray[Any]]:
    """Read the arrays that are wanted; others are left empty, and their names are for error messages."""
    if not path.exists():
        raise DataError(f"{path} does not exist.", hint=GIVE)
    if not path.is_file():
        raise DataError(f"{path} is no file, but a pipe or a device.", hint=GIVE)
    try:
        if not zipfile.is_zipfile(path):
            raise origin.error("is not an .npz file.")
        _check_members(path, origin, wanted)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] if name in wanted else np.empty(0) for name in file.files}
    except NewkindsError:
        raise
    except MemoryError as error:
        raise origin.error("needs more memory than there is.", "Give a folder of pictures instead.") from error
    except Exception as error:  # on broken bytes, zipfile, zlib and numpy may raise anything
        what = "holds Python objects, which are not read." if "pickle" in str(error) else f"is broken ({error})."
        raise origin.error(what) from error


def _check_members(path: Path, origin: _Origin, wanted: Sequence[str]) -> None:
    """Raise an error unless the members that are wanted are arrays, as long as they say, and fit into memory."""
    needed = 0
    with zipfile.ZipFile(path) as file:
        for name in wanted:
            entries = [one for one in file.infolist() if one.filename in (name, f"{name}.npy")]
            if len(entries) > 1:
                raise origin.error(f"has `{name}` more than once.")
            for entry in entries:
                with file.open(entry) as member:
                    size = _array_bytes(member)
                if size is None or size > entry.file_size:
                    why = "is not an array" if size is None else f"says that it has {size:,} bytes, and has fewer"
                    raise origin.error(f"has a `{name}` that {why}.")
                needed += size
    check_room(needed, f"{path}", "Give a folder of pictures instead: those need not fit into memory.")


def _array_bytes(member: IO[bytes]) -> int | None:
    """Return how many bytes an array in the .npy format says that it has, None if it is not in that format."""
    if member.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
        return None
    headers = {b"\1\0": np.lib.format.read_array_header_1_0, b"\2\0": np.lib.format.read_array_header_2_0}
    read = headers.get(member.read(2))
    if read is None:  # the third version, for names of fields that are not Latin: no array here has any
        return None
    shape, _, dtype = read(member)
    return math.prod(shape) * int(dtype.itemsize)


def _images(images: NDArray[Any], origin: _Origin) -> NDArray[np.uint8]:
    """Return images as contiguous (N, C, H, W)."""
    if images.dtype != np.uint8:
        raise origin.error(f"has `images` of type {images.dtype}; uint8, 0 to 255, is needed.")
    shape = images.shape
    if 0 in shape:
        raise origin.error(f"has `images` of shape {shape}: there is nothing in it.")
    planes = _planes(images)
    if planes is None:
        raise origin.error(f"has `images` of shape {shape}; (N, H, W) or (N, H, W, C) with C 1 or 3 is needed.")
    if planes.shape[2] != planes.shape[3]:
        raise origin.error(
            f"has `images` of {planes.shape[2]} x {planes.shape[3]} pixels; arrays are taken as they are, so height "
            "and width must be equal.",
            "Crop or pad them to a square.",
        )
    return np.ascontiguousarray(planes)


def _planes(images: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """Return a view of images as (N, C, H, W); None where their shape is not that of images."""
    shape = images.shape
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and shape[3] in (1, 3) and (shape[1] == shape[2] or shape[1] not in (1, 3)):
        return images.transpose(0, 3, 1, 2)
    return images if images.ndim == 4 and shape[1] in (1, 3) else None


def _embeddings(embeddings: NDArray[Any], origin: _Origin) -> NDArray[np.float32]:
    if embeddings.dtype.kind != "f" or embeddings.ndim != 2 or 0 in embeddings.shape:
        raise origin.error(
            f"has `embeddings` of type {embeddings.dtype} and shape {embeddings.shape}; floats (N, d) are needed."
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, and is reported as such
        return np.ascontiguousarray(embeddings, dtype=np.float32)


def _names(arrays: dict[str, NDArray[Any]], origin: _Origin, n: int) -> tuple[str, ...]:
    if "names" not in arrays:
        return _numbers(n)
    names = arrays["names"]
    if names.dtype.kind != "U" or names.shape != (n,) or not _is_text(names):
        raise origin.error(f"has `names` of type {names.dtype} and shape {names.shape}; {n} strings are needed.")
    counts = Counter(names.tolist())
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise origin.error(f"has {len(twice)} name(s) more than once in `names`, such as {twice[0]!r}.")
    return tuple(names.tolist())


def _is_text(array: NDArray[Any]) -> bool:
    """Return whether an array holds no strings, or strings of characters that exist: numpy reads others, too."""
    if array.dtype.kind != "U" or not array.dtype.itemsize:
        return True
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))
    return bool((native.view(np.uint32) <= sys.maxunicode).all())


def _numbers(n: int) -> tuple[str, ...]:
    """Return names for pictures without any: their row numbers, padded to one length."""
    return tuple(f"{row:0{len(str(n - 1))}d}" for row in range(n))


def _as_labels(labels: Any, origin: _Origin) -> NDArray[Any]:
    try:
        return np.asarray(labels)
    except ValueError as error:  # nested lists of different lengths
        raise origin.error(f"has labels that make no array ({error}).") from error


def _usable(arrays: dict[str, NDArray[Any]], origin: _Origin, n: int, labelled: bool) -> NDArray[Any] | None:
    """Return the labels: checked if `labelled`, otherwise only if they are usable."""
    if labelled:
        return _labels(arrays, origin, n)
    with suppress(DataError):  # unusable labels, such as -1 for unknown, count as none
        return _labels(arrays, origin, n)
    return None


def _labels(arrays: dict[str, NDArray[Any]], origin: _Origin, n: int) -> NDArray[Any]:
    if "labels" not in arrays:
        has = f"; it has {_listed(arrays)}" if arrays else ""
        raise origin.error(f"needs the array `labels`, the kind of each picture{has}.")
    labels = arrays["labels"]
    if labels.dtype.kind not in "iuU" or labels.shape != (n,) or not _is_text(labels):
        what = f"has `labels` of type {labels.dtype} and shape {labels.shape}; {n} integers or strings are needed."
        raise origin.error(what)
    if labels.dtype.kind == "i" and labels.min() < 0:
        rows = np.flatnonzero(labels < 0)
        what = f"has {len(rows)} negative label(s), the first in row {rows[0]}; every known picture needs a kind."
        raise origin.error(what, "Leave those pictures out.")
    return labels


def _numbered(labels: NDArray[Any] | None) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    return (None, ()) if labels is None else numbered(labels.tolist())
