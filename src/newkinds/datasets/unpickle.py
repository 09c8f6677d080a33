"""A safe reader of the pickles that CIFAR is published as: they cannot run anything.

A pickle is a program. This reader does not use Python's interpreter for it: it executes only the instructions that
dicts, lists, tuples, numbers, text, bytes and arrays are written with, builds the arrays itself, and refuses everything
else. Nothing that a file names is ever looked up or called, and no instruction takes more memory than the file is long.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.errors import DataError

_NUMPY = ("numpy.core", "numpy._core")  # the name at the time the file was written
_MADE = {
    **{f"{module}.multiarray._reconstruct": "array" for module in _NUMPY},
    **{f"{module}.numeric._frombuffer": "filled array" for module in _NUMPY},  # since protocol 5
    "numpy.ndarray": "ndarray",
    "numpy.dtype": "dtype",
    "_codecs.encode": "encode",  # how Python 3 writes bytes for Python 2, and empty ones:
    "__builtin__.bytes": "bytes",
}
_DTYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")
_KEYS = (str, bytes, int)


class UnpickleError(DataError):
    """A pickle is broken, or holds something other than plain values and arrays; the text is the reason."""


def unpickle(data: bytes) -> Any:
    """Return the value in a pickle of protocol 2 or newer; the strings of Python 2 become bytes.

    Raises UnpickleError if it is truncated, broken, or would need to call a class or function.
    """
    try:
        return _Machine(len(data)).run(data)
    except UnpickleError:
        raise
    except Exception as error:  # on broken bytes, pickletools and the stack may raise anything
        raise UnpickleError(f"its pickle is cut short or broken ({_line(error)})") from error


@dataclass(frozen=True)
class _Name:
    """A class or function named in the file, one of those that have a meaning here."""

    meaning: str


class _Dtype:
    """A dtype that is being read."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.dtype = np.dtype(code)

    def build(self, state: Any) -> None:
        if _text(state[1]) in ("<", ">"):
            self.dtype = np.dtype(_text(state[1]) + self.code)
        if any(part is not None for part in state[2:5]):
            raise UnpickleError("its pickle holds an array of records, which are not read")


class _Array:
    """An array that is being read."""

    def __init__(self) -> None:
        self.array: NDArray[Any] | None = None

    def build(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        self.fill(content, dtype, shape, "F" if fortran else "C")

    def fill(self, content: Any, dtype: Any, shape: Any, order: Any) -> None:
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes):
            raise UnpickleError("its pickle holds an array of objects, which are not read")
        self.array = np.frombuffer(content, dtype.dtype).reshape(shape, order=order)


class _Machine:
    """The stack and the memo that a pickle's instructions work on.

    copies: how many bytes may still be copied by "encode", the one instruction that makes large values from others.
    """

    def __init__(self, copies: int) -> None:
        self.copies = copies
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memory: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            name = opcode.name
            if name == "STOP":
                return _finished(self.stack.pop())
            if name in _PUSHED:
                self.stack.append(_PUSHED[name](argument))
            elif name in _STEPS:
                _STEPS[name](self, argument)
            elif name not in _IGNORED:
                raise UnpickleError(f"its pickle uses {name}, which plain values and arrays do not need")
        raise UnpickleError("its pickle has no end")

    def since_mark(self) -> list[Any]:
        """Pop what was pushed since the last mark."""
        start = self.marks.pop()
        taken = self.stack[start:]
        del self.stack[start:]
        return taken

    def last(self, number: int) -> list[Any]:
        """Pop the last `number` values."""
        if len(self.stack) < number:
            raise IndexError("nothing to take")
        start = len(self.stack) - number
        taken = self.stack[start:]
        del self.stack[start:]
        return taken

    def append(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError("append to what is not a list")
        target += map(_finished, values)

    def set_items(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError("items for what is not a dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise UnpickleError(f"its pickle has a key of type {type(key).__name__}")
            target[key] = _finished(value)

    def name(self, module: str, attribute: str) -> None:
        meaning = _MADE.get(f"{module}.{attribute}")
        if meaning is None:
            raise UnpickleError(f"its pickle asks for {module}.{attribute}; only arrays and plain values are read")
        self.stack.append(_Name(meaning))

    def reduce(self) -> None:
        """Build what a call would have returned."""
        called, arguments = self.last(2)
        meaning = called.meaning if isinstance(called, _Name) else type(called).__name__
        if meaning == "array" and arguments[0] == _Name("ndarray"):
            self.stack.append(_Array())
        elif meaning == "filled array":
            self.stack.append(_Array())
            self.stack[-1].fill(*arguments)
        elif meaning == "bytes" and arguments == ():
            self.stack.append(b"")
        elif meaning == "dtype" and _text(arguments[0]) in _DTYPES:
            self.stack.append(_Dtype(_text(arguments[0])))
        elif meaning == "encode" and arguments[1] in ("latin1", "latin-1"):
            self.copies -= len(arguments[0])
            if self.copies < 0:
                raise UnpickleError("its pickle holds more bytes than it is long")
            self.stack.append(arguments[0].encode("latin-1"))
        else:
            raise UnpickleError(f"its pickle calls {meaning} for what is neither a plain value nor an array of numbers")

    def build(self) -> None:
        """Fill an array or a dtype."""
        target, state = self.last(2)
        if not isinstance(target, _Array | _Dtype):
            raise UnpickleError(f"its pickle changes a {type(target).__name__}, which only arrays need")
        target.build(state)
        self.stack.append(target)


def _finished(value: Any) -> Any:
    """Return a value as the caller gets it."""
    if isinstance(value, _Array):
        if value.array is None:
            raise UnpickleError("its pickle holds an array without content")
        return value.array
    if isinstance(value, _Name | _Dtype):
        raise UnpickleError("its pickle holds a class, which is not a value")
    return value


def _text(value: Any) -> str:
    """Return a string that Python 2 may have written as bytes."""
    return value.decode("ascii") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _line(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    return " ".join(text.encode("ascii", "backslashreplace").decode().split())[:200]


def _push_from(number: int) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.stack.append(tuple(machine.last(number)))


_IGNORED = ("PROTO", "FRAME")
_PUSHED: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "LONG4"), int),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), str),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), bytes),
    # Python 2 does not distinguish text and bytes; pickletools shows both as text.
    **dict.fromkeys(("BINSTRING", "SHORT_BINSTRING"), lambda text: text.encode("latin-1")),
}
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.since_mark())),
    "TUPLE1": _push_from(1),
    "TUPLE2": _push_from(2),
    "TUPLE3": _push_from(3),
    "APPEND": lambda machine, _: machine.append(machine.last(1)),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items(machine.last(2)),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda machine, at: machine.memory.__setitem__(at, machine.stack[-1])),
    "MEMOIZE": lambda machine, _: machine.memory.__setitem__(len(machine.memory), machine.stack[-1]),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, at: machine.stack.append(machine.memory[at])),
    "GLOBAL": lambda machine, names: machine.name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.name(*machine.last(2)),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}
