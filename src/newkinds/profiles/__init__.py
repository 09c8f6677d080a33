"""Profiles: the settings that suit a sort of pictures, each a TOML file in this folder with its reasons.

A run has one profile, chosen by where its features come from, or named by the user. It states values in place of the
defaults; what the user, a settings file or a preset says comes before it. The tables of the results page are measured
with profiles as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from newkinds.errors import UsageError
from newkinds.images.imageset import ImageSet
from newkinds.settings import CoreSettings
from newkinds.settings.files import parse_toml

FOLDER = Path(__file__).parent
NAMES = ("photos", "pictures", "characters", "embeddings")
_SUITS = {
    "photos": "a pretrained network, and f is trained here",
    "pictures": "a network that is trained here, and f is pretrained",
    "characters": "a network that is trained here, and f is pretrained",
    "embeddings": "ready-made embeddings, and these are pictures",
}


@cache
def text(name: str) -> str:
    """Return the file of a profile."""
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def about(name: str) -> str:
    """Return what a profile is for, in one line."""
    return text(name).splitlines()[0].removeprefix("# ")


def in_words(name: str) -> str:
    """Return which profile a run has, in words."""
    return "Profile: none." if name == "none" else f"Profile {name}: {about(name)[0].lower()}{about(name)[1:]}"


def values(name: str) -> dict[str, Any]:
    """Return what a profile states, by dotted keys; "none" states nothing."""
    return {} if name == "none" else dict(_flat(parse_toml(text(name))))


def _flat(nested: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in nested.items():
        found += _flat(value, f"{above}{key}.") if isinstance(value, Mapping) else [(above + key, value)]
    return found


def suited_profile(settings: CoreSettings, known: ImageSet, pretrained: bool) -> str:
    """Return the name of the profile for pictures like the known ones, or refuse one that cannot be theirs.

    pretrained: whether f is a network that was trained elsewhere.
    """
    asked = settings.profile
    if known.is_embedding:
        possible: tuple[str, ...] = ("embeddings",)
    elif pretrained:
        possible = ("photos",)
    else:
        possible = ("characters", "pictures") if known.channels == 1 else ("pictures", "characters")
    if asked not in ("auto", "none", *possible):
        what = "these are ready-made embeddings" if known.is_embedding else _SUITS[asked]
        hint = "Leave --profile out, or say with --network which pretrained network f is."
        raise UsageError(f"The profile {asked!r} is not for this: {what}.", hint=hint)
    return possible[0] if asked == "auto" else asked


def with_profile(settings: CoreSettings, name: str) -> CoreSettings:
    """Return settings with the values of a profile, except for those that were said."""
    unsaid = {key: value for key, value in values(name).items() if not settings.said(key)}
    return settings.with_changes({**unsaid, "profile": name})
