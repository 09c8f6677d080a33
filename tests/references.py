"""What the pages of docs/ refer to: `module:name` is something to import, `newkinds ...` something to type."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import typer
from typer.main import get_command

from newkinds_bench import TABLES


def resolves(target: str) -> bool:
    """Return whether a reference leads to something that exists."""
    if target.startswith("newkinds "):
        return _resolve_command(target.split()[1:])
    return _resolve_name(*target.split(":"))


def _imported(name: str) -> ModuleType | None:
    """Return a module, or None if there is none of that name; one that exists but is broken is an error."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            return None
        raise


def _resolve_name(module: str, attribute: str) -> bool:
    found: Any = _imported(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return found is not None and not isinstance(found, ModuleType)


def _resolve_command(words: list[str]) -> bool:
    """Return whether the command line has this command; the last word may also be a table that `bench` measures."""
    cli = _imported("newkinds.cli")
    apps = [value for value in vars(cli).values() if isinstance(value, typer.Typer)] if cli else []
    if not apps:
        return False
    command: Any = max((get_command(app) for app in apps), key=lambda c: len(getattr(c, "commands", {})))
    for position, word in enumerate(words):
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
            continue
        measured = TABLES if words[:position] == ["bench"] and not hasattr(command, "commands") else {}
        return position == len(words) - 1 and word in measured
    return True
