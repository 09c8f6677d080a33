"""The settings by dotted name, and suggestions for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from pydantic.fields import FieldInfo

from newkinds.settings.base import Section

ALL_HINT = "`newkinds settings --all` shows every setting with what it does."
MOST = 5  # names that an error suggests
ALIKE = 0.7  # difflib's ratio: below it, names are similar by chance


def sections(model: type[Section]) -> dict[str, type[Section]]:
    """Return the sections of a model by name, in its order."""
    defaults = {name: field.default for name, field in model.model_fields.items()}
    return {name: type(default) for name, default in defaults.items() if isinstance(default, Section)}


def declared(model: type[Section]) -> dict[str, FieldInfo]:
    """Return all settings of a model by dotted name: top-level ones first, then section by section."""
    inner = sections(model)
    found = {name: field for name, field in model.model_fields.items() if name not in inner}
    for section, own in inner.items():
        found |= {f"{section}.{name}": field for name, field in own.model_fields.items()}
    return found


def is_everyday(field: FieldInfo) -> bool:
    """Return whether a setting is marked `EVERYDAY`: one that people often change."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("everyday"))


def nearest(model: type[Section], key: str) -> list[str]:
    """Return the settings or sections that an unknown dotted key was probably meant for, the likeliest first.

    They are found by the last part of the key, in any section: "epochs" is `discover.epochs` and others. Where the
    key names a section that has such a setting, only those of that section are returned.
    """
    fields = declared(model)
    names = [*sections(model), *fields]
    section, _, last = key.rpartition(".")
    alike = _alike(last, {_last(name) for name in names})
    found = [name for name in names if _last(name) in alike]

    def likeliness(name: str) -> tuple[bool, int, bool]:
        near = SequenceMatcher(None, section, name.rpartition(".")[0]).ratio() >= ALIKE
        return not near, alike.index(_last(name)), name in fields and not is_everyday(fields[name])

    here = [name for name in found if section and name.rpartition(".")[0] == section]
    return sorted(here or found, key=likeliness)[:MOST]


def unknown_settings(model: type[Section], key: str, value: Any) -> dict[str, str]:
    """Return an error text for an unknown key, by dotted name.

    value: what was given for it; the settings of an unknown section are reported one by one.
    """
    if isinstance(value, Mapping) and value and not get_close_matches(key, sections(model), cutoff=ALIKE):
        return {
            name: text
            for inner in value
            for name, text in unknown_settings(model, f"{key}.{inner}", value[inner]).items()
        }
    return {key: f"Unknown setting {key!r}{suggestion(nearest(model, key))}"}


def suggestion(names: list[str]) -> str:
    """Return the end of an error message: which of `names` may have been meant."""
    return f" (did you mean {either(names)}?)" if names else ""


def either(words: Iterable[str]) -> str:
    """Return words as in "a, b or c"."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _alike(word: str, words: set[str]) -> list[str]:
    """Return the word itself if it is among `words`, otherwise similar ones, or those that it abbreviates ("lr")."""
    if word in words:
        return [word]
    spelt = get_close_matches(word, sorted(words), cutoff=ALIKE)
    return spelt or sorted(one for one in words if "_" in one and "".join(part[0] for part in one.split("_")) == word)
