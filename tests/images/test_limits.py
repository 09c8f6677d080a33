"""What one picture may take, and what many threads may take together."""

from __future__ import annotations

import io
import struct
import threading
import time
import zlib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from newkinds.images import limits
from newkinds.images.decode import ImageError, decode, probe
from newkinds.images.limits import MAX_HEADER, Room
from newkinds.images.scan import read_file


def saved(format: str, size: tuple[int, int] = (32, 32)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, (9, 90, 200)).save(stream, format)
    return stream.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def many_exif() -> bytes:
    plain = saved("JPEG")
    segment = b"\xff\xe1" + (65533).to_bytes(2, "big") + b"Exif\0\0" + bytes(65533 - 8)
    return plain[:2] + segment * (2 * MAX_HEADER // len(segment)) + plain[2:]


def many_comments() -> bytes:
    plain = saved("JPEG")
    return plain[:2] + b"\xff\xfe\0\2" * 1_000_000 + plain[2:]


def long_padding() -> bytes:
    plain = saved("JPEG")
    return plain[:2] + b"\xff" * 4_000_000 + plain[2:]


def many_chunks() -> bytes:
    plain = saved("PNG")
    return plain[:33] + chunk(b"prVt", b"") * 300_000 + plain[33:]


@pytest.mark.parametrize("make", [many_exif, many_comments, long_padding, many_chunks])
def test_a_header_of_very_many_parts_ends_soon(make: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make()  # type: ignore[operator]
    (tmp_path / "picture").write_bytes(data)
    started = time.process_time()
    for call in (
        lambda: probe(data),
        lambda: probe(tmp_path / "picture"),
        lambda: decode(data, size=16, channels=3),
    ):
        with pytest.raises(ImageError, match=r"too many small parts|header is longer"):
            call()
    assert time.process_time() - started < 10  # a few hundred times longer without the limits


def test_an_ordinary_header_is_read() -> None:
    plain = saved("JPEG")
    segment = b"\xff\xe1" + (65533).to_bytes(2, "big") + b"http://ns.adobe.com/xap/1.0/\0" + bytes(65533 - 31)
    data = plain[:2] + segment * 100 + plain[2:]
    assert probe(data).width == 32
    assert np.array_equal(decode(data, size=16, channels=3), decode(plain, size=16, channels=3))
    small = saved("PNG")
    length = struct.unpack(">I", small[33:37])[0]
    packed = small[41 : 41 + length]
    split = small[:33] + b"".join(chunk(b"IDAT", packed[at : at + 1]) for at in range(length)) + chunk(b"IEND", b"")
    assert np.array_equal(decode(split, size=None, channels=3), decode(small, size=None, channels=3))


def test_a_file_of_endless_segments_behind_its_header_is_refused() -> None:
    plain = saved("JPEG")
    with pytest.raises(ImageError, match="segments"):
        decode(plain[:-2] + b"\xff\xfe\0\2" * 200_000 + plain[-2:], size=16, channels=3)


@pytest.mark.parametrize("lossless", [True, False])
def test_a_webp_is_measured_before_it_is_opened(lossless: bool) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (300, 200)).save(stream, "WEBP", lossless=lossless)
    data = stream.getvalue()
    assert (probe(data).width, probe(data).height) == (300, 200)
    with pytest.raises(ImageError, match="300 x 200 is 60,000 pixels, over the limit of 59,999"):
        probe(data, max_pixels=59_999)


# Memory


def test_threads_share_the_memory() -> None:
    room, most, now, lock = Room(100), [0], [0], threading.Lock()

    def work(need: int) -> None:
        with room.of(need):
            with lock:
                now[0] += need
                most[0] = max(most[0], now[0])
            time.sleep(0.002)
            with lock:
                now[0] -= need

    threads = [threading.Thread(target=work, args=(need,)) for need in [30, 40, 60, 90, 0] * 6]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 60 < most[0] <= 100


def test_what_needs_more_than_there_is_has_it_alone() -> None:
    room, order = Room(100), []
    with room.of(10):
        large = threading.Thread(target=lambda: _noted(room, 500, order))
        large.start()
        time.sleep(0.05)
        assert order == []
    large.join()
    assert order == [500]


def _noted(room: Room, need: int, order: list[int]) -> None:
    with room.of(need):
        order.append(need)


def test_an_error_gives_the_memory_back() -> None:
    room = Room(10)
    with pytest.raises(KeyError), room.of(10):
        raise KeyError
    with room.of(10):
        pass


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_pictures_are_decoded_one_at_a_time_where_there_is_room_for_one(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, taken = saved(format, (200, 200)), []
    own = Room.of

    def noted(self: Room, need: int) -> object:
        taken.append(need)
        return own(self, need)

    monkeypatch.setattr(Room, "of", noted)
    monkeypatch.setattr(limits.PIXELS, "size", 1)
    threads = [threading.Thread(target=decode, args=(data,), kwargs={"size": None, "channels": 3}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([need for need in taken if need >= 200 * 200 * 3]) == 4
    assert limits.PIXELS._taken == 0


def test_a_file_is_read_as_long_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    asked: list[int] = []

    class Noted(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return super().read(size)

    monkeypatch.setattr("newkinds.files.open", lambda descriptor, mode: Noted(io.FileIO(descriptor)), raising=False)
    assert read_file(tmp_path / "a") == b"abc"
    assert asked == [4]
    monkeypatch.setattr(import_module("newkinds.images.scan"), "MAX_BYTES", 2)
    with pytest.raises(ImageError, match="larger than 2 bytes"):
        read_file(tmp_path / "a")
