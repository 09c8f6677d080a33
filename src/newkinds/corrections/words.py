"""Actions in words that a person understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from newkinds.corrections.actions import (
    Accept,
    Again,
    Batch,
    Confirm,
    Merge,
    Move,
    Name,
    Redo,
    Reject,
    Said,
    Split,
    Undo,
)
from newkinds.corrections.state import remains

_SHOWN = 3


def in_words(said: Said, called: Mapping[str, str] | None = None) -> str:
    """Return what was said as a sentence without its point. called: names of kinds, which stand beside the kinds."""
    called = called or {}

    def kind(one: str) -> str:
        return f"{one} ({called[one]})" if called.get(one) else one

    if isinstance(said, Undo | Redo):
        return f"line {said.line} {'undone' if isinstance(said, Undo) else 'done again'}"
    if isinstance(said, Again):
        return f"pictures sorted again by what was said up to line {said.line}"
    if isinstance(said, Batch):
        told = said.note or f"{in_words(said.actions[0], called)}, ..."
        return told if said.note or len(said.actions) > 1 else in_words(said.actions[0], called)
    if isinstance(said, Name):
        return f"{said.kind} called {said.name!r}" if said.name else f"{said.kind} without a name again"
    if isinstance(said, Merge):
        left = remains(said.kinds)
        return f"{_list([kind(one) for one in said.kinds if one != left])} merged into {kind(left)}"
    if isinstance(said, Split):
        parts = [f"{_pictures(part.pictures)} as {kind(part.to)}" for part in said.parts]
        return f"{kind(said.kind)} split: {_list(parts)}"
    if isinstance(said, Move):
        return f"{_pictures(said.pictures)} moved to {kind(said.to)}"
    if isinstance(said, Confirm):
        return f"{_pictures(said.pictures)} confirmed as {kind(said.kind)}"
    verb = "accepted" if isinstance(said, Accept) else "rejected" if isinstance(said, Reject) else "open again"
    return f"{_list([kind(one) for one in said.kinds])} {verb}"


def _pictures(names: Sequence[str]) -> str:
    return f"{_list(list(names))}" if len(names) == 1 else f"{len(names):,} pictures ({_list(list(names))})"


def _list(items: Sequence[str]) -> str:
    shown = ", ".join(items[:_SHOWN])
    return shown if len(items) <= _SHOWN else f"{shown} and {len(items) - _SHOWN:,} more"
