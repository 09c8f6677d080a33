"""Every mode and format against pixel values worked out by hand, and every way of being broken against a refusal."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFile

from newkinds.errors import DataError, UsageError
from newkinds.images.decode import Header, ImageError, decode, encode, probe

GREY_RAMP = np.array([[0, 1, 128], [200, 254, 255]], dtype=np.uint8)  # (2, 3)
COLOURS = np.array(
    [[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[0, 0, 0], [10, 20, 30], [255, 255, 255]]], dtype=np.uint8
)
LOSSLESS = [("PNG", {}), ("BMP", {}), ("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("WEBP", {"lossless": True})]


def saved(image: Image.Image | NDArray[Any], format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(stream, format=format, **options)
    return stream.getvalue()


def scene(height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Return a colourful picture without a flat spot, (H, W, 3)."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([(x * 3 + y * 2) % 256, (x * y // 3) % 256, (255 - x * 2 + y) % 256], axis=-1).astype(np.uint8)


def tiff(height: int, width: int, data: bytes, tags: dict[int, list[int]], order: str = "<") -> bytes:
    """Write an uncompressed one-strip TIFF by hand; `tags` override the defaults."""
    entries = {256: [width], 257: [height], 258: [8], 259: [1], 262: [1], 273: [0], 277: [1], 278: [height]}
    entries |= {279: [len(data)]} | tags
    extra_at = 8 + 2 + 12 * len(entries) + 4
    extra = b""
    directory = struct.pack(order + "H", len(entries))
    if 273 not in tags:
        entries[273] = [extra_at + sum(4 * len(v) for v in entries.values() if len(v) > 1)]
    for tag, values in sorted(entries.items()):
        packed = struct.pack(f"{order}{len(values)}I", *values)
        if len(values) > 1:
            packed, extra = struct.pack(order + "I", extra_at + len(extra)), extra + packed
        directory += struct.pack(order + "HHI", tag, 4, len(values)) + packed
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "I", 8) + directory + bytes(4) + extra + data


def png(width: int, height: int, depth: int, colour: int, rows: bytes, **chunks: bytes) -> bytes:
    """Write a PNG by hand; `rows` are the filtered rows, `chunks` stand between header and pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    middle = b"".join(chunk(name.encode(), body) for name, body in chunks.items())
    return b"\x89PNG\r\n\x1a\n" + header + middle + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def grey(data: bytes) -> list[list[int]]:
    rows: list[list[int]] = decode(data, size=None, channels=1)[0].tolist()
    return rows


def rgb(data: bytes) -> NDArray[np.uint8]:
    """Decode to (H, W, 3), the order in which pictures are written down here."""
    return decode(data, size=None, channels=3).transpose(1, 2, 0)


# Formats and modes


@pytest.mark.parametrize(("format", "options"), LOSSLESS)
def test_rgb_exactly(format: str, options: dict[str, Any]) -> None:
    data = saved(COLOURS, format, **options)
    assert rgb(data).tolist() == COLOURS.tolist()
    assert probe(data) == Header(format, 3, 2, 3)


@pytest.mark.parametrize(("format", "options"), [*LOSSLESS[:4], ("GIF", {})])
def test_grey_exactly(format: str, options: dict[str, Any]) -> None:
    data = saved(GREY_RAMP, format, **options)
    assert grey(data) == GREY_RAMP.tolist()
    assert probe(data) == Header(format, 3, 2, 1)


@pytest.mark.parametrize(
    ("format", "options"), [("JPEG", {"quality": 95}), ("JPEG", {"progressive": True}), ("WEBP", {"quality": 95})]
)
def test_lossy_formats_come_close(format: str, options: dict[str, Any]) -> None:
    y, x = np.mgrid[0:32, 0:48]
    smooth = np.stack([x * 5, y * 7, x * 2 + y * 2], axis=-1).astype(np.uint8)
    data = saved(smooth, format, **options)
    assert np.abs(rgb(data).astype(int) - smooth).mean() < 4
    assert probe(data) == Header(format, 48, 32, 3)


def test_grey_jpeg() -> None:
    data = saved(np.full((8, 8), 77, np.uint8), "JPEG")
    assert np.unique(grey(data)).tolist() == [77]
    assert probe(data) == Header("JPEG", 8, 8, 1)


