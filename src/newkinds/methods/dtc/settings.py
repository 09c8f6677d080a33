"""The settings of deep transfer clustering, and the values of those that are "auto"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from newkinds.images.augment import POLICIES, suited_policy
from newkinds.images.imageset import ImageSet
from newkinds.settings import CoreSettings, Optimiser, PolicyName
from newkinds.settings.base import EVERYDAY, AboveZero, LearningRate, NotNegative, Schedule

# With K kinds, the consistency is K times as small, being a mean over K, and p is K times as flat.
ALPHA_A_KIND, CONSISTENCY_A_KIND = 0.25, 6.0
FEWEST_EPOCHS, MOST_EPOCHS, PICTURES = 10, 40, 250_000  # of the main loop; how many pictures it sees in all, about
FEW_NEIGHBOURS = 3  # to average over where kinds may have few pictures
FEW_PICTURES = 40  # of a kind: f would learn them by heart


class Discover(Optimiser):
    """Discovery: deep transfer clustering (method dtc; Algorithm 1, lines 3 to 14)."""

    variant: Literal["baseline", "pi", "te", "tep"] = Field(
        "pi",
        description='Which of the paper\'s four variants. "baseline": self-training alone. "pi": two views of a '
        'picture should agree. "te": a picture should agree with the average of its earlier predictions. "tep": that '
        "average makes the targets.",
        json_schema_extra=EVERYDAY,
    )
    learning_rate: LearningRate = Field(
        3e-4,
        description="How far one step moves the weights. Lower it when a warning says that kinds merged or wavered; "
        "raise it when nothing moves. The paper has .001 on OmniGlot, where small kinds die out on the way.",
        json_schema_extra=EVERYDAY,
    )
    schedule: Schedule = Field(
        "cosine",
        description='The learning rate over the main loop: "cosine" falls smoothly to 0, so that it ends calmly; '
        '"steps" multiplies it by `decay` at each of the `milestones`; "constant" is the authors\' on most data. The '
        "warm-up's is always constant.",
    )
    warmup_epochs: int = Field(
        5,
        ge=0,
        description="Epochs with the first targets, before any are made anew. The paper has 10.",
    )
    epochs: NotNegative | Literal["auto"] = Field(
        "auto",
        description="The most epochs of the main loop, after the warm-up; it ends before that when assignments have "
        'settled. Raise it where the log shows that assignments still change. "auto": 40, fewer for more than 6,250 '
        "unsorted pictures, down to 10; and 10 where f is trained on fewer than 40 pictures a kind, which it would "
        "learn by heart. The paper has 60 to 100.",
        json_schema_extra=EVERYDAY,
    )
    warmup_learning_rate: AboveZero | Literal["same"] = Field(
        "same",
        description='The learning rate of the warm-up. "same": that of the main loop. The authors\' is up to 100 times '
        "as large.",
    )
    backbone_rate: float = Field(
        1.0, ge=0, description="The learning rate of f as a multiple of `learning_rate`. 0: f stays as it is."
    )
    centre_rate: float = Field(1.0, ge=0, description="The learning rate of the centres as a multiple, likewise.")
    batch_norm: Literal["batch", "frozen"] = Field(
        "batch",
        description='Which statistics batch norm takes while training: those of each "batch", as in the paper, or '
        'those that f was trained with ("frozen"). Try "frozen" with few pictures.',
    )
    p_from: Literal["pass", "steps"] = Field(
        "steps",
        description='Which predictions the targets are made of. "steps": those that the epoch\'s own steps made, which '
        'costs nothing; "pass": those of another pass over all pictures after each epoch, as in the paper.',
    )
    update_every: int = Field(
        1,
        ge=1,
        description="How many epochs of the main loop the targets stay before they are made anew. The paper has 1, the "
        "authors' code 1 to 10.",
    )
    targets: Literal["eq3", "held"] = Field(
        "held",
        description='How predictions become targets. "eq3": by the paper\'s Eq. 3, under which small kinds can die '
        'out; "held": such that each kind keeps its size, see `evenness`.',
    )
    power: float = Field(
        2.0,
        ge=1,
        description='With targets = "held", the power that predictions are raised to: how much surer targets are than '
        "predictions. Eq. 3 has 2.",
    )
    neighbours: int = Field(
        0,
        ge=0,
        description="Over how many of the pictures most similar to each predictions are averaged before they become "
        "targets, so that they outvote a single mistake; fewer than a kind has. The paper has none.",
    )
    evenness: float = Field(
        0.5,
        ge=0,
        le=1,
        description="How even the sizes of the new kinds are kept: 0 keeps those found at the start, 1 makes all the "
        "same. Raise it where you know that kinds are equally common, lower it where some are rare. Only with "
        'targets = "held".',
        json_schema_extra=EVERYDAY,
    )
    alpha: AboveZero | Literal["auto"] = Field(
        "auto",
        description='The degrees of freedom in Eq. 1: the larger, the sharper the predictions. "auto": a quarter of '
        "the number of kinds, at least 1. The paper's is 1, which leaves predictions flat where there are many kinds.",
    )
    beta: float = Field(
        0.6,
        ge=0,
        lt=1,
        description='With the variants "te" and "tep", the share of earlier epochs in the average of predictions. The '
        "authors' code has .6.",
    )
    kl_normalisation: Literal["n", "nk"] = Field(
        "n",
        description="What the divergence is divided by: the number of pictures, as in Eq. 2, or that times the number "
        "of kinds, as in the authors' code.",
    )
    consistency: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        "auto",
        description='With the variants "pi" and "te", the largest weight of the term that makes two predictions for a '
        "picture agree, the maximum of omega. \"auto\": 6 times the number of kinds. The paper's is 1; the authors' "
        "comes to 10 to 100 times the number of kinds.",
    )
    ramp_epochs: int = Field(
        5, ge=0, description="Epochs in which that weight rises to its maximum. The authors' code has 5."
    )
    ramp_from: Literal["warmup", "main"] = Field(
        "warmup",
        description="When that weight begins to rise: with the warm-up or, as in the authors' code, with the main "
        "loop.",
    )
    augmentation: PolicyName = "auto"
    first_view: Literal["auto", "plain", "augmented"] = Field(
        "auto",
        description='What the divergence sees of a picture: the picture as it is ("plain") or a random view. "auto": '
        "as it is, except in variants with a single view where views are only shifted and mirrored. The authors' code "
        'has "augmented", on OmniGlot "plain".',
    )
    mixed: bool = Field(
        False,
        description="Whether each step also sees every picture laid over another, with their targets mixed alike "
        "(mixup), which takes longer and helps against learning wrong targets by heart. The paper does not.",
    )
    settled: float = Field(
        0.001,
        ge=0,
        le=1,
        description="The main loop ends when no more than this share of the assignments changes in an epoch, "
        "`settled_epochs` times in a row. 0: it never ends early, as in the paper.",
    )
    settled_epochs: int = Field(
        5, ge=1, description="How many epochs in a row must have settled for the main loop to end."
    )
    guard_tolerance: float = Field(
        0.04,
        ge=0,
        le=1,
        description="By how much the last state may be worse than the best, by the shared information that the log "
        "has, before the guard acts.",
    )
    snapshots: int = Field(
        6,
        ge=0,
        le=100,
        description="How many states on the way are kept for the report's animation and for `newkinds figures`. 0: "
        "none.",
    )
    guard: Literal["off", "warn", "keep-best"] = Field(
        "keep-best",
        description="What happens when training ends clearly below its best state, as it can without labels: nothing, "
        'as in the paper; a warning; or the best state is kept and the last one laid beside it ("keep-best").',
    )


def resolved_discover(
    settings: Discover, images: ImageSet, kinds: int | None = None, *, frozen: bool = False
) -> Discover:
    """Return the settings for `images` without "auto", except for what depends on the heap.

    images: the unsorted pictures if `kinds` is given, otherwise pictures like them. frozen: whether f is not trained.
    """
    name = suited_policy(settings.augmentation, images)
    values: dict[str, Any] = {"augmentation": name}
    if settings.first_view == "auto":
        # Pi has its second view to learn from; the others see one view only, and learn from it unless it is warped.
        values["first_view"] = "plain" if settings.variant == "pi" or POLICIES[name].warps else "augmented"
    if kinds is not None:
        if settings.epochs == "auto":
            few = len(images) < FEW_PICTURES * kinds and not frozen
            most = FEWEST_EPOCHS if few else MOST_EPOCHS
            values["epochs"] = min(most, max(FEWEST_EPOCHS, math.ceil(PICTURES / len(images))))
        if settings.alpha == "auto":
            values["alpha"] = max(1.0, ALPHA_A_KIND * kinds)
        if settings.consistency == "auto":
            values["consistency"] = CONSISTENCY_A_KIND * kinds
    return settings.model_copy(update=values)


def resolve(settings: CoreSettings, known: ImageSet) -> Mapping[str, Any]:
    """Return the section's values for pictures like the known ones, by dotted keys."""
    return {"discover": resolved_discover(settings.section(Discover), known).model_dump()}


def rivals(settings: CoreSettings) -> dict[str, dict[str, Any]]:
    """Return the settings to rehearse beside these: on frozen features, averages over fewer neighbours."""
    found: dict[str, dict[str, Any]] = {}
    for number, name in ((FEW_NEIGHBOURS, f"{FEW_NEIGHBOURS} neighbours"), (0, "no neighbours")):
        if settings.tune != "all" and settings.initialise.neighbours > number:
            found[name] = {"initialise.neighbours": number, "discover.neighbours": number}
    return found
