"""Listings of what can be asked for by name: methods, networks, data sets, profiles, presets and settings, as data."""

from __future__ import annotations

from typing import Any, overload


def methods() -> dict[str, str]:
    """Return a line about each method that `discover` takes, by name."""
    from newkinds.methods.registry import METHODS

    return {name: method.line for name, method in METHODS.items()}


def networks() -> dict[str, str]:
    """Return a line about each network that `discover` takes, by name; the last ones are pretrained."""
    from newkinds.networks import FOREIGN, NETWORKS

    return {**{name: network.description for name, network in NETWORKS.items()}, **FOREIGN}


def datasets() -> dict[str, dict[str, Any]]:
    """Return a description of each data set that can be given by name.

    title, address: its publisher's name for it, and where to get it, "" where it needs no download. parts: a line about
    each part. known, unsorted: the part that the bare name stands for, None if one has to be chosen. needs: the files
    that it needs below the folder `data`.
    """
    from newkinds.datasets import DATASETS

    told = ("title", "address", "known", "unsorted", "needs")
    return {
        name: {**{key: getattr(dataset, key) for key in told}, "parts": dict(dataset.parts)}
        for name, dataset in DATASETS.items()
    }


@overload
def profiles() -> dict[str, str]: ...
@overload
def profiles(name: str) -> str: ...
def profiles(name: str | None = None) -> dict[str, str] | str:
    """Return a line about each profile by name, or the TOML text of the one called `name`, with its reasons."""
    from newkinds.errors import unknown_name
    from newkinds.profiles import NAMES, about, text

    if name is None:
        return {name: about(name) for name in NAMES}
    if name not in NAMES:
        raise unknown_name("profile", name, NAMES)
    return text(name)


@overload
def presets() -> dict[str, str]: ...
@overload
def presets(name: str) -> str: ...
def presets(name: str | None = None) -> dict[str, str] | str:
    """Return a line about each preset by name, or the TOML text of the one called `name`, with its reasons."""
    from newkinds.presets import all_presets, find_preset

    if name is not None:
        return find_preset(name).text
    return {name: preset.about for name, preset in all_presets().items()}


def settings(name: str | None = None, *, all: bool = False) -> str:
    """Return settings as TOML that `settings=` takes, with what each does, its valid values and its default.

    name: one setting or section, such as "discover.evenness", "evenness" or "discover". all: every one of them, not
    only the everyday ones.
    """
    from newkinds.configure import Settings
    from newkinds.settings.words import shown

    return shown(Settings, name, all)