def test_gif_palette_exactly() -> None:
    data = saved(COLOURS, "GIF")
    assert rgb(data).tolist() == COLOURS.tolist()
    assert probe(data).channels == 3


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "GIF"])
def test_one_bit(format: str) -> None:
    bits = np.array([[True, False, True], [False, False, True]])
    data = saved(Image.fromarray(bits), format)
    assert grey(data) == (bits * 255).tolist()
    assert probe(data).channels == 1


def test_one_bit_is_grey_before_it_is_resized() -> None:
    checkerboard = np.indices((32, 32)).sum(axis=0) % 2 == 0
    pixels = decode(saved(Image.fromarray(checkerboard), "PNG"), size=8, channels=1)
    assert np.abs(pixels.astype(int) - 128).max() < 30


def test_white_is_zero_one_bit_tiff() -> None:
    data = tiff(1, 8, b"\xf0", {258: [1], 262: [0]})
    assert grey(data) == [[0] * 4 + [255] * 4]


SIXTEEN = np.array([[0, 256, 257, 1799], [32896, 65278, 65406, 65535]], dtype=np.uint16)
EIGHT = [[0, 1, 1, 7], [128, 254, 254, 255]]  # divided by 257, to the nearest


@pytest.mark.parametrize(("format", "type"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")])
def test_sixteen_bit_grey_is_scaled_not_clipped(format: str, type: str) -> None:
    data = saved(SIXTEEN.astype(type), format)
    assert grey(data) == EIGHT
    assert rgb(data)[..., 1].tolist() == EIGHT
    assert probe(data).channels == 1


def test_sixteen_bit_compressed_tiff() -> None:
    assert grey(saved(SIXTEEN, "TIFF", compression="tiff_adobe_deflate")) == EIGHT


def test_sixteen_bit_white_is_zero_tiff() -> None:
    data = tiff(2, 4, SIXTEEN.astype("<u2").tobytes(), {258: [16], 262: [0]})
    assert grey(data) == [[255 - v for v in row] for row in EIGHT]


def test_twelve_bit_tiff() -> None:
    data = tiff(1, 2, bytes([0xFF, 0xF8, 0x00]), {258: [12]})  # 4095 and 2048
    assert grey(data) == [[255, 128]]


def test_sixteen_bit_colour_and_alpha() -> None:
    rows = b"\0" + struct.pack(">6H", 65535, 0, 257 * 9, 257 * 40, 65535, 0)
    assert rgb(png(2, 1, 16, 2, rows)).tolist() == [[[255, 0, 9], [40, 255, 0]]]
    grey_alpha = png(2, 1, 16, 4, b"\0" + struct.pack(">4H", 257 * 50, 65535, 0, 0))
    assert grey(grey_alpha) == [[50, 255]]
    assert probe(grey_alpha).channels == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 7, 255], [0, 7, 255]),  # already 8 bits
        ([0, 2570, 65535], [0, 10, 255]),  # 16 bits
        ([-100, 0, 100], [0, 128, 255]),  # stretched
        ([0, 1_000_000, 2_000_000], [0, 128, 255]),
        ([70_000, 70_000, 70_000], [0, 0, 0]),  # nothing to stretch
    ],
)
def test_thirty_two_bit_integers(values: list[int], expected: list[int]) -> None:
    data = saved(np.array([values], dtype=np.int32), "TIFF")
    assert grey(data) == [expected]
    assert probe(data).channels == 1


def test_unsigned_thirty_two_bit_integers_do_not_wrap() -> None:
    data = tiff(1, 3, np.array([0, 2**31, 2**32 - 1], dtype="<u4").tobytes(), {258: [32], 339: [1]})
    assert grey(data) == [[0, 128, 255]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.0, 0.5, 1.0], [0, 128, 255]), ([0.2, 0.4, 0.6], [51, 102, 153]), ([-5.0, 0.0, 15.0], [0, 64, 255])],
)
def test_float_tiff(values: list[float], expected: list[int]) -> None:
    data = saved(np.array([values], dtype=np.float32), "TIFF")
    assert grey(data) == [expected]
    assert probe(data).channels == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_float_tiff_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ImageError, match="not finite"):
        grey(saved(np.array([[0.5, bad]], dtype=np.float32), "TIFF"))


