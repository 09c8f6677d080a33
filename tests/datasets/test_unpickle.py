"""Published pickles are read, hostile ones are refused before anything of them runs."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds.datasets.unpickle import UnpickleError, unpickle
from publishers import as_python_2, random

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    255,
    65535,
    -1,
    2**40,
    "text",
    b"",
    b"\x00\xff",
    [],
    {},
    (),
    (1,),
    (1, 2),
    (1, 2, 3),
    (1, 2, 3, 4),
    list(range(3000)),
    {b"a": [1, 2, {"b": (b"c", None)}], 3: "d"},
]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_plain_values(value: Any, protocol: int) -> None:
    assert unpickle(pickle.dumps(value, protocol=protocol)) == value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">i4", "<f4", "f8"])
def test_arrays(dtype: str, protocol: int) -> None:
    array = random(4, 6).astype(dtype)
    for one in (array, np.asfortranarray(array), array[:0], array[0, 0:1]):
        found = unpickle(pickle.dumps({"a": [one], b"b": one}, protocol=protocol))
        assert np.array_equal(found["a"][0], one)
        assert np.array_equal(found[b"b"], one)
        assert found[b"b"].shape == one.shape
        assert found[b"b"].dtype == one.dtype


def test_python_2_writes_strings_that_are_bytes() -> None:
    value = {b"data": random(3, 5), b"labels": [1, 2, 3], b"wide": np.arange(3, dtype=">i2")}
    data = as_python_2(value)
    found, theirs = unpickle(data), pickle.loads(data, encoding="bytes")  # noqa: S301
    for one in (found, theirs):
        assert list(one) == list(value)
        assert one[b"labels"] == [1, 2, 3]
        assert np.array_equal(one[b"data"], value[b"data"])
        assert np.array_equal(one[b"wide"], [0, 1, 2])


class Call:
    """Pickles as a call of anything."""

    def __init__(self, called: Any, *arguments: Any) -> None:
        self.call = called, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("called", "name"),
    [(os.system, "posix.system"), (eval, "builtins.eval"), (io.open, "io.open"), (getattr, "builtins.getattr")],
)
@pytest.mark.parametrize("depth", range(4))
def test_calls_are_refused_and_do_not_run(tmp_path: Path, called: Any, name: str, depth: int, protocol: int) -> None:
    mark = tmp_path / "ran"
    argument = {"posix.system": f"touch {mark}", "builtins.eval": f"open({str(mark)!r}, 'w')"}.get(name, str(mark))
    attack: Any = Call(called, argument, "w") if called is io.open else Call(called, argument)
    for wrapped in [{b"data": random(2, 2)}, [1], (2,)][:depth]:
        attack = {"inside": [wrapped, attack]}
    data = pickle.dumps(attack, protocol=protocol)
    with pytest.raises(UnpickleError) as caught:
        unpickle(data)
    assert not mark.exists()
    if protocol >= 2:
        module, attribute = name.split(".")
        # Protocol 2 writes the names of Python 2.
        assert f".{attribute};" in caught.value.message
        assert module in caught.value.message or protocol == 2


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.",
        b"\x80\x02(X\x02\x00\x00\x00idios\nsystem\n.",  # INST
        b"\x80\x02(cos\nsystem\nX\x02\x00\x00\x00ido.",  # OBJ
        b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85\x81.",  # NEWOBJ
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x02X\x02\x00\x00\x00idQ.",  # BINPERSID
        b"\x80\x02cnumpy\nload\nX\x02\x00\x00\x00id\x85R.",
        b"\x80\x02c_codecs\nencode\nX\x02\x00\x00\x00idX\x03\x00\x00\x00hex\x86R.",
        b"\x80\x02c_codecs\ndecode\nX\x02\x00\x00\x00idX\x06\x00\x00\x00latin1\x86R.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\x00\x85U\x01b\x87R.",
        b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00O8\x85R.",
        b"\x80\x02cnumpy\ndtype\nX\x06\x00\x00\x00u1,u1,\x85R.",
        b"\x80\x02cnumpy\ndtype\n.",  # a class is no value
        b"\x80\x02]cnumpy\nndarray\na.",
        b"\x80\x02}}b.",  # BUILD of a dict
        b"\x80\x02}()K\x01u.",  # a tuple as a key
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R.",  # no content
    ],
)
def test_what_is_not_an_array_or_a_plain_value(data: bytes) -> None:
    with pytest.raises(UnpickleError):
        unpickle(data)


def test_arrays_of_objects_and_records() -> None:
    for array in (np.array([{}, None]), np.zeros(3, dtype=[("a", "u1"), ("b", "f4")]), np.array(["a"])):
        with pytest.raises(UnpickleError):
            unpickle(pickle.dumps(array, protocol=2))


def test_the_class_that_is_refused_is_named() -> None:
    with pytest.raises(UnpickleError, match=r"asks for collections\.OrderedDict; only arrays and plain values"):
        unpickle(b"\x80\x02ccollections\nOrderedDict\n)R.")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_every_truncation_is_noticed(protocol: int) -> None:
    data = pickle.dumps({b"data": random(2, 8), b"labels": [1, 2], "name": "a"}, protocol=protocol)
    for end in range(len(data)):
        with pytest.raises(UnpickleError):
            unpickle(data[:end])


def refusal(data: bytes) -> str:
    """Return why a pickle is refused, "" if it is read."""
    with contextlib.suppress(UnpickleError):
        unpickle(data)
        return ""
    with pytest.raises(UnpickleError) as caught:
        unpickle(data)
    return caught.value.message


@given(st.binary(max_size=60))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    for start in (b"", b"\x80\x02", b"\x80\x04("):
        message = refusal(start + data + b".")
        assert "\n" not in message
        assert len(message) < 300


@given(st.data())
def test_changed_bytes_never_raise_anything_else(draw: st.DataObject) -> None:
    data = bytearray(as_python_2({b"data": random(2, 4), b"labels": [0, 1]}))
    data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    refusal(bytes(data))


def bombs() -> dict[str, bytes]:
    many = 200_000
    text = b"X" + struct.pack("<I", many) + b"a" * many + b"q\x00"
    copies = b"h\x01h\x00X\x06\x00\x00\x00latin1\x86R" * 100_000  # 20 GB
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nJ\xff\xff\xff\x7f\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nX\x02\x00\x00\x00u1\x85R"
    shape = b"(J\xff\xff\xff\x7fJ\xff\xff\xff\x7ft"
    nested = b")q\x00" + b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(99))
    return {
        "memory cell": b"\x80\x02Nr\xff\xff\xff\x7f.",
        "long text": b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"a.",
        "long bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"a.",
        "frame": b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",
        "long number": b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
        "copies": b"\x80\x02" + text + b"c_codecs\nencode\nq\x01" + copies + b".",
        "array to be filled": b"\x80\x02" + array + b".",
        "shape": b"\x80\x02" + array + b"(K\x01" + shape + dtype + b"\x89C\x01atb.",
        "doubled tuples as a key": b"\x80\x02}" + nested + b"N" + b"s.",
        "doubled tuples as arguments": b"\x80\x02" + nested + b"c_codecs\nencode\nh\x63R.",
        "deep": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999,
    }


@pytest.mark.parametrize("name", bombs())
@pytest.mark.timeout(30)
def test_small_files_take_little_memory_and_time(name: str) -> None:
    data = bombs()[name]
    tracemalloc.start()
    try:
        if name in ("memory cell", "frame"):  # numbers that only a machine which makes room in advance falls for
            assert unpickle(data) is None
        else:
            with pytest.raises(UnpickleError):
                unpickle(data)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(data) + 2_000_000
    finally:
        tracemalloc.stop()
