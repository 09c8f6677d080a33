"""Decoding: the bytes of an image file to pixels. The only module of the package that imports PIL.

JPEG, PNG, WebP, BMP, GIF and TIFF are read, AVIF where Pillow can, and HEIC where pillow-heif is installed. The first
bytes choose the reader, so none of Pillow's other plugins ever sees a file. Every picture comes out as 8-bit grey or
RGB by these rules:

- The first frame of an animation or of a TIFF with pages is the picture.
- EXIF orientation is applied. Colour profiles and gamma are not.
- Transparency is composited on white, whether it is a channel, a palette entry or one colour.
- 16-bit grey is divided by 257 and 12-bit TIFF scaled alike, so that white stays white. (Of 16-bit colour Pillow keeps
  the high byte.)
- 32-bit integers (TIFF) within 0..255 stay as they are, within 0..65535 are divided by 257, and are otherwise stretched
  from their least to their largest value.
- Floats (TIFF) within 0..1 keep black at 0 and white at 1, and are otherwise stretched in the same way. A value that is
  not finite refuses the picture.

A file that is cut short or broken is refused with an `ImageError`, never returned half grey. What no reader can notice
is damage that leaves a valid stream of other pixels: only PNG carries a checksum.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, features
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from newkinds.errors import UsageError, unknown_name
from newkinds.images.formats import AVIF, HEAD, HEIC, RAW, VIDEO, Unread, by_content, by_ending
from newkinds.images.libtiff import libtiff_errors
from newkinds.images.limits import MAX_READS, PIXELS, MeteredBytes, MeteredFile
from newkinds.images.limits import ImageError as ImageError

MAX_PIXELS = 100_000_000  # decoding a picture at the limit takes about 1 GB
MAX_SIDE = 65_535  # JPEG's own limit; a one-row picture of 100 million columns is an attack, not a photograph
MAX_SCANS = 200  # of a progressive JPEG: encoders write 10, an attack thousands, each as long as a whole decode

BYTES_OF_A_PIXEL, BYTES_OF_LAYERS = 10, 16  # of memory while a picture is decoded; with transparency or more bits

FITS = ("crop", "squash")
WITHIN = "within"  # for looking at: the whole picture, its longer side at most the size

_READERS: tuple[tuple[bytes, type[ImageFile.ImageFile]], ...] = (
    (rb"\xff\xd8\xff", JpegImageFile),
    (rb"\x89PNG\r\n\x1a\n", PngImageFile),
    (rb"RIFF....WEBP", WebPImageFile),
    (rb"GIF8[79]a", GifImageFile),
    (rb"II[*+]\x00|MM\x00[*+]", TiffImageFile),
    (rb"BM", BmpImageFile),
)
_GREY = ("1", "L", "LA", "La", "I", "F")  # and I;16 in its byte orders
_WITH_ALPHA = ("LA", "La", "PA", "RGBA", "RGBa")

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_MARKER = re.compile(rb"\xff+([^\x00\x01\xd0-\xd8\xff])")  # of JPEG, with a length behind it, or the end
_FILLING = b"".join(bytes(range(1, 255)) + bytes([0xFF, 0xD0 + n]) for n in range(8))  # with all restart markers
_ORIENTATION, _PHOTOMETRIC, _SAMPLE_FORMAT, _BITS, _DNG_VERSION = 274, 262, 339, 258, 50706  # TIFF and EXIF tags
_WHITE_IS_ZERO, _UNSIGNED = 0, 1


@dataclass(frozen=True)
class Header:
    """What a picture file says about itself: width and height after EXIF orientation, channels 1 (grey) or 3."""

    format: str
    width: int
    height: int
    channels: int


def probe(data: bytes | Path, *, max_pixels: int = MAX_PIXELS) -> Header:
    """Read the header of a picture file, given as its bytes or its path, without decoding it.

    The ending of a path is looked at only to tell what sort of unreadable file it is.
    """
    ending = "" if isinstance(data, bytes) else data.suffix
    with (
        _pillow(),
        MeteredBytes(data) if isinstance(data, bytes) else MeteredFile(data) as stream,
        PIXELS.of(_taken_by_opening(_head(stream))),
    ):
        picture = _open(stream, max_pixels, ending)
        width, height = _stored_size(picture)
        if _orientation(picture) >= 5:
            width, height = height, width
        grey = _is_grey(picture)
    return Header(str(picture.format), width, height, 1 if grey else 3)


def decode(
    data: bytes, *, size: int | None, channels: int, max_pixels: int = MAX_PIXELS, fit: str = "crop"
) -> NDArray[np.uint8]:
    """Decode a picture file.

    size: the side of the square that comes out, by an antialiased resize; None keeps width and height.
    channels: 1 for grey (ITU-R 601 luma of a colour picture) or 3 for RGB (a grey one three times).
    fit: "crop" brings the shorter side to `size` and keeps the centre, "squash" brings both sides to `size`, and
    "within" makes the whole picture smaller, where its longer side is over `size`.

    Returns (channels, H, W) uint8, contiguous. Raises ImageError where the file cannot be used.
    """
    _check_wanted(size, channels, fit)
    opening = _taken_by_opening(data[:HEAD])
    with _pillow(), PIXELS.of(opening), _loaded(data, size, max_pixels, ready=bool(opening)) as loaded:
        if isinstance(loaded, JpegImageFile) and _ends_blank(loaded) and _runs_dry(data, loaded, size, max_pixels):
            raise ImageError("cut short (the data of the JPEG ends before its last row)")
        # The orientation of what is loaded: Pillow turns a TIFF itself, and a PNG may keep its EXIF behind the pixels.
        picture, turn = _flatten(loaded), _TURNS.get(_orientation(loaded))
        if turn is not None:
            picture = picture.transpose(turn)
        return _fitted(picture, size, channels, fit)


def fit_pixels(pixels: NDArray[np.uint8], *, size: int, channels: int, fit: str = "crop") -> NDArray[np.uint8]:
    """Resize and convert a picture in memory, as `decode` does with one from a file.

    pixels: uint8 (C, H, W) with C 1 or 3. Returns (channels, size, size) uint8, contiguous.
    """
    _check_wanted(size, channels, fit)
    return _fitted(_as_picture(pixels), size, channels, fit)


def encode(pixels: NDArray[np.uint8], format: str, *, quality: int = 90) -> bytes:
    """Write pixels, uint8 (C, H, W) with C 1 or 3, as the bytes of a "png", "jpeg" or "webp" without metadata."""
    if format not in ("png", "jpeg", "webp"):
        raise unknown_name("picture format", format, ("png", "jpeg", "webp"))
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[0] not in (1, 3):
        raise UsageError(f"pixels of shape {pixels.shape} and type {pixels.dtype} should be uint8 (1 or 3, H, W).")
    stream = io.BytesIO()
    _as_picture(pixels).save(stream, format=format.upper(), quality=quality)
    return stream.getvalue()


def _as_picture(pixels: NDArray[np.uint8]) -> Image.Image:
    """Return pixels, uint8 (C, H, W) with C 1 or 3, as a grey or RGB picture."""
    return Image.fromarray(np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)))


def _check_wanted(size: int | None, channels: int, fit: str) -> None:
    if size is not None and size < 1:
        raise UsageError(f"size={size} should be >= 1.")
    if channels not in (1, 3):
        raise UsageError(f"channels={channels} should be 1 or 3.")
    if fit not in (*FITS, WITHIN):
        raise unknown_name("fit", fit, FITS)


def _fitted(picture: Image.Image, size: int | None, channels: int, fit: str) -> NDArray[np.uint8]:
    """Return the pixels of a grey or RGB picture, (channels, H, W), in the size that `decode` is asked for."""
    if channels == 1 and picture.mode != "L":
        picture = picture.convert("L")
    if size is not None:
        box = _centre_square(picture.size) if fit == "crop" else None
        share = min(1.0, size / max(picture.size))
        wanted = tuple(max(1, round(side * share)) for side in picture.size) if fit == WITHIN else (size, size)
        # Lanczos, after a cheap box reduction to three times the size where the picture is much larger.
        picture = picture.resize((wanted[0], wanted[1]), Image.Resampling.LANCZOS, box=box, reducing_gap=3.0)
    pixels = np.asarray(picture)
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return np.array(np.broadcast_to(planes, (channels, *planes.shape[1:])), order="C")


class _Strictness:
    """Keep Pillow strict about truncated files, and silent about odd ones, while any thread decodes.

    Other libraries switch the strictness off for the whole process. Counted under a lock because the state is global:
    `warnings.catch_warnings` by itself restores the wrong one when threads overlap.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._lenient, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, False
                self._warnings = warnings.catch_warnings()
                self._warnings.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._warnings.__exit__(None, None, None)
                ImageFile.LOAD_TRUNCATED_IMAGES = self._lenient