@pytest.mark.parametrize("format", ["JPEG", "TIFF"])
def test_cmyk(format: str) -> None:
    inks = Image.new("CMYK", (16, 16), (255, 0, 0, 0))  # cyan: JPEG stores it inverted, as Adobe does
    inks.paste((0, 0, 0, 255), (8, 0, 16, 16))  # black
    data = saved(inks, format, **({"quality": 95} if format == "JPEG" else {}))
    pixels = rgb(data).astype(int)
    assert np.abs(pixels[8, 2] - [0, 255, 255]).max() <= 6
    assert np.abs(pixels[8, 14] - [0, 0, 0]).max() <= 6
    assert probe(data).channels == 3


@pytest.mark.parametrize("compression", ["tiff_lzw", "jpeg"])  # uncompressed needs Pillow 13
def test_ycbcr_tiff(compression: str) -> None:
    image = Image.new("YCbCr", (16, 16), (76, 85, 255))  # red
    image.paste((128, 128, 128), (0, 0, 16, 8))
    pixels = rgb(saved(image, "TIFF", compression=compression)).astype(int)
    assert np.abs(pixels[0, 0] - 128).max() <= 2
    assert np.abs(pixels[15, 15] - [254, 0, 0]).max() <= 2


def test_lab_tiff() -> None:
    red = [138, 81, 70]  # L* 54.3 of 100, a* 81, b* 70: the red of sRGB, seen in D50
    data = tiff(1, 2, bytes([*red, 255, 0, 0]), {258: [8, 8, 8], 262: [8], 277: [3]})
    assert np.abs(rgb(data).astype(int) - [[[255, 0, 0], [255, 255, 255]]]).max() <= 6


def test_planar_tiff() -> None:
    planes = bytes([255, 0, 10, 20, 30, 40])  # red, green and blue of two pixels
    offset = len(tiff(1, 2, b"", {258: [8, 8, 8], 262: [2], 277: [3], 284: [2], 273: [1, 2, 3], 279: [2, 2, 2]}))
    where = {273: [offset, offset + 2, offset + 4], 279: [2, 2, 2]}
    data = tiff(1, 2, planes, {258: [8, 8, 8], 262: [2], 277: [3], 284: [2]} | where)
    assert rgb(data).tolist() == [[[255, 10, 30], [0, 20, 40]]]


# Transparency


def test_rgba_is_composited_on_white() -> None:
    layers = np.array([[[200, 0, 0, 255], [200, 0, 0, 0], [200, 0, 0, 128]]], dtype=np.uint8)
    for format in ("PNG", "TIFF"):
        assert rgb(saved(layers, format)).tolist() == [[[200, 0, 0], [255, 255, 255], [227, 127, 127]]]
    lossless = rgb(saved(layers, "WEBP", lossless=True, exact=True))
    assert np.abs(lossless.astype(int) - [[[200, 0, 0], [255, 255, 255], [227, 127, 127]]]).max() <= 1


def test_grey_with_alpha_stays_grey() -> None:
    data = saved(
        Image.merge("LA", [Image.new("L", (2, 1), 100), Image.fromarray(np.array([[255, 0]], np.uint8))]), "PNG"
    )
    assert grey(data) == [[100, 255]]
    assert probe(data).channels == 1


