"""Files that people keep among their pictures and that are not read: each is named, counted and can be converted."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import picture
from numpy.typing import NDArray
from PIL import Image, features

from newkinds.errors import DataError
from newkinds.images import decode as decoding
from newkinds.images.decode import ImageError, decode, probe
from newkinds.images.formats import AVIF, HEIC, RAW, UNREAD, VIDEO, Unread, by_content, by_ending, left_out
from newkinds.images.imageset import Skipped
from newkinds.images.scan import MAX_BYTES, scan
from newkinds.images.store import open_images
from newkinds.progress import Progress


def container(*brands: bytes) -> bytes:
    """Return the beginning of a file in ISO's container: the main brand, and those that it is compatible with."""
    body = brands[0] + bytes(4) + b"".join(brands[1:])
    return (8 + len(body)).to_bytes(4, "big") + b"ftyp" + body + b"\0\0\0\x08free" * 10


FILES: list[tuple[bytes, Unread]] = [
    (container(b"heic", b"mif1", b"heic"), HEIC),
    (container(b"mif1", b"mif1", b"heic"), HEIC),
    (container(b"avif", b"avif", b"mif1", b"miaf"), AVIF),
    (container(b"mif1", b"mif1", b"avif"), AVIF),
    (container(b"crx ", b"crx ", b"isom"), RAW),
    (b"IIU\0" + bytes(60), RAW),
    (b"IIRO" + bytes(60), RAW),
    (b"II*\0\x10\0\0\0CR\x02\0" + bytes(60), RAW),
    (b"FUJIFILMCCD-RAW 0201" + bytes(60), RAW),
    (container(b"isom", b"isom", b"avc1", b"mp41"), VIDEO),
    (container(b"qt  ", b"qt  "), VIDEO),
    (b"\0\0\0\x08wide\0\0\x10\0mdat" + bytes(60), VIDEO),
    (b"RIFF\x10\0\0\0AVI LIST" + bytes(60), VIDEO),
    (b"\x1aE\xdf\xa3\x01\0\0\0" + bytes(60), VIDEO),
    (b"\0\0\x01\xba" + bytes(60), VIDEO),
    (b"0&\xb2u\x8ef\xcf\x11" + bytes(60), VIDEO),
]


@pytest.mark.parametrize(("data", "sort"), FILES)
def test_each_is_known_by_its_content_whatever_it_is_called(data: bytes, sort: Unread, tmp_path: Path) -> None:
    assert by_content(data) is sort
    if sort in (RAW, VIDEO):
        (tmp_path / "a.jpg").write_bytes(data)
        assert [one.reason for one in scan(tmp_path).skipped] == [sort.reason]


def test_pictures_sound_and_text_are_none_of_these() -> None:
    for data in (picture(0), container(b"M4A ", b"isom"), b"hello", b"", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 ", bytes(64)):
        assert by_content(data) is None


def test_a_name_tells_where_the_content_does_not(tmp_path: Path) -> None:
    assert by_ending(".MOV") is VIDEO
    assert by_ending(".jpg") is by_ending("") is None
    (tmp_path / "film.mts").write_bytes(b"\x47" + bytes(500))
    (tmp_path / "film.ogv").write_bytes(b"OggS" + bytes(500))
    (tmp_path / "photo.nef").write_bytes(tiff())
    (tmp_path / "photo.heic").write_bytes(picture(1))  # a PNG, which is read
    found = scan(tmp_path)
    assert [one.name for one in found.found] == ["photo.heic"]
    reasons = {one.name: one.reason for one in found.skipped}
    assert reasons == {"film.mts": VIDEO.reason, "film.ogv": VIDEO.reason, "photo.nef": RAW.reason}


def tiff(**tags: Any) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, format="TIFF", **tags)
    return stream.getvalue()


def test_a_dng_is_a_raw_file_under_any_name() -> None:
    assert probe(tiff()).format == "TIFF"
    with pytest.raises(ImageError, match="camera raw"):
        probe(tiff(tiffinfo={50706: bytes([1, 4, 0, 0])}))


