"""Settings for the paper's data sets: as its text has them, as its authors' code has them, and quick ones.

Each preset is a TOML file in this folder, named after its data set and its kind, with the reasons in its comments. It
states what is specific to its data set and builds on others by `extends = "paper"`, or by a list in which later ones
override earlier ones:

    paper.toml                what the text says for all data sets, and the other methods as published
    DATA-paper.toml           extends "paper"
    authors.toml              where the authors' code does something else than the text, on all data sets
    DATA-authors.toml         extends ["DATA-paper", "authors"]
    DATA-quick.toml           the defaults, except for size and time

What no file states takes its default: a new setting edits no preset. So that a changed default changes no published
preset either, paper.toml states every setting that the text or the code says something about, whether or not it is the
default today; tests/settings/test_presets.py changes all defaults and checks that. When you add a setting whose default
deviates from the paper, state the paper's value there.

A preset, and any file that --settings takes, may have tables [variant.NAME]: settings of [discover] for one variant
alone. Such a file may build on a preset, too: `extends = "cifar10-paper"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from newkinds.configure import Settings, make_settings
from newkinds.datasets import DATASETS
from newkinds.errors import UsageError, unknown_name
from newkinds.images.imageset import ImageSet
from newkinds.methods.dtc import VARIANTS, Discover
from newkinds.networks.foreign import check_admitted
from newkinds.presets.text import FOLDER, chain, merged
from newkinds.settings import CoreSettings
from newkinds.settings.files import merge, parse_toml, read_toml

KINDS = ("paper", "authors", "quick")
TRANSFER = "imagenet-to-cifar10"  # the only preset for two data sets

_OWN = (
    "Pictures of your own take the defaults, or --settings FILE: `newkinds presets NAME > my.toml` makes such a file "
    "from a preset."
)


@dataclass(frozen=True)
class Preset:
    """Settings for a data set, named after the data set and the kind, as "omniglot-paper"."""

    name: str

    @property
    def dataset(self) -> str:
        """The data set that it is for; "" if it is only a base of others, as "paper"."""
        return self.name.rpartition("-")[0]

    @property
    def about(self) -> str:
        """What it is, in one line."""
        return chain(self.name)[-1].head.splitlines()[0].removeprefix("# ")

    @property
    def text(self) -> str:
        """All that it states and its bases state, with the reasons, as a settings file."""
        *bases, own = chain(self.name)
        heads = [own.head, *(file.head for file in bases if file.is_base)]
        return "\n\n".join([*heads, merged([*bases, own])])

    @property
    def values(self) -> dict[str, Any]:
        """The nested values of the text, with the tables for single variants."""
        return parse_toml(self.text)

    def settings(self, variant: str | None = None) -> CoreSettings:
        """Return the settings for a variant; None: the one that the preset names."""
        return make_settings(layered([self.values], variant))


@cache
def all_presets() -> dict[str, Preset]:
    """Return all presets by name: data set by data set, and of each in the order of `KINDS`."""
    found = [one for one in (Preset(path.stem) for path in FOLDER.glob("*.toml")) if one.dataset]
    found.sort(key=lambda one: (one.dataset, KINDS.index(one.name.rpartition("-")[2])))
    return {one.name: one for one in found}


def find_preset(name: str) -> Preset:
    """Return the preset of this full name."""
    if name not in all_presets():
        raise unknown_name("preset", name, all_presets())
    return all_presets()[name]


def preset_for(name: str, known: object, unsorted: object | None = None) -> Preset:
    """Return the preset called `name` for the pictures given, or refuse one that is for other data.

    name: a full name, or one of `KINDS` for that of the data. known, unsorted: what was given for them: a name, a path
    or an ImageSet; unsorted is None where only known pictures are needed.
    """
    if not isinstance(name, str) or (name not in KINDS and name not in all_presets()):
        raise unknown_name("preset", name, [*KINDS, *all_presets()])
    suited = _suited(known, unsorted)
    full = f"{suited[0]}-{name}" if name in KINDS and suited else name
    if full in all_presets() and all_presets()[full].dataset in suited:
        return all_presets()[full]
    what = " and ".join(dict.fromkeys(_called(one) for one in (known, unsorted) if one is not None))
    meant = "the data sets of the paper" if name in KINDS else all_presets()[name].dataset
    fitting = ", ".join(one.name for one in all_presets().values() if one.dataset in suited)
    raise UsageError(
        f"The preset {name!r} is for {meant}, called by name, and not for {what}.",
        hint=f"Presets for that: {fitting}." if fitting else f"There is no preset for that. {_OWN}",
    )


def _suited(known: object, unsorted: object | None) -> list[str]:
    """Return the data sets whose presets suit the pictures given, the likeliest first."""
    first = _dataset(known)
    last = first if unsorted is None else _dataset(unsorted)
    suited = [first] if first is not None and first == last else []
    # f is ImageNet's; if it comes from a file, the known pictures may be CIFAR-10's own.
    if first == "imagenet" if unsorted is None else last == "cifar10" and first in ("imagenet", "cifar10"):
        suited.append(TRANSFER)
    return [name for name in suited if any(one.dataset == name for one in all_presets().values())]


def _dataset(source: object) -> str | None:
    """Return the name of the data set that `source` is a part of, or None; a folder of that name takes precedence."""
    called = source.source if isinstance(source, ImageSet) else source
    if not isinstance(called, str):
        return None
    name, colon, _ = called.partition(":")
    is_name = bool(colon) or (isinstance(source, str) and not Path(called).exists())
    return name if is_name and name in DATASETS else None


def _called(source: object) -> str:
    if isinstance(source, str | Path):
        return str(source)
    return source.source if isinstance(source, ImageSet) else f"a {type(source).__name__}"


def layered(layers: Sequence[Mapping[str, Any]], variant: str | None = None) -> dict[str, Any]:
    """Return nested values, later layers over earlier ones, each with its table for the chosen variant.

    layers: nested values as of settings files; each may have tables {"variant": {NAME: settings of "discover"}}, which
    count as part of its "discover" where that variant is used. variant: the one asked for; None: what the layers say.
    """
    variant = variant or _said_variant(layers)
    values: dict[str, Any] = {}
    for layer in layers:
        tables = _tables(layer)
        for key, value in layer.items():
            if key != "variant" or tables is None:
                values[key] = _over(values.get(key), value)
        if tables is not None and variant in tables:
            values["discover"] = _over(values.get("discover"), tables[variant])
    return values


def _said_variant(layers: Sequence[Mapping[str, Any]]) -> str:
    """Return the variant named by the last layer that names one, otherwise the default."""
    for layer in reversed(layers):
        section = layer.get("discover")
        if isinstance(section, Mapping) and "variant" in section:
            return str(section["variant"])
    return Settings().section(Discover).variant


def _tables(layer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the tables for single variants, all of them checked; None if there are none."""
    tables = layer.get("variant")
    if not isinstance(tables, Mapping):
        return None  # the settings refuse a value of that name
    for name, table in tables.items():
        if name not in VARIANTS:
            raise unknown_name("variant", name, VARIANTS)
        if not isinstance(table, Mapping) or "variant" in table:
            raise UsageError(
                f"[variant.{name}] should hold settings of [discover] for that variant, but it is {table!r}.",
                hint=f"Write it as a table: [variant.{name}], and below it: learning_rate = 0.1",
            )
        make_settings({"discover": table})
    return tables