@pytest.mark.parametrize("transparency", [1, bytes([255, 0, 255]), bytes([255, 0])])
def test_palette_with_transparency(transparency: int | bytes) -> None:
    image = Image.fromarray(np.array([[0, 1, 2]], dtype=np.uint8)).convert("P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    assert rgb(saved(image, "PNG")).tolist() == [[[10, 20, 30], [40, 50, 60], [70, 80, 90]]]
    data = saved(image, "PNG", transparency=transparency)
    assert rgb(data).tolist() == [[[10, 20, 30], [255, 255, 255], [70, 80, 90]]]


def test_palette_with_half_transparency() -> None:
    image = Image.fromarray(np.array([[0, 1]], dtype=np.uint8)).convert("P")
    image.putpalette([10, 20, 30, 0, 0, 0])
    assert rgb(saved(image, "PNG", transparency=bytes([255, 128]))).tolist() == [[[10, 20, 30], [127, 127, 127]]]


def test_gif_transparency() -> None:
    image = Image.fromarray(np.array([[0, 1, 2]], dtype=np.uint8)).convert("P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    assert rgb(saved(image, "GIF", transparency=2)).tolist() == [[[10, 20, 30], [40, 50, 60], [255, 255, 255]]]


@pytest.mark.parametrize(
    ("depth", "row", "see_through", "expected"),
    [
        (1, b"\0\x40", 0, [[255, 255]]),  # pixels 0 and 1; 0 is see-through
        (2, b"\0\x60", 1, [[255, 170]]),  # pixels 1 and 2 of 0..3
        (4, b"\0\x3c", 3, [[255, 204]]),  # pixels 3 and 12 of 0..15
        (8, b"\0\x05\x06", 5, [[255, 6]]),
        (16, b"\0\x05\x05\x05\x06", 0x0505, [[255, 5]]),
    ],
)
def test_one_see_through_grey(depth: int, row: bytes, see_through: int, expected: list[list[int]]) -> None:
    assert grey(png(2, 1, depth, 0, row, tRNS=struct.pack(">H", see_through))) == expected


def test_one_see_through_colour() -> None:
    row = b"\0" + bytes([1, 2, 3, 4, 5, 6])
    assert rgb(png(2, 1, 8, 2, row, tRNS=struct.pack(">3H", 1, 2, 3))).tolist() == [[[255] * 3, [4, 5, 6]]]
    row = b"\0" + struct.pack(">6H", 0x0155, 0x0266, 0x0377, 0x0404, 0x0505, 0x0606)
    deep = png(2, 1, 16, 2, row, tRNS=struct.pack(">3H", 0x0155, 0x0266, 0x0377))
    assert rgb(deep).tolist() == [[[255] * 3, [4, 5, 6]]]


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "GIF"])
def test_a_palette_of_greys_is_grey(format: str) -> None:
    image = Image.fromarray(np.array([[0, 1, 2, 3]], dtype=np.uint8)).convert("P")
    image.putpalette([9, 9, 9, 40, 40, 40, 7, 7, 7, 80, 80, 80])
    data = saved(image, format)
    assert probe(data).channels == 1
    assert grey(data) == [[9, 40, 7, 80]]
    image.putpalette([9, 9, 9, 40, 40, 40, 7, 7, 7, 80, 80, 81])
    assert probe(saved(image, format)).channels == 3


# Orientation

# EXIF 2.3: on which side of what is seen the first stored row and the first stored column lie.
SIDES = {
    1: ("top", "left"),
    2: ("top", "right"),
    3: ("bottom", "right"),
    4: ("bottom", "left"),
    5: ("left", "top"),
    6: ("right", "top"),
    7: ("right", "bottom"),
    8: ("left", "bottom"),
}


def as_stored(seen: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    height, width = seen.shape[:2]
    first_row, first_column = SIDES[orientation]
    turned = first_row in ("left", "right")
    stored = np.empty((width, height, 3) if turned else (height, width, 3), dtype=np.uint8)
    for row, column in np.ndindex(stored.shape[:2]):
        across, down = (row, column) if turned else (column, row)
        if "right" in (first_row, first_column):
            across = width - 1 - across
        if "bottom" in (first_row, first_column):
            down = height - 1 - down
        stored[row, column] = seen[down, across]
    return stored


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["PNG", "TIFF", "TIFF-lzw", "WEBP", "JPEG"])
def test_exif_orientation(format: str, orientation: int) -> None:
    seen = scene(16, 24) if format != "JPEG" else np.repeat(np.repeat(COLOURS, 16, axis=0), 16, axis=1)
    exif = Image.Exif()
    exif[274] = orientation
    lossless: dict[str, dict[str, Any]] = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}
    options = lossless.get(format, {})
    if format == "TIFF-lzw":
        format, options = "TIFF", {"compression": "tiff_lzw"}
    data = saved(as_stored(seen, orientation), format, exif=exif, **options)
    assert probe(data) == Header(format, seen.shape[1], seen.shape[0], 3)
    assert np.abs(rgb(data).astype(int) - seen).max() <= (6 if format == "JPEG" else 0)
    small = decode(data, size=8, channels=3).astype(int)
    upright = decode(saved(seen, "PNG"), size=8, channels=3)
    assert np.abs(small - upright).max() <= (8 if format == "JPEG" else 2)


def test_png_exif_behind_the_pixels() -> None:
    exif = Image.Exif()
    exif[274] = 3
    body = exif.tobytes()[6:]  # without "Exif\0\0"
    data = saved(COLOURS, "PNG")
    chunk = struct.pack(">I", len(body)) + b"eXIf" + body + struct.pack(">I", zlib.crc32(b"eXIf" + body))
    assert rgb(data[:-12] + chunk + data[-12:]).tolist() == COLOURS[::-1, ::-1].tolist()