def test_a_film_that_is_too_large_to_be_a_picture_is_called_a_film(tmp_path: Path) -> None:
    for name in ("film.mp4", "film.dat"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(MAX_BYTES + 1)
    reasons = {one.name: one.reason for one in scan(tmp_path).skipped}
    assert reasons == {"film.mp4": VIDEO.reason, "film.dat": f"larger than {MAX_BYTES:,} bytes"}


def test_numbers_by_sort_and_the_way_to_convert() -> None:
    skipped = [Skipped("a", VIDEO.reason), Skipped("b", HEIC.reason), Skipped("c", HEIC.reason), Skipped("d", "broken")]
    found = left_out(skipped)
    assert found is not None
    assert found[0] == "2 HEIC pictures and 1 video"
    assert "newkinds[heic]" in found[1]
    assert "ffmpeg" in found[1]
    assert left_out([Skipped("d", "broken")]) is None
    every = left_out([Skipped(sort.one, sort.reason) for sort in UNREAD])
    assert every is not None
    assert every[0] == "1 HEIC picture, 1 AVIF picture, 1 camera raw file and 1 video"


@pytest.fixture
def no_heic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pillow-heif missing, installed or not."""
    monkeypatch.setattr(decoding, "_heic_reader", lambda: None)


@pytest.mark.usefixtures("no_heic")
def test_a_folder_of_nothing_else_says_what_it_holds(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"IMG_{number}.HEIC").write_bytes(FILES[0][0])
    (tmp_path / "film.mp4").write_bytes(FILES[9][0])
    with pytest.raises(DataError) as caught:
        open_images(tmp_path)
    assert caught.value.message == (
        f"No picture in {tmp_path} can be used: 3 HEIC pictures and 1 video among 4 files skipped."
    )
    assert "magick mogrify -format jpg *.heic" in caught.value.hint


@pytest.mark.usefixtures("no_heic")
def test_some_of_them_are_one_warning(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
        (tmp_path / f"{number}.heic").write_bytes(FILES[0][0])
    stream = io.StringIO()
    assert len(open_images(tmp_path, progress=Progress("quiet", stream))) == 3
    assert stream.getvalue().count("Warning") == 1
    assert f"{tmp_path}: 3 HEIC pictures left out, 3 other pictures taken." in stream.getvalue()


def scene() -> NDArray[np.uint8]:
    y, x = np.mgrid[0:48, 0:64]
    return np.stack([x * 4, y * 5, (x + y) * 2], axis=-1).astype(np.uint8)


def saved(image: Image.Image, format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format=format, **options)
    return stream.getvalue()


def check_format(format: str, turned: bytes) -> None:
    """Check decoding, transparency, orientation (turned: a file that is to be turned right) and truncation."""
    image = Image.fromarray(scene())
    data = saved(image, format, quality=95)
    assert np.abs(decode(data, size=None, channels=3).transpose(1, 2, 0) - scene().astype(int)).mean() < 2
    layers = image.copy()
    layers.putalpha(Image.new("L", image.size, 0))
    assert decode(saved(layers, format, quality=95), size=None, channels=3).min() > 250  # on white
    header, pixels = probe(turned), decode(turned, size=None, channels=3).transpose(1, 2, 0)
    assert (header.width, header.height) == (48, 64)
    assert np.abs(pixels - np.rot90(scene(), -1).astype(int)).mean() < 2
    with pytest.raises(ImageError, match="over the limit of 3,000"):
        probe(data, max_pixels=3000)
    for cut in range(1, len(data), 11):
        with pytest.raises(ImageError):
            decode(data[:cut], size=None, channels=3)


def turn() -> Image.Exif:
    exif = Image.Exif()
    exif[274] = 6
    return exif


def test_avif_where_pillow_reads_it() -> None:
    if "avif" not in features.modules or not features.check("avif"):
        pytest.skip("this Pillow does not read AVIF")
    check_format("AVIF", saved(Image.fromarray(scene()), "AVIF", quality=95, exif=turn()))


def test_avif_where_pillow_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_avif_reader", lambda: None)
    with pytest.raises(ImageError, match=r"needs Pillow 11\.3"):
        probe(FILES[2][0])


def test_heic_where_its_package_is_installed(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()  # for writing; reading does without
    image = Image.fromarray(scene())
    image.info["exif"] = turn().tobytes()
    check_format("HEIF", saved(image, "HEIF", quality=95))
    (tmp_path / "junk.heic").write_bytes(b"junk")
    assert scan(tmp_path).skipped[0].reason.startswith("not a JPEG")


def test_heic_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    decoding._heic_reader.cache_clear()
    try:
        with pytest.raises(ImageError, match="needs pillow-heif"):
            probe(FILES[0][0])
    finally:
        decoding._heic_reader.cache_clear()


def test_a_class_folder_of_nothing_else_does_not_hide_the_others(tmp_path: Path) -> None:
    for kind in ("a", "b"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "1.png").write_bytes(picture(ord(kind)))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1.png").write_bytes(FILES[9][0])
    found = open_images(tmp_path, labelled=True, progress=Progress("silent"))
    assert found.classes == ("a", "b")
    assert [one.reason for one in found.skipped if one.name == "c/1.png"] == [VIDEO.reason]
