"""The settings of KCL and MCL: of the similarity network, and of clustering by its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from newkinds.images.augment import suited_policy
from newkinds.images.imageset import ImageSet
from newkinds.settings import CoreSettings, Optimiser, PolicyName
from newkinds.settings.base import BatchSize, FirstWeights, Milestones, Schedule


class Similarity(Optimiser):
    """The similarity network, which says whether two pictures are of one kind (methods kcl and mcl)."""

    batch_size: BatchSize = Field(
        128, description="Not used by this network: a batch is `episode_kinds` times `each` pictures."
    )
    start: FirstWeights = "f"
    episode_kinds: int = Field(
        20, ge=2, description="Known kinds in a batch, all pairs of whose pictures are learnt from. Published with 20."
    )
    each: int = Field(5, ge=2, description="Pictures of each kind in a batch. Published with 5.")
    epochs: int = Field(50, ge=0, description="How often the known pictures are seen. Published with 50.")
    schedule: Schedule = "steps"
    milestones: Milestones = (30, 40)
    augmentation: PolicyName = "auto"


class Pairs(Optimiser):
    """Clustering by a similarity network's answers (methods kcl and mcl)."""

    start: FirstWeights = "f"
    margin: float = Field(
        2.0,
        gt=0,
        description="Of the method kcl: how far the predictions for two pictures of different kinds should diverge. "
        "Published with 2.",
    )
    batch_size: BatchSize = 100
    epochs: int = Field(150, ge=0, description="How often the unsorted pictures are seen. Published with 150.")
    schedule: Schedule = "steps"
    milestones: Milestones = (100,)
    unknown: Literal["drop", "count"] = Field(
        "count",
        description='What happens where the number of kinds is not given. "count": it is estimated by Algorithm 2, as '
        'for the other methods; "drop": training has `most` kinds, of which small ones are dropped, as published.',
    )
    most: int = Field(100, ge=2, description='How many kinds training has with unknown = "drop". Published with 100.')
    least: float = Field(
        0.5,
        ge=0,
        description='With unknown = "drop", kinds with less than this multiple of an even share of the pictures are '
        "dropped.",
    )
    augmentation: PolicyName = "auto"


def resolve(settings: CoreSettings, known: ImageSet) -> Mapping[str, Any]:
    """Return the augmentations that suit the pictures, by dotted keys."""
    return {
        "similarity.augmentation": suited_policy(settings.section(Similarity).augmentation, known),
        "pairs.augmentation": suited_policy(settings.section(Pairs).augmentation, known),
    }


def finds_kinds(settings: CoreSettings, pictures: int) -> int | None:
    """Return how many kinds to begin with if small ones are dropped, the papers' way of finding their number."""
    chosen = settings.section(Pairs)
    return min(chosen.most, pictures // 2) if chosen.unknown == "drop" else None
