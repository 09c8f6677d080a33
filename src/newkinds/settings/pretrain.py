"""The settings of pretraining f on the known kinds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from newkinds.settings.base import (
    EVERYDAY,
    BatchSize,
    NotNegative,
    Optimiser,
    PolicyName,
    Positive,
    Schedule,
    WeightDecay,
)


class Pretrain(Optimiser):
    """Pretraining: how the network f learns from the known kinds (Algorithm 1, line 2)."""

    batch_size: BatchSize = Field(
        128,
        description="Pictures in one step. Lower it where memory runs out; larger batches make fewer, calmer steps. "
        'With the losses "prototypical" and "triplet", `episode_kinds`, `support` and `query` count instead.',
    )
    loss: Literal["auto", "cross-entropy", "prototypical", "triplet"] = Field(
        "auto",
        description='What f learns by: naming the known kinds ("cross-entropy"), or bringing pictures of one kind '
        'together and others apart ("prototypical", "triplet"). "auto": prototypical with 50 known kinds or more of '
        "typically 40 pictures or fewer each, as characters are; otherwise cross-entropy. The paper: prototypical for "
        "OmniGlot, cross-entropy elsewhere.",
    )
    episode_kinds: int = Field(
        20,
        ge=2,
        description='How many kinds are in a batch of the losses "prototypical" and "triplet". The paper has 20.',
    )
    episodes_of: Literal["any", "group"] = Field(
        "any",
        description='Which kinds meet in such a batch: "any", drawn at random as in the paper; or "group", those whose '
        'names agree before the first "/", as the characters of an alphabet do. They are harder to tell apart, and f '
        "learns more from them.",
    )
    support: Positive | Literal["auto"] = Field(
        "auto",
        description='How many pictures of a kind make its prototype in such a batch. "auto": half of what the '
        "smallest kind has for training, at most the paper's 5.",
    )
    query: Positive | Literal["auto"] = Field(
        "auto",
        description="How many further pictures of a kind are named by the prototypes in such a batch; triplets are "
        'made of support + query pictures. "auto": as for `support`.',
    )
    margin: float = Field(
        0.5,
        gt=0,
        description="Of the triplet loss: by how much a picture should be nearer to its own kind than to others, in "
        "distances between embeddings of length 1.",
    )
    keep: Literal["last", "best"] = Field(
        "last",
        description="Which weights are kept: those of the last epoch, as the authors do, or those of the epoch with "
        "the best score on the pictures held out.",
    )
    epochs: NotNegative | Literal["auto"] = Field(
        "auto",
        description="How often f sees each known picture. More help where the known kinds are not yet learnt, as the "
        'accuracy on held-out pictures shows. "auto": about `pictures` pictures in all, at least 5 epochs, or 12 '
        "with a loss that compares, and at most 60. The paper has 90 to 200.",
        json_schema_extra=EVERYDAY,
    )
    pictures: int = Field(
        60_000,
        ge=1,
        description='How many pictures f sees in all, one picture often, where epochs = "auto". Twice as many where '
        "kinds are so few that quarter turns are added by themselves.",
    )
    held_out: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="The share of each known kind that is not trained on, to measure the accuracy of f.",
    )
    augmentation: PolicyName = Field(
        "auto",
        description="How known pictures are varied at random while f learns. Take one without a flip where a mirrored "
        'picture means something else, as with letters and digits. "auto": crop and flip for colour pictures, small '
        "affine maps without a flip for grey ones, nothing for ready-made embeddings.",
        json_schema_extra=EVERYDAY,
    )
    quarter_turns: bool | Literal["auto"] = Field(
        "auto",
        description="Whether kinds turned by 90, 180 and 270 degrees count as kinds of their own. With few known kinds "
        'f otherwise forgets what it does not need to tell them apart, but new kinds do. "auto": with fewer than 20 '
        "known kinds. The paper does not.",
    )
    label_smoothing: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Of cross-entropy: the share of each label that is spread over all kinds, so that f is less sure.",
    )
    schedule: Schedule = "cosine"
    weight_decay: WeightDecay = 1e-4
