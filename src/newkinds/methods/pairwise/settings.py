"""The settings of KCL and MCL: of the similarity network, and of clustering by its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from newkinds.images.augment import suited_policy
from newkinds.images.imageset import ImageSet
from newkinds.settings import CoreSettings, Optimiser, PolicyName


class Similarity(Optimiser):
    """The network that says whether two pictures are of one kind (methods kcl and mcl)."""

    start: Literal["f", "fresh"] = "f"  # its backbone's first weights; published: "fresh"
    episode_kinds: int = Field(20, ge=2)  # kinds in a batch
    each: int = Field(5, ge=2)  # pictures of each
    epochs: int = Field(50, ge=0)
    schedule: Literal["constant", "cosine", "steps"] = "steps"
    milestones: tuple[int, ...] = (30, 40)
    augmentation: PolicyName = "auto"


class Pairs(Optimiser):
    """Clustering by a similarity network's answers (methods kcl and mcl)."""

    start: Literal["f", "fresh"] = "f"  # the backbone's first weights; published: "fresh"
    margin: float = Field(2.0, gt=0)  # of KCL: how much dissimilar pairs are to diverge
    batch_size: int = Field(100, ge=2)
    epochs: int = Field(150, ge=0)
    schedule: Literal["constant", "cosine", "steps"] = "steps"
    milestones: tuple[int, ...] = (100,)
    # Where the number of kinds is to be found. "drop": so many as `most`, of which small ones are dropped, the papers'
    # way; "count": Algorithm 2's
    unknown: Literal["drop", "count"] = "count"
    most: int = Field(100, ge=2)
    least: float = Field(0.5, ge=0)  # of an even share of the pictures: kinds with less are dropped
    augmentation: PolicyName = "auto"


def resolve(settings: CoreSettings, known: ImageSet) -> Mapping[str, Any]:
    """Return the augmentations that suit the pictures, by dotted keys."""
    return {
        "similarity.augmentation": suited_policy(settings.section(Similarity).augmentation, known),
        "pairs.augmentation": suited_policy(settings.section(Pairs).augmentation, known),
    }


def finds_kinds(settings: CoreSettings, pictures: int) -> int | None:
    """Return how many kinds to begin with where small ones are dropped, the papers' way of finding their number."""
    chosen = settings.section(Pairs)
    return min(chosen.most, pictures // 2) if chosen.unknown == "drop" else None
