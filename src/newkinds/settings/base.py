"""What every group of settings is made of: sections with checked, frozen values, and how weights are moved."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from newkinds.errors import unknown_name
from newkinds.images.augment import POLICIES

NotNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0)]


def _known_policy(name: str) -> str:
    if name != "auto" and name not in POLICIES:
        raise ValueError(str(unknown_name("augmentation", name, ["auto", *POLICIES])))
    return name


PolicyName = Annotated[str, AfterValidator(_known_policy)]  # the name of a policy, or "auto"


class Section(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Optimiser(Section):
    """How weights are moved."""

    optimiser: Literal["sgd", "adam"] = "adam"
    learning_rate: float = Field(1e-3, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)  # of SGD; Adam keeps its customary (0.9, 0.999)
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["constant", "cosine", "steps"] = "constant"
    milestones: tuple[int, ...] = ()  # of "steps": the epochs after which the rate is multiplied by `decay`
    decay: float = Field(0.1, gt=0, le=1)
    batch_size: int = Field(128, ge=2)
