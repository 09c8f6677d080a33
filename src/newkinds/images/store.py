"""Open a folder or an .npz file as an ImageSet: decoded once, in parallel, into memory or a memory-mapped file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.errors import DataError, UsageError, unknown_name
from newkinds.images.decode import FITS, MAX_PIXELS, ImageError, decode
from newkinds.images.imageset import ImageSet, Skipped, fingerprint
from newkinds.images.scan import Found, Item, Result, Scan, in_threads, printable, read_file
from newkinds.images.scan import scan as scan_folder
from newkinds.progress import QUIET, Progress

SMALLEST, LARGEST = 16, 64  # of a side that is inferred
MEMORY_MB = 2048  # of decoded pixels; a larger set goes to a file
DECODE_VERSION = 1  # to be raised when decode() returns other pixels, so that older cache files are not used

_MAGIC = b"newkinds"
_PARTIAL_SECONDS = 24 * 3600.0  # after which an unfinished cache file is taken for left behind


@dataclass(frozen=True)
class Shape:
    """What pictures are brought to: the side of the square in pixels, and 1 or 3 channels."""

    size: int
    channels: int


def open_images(
    source: str | Path | ImageSet,
    *,
    labelled: bool = False,
    size: int | None = None,
    channels: int | None = None,
    largest: int = LARGEST,
    fit: str = "crop",
    max_pixels: int = MAX_PIXELS,
    memory_mb: int = MEMORY_MB,
    cache_dir: Path | None = None,
    workers: int | None = None,
    progress: Progress = QUIET,
) -> ImageSet:
    """Open a folder of pictures or an .npz file of images or embeddings; an ImageSet is returned as it is.

    labelled: take the first folder below `source`, or the array `labels`, as the kind of each picture.
    size, channels, largest: what pictures are brought to, see `infer_shape`; arrays are compared with it, not changed.
    fit: see `decode`. max_pixels: of one file. memory_mb, cache_dir, workers: see `load`.
    """
    ready = _scanned_or_read(source, labelled, max_pixels, workers, progress)
    if isinstance(ready, ImageSet):
        _check_shape(ready, size, channels)
        return ready
    options = _Options(fit, max_pixels, memory_mb, cache_dir, workers, progress)
    return _load(ready, infer_shape([ready], size, channels, largest), labelled, options)


def open_pair(
    known: str | Path | ImageSet,
    unsorted: str | Path | ImageSet,
    *,
    size: int | None = None,
    channels: int | None = None,
    largest: int = LARGEST,
    fit: str = "crop",
    max_pixels: int = MAX_PIXELS,
    memory_mb: int = MEMORY_MB,
    cache_dir: Path | None = None,
    workers: int | None = None,
    progress: Progress = QUIET,
) -> tuple[ImageSet, ImageSet]:
    """Open the known pictures, with their kinds, and the unsorted ones, without, in one shape.

    Two folders: the shape is inferred from both. A folder and an array: the array's shape rules. Two arrays: theirs
    must agree. The options are those of `open_images`.
    """
    first = _scanned_or_read(known, True, max_pixels, workers, progress)
    second = _scanned_or_read(unsorted, False, max_pixels, workers, progress)
    scans = [one for one in (first, second) if isinstance(one, Scan)]
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
            f"{arrays[0].source} has {_described(arrays[0])}, {scans[0].root} is a folder of pictures.",
            hint="Give pictures for both, or embeddings for both.",
        )
    shape = Shape(arrays[0].size, arrays[0].channels) if arrays else infer_shape(scans, size, channels, largest)
    options = _Options(fit, max_pixels, memory_mb, cache_dir, workers, progress)
    return (
        first if isinstance(first, ImageSet) else _load(first, shape, True, options),
        second if isinstance(second, ImageSet) else _load(second, shape, False, options),
    )


def infer_shape(scans: Sequence[Scan], size: int | None, channels: int | None = None, largest: int = LARGEST) -> Shape:
    """Choose one shape for all pictures of the scans, where `size` or `channels` is None.

    The size is the side that all pictures have in common if all are square and that is at most `largest`, otherwise
    the median of their shorter sides, at least 16 and at most `largest`. One channel if every picture is grey.
    """
    found = [picture for one in scans for picture in one.found]
    if not found:
        raise _nothing_usable(scans[0].root, [skip for one in scans for skip in one.skipped])
    if size is None:
        shorter = [min(picture.width, picture.height) for picture in found]
        common = all(picture.width == picture.height == shorter[0] for picture in found) and shorter[0] <= largest
        size = shorter[0] if common else min(max(int(np.median(shorter)), SMALLEST), largest)
    elif size < 1:
        raise UsageError(f"size={size} should be >= 1.")
    if channels is None:
        channels = max(picture.channels for picture in found)
    elif channels not in (1, 3):
        raise UsageError(f"channels={channels} should be 1 or 3.")
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
    workers: int | None = None,
    progress: Progress = QUIET,
) -> ImageSet:
    """Decode the pictures of a scan, in its order; those that fail join `skipped`.

    sorted_into_folders: the first folder below the root is the class; classes are numbered in order of their names.
    memory_mb: where the pixels take more, they go to a file in `cache_dir`, from which they are memory-mapped and
        which the next call with the same files and options uses instead of decoding.
    cache_dir: default $NEWKINDS_CACHE, otherwise $XDG_CACHE_HOME/newkinds or ~/.cache/newkinds.

    Returns an ImageSet with pixels uint8 (N, shape.channels, shape.size, shape.size).
    """
    options = _Options(fit, max_pixels, memory_mb, cache_dir, workers, progress)
    return _load(scan, shape, sorted_into_folders, options)


def check_known(images: ImageSet) -> None:
    """Refuse, with a DataError, a set that cannot teach kinds: it needs two classes, each of two pictures or more."""
    if images.labels is None:
        raise DataError(
            f"{images.source} does not say of which kind its pictures are.",
            hint="Use one folder a kind, or an .npz file with the array `labels`.",
        )
    counts = np.bincount(images.labels, minlength=len(images.classes))
    present = [images.classes[index] for index in np.flatnonzero(counts)]
    if len(present) < 2:
        only = f" ({present[0]})" if present else ""
        raise DataError(
            f"{images.source} has {len(present)} class(es){only}, at least 2 are needed.",
            hint=f"Sort the known pictures into one folder a kind: {images.source}/KIND/PICTURE.",
        )
    small = [f"{images.classes[index]} ({counts[index]})" for index in np.flatnonzero(counts < 2)]
    if small:
        more = f" and {len(small) - 10} more" if len(small) > 10 else ""
        raise DataError(
            f"Every class of {images.source} needs at least 2 pictures. Too small: {', '.join(small[:10])}{more}.",
            hint="Add pictures to them, or take them out of the known ones.",
        )


def check_unsorted(images: ImageSet) -> None:
    """Refuse, with a DataError, a set too small to be clustered: it needs two pictures or more."""
    if len(images) < 2:
        raise DataError(
            f"{images.source} has {len(images)} usable picture(s), at least 2 are needed.",
            hint="Add the pictures whose kinds are to be found.",
        )


def default_cache() -> Path:
    """Return $NEWKINDS_CACHE, otherwise the folder newkinds in $XDG_CACHE_HOME or ~/.cache."""
    if os.environ.get("NEWKINDS_CACHE"):
        return Path(os.environ["NEWKINDS_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newkinds"


# Folders


@dataclass(frozen=True)
class _Options:
    """How to decode, as `load` takes it."""

    fit: str
    max_pixels: int
    memory_mb: int
    cache_dir: Path | None
    workers: int | None
    progress: Progress


def _load(scan: Scan, shape: Shape, sorted_into_folders: bool, options: _Options) -> ImageSet:
    if options.fit not in FITS:
        raise unknown_name("fit", options.fit, FITS)
    files, skipped = scan.found, list(scan.skipped)
    if sorted_into_folders:
        files = tuple(file for file in files if "/" in file.name)
        skipped += [Skipped(one.name, "not inside a class folder") for one in scan.found if "/" not in one.name]
    if not files:
        raise _nothing_usable(scan.root, skipped)
    decoding = _Decoding(files, shape, options)
    pixels, dropped, digest = decoding.into_memory() if decoding.fits_in_memory else decoding.into_file()
    skipped += dropped
    if not len(pixels):
        raise _nothing_usable(scan.root, skipped)
    gone = {one.name for one in dropped}
    names = tuple(file.name for file in files if file.name not in gone)
    labels, classes = _numbered([name.split("/", 1)[0] for name in names]) if sorted_into_folders else (None, ())
    if sorted_into_folders:
        skipped += _without_pictures(scan.root, {*classes, *(one.name for one in skipped)})
    skipped.sort(key=lambda one: (one.name, one.reason))
    mark = fingerprint(pixels, names, labels, classes, digest=digest)
    return ImageSet(pixels, names, labels, classes, str(scan.root), mark, tuple(skipped))


@dataclass(frozen=True)
class _Decoding:
    """The pictures of some files, on their way into memory or into a cache file.

    A cache file holds the pixels, a footer in JSON, the footer's length (8 bytes) and a magic word. Its name is the
    hash of all that the pixels depend on.
    """

    files: Sequence[Found]
    shape: Shape
    options: _Options

    @property
    def row(self) -> tuple[int, int, int]:
        return self.shape.channels, self.shape.size, self.shape.size

    @property
    def n_bytes(self) -> int:
        return len(self.files) * self.shape.channels * self.shape.size**2

    @property
    def fits_in_memory(self) -> bool:
        return self.n_bytes <= self.options.memory_mb * 2**20

    def into_memory(self) -> tuple[NDArray[np.uint8], list[Skipped], None]:
        pixels = np.empty((len(self.files), *self.row), dtype=np.uint8)
        free = iter(pixels)
        dropped = self.decode_all(lambda picture: np.copyto(next(free), picture))
        return pixels[: len(pixels) - len(dropped)], dropped, None

    def into_file(self) -> tuple[NDArray[np.uint8], list[Skipped], str]:
        """Map the cache file of these pictures, after writing it if it is not there; also return the pixels' digest."""
        folder = self.options.cache_dir or default_cache()
        hashes = self.hash_all()
        key = self.key(hashes)
        path = folder / f"{key}.pixels"
        if _read_footer(path, key) is None:
            try:
                self.write(path, key, hashes)
            except OSError as error:
                raise DataError(
                    f"The decoded pictures take {self.n_bytes >> 20:,} MB, over memory_mb={self.options.memory_mb}, "
                    f"and the cache {folder} cannot be written ({error.strerror or error}).",
                    hint="Set NEWKINDS_CACHE to a folder with room, or raise memory_mb.",
                ) from error
        footer = _read_footer(path, key)
        if footer is None:
            raise DataError(f"The cache file {path} does not read back.", hint="Set NEWKINDS_CACHE to another disk.")
        dropped = [Skipped(name, reason) for name, reason in footer["dropped"]]
        shape = (len(self.files) - len(dropped), *self.row)
        if shape[0] == 0:
            return np.empty(shape, dtype=np.uint8), dropped, footer["digest"]
        # Mode "c": torch wants arrays that it may write to; what is written there never reaches the file.
        return np.asarray(np.memmap(path, np.uint8, mode="c", shape=shape)), dropped, footer["digest"]

    def write(self, path: Path, key: str, hashes: Sequence[str]) -> None:
        """Write the cache file beside its place, sync it and move it there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_partial(path.parent)
        free = shutil.disk_usage(path.parent).free
        if free < self.n_bytes:
            raise OSError(f"it has room for {free >> 20:,} MB")
        handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".partial")
        try:
            with open(handle, "wb") as stream:
                digest = hashlib.blake2b(digest_size=16)

                def keep(picture: NDArray[np.uint8]) -> None:
                    data = picture.tobytes()
                    digest.update(data)
                    stream.write(data)

                dropped = [[one.name, one.reason] for one in self.decode_all(keep, hashes)]
                content = {"key": key, "bytes": stream.tell(), "digest": digest.hexdigest(), "dropped": dropped}
                footer = json.dumps(content).encode()
                stream.write(footer + len(footer).to_bytes(8, "little") + _MAGIC)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)

    def decode_all(self, keep: Callable[[NDArray[np.uint8]], None], hashes: Sequence[str] = ()) -> list[Skipped]:
        """Hand the pictures to `keep` in order and return those that fail. `hashes`: what the files must still have."""

        def decoded(item: int) -> NDArray[np.uint8] | Skipped:
            file, options = self.files[item], self.options
            try:
                data = read_file(file.path)
                if hashes and _hash(data) != hashes[item]:
                    raise DataError(f"{file.path} changed while it was read.", hint="Try again when nothing writes it.")
                size, channels = self.shape.size, self.shape.channels
                return decode(data, size=size, channels=channels, max_pixels=options.max_pixels, fit=options.fit)
            except ImageError as error:
                return Skipped(file.name, error.message)

        dropped = []
        for result in self.in_threads(decoded, range(len(self.files)), "Decoding pictures"):
            if isinstance(result, Skipped):
                dropped.append(result)
            else:
                keep(result)
        return dropped

    def hash_all(self) -> list[str]:
        """Return a hash of each file's bytes; the reason, of one that cannot be read."""

        def hashed(file: Found) -> str:
            try:
                return _hash(read_file(file.path))
            except ImageError as error:
                return error.message

        return list(self.in_threads(hashed, self.files, "Looking for decoded pictures"))

    def in_threads(self, work: Callable[[Item], Result], items: Sequence[Item], title: str) -> Iterator[Result]:
        return in_threads(work, items, self.options.workers, title, self.options.progress)

    def key(self, hashes: Sequence[str]) -> str:
        files = [[file.name, hashed] for file, hashed in zip(self.files, hashes, strict=True)]
        content = [DECODE_VERSION, self.row, self.options.fit, self.options.max_pixels, files]
        return _hash(json.dumps(content).encode())


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _read_footer(path: Path, key: str) -> dict[str, Any] | None:
    """Return the footer of a cache file that is whole, going by its magic word, key and size; otherwise None."""
    try:
        with open(path, "rb") as stream:
            end = stream.seek(-16, os.SEEK_END)
            tail = stream.read()
            start = end - int.from_bytes(tail[:8], "little")
            stream.seek(start)
            footer: dict[str, Any] = json.loads(stream.read(end - start))
        whole = tail[8:] == _MAGIC and footer["key"] == key and footer["bytes"] == start
    except (OSError, ValueError, OverflowError, KeyError, TypeError):
        return None
    return footer if whole else None


