"""The settings of transfer: what the known kinds teach about the features of a frozen backbone."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from newkinds.settings.base import EVERYDAY, Positive, Section


class Transfer(Section):
    """What the known kinds teach about features that are not trained here."""

    kind: Literal["auto", "none", "whiten", "project", "both"] = Field(
        "auto",
        description='How the known kinds change features. "whiten": what varies inside known kinds counts less. '
        '"project": a linear map brings pictures of a known kind together. "both": the one behind the other. "auto": '
        "none, whiten or both, whichever tells known kinds apart best that it has not seen. The paper trains the "
        "network instead.",
        json_schema_extra=EVERYDAY,
    )
    mirrored: bool = Field(
        True,
        description="Whether colour pictures are looked at mirrored, too: twice the time of feature extraction, and "
        "kinds that are told apart a little better.",
    )
    shrinkage: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)] = Field(
        (0.05, 0.1, 0.3),
        description="How far the covariance inside kinds is drawn towards a sphere before features are divided by it. "
        "Of several, known kinds choose that are hidden; with too few of them, the largest is taken.",
    )
    dimensions: int = Field(
        512, ge=2, description="The most principal components of the known pictures that are kept before whitening."
    )
    steps: Annotated[tuple[Positive, ...], Field(min_length=1)] = Field(
        (25, 75, 150),
        description="Steps of the projection. Of several, known kinds choose that are hidden; with "
        "too few of them, the fewest are taken.",
    )
    learning_rate: float = Field(3e-4, gt=0, description="Of the projection, by Adam.")
    temperature: float = Field(0.1, gt=0, description="Of the projection's loss: small ones look at the nearest only.")
    episode_kinds: int = Field(27, ge=2, description="Known kinds in a step of the projection.")
    each: int = Field(8, ge=2, description="Pictures of each in a step of the projection.")
    folds: int = Field(
        3, ge=2, le=100, description="How often a third of the known kinds is hidden to compare the ways of transfer."
    )
