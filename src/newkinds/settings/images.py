"""The settings of pictures: how files become pixels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from newkinds.settings.base import EVERYDAY, Positive, Section


class Images(Section):
    """Pictures: how files become pixels."""

    size: Positive | Literal["auto"] = Field(
        "auto",
        description="The side in pixels that pictures are brought to. Larger ones show more detail and take longer: "
        'twice the side is about four times the work. "auto": that of the files (typically their shorter side), at '
        "most `largest`. The paper has 32 pixels, and 224 for ImageNet.",
        json_schema_extra=EVERYDAY,
    )
    largest: int = Field(
        64,
        ge=8,
        description='The most that size = "auto" takes, which a CPU still trains on in minutes. Raise it, or give a '
        "size, where a GPU is at hand.",
    )
    fit: Literal["crop", "squash"] = Field(
        "crop",
        description='What becomes of pictures that are not square: "crop" keeps the middle square and loses the ends '
        'of the longer side, "squash" keeps everything and squeezes it.',
        json_schema_extra=EVERYDAY,
    )
    max_pixels: int = Field(
        100_000_000,
        ge=1,
        description="Files with more pixels than this are refused before they are decoded. A small file can claim to "
        "be a huge picture and fill the memory; raise it for pictures that really are that large.",
    )