_strictness = _Strictness()


@contextmanager
def _pillow() -> Iterator[None]:
    """Turn whatever Pillow raises into an ImageError: on hostile bytes that may be any exception."""
    with _strictness:
        try:
            yield
        except ImageError:
            raise
        except Exception as error:
            raise ImageError(_reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "needs more memory than there is"
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot be read ({error.strerror})"
    text = " ".join(str(error).encode("ascii", "backslashreplace").decode().split())[:200].removeprefix("broken ")
    if isinstance(error, Image.DecompressionBombError):
        return f"too many pixels ({text})"
    if "requires a buffer" in text or "index out of range" in text:
        return "cut short (a part of its header is missing)"
    if " " not in text:  # the key of a table inside Pillow, or nothing
        return "broken (its header makes no sense)"
    return f"{'cut short' if 'truncated' in text.lower() else 'broken'} ({text})"


def _open(stream: MeteredBytes | MeteredFile, max_pixels: int, ending: str = "") -> ImageFile.ImageFile:
    """Read the header and refuse what is too large, before any pixel is decoded."""
    head = _head(stream)
    if not head:
        raise ImageError("empty file")
    reader = _reader_of(head, ending)
    canvas = _webp_canvas(head)
    if reader is WebPImageFile and canvas is not None:
        _check_size(canvas, max_pixels)
    stream.meter.header = reader is JpegImageFile
    picture = reader(stream, "")
    stream.meter.header = False
    if isinstance(picture, TiffImageFile) and _DNG_VERSION in picture.tag_v2:
        raise ImageError(RAW.reason)
    _check_size(_stored_size(picture), max_pixels)
    return picture


def _head(stream: MeteredBytes | MeteredFile) -> bytes:
    """Return the first bytes of a file, which stays at its beginning."""
    head = stream.read(HEAD)
    stream.seek(0)
    return head


def _webp_canvas(head: bytes) -> tuple[int, int] | None:
    """Return width and height of a WebP, None of anything else."""
    if re.match(rb"RIFF....WEBP", head, re.DOTALL) is None or len(head) < 30:
        return None
    form, body = head[12:16], head[20:30]
    if form == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    if form == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF


def _taken_by_opening(head: bytes) -> int:
    """Return how many bytes opening a picture takes: the reader of WebP asks for its canvas then, others for little."""
    width, height = _webp_canvas(head) or (0, 0)
    return width * height * BYTES_OF_LAYERS


def _reader_of(head: bytes, ending: str) -> type[ImageFile.ImageFile]:
    """Return what reads a file that begins with `head`; raise ImageError with what it is where nothing does."""
    sort = by_content(head)
    reader = _installed(sort)
    if reader is None and sort in (None, VIDEO):
        reader = next((reader for pattern, reader in _READERS if re.match(pattern, head, re.DOTALL)), None)
    called = by_ending(ending)
    if reader is TiffImageFile and called is RAW:  # its first picture is a small preview
        raise ImageError(RAW.reason)
    if reader is None:
        sort = sort or (called if _installed(called) is None else None)
        raise ImageError("not a JPEG, PNG, WebP, BMP, GIF or TIFF picture" if sort is None else sort.reason)
    return reader


def _installed(sort: Unread | None) -> type[ImageFile.ImageFile] | None:
    """Return the reader of a format that may or may not be read here, None if it is not."""
    return _avif_reader() if sort is AVIF else _heic_reader() if sort is HEIC else None


@cache
def _avif_reader() -> type[ImageFile.ImageFile] | None:
    if "avif" not in features.modules or not features.check("avif"):  # since Pillow 11.3, where it was built with it
        return None
    from PIL.AvifImagePlugin import AvifImageFile

    return AvifImageFile


@cache
def _heic_reader() -> type[ImageFile.ImageFile] | None:
    try:
        from pillow_heif import HeifImageFile
    except ImportError:
        return None
    reader: type[ImageFile.ImageFile] = HeifImageFile
    return reader


def _check_size(size: tuple[int, int], max_pixels: int) -> None:
    width, height = size
    if width * height > max_pixels:
        raise ImageError(f"{width} x {height} is {width * height:,} pixels, over the limit of {max_pixels:,}")
    if max(size) > MAX_SIDE:
        raise ImageError(f"{width} x {height} has a side over the limit of {MAX_SIDE:,} pixels")


def _stored_size(picture: ImageFile.ImageFile) -> tuple[int, int]:
    """Return width and height as stored: newer versions of Pillow swap a turned TIFF's on opening, older do not."""
    if isinstance(picture, TiffImageFile):
        return int(picture.tag_v2[256]), int(picture.tag_v2[257])
    return picture.size


def _orientation(picture: ImageFile.ImageFile) -> int:
    """Return the EXIF orientation, 1 to 8; 1 where there is none or the EXIF block is broken."""
    try:
        # Not PngImageFile's own getexif, which decodes the pixels to look for a block behind them.
        found = Image.Image.getexif(picture).get(_ORIENTATION, 1)
    except Exception:
        return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def _is_grey(picture: ImageFile.ImageFile) -> bool:
    if picture.mode == "P" and picture.palette is not None:
        raw, layout = bytes(picture.palette.palette), picture.palette.rawmode
        if layout == "RGB;L":  # TIFF: all reds, then all greens, then all blues
            third = len(raw) // 3
            return raw[:third] == raw[third : 2 * third] == raw[2 * third :]
        step = 4 if layout == "BGRX" else 3
        return raw[0::step] == raw[1::step] == raw[2::step]
    return picture.mode in _GREY or picture.mode.startswith("I;16") or _raw_mode(picture) == "LA;16B"


def _raw_mode(picture: ImageFile.ImageFile) -> str:
    """Return Pillow's name for the layout of a PNG's stored samples, which tells more than the mode does."""
    return str(picture.tile[0][3]) if isinstance(picture, PngImageFile) and picture.tile else ""


@contextmanager
def _loaded(data: bytes, size: int | None, max_pixels: int, ready: bool) -> Iterator[ImageFile.ImageFile]:
    """Yield a picture decoded as `_prepared` says, in memory that threads share. ready: it is taken already."""
    picture = _prepared(data, size, max_pixels)
    with PIXELS.of(0 if ready else picture.width * picture.height * _bytes_of_a_pixel(picture)):
        _load(picture)
        yield picture


def _load(picture: ImageFile.ImageFile) -> None:
    """Decode a picture; what libtiff says of an error, even of one after which it goes on, is the reason to refuse."""
    if not isinstance(picture, TiffImageFile):
        picture.load()
        return
    with libtiff_errors() as errors:
        try:
            picture.load()
        except Exception as error:
            if errors and not isinstance(error, MemoryError):
                raise ImageError(f"broken ({errors[0]})") from error
            raise
    if errors:
        raise ImageError(f"broken ({errors[0]})")


def _prepared(data: bytes, size: int | None, max_pixels: int) -> ImageFile.ImageFile:
    """Open a picture to be decoded in the file's own mode, not smaller than needed for `size`."""
    picture = _open(MeteredBytes(data), max_pixels)
    if isinstance(picture, JpegImageFile):
        _jpeg_end(data)
        if size is not None:
            picture.draft(None, (2 * size, 2 * size))  # libjpeg decodes at a half, a quarter or an eighth of the size
    elif isinstance(picture, PngImageFile):
        _open(MeteredBytes(data), max_pixels).verify()  # the checksums: loading does not look at those of the pixels
        _match_transparency(picture)
    elif isinstance(picture, TiffImageFile) and not _strips_cover(picture):
        raise ImageError("cut short (strips are missing)")
    return picture


def _bytes_of_a_pixel(picture: ImageFile.ImageFile) -> int:
    """Return how many bytes of memory decoding takes for a pixel, with copies on the way."""
    plain = picture.mode in ("1", "L", "P", "RGB", "CMYK", "YCbCr") and "transparency" not in picture.info
    return BYTES_OF_A_PIXEL if plain else BYTES_OF_LAYERS


def _match_transparency(picture: PngImageFile) -> None:
    """Scale the transparent sample like the pixels, where Pillow scales only the pixels."""
    raw_mode, sample = _raw_mode(picture), picture.info.get("transparency")
    if raw_mode in ("L;2", "L;4") and sample is not None:
        picture.info["transparency"] = sample * (85 if raw_mode == "L;2" else 17)
    elif raw_mode == "RGB;16B" and sample is not None:
        picture.info["transparency"] = tuple(value >> 8 for value in sample)


def _strips_cover(picture: TiffImageFile) -> bool:
    """Tell whether the strips or tiles of an uncompressed TIFF fill its area: Pillow leaves black what they do not."""
    extents = {tile[1] for tile in picture.tile if tile[1] is not None}
    width, height = _stored_size(picture)
    return sum((right - left) * (bottom - top) for left, top, right, bottom in extents) >= width * height


def _flatten(picture: ImageFile.ImageFile) -> Image.Image:
    """Return the picture in mode L or RGB, on white where it is transparent."""
    mode = picture.mode
    if mode in ("I", "F") or mode.startswith("I;16"):
        return Image.fromarray(_to_8_bits(picture))
    plain = "L" if mode in _GREY else "RGB"
    if mode not in _WITH_ALPHA and "transparency" not in picture.info:
        return picture if mode == plain else picture.convert(plain)
    layers = picture.convert("LA" if plain == "L" else "RGBA")
    flat = Image.new(plain, picture.size, "white")
    flat.paste(layers.convert(plain), mask=layers.getchannel("A"))
    return flat


def _to_8_bits(picture: ImageFile.ImageFile) -> NDArray[np.uint8]:
    """Scale the samples of a 16-bit, 32-bit or float picture to uint8 (H, W), as the module's text says."""
    values: NDArray[Any] = np.asarray(picture)
    tags: Any = picture.tag_v2 if isinstance(picture, TiffImageFile) else {}
    if picture.mode == "I" and tags.get(_BITS) == (32,) and tags.get(_SAMPLE_FORMAT, (1,))[0] == _UNSIGNED:
        values = values.view(np.uint32)  # Pillow reads them as signed
    if picture.mode == "F" and not np.isfinite(values).all():
        raise ImageError("has values that are not finite")
    if picture.mode.startswith("I;16"):
        least, most = 0.0, 2.0 ** int(tags.get(_BITS, (16,))[0]) - 1
    else:
        least, most = float(values.min()), float(values.max())
        whole = (1.0,) if picture.mode == "F" else (255.0, 65535.0)
        if picture.format == "PNG":
            whole = (65535.0,)  # versions of Pillow before 10.3 open 16-bit PNG as 32-bit integers
        least, most = next(((0.0, top) for top in whole if least >= 0 and most <= top), (least, most))
    scaled = np.empty(values.shape, dtype=np.uint8)
    for rows in range(0, len(values), 256):  # in strips: float64 takes eight times the memory of the result
        part = values[rows : rows + 256].astype(np.float64)
        scaled[rows : rows + 256] = np.rint((part - least) * 255.0 / ((most - least) or 1.0))
    if tags and tags.get(_PHOTOMETRIC, _WHITE_IS_ZERO) == _WHITE_IS_ZERO:
        scaled = 255 - scaled  # Pillow inverts such TIFF up to 8 bits, not beyond
    if "transparency" in picture.info:
        scaled[values == picture.info["transparency"]] = 255
    return scaled


def _centre_square(size: tuple[int, int]) -> tuple[float, float, float, float]:
    side = min(size)
    left, top = (size[0] - side) / 2, (size[1] - side) / 2
    return left, top, left + side, top + side


def _ends_blank(picture: Image.Image) -> bool:
    """Tell whether the right half of the last row is one colour, as it is where libjpeg ran out of data."""
    width, height = picture.size
    extrema = np.asarray(picture.crop((width // 2, height - 1, width, height)).getextrema()).reshape(-1, 2)
    return bool((extrema[:, 0] == extrema[:, 1]).all())


def _runs_dry(data: bytes, picture: Image.Image, size: int | None, max_pixels: int) -> bool:
    """Tell whether a JPEG's end marker comes before the end of its pixels.

    libjpeg then fills the rest with the last colour and only warns, which Pillow does not pass on. So the file is
    decoded again with bytes put in before that marker: behind complete data they are skipped, otherwise they show.
    """
    end = _jpeg_end(data)
    try:
        again = _prepared(data[:end] + _FILLING + data[end:], size, max_pixels)
        again.load()
        return again.tobytes() != picture.tobytes()
    except Exception:
        return True


def _jpeg_end(data: bytes) -> int:
    """Find the end-of-image marker of a JPEG, not of thumbnails in its segments; refuse one of very many scans."""
    at, scans = 2, 0
    for _ in range(MAX_READS):
        found = _MARKER.search(data, at)
        if found is None:
            raise ImageError("cut short (a JPEG without its end-of-image marker)")
        if found[1] == b"\xd9":
            return found.start()
        scans += found[1] == b"\xda"
        if scans > MAX_SCANS:
            raise ImageError(f"a JPEG of more than {MAX_SCANS} scans")
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
    raise ImageError(f"a JPEG of more than {MAX_READS:,} segments")
