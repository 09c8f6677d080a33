"""Preset files as text: what each states, with the comments that give its reasons, and several of them merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from newkinds.errors import unknown_name
from newkinds.settings.files import parse_toml

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class PresetFile:
    """What a file of this folder states.

    head: its first comment, of which the first line says what it is. extends: the files that it builds on, later ones
    over earlier ones. above: the comment above a table. stated: by (table, key) the lines that state it, with comments;
    the table "" holds keys of no table.
    """

    name: str
    head: str
    extends: tuple[str, ...]
    above: dict[str, str] = field(default_factory=dict)
    stated: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def is_base(self) -> bool:
        """Whether it is a base of others and for no single data set, as "paper"."""
        return "-" not in self.name


@cache
def read_preset_file(name: str) -> PresetFile:
    """Return a file of this folder, by its name without the ending."""
    names = [path.stem for path in FOLDER.glob("*.toml")]
    if name not in names:
        raise unknown_name("preset", name, names)
    return parsed(name, (FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def parsed(name: str, text: str) -> PresetFile:
    """Return what the text of a preset file states."""
    head, _, rest = text.partition("\n\n")
    extends: tuple[str, ...] = ()
    above: dict[str, str] = {}
    stated: dict[tuple[str, str], str] = {}
    table, lines = "", []
    for line in filter(None, rest.splitlines()):
        lines.append(line)
        if line.startswith("["):
            table = line.strip("[]")
            above[table] = "".join(f"{comment}\n" for comment in lines[:-1])
            lines = []
            continue
        try:
            found = parse_toml("\n".join(lines))
        except ValueError:
            continue  # a value of several lines
        if not found:
            continue  # a comment on what follows
        ((key, value),) = found.items()
        if (table, key) == ("", "extends"):
            extends = (value,) if isinstance(value, str) else tuple(value)
        else:
            stated[table, key] = "\n".join(lines)
        lines = []
    return PresetFile(name, head, extends, above, stated)


def chain(name: str) -> list[PresetFile]:
    """Return a file, preceded by all that it extends."""
    own = read_preset_file(name)
    return [file for base in own.extends for file in chain(base)] + [own]


def merged(files: Iterable[PresetFile]) -> str:
    """Return what files state, later ones over earlier ones, as one text with the reasons of what applies.

    What a later file states in [discover] comes over what earlier ones have for single variants, as it does where files
    are layered.
    """
    above: dict[str, str] = {}
    stated: dict[tuple[str, str], str] = {}
    for file in files:
        outdone = {key for table, key in file.stated if table == "discover"}
        stated = {at: said for at, said in stated.items() if not (_of_variant(at[0]) and at[1] in outdone)}
        stated |= file.stated
        above |= file.above
    tables = sorted(dict.fromkeys(table for table, _ in stated), key=lambda name: (name != "", _of_variant(name)))
    parts = []
    for table in tables:
        lines = [said for (at, _), said in stated.items() if at == table]
        parts.append("\n".join([f"{above[table]}[{table}]", *lines] if table else lines))
    return "\n\n".join(parts) + "\n"


def _of_variant(table: str) -> bool:
    return table.startswith("variant.")