def _over(before: Any, value: Any) -> Any:
    """Return a section with the values of a later one over it; anything that is not a section replaces it."""
    return {**before, **value} if isinstance(before, Mapping) and isinstance(value, Mapping) else value


def combine(
    settings: CoreSettings | Mapping[str, Any] | str | Path | None,
    changes: Mapping[str, Any],
    preset: Preset | None = None,
) -> CoreSettings:
    """Return settings from a preset, with a file, values or an object over it, and with dotted keys replaced.

    changes: by dotted keys, None for what was not given. They come from the user: a network that only a file names is
    refused if it would run code.
    """
    changes = {key: value for key, value in changes.items() if value is not None}
    if isinstance(settings, str | Path):
        where, settings = str(settings), read_toml(Path(settings))
        if "network" not in changes:
            check_admitted(str(settings.get("network")), None, where)
    if isinstance(settings, CoreSettings):
        if preset is not None:
            raise UsageError(
                f"A Settings object has all values and leaves none to the preset {preset.name!r}.",
                hint="Give a dict or a file of those that are to differ from the preset.",
            )
        settings = settings.model_dump(exclude_unset=True)
    if not isinstance(settings, Mapping | None):
        raise UsageError(
            f"settings is of type {type(settings).__name__}; a file, nested values or Settings are needed.",
            hint='Give {"discover": {"epochs": 20}}, say.',
        )
    layers = [{} if preset is None else preset.values, *_extended(settings or {})]
    return make_settings(merge(layered(layers, changes.get("discover.variant")), changes))


def _extended(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return values, preceded by those of the presets that they extend, if any."""
    names = values.get("extends", [])
    bases = [Preset(str(name)).values for name in (names if isinstance(names, list | tuple) else [names])]
    return [*bases, {key: value for key, value in values.items() if key != "extends"}]
