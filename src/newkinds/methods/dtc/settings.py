"""The settings of deep transfer clustering, and what "auto" in them becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from newkinds.images.augment import POLICIES, suited_policy
from newkinds.images.imageset import ImageSet
from newkinds.settings import CoreSettings, Optimiser, PolicyName
from newkinds.settings.base import AboveZero

# With K kinds, the mean over K in the consistency makes it K times as small, and p is K times as flat.
ALPHA_A_KIND, CONSISTENCY_A_KIND = 0.25, 6.0


class Discover(Optimiser):
    """Transfer clustering (Algorithm 1, lines 3 to 14)."""

    variant: Literal["baseline", "pi", "te", "tep"] = "pi"
    learning_rate: float = Field(3e-4, gt=0)  # a third of the paper's on OmniGlot: faster, small kinds die out
    schedule: Literal["constant", "cosine", "steps"] = "cosine"  # so that it ends calmly; the warm-up's is constant
    warmup_epochs: int = Field(5, ge=0)  # with the first targets; the paper has 10
    epochs: int = Field(40, ge=0)  # of the main loop; the paper's is 60 to 100, here it has settled by then
    warmup_learning_rate: AboveZero | Literal["same"] = "same"  # the authors' is up to 100 times the main loop's
    backbone_rate: float = Field(1.0, ge=0)  # learning rate of f, as a share of `learning_rate`
    centre_rate: float = Field(1.0, ge=0)  # learning rate of the centres, likewise
    batch_norm: Literal["batch", "frozen"] = "batch"  # each batch's, as in the paper, or as f was trained with
    # What q is made of. "pass": all pictures looked at once more after each epoch, the paper's; "steps": what the
    # epoch's own steps said about them, which costs nothing
    p_from: Literal["pass", "steps"] = "steps"
    update_every: int = Field(1, ge=1)  # epochs between two updates of q; the paper's
    targets: Literal["eq3", "held"] = "held"  # q by the paper's Eq. 3, which lets kinds die out, or with held sizes
    power: float = Field(2.0, ge=1)  # of p in held targets; Eq. 3's is 2
    # Pictures that f finds nearest to each, over which p is averaged before it makes q; the paper's: none
    neighbours: int = Field(0, ge=0)
    evenness: float = Field(0.5, ge=0, le=1)  # of held sizes: 0 those of the start, 1 all the same
    # Degrees of freedom in Eq. 1. "auto": a quarter of the kinds; the paper's 1 leaves p flat where there are many
    alpha: AboveZero | Literal["auto"] = "auto"
    beta: float = Field(0.6, ge=0, lt=1)  # momentum of the ensembles in te and tep; the authors'
    kl_normalisation: Literal["n", "nk"] = "n"  # Eq. 2 divides by N; the authors' code by N K
    # omega's maximum. "auto": 6 K; the paper's is 1, the authors' comes to 10 K to 100 K
    consistency: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    ramp_epochs: int = Field(5, ge=0)  # of omega; the authors'
    ramp_from: Literal["warmup", "main"] = "warmup"  # when omega begins to rise; the authors': "main"
    augmentation: PolicyName = "auto"
    # What the divergence sees. "auto": the picture as it is, but for a shifted or mirrored view where there is but one
    first_view: Literal["auto", "plain", "augmented"] = "auto"
    mixed: bool = False  # a further view: each picture laid over another, their q mixed alike; the paper's: none
    settled: float = Field(0.001, ge=0, le=1)  # share of assignments that still changes when all is settled; 0: go on
    settled_epochs: int = Field(5, ge=1)  # so many such epochs in a row end the main loop
    guard_tolerance: float = Field(0.04, ge=0, le=1)  # how much worse the last state may be than the best
    snapshots: int = Field(6, ge=0, le=100)  # states on the way that are kept for the report's pictures; 0: none
    guard: Literal["off", "warn", "keep-best"] = "keep-best"  # when it ends below its best


def resolved_discover(settings: Discover, images: ImageSet, kinds: int | None = None) -> Discover:
    """Return the settings for `images` without "auto", but for what depends on K where that is not known."""
    name = suited_policy(settings.augmentation, images)
    values: dict[str, Any] = {"augmentation": name}
    if settings.first_view == "auto":
        # Pi has its second view to learn from; the others see one view only, and learn from it unless it is warped.
        values["first_view"] = "plain" if settings.variant == "pi" or POLICIES[name].warps else "augmented"
    if kinds is not None:
        if settings.alpha == "auto":
            values["alpha"] = max(1.0, ALPHA_A_KIND * kinds)
        if settings.consistency == "auto":
            values["consistency"] = CONSISTENCY_A_KIND * kinds
    return settings.model_copy(update=values)


def resolve(settings: CoreSettings, known: ImageSet) -> Mapping[str, Any]:
    """Return the section's values for pictures like the known ones, by dotted keys."""
    return {"discover": resolved_discover(settings.section(Discover), known).model_dump()}
