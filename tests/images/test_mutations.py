"""Two thousand damaged files of all formats: each is decoded or refused with a reason, in bounded time."""

from __future__ import annotations

import io
import struct
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, features

from newkinds.images.decode import ImageError, decode
from newkinds.images.scan import scan

N_FILES = 2000
SECONDS = 5.0  # far more than any of these takes: a guard against hanging
EXTREMES = (0, 1, 2, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 50_000, 2**31 - 1, 2**31, 2**32 - 1)


def saved(image: Image.Image, format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format=format, **options)
    return stream.getvalue()


def run_length_bmp() -> bytes:
    """Return an 8 x 8 bitmap in RLE8, which Pillow reads but does not write."""
    rows = b"".join(bytes([3, row, 5, 7, 0, 0]) for row in range(7)) + bytes([0, 8, *range(8), 0, 1])
    palette = bytes(range(256)) * 4
    header = struct.pack("<IiiHHIIiiII", 40, 8, 8, 1, 8, 1, len(rows), 0, 0, 256, 0)
    start = 14 + len(header) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(rows), 0, 0, start) + header + palette + rows


def sources() -> list[bytes]:
    """Return small pictures in all formats and the modes they can have."""
    y, x = np.mgrid[0:20, 0:24]
    colour = Image.fromarray(np.stack([x * 10, y * 12, x * y % 256], axis=-1).astype(np.uint8))
    grey, bits, palette = colour.convert("L"), colour.convert("1"), colour.quantize(32)
    layers, grey_layers = colour.copy(), grey.convert("LA")
    layers.putalpha(grey)
    deep = Image.fromarray((x * 2000 + y).astype(np.uint16))
    real = Image.fromarray((x / 24).astype(np.float32))
    frames: dict[str, Any] = {"save_all": True, "append_images": [colour.rotate(90), colour.rotate(180)]}
    exif = Image.Exif()
    exif[274] = 6
    files = [saved(image, "PNG") for image in (colour, grey, bits, layers, grey_layers, deep)]
    files += [saved(palette, "PNG", transparency=3), saved(colour, "PNG", **frames), saved(colour, "PNG", exif=exif)]
    files += [saved(image, "JPEG") for image in (colour, grey, colour.convert("CMYK"))]
    files += [saved(colour, "JPEG", progressive=True), saved(colour, "JPEG", exif=exif, restart_marker_blocks=2)]
    files += [saved(colour, "WEBP"), saved(layers, "WEBP", lossless=True), saved(colour, "WEBP", **frames)]
    files += [saved(image, "BMP") for image in (colour, grey, bits, palette, layers)] + [run_length_bmp()]
    files += [saved(palette, "GIF", transparency=2), saved(grey, "GIF"), saved(colour, "GIF", **frames)]
    files += [saved(image, "TIFF") for image in (colour, grey, bits, palette, layers, deep, real)]
    files += [
        saved(colour.convert("CMYK"), "TIFF"),
        saved(colour.convert("LAB"), "TIFF"),
        saved(colour, "TIFF", **frames),
    ]
    files += [
        saved(colour, "TIFF", compression=name) for name in ("tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits")
    ]
    files += [saved(bits, "TIFF", compression="group4"), saved(colour, "TIFF", exif=exif)]
    if "avif" in features.modules and features.check("avif"):
        files += [saved(colour, "AVIF"), saved(layers, "AVIF", exif=exif)]
    return files


def mutated(files: list[bytes], rng: np.random.Generator) -> bytes:
    """Return a damaged copy of one of the files."""
    data = bytearray(files[rng.integers(len(files))])
    kind = rng.choice(["bits", "bytes", "extreme", "cut", "insert", "remove", "splice", "repeat"])
    # Half of the damage goes to the first hundred bytes: headers are where readers trust what they read.
    at = int(rng.integers(len(data) if rng.random() < 0.5 else min(100, len(data))))
    span = int(rng.integers(1, 40))
    if kind == "bits":
        for place in rng.integers(0, len(data), rng.integers(1, 9)):
            data[place] ^= 1 << int(rng.integers(8))
    elif kind == "bytes":
        data[at : at + span] = rng.bytes(len(data[at : at + span]))
    elif kind == "extreme":
        layout = str(rng.choice(["<I", ">I", "<H", ">H"]))
        value = struct.pack(layout, int(rng.choice(EXTREMES)) % (2**32 if "I" in layout else 2**16))
        data[at : at + len(value)] = value
    elif kind == "cut":
        del data[at:]
    elif kind == "insert":
        data[at:at] = rng.bytes(span)
    elif kind == "remove":
        del data[at : at + span]
    elif kind == "splice":
        other = files[rng.integers(len(files))]
        data[at:] = other[min(at, len(other)) :]
    else:
        data[at:at] = data[at : at + span] * int(rng.integers(1, 20))
    return bytes(data)


@pytest.fixture(scope="module")
def damaged() -> list[bytes]:
    rng = np.random.default_rng(20_26)
    files = sources()
    return [mutated(files, rng) for _ in range(N_FILES)]


def attempt(data: bytes, size: int | None, channels: int) -> NDArray[np.uint8] | str:
    started = time.monotonic()
    try:
        pixels = decode(data, size=size, channels=channels)
    except ImageError as error:
        return error.message
    finally:
        assert time.monotonic() - started < SECONDS
    return pixels


def test_the_sources_are_whole() -> None:
    for data in sources():
        assert isinstance(attempt(data, None, 3), np.ndarray)


def test_decode_returns_or_refuses(damaged: list[bytes]) -> None:
    refused: Counter[str] = Counter()
    for number, data in enumerate(damaged):
        size, channels = (None, 16, 7)[number % 3], (1, 3)[number % 2]
        result = attempt(data, size, channels)
        if isinstance(result, str):
            assert result.strip()
            assert result.isprintable()
            refused[result.split(" (")[0]] += 1
        else:
            assert result.dtype == np.uint8
            assert result.ndim == 3
            assert result.shape[0] == channels
            assert size is None or result.shape == (channels, size, size)
    # Both happen often, otherwise the damage is too weak or too strong to mean anything.
    assert 0.3 * N_FILES < sum(refused.values()) < 0.9 * N_FILES
    assert {"cut short", "broken"} <= set(refused)


def test_scan_lists_every_file_once(damaged: list[bytes], tmp_path: Path) -> None:
    for number, data in enumerate(damaged):
        path = tmp_path / f"kind{number % 7}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    started = time.monotonic()
    result = scan(tmp_path, verify=True)
    assert time.monotonic() - started < SECONDS * 10
    found, skipped = [one.name for one in result.found], [one.name for one in result.skipped]
    assert sorted(found + skipped) == sorted(f"kind{number % 7}/{number}.jpg" for number in range(N_FILES))
    assert all(one.reason.strip() for one in result.skipped)
    for one in result.found[::20]:
        assert isinstance(attempt(one.path.read_bytes(), 64, one.channels), np.ndarray)
