"""Ways in which a file that somebody else made can differ from one that newkinds wrote."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

from newkinds.runs.chain import HASH, sealed_line

Mutation = Callable[[bytes, random.Random], bytes]

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 1e308, -1e-320, float("nan"), float("inf"), "", " ", "new:0",
    "\ud800", "a\rb", "\x00", "../../etc/passwd", "=1+1", "x" * 5000, [], {}, [[]], [None], {"": None}, {"sha256": 1},
    [1, "a", None], "1e5", "NaN", [[[[[[]]]]]], {"a": {"b": {"c": {}}}},
)  # fmt: skip
WORDS = (
    b"",
    b"\x00",
    b"\xff" * 4,
    b"\r\n",
    b"'" * 3,
    b"=",
    b"nan",
    b"-1",
    b"1e999",
    b"\xed\xa0\x80",
    b"]" * 9,
    b"[" * 9,
)
DEEP = b"[" * 100_000


def bytes_changed(data: bytes, dice: random.Random) -> bytes:
    """Flip, cut, insert, double, move or overwrite some bytes."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 5, 20))):
        size = len(changed)
        at, length = dice.randrange(size + 1), dice.choice((1, 1, 2, 4, 8, 64))
        way = dice.randrange(7)
        if way == 0 and size:
            changed[at % size] ^= 1 << dice.randrange(8)
        elif way == 1:
            del changed[at : at + length]
        elif way == 2:
            changed[at:at] = dice.choice(WORDS)
        elif way == 3:
            changed[at:at] = changed[at : at + length]
        elif way == 4:
            changed[at : at + length] = dice.randbytes(length)
        elif way == 5:
            del changed[at:]
        else:
            value = dice.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, size))
            changed[at : at + 4] = struct.pack(dice.choice("<>") + "I", value)
    return bytes(changed)


def json_changed(data: bytes, dice: random.Random) -> bytes:
    """Replace, delete, double or nest a value of a JSON document."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return bytes_changed(data, dice)
    if dice.random() < 0.02:
        return DEEP
    for _ in range(dice.choice((1, 1, 2, 4))):
        value = _changed(value, dice)
    return json.dumps(value).encode()


def _changed(value: Any, dice: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or dice.random() < 0.15:
        return dice.choice(NASTY)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, way = dice.choice(keys), dice.randrange(6)
    changed = dict(value) if isinstance(value, dict) else list(value)
    if way == 0:
        del changed[key]
    elif way == 1 and isinstance(changed, list):
        changed.append(changed[key])
    elif way == 1:
        changed[f"{key}x"] = changed[key]
    else:
        changed[key] = _changed(changed[key], dice)
    return changed


def toml_changed(data: bytes, dice: random.Random) -> bytes:
    """Replace the value of a line, or put another line in."""
    lines = data.decode("utf-8", "replace").splitlines()
    at = dice.randrange(len(lines) + 1)
    values = (
        "[" * 5000, "1" * 5000, '"' + "x" * 99, "inf", "nan", "-0", "1e400", "{}", "[[]]", "2026-01-01", "'a\tb'", "0x",
        str(10**30), '"\\ud800"', "true", "[1, [2]]",
    )  # fmt: skip
    if at < len(lines) and "=" in lines[at]:
        lines[at] = f"{lines[at].split('=')[0]}= {dice.choice(values)}"
    else:
        lines.insert(at, dice.choice(("[", "[[discover]]", "[x.y.z]", "a.b = 1", "= 3", "seed = 1", "\x00", *lines)))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def safetensors_changed(data: bytes, dice: random.Random) -> bytes:
    """Change the header: shapes, types, offsets, or what newkinds says there."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    said = header.get("__metadata__", {})
    if "newkinds" in said and dice.random() < 0.6:
        said["newkinds"] = json_changed(said["newkinds"].encode(), dice).decode("utf-8", "replace")
    else:
        header = _changed(header, dice)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def journal_changed(data: bytes, dice: random.Random) -> bytes:
    """Change a line of a journal and hash all lines again, as somebody could who knows how."""
    lines = [json.loads(line) for line in data.splitlines()]
    at = dice.randrange(len(lines))
    lines[at] = json.loads(json_changed(json.dumps(lines[at]).encode(), dice).replace(DEEP, b"{}"))
    if dice.random() < 0.2:
        dice.shuffle(lines)
    before, sealed = "", b""
    for values in lines:
        if not isinstance(values, dict):
            return sealed + json.dumps(values).encode() + b"\n"
        values.pop(HASH, None)
        try:
            line, before = sealed_line(values, before)
        except ValueError:  # numbers that are none, and half surrogates, are not written at all
            return sealed + json.dumps(values).encode() + b"\n"
        sealed += line
    return sealed


def npz_changed(data: bytes, dice: random.Random) -> bytes:
    """Change a member of the archive, or put in one that is no array."""
    members = _members(data)
    name = dice.choice(sorted(members))
    way = dice.randrange(6)
    if way == 0:
        members[name] = dice.choice((b"", b"not an array", b"\x93NUMPY", b"\x93NUMPY\x03\x00"))
    elif way == 1:
        members[dice.choice(("images", "labels", "names.txt", "images.npy", "a/b.npy"))] = dice.choice(
            (b"x", members[name])
        )
    elif way == 2:
        del members[name]
    elif way == 3:
        members[dice.choice(sorted(members))] = members[name]
    elif way == 4:
        header = dice.choice((b"(48, 8)", b"(16,)", b"(999999999999,)", b"(-1,)", b"()", b"(0, 8)"))
        members[name] = members[name].replace(b"(48, 8)", header).replace(b"(48,)", header)
    else:
        members[name] = bytes_changed(members[name], dice)
    return _archive(members, dice)


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def _archive(members: dict[str, bytes], dice: random.Random) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return stream.getvalue()
