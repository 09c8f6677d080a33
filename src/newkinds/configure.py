"""All settings of a run: those of the stages that every run has, and those that each method brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import create_model

from newkinds.methods.registry import DEFAULT, METHODS
from newkinds.settings.base import Section
from newkinds.settings.core import CoreSettings
from newkinds.settings.files import checked


def _sections() -> dict[str, type[Section]]:
    """Return the sections of settings that methods bring, by the name of their table."""
    return {name: section for method in METHODS.values() for name, section in method.sections.items()}


if TYPE_CHECKING:
    Settings: TypeAlias = CoreSettings
else:
    Settings = create_model(
        "Settings",
        __base__=CoreSettings,
        __doc__="All settings of a run.",
        method=(Annotated[Literal[tuple(METHODS)], CoreSettings.model_fields["method"]], DEFAULT),
        **{name: (section, section()) for name, section in _sections().items()},
    )


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Return checked settings from nested values, or an error that names each bad key, its value and what is valid."""
    return checked(Settings, values)