def test_broken_exif_does_not_refuse_the_picture() -> None:
    data = saved(scene(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f broken")
    assert rgb(data).shape == (48, 64, 3)
    exif = Image.Exif()
    exif[274] = 9
    assert probe(saved(scene(), "JPEG", exif=exif)) == Header("JPEG", 64, 48, 3)


# Frames


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_counts(format: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    options = {"lossless": True} if format == "WEBP" else {}
    data = saved(frames[0], format, save_all=True, append_images=frames[1:], **options)
    assert (rgb(data) == [255, 0, 0]).all()
    assert probe(data) == Header(format, 8, 8, 3)


def test_multi_picture_jpeg_is_a_jpeg() -> None:
    frames = [Image.fromarray(scene()), Image.fromarray(scene()[::-1])]
    data = saved(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert probe(data) == Header("JPEG", 64, 48, 3)
    assert rgb(data).tolist() == rgb(saved(frames[0], "JPEG")).tolist()


# Size, fit, channels


def test_crop_keeps_the_centre_and_squash_keeps_all() -> None:
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, :10], wide[:, 10:20], wide[:, 20:] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    for picture in (wide, wide.transpose(1, 0, 2)):
        data = saved(picture, "PNG")
        assert (decode(data, size=10, channels=3) == np.array([0, 255, 0])[:, None, None]).all()
        squashed = decode(data, size=30, channels=3, fit="squash")
        assert squashed.shape == (3, 30, 30)
        assert {tuple(squashed[:, 15, 15]), tuple(squashed[:, 0, 0]), tuple(squashed[:, 29, 29])} == {
            (0, 255, 0),
            (255, 0, 0),
            (0, 0, 255),
        }


def test_the_same_size_is_not_touched() -> None:
    picture = scene(20, 20)
    assert (decode(saved(picture, "PNG"), size=20, channels=3).transpose(1, 2, 0) == picture).all()


def test_shrinking_is_antialiased() -> None:
    stripes = np.tile(np.array([0, 255], dtype=np.uint8), (64, 32))
    pixels = decode(saved(stripes, "PNG"), size=8, channels=1)
    assert np.abs(pixels.astype(int) - 128).max() < 20


def test_a_large_jpeg_by_the_short_way_looks_the_same() -> None:
    y, x = np.mgrid[0:600, 0:800]
    picture = np.stack([127 + 120 * np.sin(x / 60), 127 + 120 * np.cos(y / 50), (x + y) / 6], axis=-1).astype(np.uint8)
    short = decode(saved(picture, "JPEG", quality=95), size=32, channels=3).astype(int)
    long = decode(saved(picture, "PNG"), size=32, channels=3)
    assert np.abs(short - long).max() <= 6


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1), (3, 2)])
def test_any_shape_to_any_size(shape: tuple[int, int], size: int) -> None:
    data = saved(np.full((*shape, 3), 90, np.uint8), "PNG")
    for fit in ("crop", "squash"):
        pixels = decode(data, size=size, channels=1, fit=fit)
        assert pixels.shape == (1, size, size)
        assert np.unique(pixels).tolist() == [90]


def test_channels() -> None:
    colour = saved(np.full((2, 2, 3), (255, 0, 0), np.uint8), "PNG")
    assert np.unique(decode(colour, size=None, channels=1)).tolist() == [76]  # 0.299 of 255
    pixels = decode(saved(GREY_RAMP, "PNG"), size=None, channels=3)
    assert pixels.shape == (3, 2, 3)
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    assert pixels.flags.writeable
    assert (pixels == GREY_RAMP).all()


def test_arguments_are_checked() -> None:
    data = saved(COLOURS, "PNG")
    with pytest.raises(UsageError, match="size=0"):
        decode(data, size=0, channels=3)
    with pytest.raises(UsageError, match="channels=4"):
        decode(data, size=8, channels=4)
    with pytest.raises(UsageError, match="crop"):
        decode(data, size=8, channels=3, fit="croq")


# What is refused


def refused(data: bytes, **options: Any) -> str:
    with pytest.raises(ImageError) as caught:
        decode(data, size=8, channels=3, **options)
    assert caught.value.message
    assert "\n" not in caught.value.message
    return caught.value.message


