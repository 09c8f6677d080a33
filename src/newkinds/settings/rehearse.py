"""The settings of rehearsals: known kinds are hidden and sorted as if they were the heap."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from newkinds.settings.base import EVERYDAY, NotNegative, Section


class Rehearse(Section):
    """Rehearsals: some known kinds are hidden and sorted as the heap is, which shows how far to trust the result."""

    rehearsals: NotNegative = Field(
        5,
        le=1000,
        description="How many times known kinds are hidden and sorted. More tell more precisely how well the heap will "
        "be sorted, and take longer. 0: none; then nothing is said about how far to trust the result.",
        json_schema_extra=EVERYDAY,
    )
    choose: Literal["auto", "off"] = Field(
        "auto",
        description='"auto": a few other settings are rehearsed, too, and taken in place of those that you did not say '
        'where they are clearly better. "off": the settings stay as they are.',
    )
    pictures: int = Field(
        2000, ge=20, description="The most pictures in one rehearsal; of more, so many are drawn, which saves time."
    )
    minutes: float = Field(
        30,
        gt=0,
        description="After this time no further rehearsal begins, which is said. With the same number of rehearsals, "
        "the same seed gives the same result to the byte.",
    )
