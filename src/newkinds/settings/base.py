"""The building blocks of settings: sections of validated, frozen values, and the settings of an optimiser.

A setting is declared once, with its default, its limits and its description: `Field(description=...)` is what `newkinds
settings` and the settings page of the docs show. A type that is used in several sections brings its description with
it; a section may replace it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, field_validator

from newkinds.errors import unknown_name
from newkinds.images.augment import POLICIES

EVERYDAY: dict[str, Any] = {
    "everyday": True
}  # `json_schema_extra` of the settings that people often change: `newkinds settings` shows these

LARGEST = 1e12  # of a number with a fraction
NotNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0)]


def _known_policy(name: str) -> str:
    if name != "auto" and name not in POLICIES:
        raise ValueError(str(unknown_name("augmentation", name, ["auto", *POLICIES])))
    return name


PolicyName = Annotated[
    str,
    AfterValidator(_known_policy),
    WithJsonSchema({"type": "string", "enum": ["auto", *POLICIES]}),
    Field(
        description="How pictures are varied at random while they are trained on. Take one without a flip where a "
        'mirrored picture means something else, as with letters and digits. "auto": crop and flip for colour pictures, '
        "small affine maps without a flip for grey ones, nothing for ready-made embeddings."
    ),
]
LearningRate = Annotated[
    float,
    Field(
        gt=0,
        description="How far one step moves the weights. Too large, and training swings or diverges; too small, and "
        "it takes more epochs.",
    ),
]
Schedule = Annotated[
    Literal["constant", "cosine", "steps"],
    Field(
        description='The learning rate over the epochs: "constant"; "cosine", which falls smoothly to 0; or "steps", '
        "which multiplies it by `decay` at each of the `milestones`."
    ),
]
Milestones = Annotated[
    tuple[int, ...],
    Field(
        description='The epochs after which the schedule "steps" multiplies the learning rate by `decay`. The other '
        "schedules take no notice of them."
    ),
]
WeightDecay = Annotated[
    float, Field(ge=0, description="How strongly each step pulls the weights towards 0, which holds back overfitting.")
]
BatchSize = Annotated[
    int,
    Field(
        ge=2,
        description="Pictures in one step. Lower it where memory runs out; larger batches make fewer, calmer steps.",
    ),
]
Restarts = Annotated[
    int,
    Field(
        ge=1,
        description="How often k-means begins anew; the best outcome is kept. More take longer and find a better one "
        "more surely.",
    ),
]
ClusteredOn = Annotated[
    Literal["features", "pixels"],
    Field(
        description="What is clustered: the features that the network f makes of the pictures, or the pixels "
        'themselves. With "pixels" no network is trained.'
    ),
]
FirstWeights = Annotated[
    Literal["f", "fresh"],
    Field(
        description="The weights that training begins with: those of f, the network pretrained on the known kinds, or "
        'random ones. Published with "fresh".'
    ),
]


class Section(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _in_float32(cls, value: Any) -> Any:
        """Refuse numbers that float32, in which all is computed, does not have once they are multiplied by others."""
        if isinstance(value, float) and abs(value) > LARGEST:
            raise ValueError(f"Input should be at most {LARGEST:g}")
        return value


class Optimiser(Section):
    """How weights are moved."""

    optimiser: Literal["sgd", "adam"] = Field(
        "adam", description='The rule by which weights are moved: "adam", or "sgd" with momentum.'
    )
    learning_rate: LearningRate = 1e-3
    momentum: float = Field(
        0.9, ge=0, lt=1, description="The momentum of SGD. Adam keeps its customary (0.9, 0.999) whatever this says."
    )
    weight_decay: WeightDecay = 0.0
    schedule: Schedule = "constant"
    milestones: Milestones = ()
    decay: float = Field(
        0.1, gt=0, le=1, description='What the schedule "steps" multiplies the learning rate by at each milestone.'
    )
    batch_size: BatchSize = 128