def test_other_files() -> None:
    assert issubclass(ImageError, DataError)
    assert refused(b"") == "empty file"
    for data in (b"hello", b"\0" * 100, b"%!PS-Adobe-3.0", saved(COLOURS, "PPM"), saved(COLOURS, "ICO"), b"\xff\xd8"):
        assert "not a JPEG, PNG" in refused(data)


def test_a_path_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"cannot be read \(No such file"):
        probe(tmp_path / "missing.png")


WHOLE = {
    "jpeg": saved(scene(), "JPEG"),
    "jpeg progressive": saved(scene(), "JPEG", progressive=True),
    "png": saved(scene(), "PNG"),
    "png palette": saved(Image.fromarray(scene()).quantize(16), "PNG"),
    "gif": saved(scene(), "GIF"),
    "bmp": saved(scene(), "BMP"),
    "bmp 1 bit": saved(Image.fromarray(scene()).convert("1"), "BMP"),
    "tiff": saved(scene(), "TIFF"),
    "tiff lzw": saved(scene(), "TIFF", compression="tiff_lzw"),
    "tiff group 4": saved(Image.fromarray(scene()).convert("1"), "TIFF", compression="group4"),
    "tiff, directory first": tiff(48, 64, scene().tobytes(), {258: [8, 8, 8], 262: [2], 277: [3]}),
    "webp": saved(scene(), "WEBP"),
    "webp lossless": saved(scene(), "WEBP", lossless=True),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_truncated_files_are_refused(kind: str) -> None:
    data = WHOLE[kind]
    complete = rgb(data)
    lengths = sorted({*range(0, len(data), max(1, len(data) // 200)), *range(len(data) - 30, len(data))})
    survived = []
    for length in lengths:
        with contextlib.suppress(ImageError):
            assert (rgb(data[:length]) == complete).all(), f"cut at {length} of {len(data)} bytes"
            survived.append(length)
    assert all(length > 0.98 * len(data) for length in survived)


def test_truncated_files_are_refused_whatever_other_libraries_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for kind in ("jpeg", "png", "gif", "bmp"):
        assert refused(WHOLE[kind][:-200])
    assert ImageFile.LOAD_TRUNCATED_IMAGES


@pytest.mark.parametrize("options", [{}, {"restart_marker_blocks": 4}, {"progressive": True}])
def test_a_jpeg_cut_short_and_closed_again_is_refused(options: dict[str, Any]) -> None:
    data = saved(scene(96, 128), "JPEG", **options)
    start = data.index(b"\xff\xda")
    first_scan_ends = data.index(b"\xff\xc4", start) if options.get("progressive") else len(data)
    for length in np.linspace(start + 20, start + 0.6 * (first_scan_ends - start), 20).astype(int):
        refused(data[:length] + b"\xff\xd9")


def test_a_jpeg_cut_short_and_filled_with_zeros_is_refused() -> None:
    data = saved(scene(96, 128), "JPEG")
    for length in np.linspace(0.2 * len(data), 0.95 * len(data), 20).astype(int):
        refused(data[:length] + bytes(len(data) - length))


def test_a_jpeg_with_a_blank_bottom_is_not_refused() -> None:
    picture = scene(96, 128)
    picture[40:] = 255
    for options in ({}, {"progressive": True}, {"restart_marker_blocks": 2}, {"subsampling": 0}):
        data = saved(picture, "JPEG", exif=b"Exif\0\0 \xff\xd8\xff\xda\xff\xd9", **options)
        assert rgb(data).shape == picture.shape
        assert decode(data, size=8, channels=1).shape == (1, 8, 8)


def test_a_png_with_a_wrong_checksum_is_refused() -> None:
    data = bytearray(saved(scene(), "PNG"))
    data[data.index(b"IDAT") + 40] ^= 1
    refused(bytes(data))


def test_a_tiff_without_all_its_strips_is_refused() -> None:
    picture = scene(48, 64)
    whole = {258: [8, 8, 8], 262: [2], 277: [3]}
    data = tiff(48, 64, picture[:24].tobytes(), whole | {278: [24]})
    assert "strips are missing" in refused(data)


# Bombs: tiny files that ask for gigabytes


def bombs() -> dict[str, bytes]:
    side = 50_000
    gif, bmp, jpeg = (bytearray(saved(COLOURS, format)) for format in ("GIF", "BMP", "JPEG"))
    gif[6:10] = struct.pack("<HH", side, side)
    bmp[18:26] = struct.pack("<ii", side, side)
    start = jpeg.index(b"\xff\xc0")
    jpeg[start + 5 : start + 9] = struct.pack(">HH", side, side)
    canvas = (side - 1).to_bytes(3, "little") * 2
    body = saved(COLOURS, "WEBP", lossless=True)[12:]
    extended = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + canvas + body
    return {
        "png": png(side, side, 8, 2, b"\0"),
        "gif": bytes(gif),
        "bmp": bytes(bmp),
        "jpeg": bytes(jpeg),
        "tiff": tiff(side, side, b"", {258: [8, 8, 8], 262: [2], 277: [3]}),
        "webp": b"RIFF" + struct.pack("<I", len(extended)) + extended,
    }


@pytest.mark.parametrize("kind", bombs())
def test_bombs_are_refused_from_the_header(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("PIL.Image.core.new", lambda *_: pytest.fail("memory was asked for"))
    data = bombs()[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ImageError, match="pixels"):
            probe(data)
        assert "is 2,500,000,000 pixels, over the limit of 100,000,000" in refused(data)


def test_the_pixel_limit_is_what_was_asked_for() -> None:
    data = saved(scene(), "PNG")
    assert decode(data, size=8, channels=3, max_pixels=48 * 64).shape == (3, 8, 8)
    assert refused(data, max_pixels=48 * 64 - 1) == "64 x 48 is 3,072 pixels, over the limit of 3,071"
    with pytest.raises(ImageError, match="3,071"):
        probe(data, max_pixels=3071)


def test_pillow_does_not_warn_below_the_limit() -> None:
    data = tiff(10_000, 9_000, bytes(1125 * 10_000), {258: [1]})  # 90 megapixels
    with pytest.warns(Image.DecompressionBombWarning):
        Image.open(io.BytesIO(data))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert probe(data) == Header("TIFF", 9_000, 10_000, 1)
        assert decode(data, size=4, channels=1).max() == 0


def test_one_endless_row_is_refused() -> None:
    assert "side over the limit" in refused(png(70_000, 1, 1, 0, b"\0" + bytes(8750)))


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    data = saved(scene(), "JPEG", progressive=True)
    start = data.rindex(b"\xff\xda")
    assert "scans" in refused(data[:-2] + data[start:-2] * 300 + b"\xff\xd9")


# Warnings


def test_warnings_neither_leak_nor_get_lost_with_threads() -> None:
    odd = bytearray(saved(scene(), "TIFF"))
    entry = odd.index(struct.pack("<HHI", 284, 3, 1))
    odd[entry : entry + 8] = struct.pack("<HHI", 270, 2, 60_000)  # a description longer than the file
    with pytest.warns(UserWarning, match="Skipping tag|Truncated"):
        Image.open(io.BytesIO(odd))
    files = [bytes(odd), saved(scene(), "PNG"), WHOLE["jpeg"][:300]] * 20

    def attempt(data: bytes) -> None:
        with contextlib.suppress(ImageError):
            decode(data, size=8, channels=3)

    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(attempt, files))
        assert not leaked
        assert warnings.filters == before
        warnings.warn("mine", stacklevel=1)
        assert [str(warning.message) for warning in leaked] == ["mine"]


# Writing


def test_encode() -> None:
    planes = COLOURS.transpose(2, 0, 1)
    assert (decode(encode(planes, "png"), size=None, channels=3) == planes).all()
    assert (decode(encode(GREY_RAMP[None], "png"), size=None, channels=1) == GREY_RAMP).all()
    flat = np.full((3, 16, 16), 120, dtype=np.uint8)
    for format in ("jpeg", "webp"):
        data = encode(flat, format, quality=80)
        assert probe(data) == Header(format.upper(), 16, 16, 3)
        assert np.abs(decode(data, size=None, channels=3).astype(int) - 120).max() <= 2
    assert len(encode(scene().transpose(2, 0, 1), "jpeg", quality=20)) < len(encode(scene().transpose(2, 0, 1), "jpeg"))
    assert Image.open(io.BytesIO(encode(planes, "png"))).info == {}


def test_encode_refuses_what_it_cannot_write() -> None:
    with pytest.raises(UsageError, match="png"):
        encode(COLOURS.transpose(2, 0, 1), "bmp")
    with pytest.raises(UsageError, match="uint8"):
        encode(COLOURS, "png")
    with pytest.raises(UsageError, match="float64"):
        encode(np.zeros((3, 4, 4)), "png")  # type: ignore[arg-type]