def _remove_partial(folder: Path) -> None:
    """Remove cache files that a killed process left unfinished."""
    for path in folder.glob("*.partial"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _PARTIAL_SECONDS:
                path.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a power cut, where the system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _numbered(kinds: Sequence[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the kinds as indices, int64 (N,), into their sorted names, and those names."""
    values = sorted(set(kinds))
    number = {value: index for index, value in enumerate(values)}
    return np.array([number[kind] for kind in kinds], dtype=np.int64), tuple(str(value) for value in values)


def _without_pictures(root: Path, mentioned: set[str]) -> list[Skipped]:
    """Return the class folders that neither gave a picture nor were skipped themselves."""
    with os.scandir(root) as entries:
        folders = [printable(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [Skipped(name, "class folder without a usable picture") for name in folders if name not in mentioned]


def _nothing_usable(root: Path, skipped: Sequence[Skipped]) -> DataError:
    if not skipped:
        return DataError(f"There is no file in {root}.", hint="Give a folder with pictures in it.")
    # What stands in brackets differs from file to file.
    reason = Counter(one.reason.split(" (")[0] for one in skipped).most_common(1)[0][0]
    return DataError(
        f"No picture in {root} can be used. Skipped: {len(skipped)}, most often because of this: {reason}.",
        hint=f"To see each with its reason: newkinds scan {root}",
    )


def _scanned_or_read(
    source: str | Path | ImageSet, labelled: bool, max_pixels: int, workers: int | None, progress: Progress
) -> ImageSet | Scan:
    if isinstance(source, ImageSet):
        return source
    path = Path(source)
    if path.suffix.lower() == ".npz" and not path.is_dir():
        return load_npz(path, labelled=labelled)
    return scan_folder(path, max_pixels=max_pixels, workers=workers, progress=progress)


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


# Array files


def load_npz(path: str | Path, *, labelled: bool) -> ImageSet:
    """Open an .npz file of arrays, which are taken as they are; nothing in it is unpickled.

    images: uint8 (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3 and H equal to W. What could be read as both of
        the last two, such as (N, 3, 3, 3), is taken for (N, H, W, C).
    embeddings: instead of images, float (N, d), all finite; they become float32.
    labels: (N,) integers from 0 on, or strings; needed and used only where `labelled`.
    names: (N,) unique strings; otherwise each picture is called by the number of its row.
    """
    path = Path(path)
    arrays = _read_npz(path)
    if ("images" in arrays) == ("embeddings" in arrays):
        raise _npz_error(path, f"should have one of the arrays `images` and `embeddings`; it has {_listed(arrays)}.")
    is_image = "images" in arrays
    pixels = _npz_images(path, arrays["images"]) if is_image else _npz_embeddings(path, arrays["embeddings"])
    names = _npz_names(path, arrays, len(pixels))
    bad = [] if is_image else np.flatnonzero(~np.isfinite(pixels).all(axis=1)).tolist()
    if bad:
        rows = ", ".join(f"{row} ({names[row]})" if "names" in arrays else str(row) for row in bad[:10])
        raise _npz_error(path, f"has embeddings that are not finite in {len(bad)} row(s): {rows}.", "Leave them out.")
    labels, classes = _npz_labels(path, arrays, len(pixels)) if labelled else (None, ())
    mark = fingerprint(pixels, names, labels, classes)
    return ImageSet(pixels, names, labels, classes, str(path), mark)


_NPZ_NAMES = ("images", "embeddings", "labels", "names")
_NPZ_HINT = "Write it with numpy.savez(path, images=..., labels=..., names=...)."


def _npz_error(path: Path, what: str, hint: str = _NPZ_HINT) -> DataError:
    return DataError(f"{path} {what}", hint=hint)


def _listed(arrays: dict[str, NDArray[Any]]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(arrays)) or "none"


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays that have a meaning here; others are left empty, their names are for the messages."""
    if not path.exists():
        raise DataError(f"{path} does not exist.", hint="Give a folder of pictures or an .npz file of arrays.")
    try:
        if not zipfile.is_zipfile(path):
            raise _npz_error(path, "is not an .npz file.")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] if name in _NPZ_NAMES else np.empty(0) for name in file.files}
    except DataError:
        raise
    except MemoryError as error:
        raise _npz_error(path, "needs more memory than there is.", "Give a folder of pictures instead.") from error
    except Exception as error:  # on broken bytes zipfile, zlib and numpy raise what they like
        what = "holds Python objects, which are not read." if "pickle" in str(error) else f"is broken ({error})."
        raise _npz_error(path, what) from error


def _npz_images(path: Path, images: NDArray[Any]) -> NDArray[np.uint8]:
    """Return images as contiguous (N, C, H, W)."""
    if images.dtype != np.uint8:
        raise _npz_error(path, f"has `images` of type {images.dtype}; uint8, 0 to 255, is needed.")
    shape = images.shape
    if 0 in shape:
        raise _npz_error(path, f"has `images` of shape {shape}: there is nothing in it.")
    if images.ndim == 3:
        planes = images[:, None]
    elif images.ndim == 4 and shape[3] in (1, 3) and (shape[1] == shape[2] or shape[1] not in (1, 3)):
        planes = images.transpose(0, 3, 1, 2)
    elif images.ndim == 4 and shape[1] in (1, 3):
        planes = images
    else:
        raise _npz_error(path, f"has `images` of shape {shape}; (N, H, W) or (N, H, W, C) with C 1 or 3 is needed.")
    if planes.shape[2] != planes.shape[3]:
        raise _npz_error(
            path,
            f"has `images` of {planes.shape[2]} x {planes.shape[3]} pixels; arrays are taken as they are, so height "
            "and width must be equal.",
            "Crop or pad them to a square.",
        )
    return np.ascontiguousarray(planes)


def _npz_embeddings(path: Path, embeddings: NDArray[Any]) -> NDArray[np.float32]:
    if embeddings.dtype.kind != "f" or embeddings.ndim != 2 or 0 in embeddings.shape:
        raise _npz_error(
            path, f"has `embeddings` of type {embeddings.dtype} and shape {embeddings.shape}; floats (N, d) are needed."
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, and is reported as that
        return np.ascontiguousarray(embeddings, dtype=np.float32)


def _npz_names(path: Path, arrays: dict[str, NDArray[Any]], n: int) -> tuple[str, ...]:
    if "names" not in arrays:
        return tuple(f"{row:0{len(str(n - 1))}d}" for row in range(n))
    names = arrays["names"]
    if names.dtype.kind != "U" or names.shape != (n,):
        raise _npz_error(path, f"has `names` of type {names.dtype} and shape {names.shape}; {n} strings are needed.")
    counts = Counter(names.tolist())
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise _npz_error(path, f"has {len(twice)} name(s) more than once in `names`, such as {twice[0]!r}.")
    return tuple(names.tolist())


def _npz_labels(path: Path, arrays: dict[str, NDArray[Any]], n: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if "labels" not in arrays:
        raise _npz_error(path, f"needs the array `labels`, the kind of each picture; it has {_listed(arrays)}.")
    labels = arrays["labels"]
    if labels.dtype.kind not in "iuU" or labels.shape != (n,):
        what = f"has `labels` of type {labels.dtype} and shape {labels.shape}; {n} integers or strings are needed."
        raise _npz_error(path, what)
    if labels.dtype.kind == "i" and labels.min() < 0:
        rows = np.flatnonzero(labels < 0)
        what = f"has {len(rows)} negative label(s), the first in row {rows[0]}; every known picture needs a kind."
        raise _npz_error(path, what, "Leave those pictures out.")
    return _numbered(labels.tolist())
