"""Settings with their descriptions: as commented TOML that --settings takes, and as a page of the docs."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from functools import cache
from typing import Any

import tomli_w

from newkinds.errors import UsageError
from newkinds.settings.base import Section
from newkinds.settings.names import ALL_HINT, declared, either, is_everyday, nearest, sections, suggestion

WIDTH = 100  # of comments
_EVERYDAY = (
    "The settings you are most likely to change, with their defaults. `newkinds settings --all` shows every setting, "
    "`newkinds settings NAME` one or a section. --settings takes a file like this, with any of them; "
    "--set discover.epochs=20 changes one."
)
_ALL = (
    "All settings with their defaults. --settings takes a file like this, with any of them; --set discover.epochs=20 "
    "changes one."
)
_PAGE = """# Settings

Every setting has a default that suits pictures of your own; the ones you are most likely to change are in **bold**.
`newkinds settings` shows these, `newkinds settings --all` all of them, and `newkinds settings discover.evenness` (or
just `evenness`) one. `--settings FILE` takes a TOML file with any of them, `--set discover.epochs=20` a single one; in
Python that is `settings={"discover": {"epochs": 20}}`. `newkinds presets` shows the values of the paper and of its
authors' code.

This page is made from the code by `make docs`: change a setting's words where the setting is declared.
"""


def shown(model: type[Section], name: str | None = None, every: bool = False) -> str:
    """Return settings with their descriptions, limits and defaults, as TOML.

    name: a setting ("discover.evenness", or "evenness" for all that are called so) or a section; None: the everyday
    ones, or with `every` all.
    """
    fields = declared(model)
    if name is not None:
        return _toml(model, _called(model, name))
    chosen = [key for key, field in fields.items() if every or is_everyday(field)]
    return f"{_comment(_ALL if every else _EVERYDAY)}\n\n{_toml(model, chosen)}"


def page(model: type[Section]) -> str:
    """Return all settings as a page of Markdown, a table for each section."""
    inner = sections(model)
    groups = {"": [name for name in declared(model) if "." not in name]}
    groups |= {section: [f"{section}.{name}" for name in own.model_fields] for section, own in inner.items()}
    parts = [_PAGE]
    for section, names in groups.items():
        title = f"`{section}`" if section else "The run as a whole"
        head = f"{inspect.getdoc(inner[section])}\n\n" if section else ""
        rows = "\n".join(_row(model, name) for name in names)
        parts.append(f"## {title}\n\n{head}| setting | default | valid | what it does |\n|---|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def valid_values(model: type[Section], name: str) -> str:
    """Return which values a setting takes, in words; name: dotted."""
    section, _, last = name.rpartition(".")
    own = sections(model)[section] if section else model
    return _valid(_schemas(own)[last])


@cache
def _schemas(section: type[Section]) -> dict[str, dict[str, Any]]:
    """Return the JSON schemas of a section's settings by name: types and limits in one notation."""
    return dict(section.model_json_schema()["properties"])


def _called(model: type[Section], name: str) -> list[str]:
    """Return the settings that a name means, or raise an error with suggestions."""
    fields = declared(model)
    found = [name] if name in fields else [key for key in fields if key.rpartition(".")[0] == name]
    found = found or [key for key in fields if key.rpartition(".")[2] == name]
    if not found:
        raise UsageError(f"Unknown setting {name!r}{suggestion(nearest(model, name))}.", hint=ALL_HINT)
    return found


def _toml(model: type[Section], names: Iterable[str]) -> str:
    """Return settings as TOML with their descriptions above them; top-level ones come first."""
    fields, inner = declared(model), sections(model)
    parts, table = [], ""
    for name in names:
        section, _, key = name.rpartition(".")
        if section != table:
            parts.append(f"{_comment(inspect.getdoc(inner[section]) or '')}\n[{section}]")
            table = section
        words = f"{_comment(fields[name].description or '')}\n{_comment(f'Valid: {valid_values(model, name)}.')}"
        parts.append(f"{words}\n{key} = {_value(fields[name].default)}")
    return "\n\n".join(parts) + "\n"


def _row(model: type[Section], name: str) -> str:
    field = declared(model)[name]
    called = f"**`{name}`**" if is_everyday(field) else f"`{name}`"
    cells = [called, f"`{_value(field.default)}`", valid_values(model, name), field.description or ""]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _comment(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def _value(value: Any) -> str:
    """Return a value as TOML, on one line."""
    if isinstance(value, tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip()


def _valid(schema: dict[str, Any]) -> str:
    """Return in words what a JSON schema allows."""
    if "anyOf" in schema:
        return ", or ".join(_valid(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return either(_value(one) for one in schema.get("enum", [schema.get("const")]))
    kind = schema["type"]
    if kind == "array":
        return f"a list of {'whole numbers' if schema['items']['type'] == 'integer' else 'texts'}"
    if kind in ("integer", "number"):
        return f"a {'whole ' if kind == 'integer' else ''}number{_limits(schema)}"
    return "true or false" if kind == "boolean" else str(schema.get("format", "text"))


def _limits(schema: dict[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']:g} to {schema['maximum']:g}"
    words = {
        "minimum": "of at least",
        "exclusiveMinimum": "above",
        "maximum": "of at most",
        "exclusiveMaximum": "below",
    }
    found = [f"{word} {schema[key]:g}" for key, word in words.items() if key in schema]
    return f" {' and '.join(found)}" if found else ""
