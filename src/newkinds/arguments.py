"""Arguments of the public functions that take one plain value: a list, an array or bytes there is refused at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence, Set
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from newkinds.errors import UsageError

Given = ParamSpec("Given")
Result = TypeVar("Result")

_PLAIN = {"str", "int", "float", "bool", "Path", "PathLike[str]", "None"}


def plain_arguments(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that raises a UsageError for an argument of many values where its annotation has one."""
    signature = inspect.signature(function)
    plain = [name for name, one in signature.parameters.items() if {*str(one.annotation).split(" | ")} <= _PLAIN]

    @wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        given = signature.bind_partial(*args, **kwargs).arguments
        for name in plain:
            if name in given and _is_many(given[name]):
                raise UsageError(
                    f"{name} should be one value, not {type(given[name]).__name__}: {given[name]!r:.60}.",
                    hint=f"help(newkinds.{function.__name__}) has what it may be.",
                )
        return function(*args, **kwargs)

    return checked


def _is_many(value: Any) -> bool:
    is_list = isinstance(value, bytes | Mapping | Set | Sequence) and not isinstance(value, str)
    return is_list or getattr(value, "ndim", 0) > 0
