"""The settings of the start of Algorithm 1."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from newkinds.settings.base import AboveZero, Positive, Restarts, Section


class Initialise(Section):
    """The start: the last layer of the network, the centres and the first targets (Algorithm 1, line 2)."""

    bottleneck: Literal["pca", "centres", "directions", "random"] = Field(
        "pca",
        description='The first weights of the last layer. "pca": principal components of the features, as in the '
        'paper. "centres": the span of the centres that k-means finds among the features, which loses nothing that '
        'k-means sees; better with few kinds. "directions": the same where k-means compares features by direction. '
        '"random": fresh ones, as in the authors\' code, which lose the start.',
    )
    views: int = Field(
        0,
        ge=0,
        description="Over how many random views of each picture its features are averaged for the start. A few make it "
        "steadier. The paper has none.",
    )
    neighbours: int = Field(
        0,
        ge=0,
        description="Over how many of the most similar pictures each picture's features are averaged for the start, "
        "which brings pictures of one kind together; fewer than a kind has. The paper has none.",
    )
    width: Positive | Literal["kinds"] = Field(
        "kinds",
        description='The width of the last layer. "kinds": as many dimensions as there are new kinds, as in the paper.',
    )
    restarts: Restarts = Field(
        20,
        description="How often the k-means that finds the first centres begins anew; the best outcome is kept. The "
        "authors' code has 20.",
    )
    overseed: float = Field(
        1.5,
        ge=1,
        le=10,
        description="How many clusters k-means begins with, as a multiple of the kinds; those that cost least are then "
        "merged, so that no two kinds share a cluster from the beginning. The paper's is 1.",
    )
    scale: AboveZero | Literal["none", "auto"] = Field(
        "auto",
        description='What the embedding is multiplied by, as Eq. 1 compares distances with 1. "auto": such that '
        'probabilities have the mean `certainty`; "none": nothing, as in the paper, which leaves them flat or hard as '
        "it happens.",
    )
    certainty: float = Field(
        0.45,
        gt=0,
        lt=1,
        description='The mean probability of the own kind that scale = "auto" aims for.',
    )
