"""The settings of the stages that every run has: pictures, pretraining, the number of kinds, the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import tomli_w
from pydantic import Field, field_validator
from typing_extensions import Self

from newkinds.errors import unknown_name
from newkinds.networks.catalogue import NETWORKS
from newkinds.networks.foreign import FOREIGN, is_foreign
from newkinds.settings.base import (
    EVERYDAY,
    AboveZero,
    NotNegative,
    Optimiser,
    PolicyName,
    Positive,
    Restarts,
    Schedule,
    Section,
    WeightDecay,
)
from newkinds.settings.files import checked, merge

S = TypeVar("S", bound=Section)


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


class Pretrain(Optimiser):
    """Pretraining: how the network f learns from the known kinds (Algorithm 1, line 2)."""

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
        'accuracy on held-out pictures shows. "auto": about `pictures` pictures in all, at least 5 and at most 60 '
        "epochs. The paper has 90 to 200.",
        json_schema_extra=EVERYDAY,
    )
    pictures: int = Field(
        60_000, ge=1, description='How many pictures f sees in all, one picture often, where epochs = "auto".'
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


class Count(Section):
    """The number of new kinds: how it is estimated where it is not given (Algorithm 2)."""

    estimator: Literal["probes", "labelled"] = Field(
        "probes",
        description='"probes": the paper\'s Algorithm 2. "labelled": the one of generalized category discovery, '
        "k-means on everything and the number that sorts all known pictures best; it gives no interval.",
    )
    max_kinds: int = Field(
        100,
        ge=1,
        description="The largest number of new kinds that is tried, the paper's K_max. Raise it where there may be "
        "more, lower it to save time; half the number of unsorted pictures is never exceeded.",
        json_schema_extra=EVERYDAY,
    )
    probes: Literal["auto"] | Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        "auto",
        description="The known kinds that are kept from training to tell the right number of clusters by: their names, "
        'with * for any letters. "auto": drawn at random, as many as `probe_share` says.',
    )
    probe_share: float = Field(
        0.2,
        gt=0,
        lt=1,
        description='The share of the known kinds that probes = "auto" keeps from training, at least 5 kinds.',
    )
    enough: int = Field(
        20,
        ge=4,
        description='With fewer known kinds than this, probes = "auto" spares none: all are trained on and used as '
        "probes as well, which makes the estimate less sure.",
    )
    probe_groups: Literal["together", "apart"] = Field(
        "together",
        description='Whether probes whose names differ before the first "/", such as characters of several alphabets, '
        'are clustered "together" or each group "apart" from the others, as the authors do on OmniGlot.',
    )
    probes_at_once: int = Field(
        30,
        ge=2,
        description="The most probe kinds in one clustering; of more, some are drawn each time. The paper has all.",
    )
    anchor_share: float = Field(
        0.8,
        gt=0,
        lt=1,
        description="The share of the probe kinds that are anchors, forced to clusters of their own; the others "
        "validate. The paper has 4 to 1; the authors' code .6 to .9, by data set.",
    )
    splits: int = Field(
        10,
        ge=1,
        description="How often the probe kinds are divided at random into anchors and validation. The estimate is the "
        "mean, its interval comes from the spread. Where groups are apart, it is rounded up so that all get as many. "
        "The paper has 1.",
    )
    restarts: Restarts = Field(
        3,
        description="How often each constrained k-means begins anew; the best outcome is kept. The authors' code has "
        "10; here each restart merges its way down from the largest number, and 3 are enough.",
    )
    tolerance: float = Field(
        0.02,
        ge=0,
        le=1,
        description="Numbers whose accuracy on the validation probes is this close to the best count as equally good. "
        "The paper's is 0.",
    )
    index_tolerance: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Among equally accurate numbers, the largest is taken whose index is within this share of their "
        "best index. The authors' code takes the largest of all: 1.",
    )
    decline: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Numbers whose accuracy is this far below the best are too large, whatever the index says. The "
        "paper rules out none: 1.",
    )
    index: Literal["silhouette", "dunn", "davies-bouldin", "calinski-harabasz"] = Field(
        "silhouette",
        description="The cluster validity index that says how clearly the unsorted pictures fall apart. The paper's is "
        "the silhouette.",
    )
    index_on: Literal["unsorted", "validation-too"] = Field(
        "unsorted",
        description="What the index is measured on: the unsorted pictures alone, as in the paper, or the validation "
        "probes beside them, as in the authors' code.",
    )
    index_sample: int = Field(
        10_000,
        ge=100,
        description="Of more pictures than this, so many are drawn to measure the index on, which saves time.",
    )
    rounding: Literal["nearest", "up"] = Field(
        "nearest",
        description='How a mean number becomes a whole one: "nearest", or "up" as in the authors\' code.',
    )
    unit_length: bool = Field(
        True,
        description="Whether features are scaled to length 1 before they are clustered. The paper takes them as they "
        "are.",
    )
    dimensions: int = Field(
        32,
        ge=2,
        description="How many dimensions PCA reduces the features to before they are clustered: the silhouette drowns "
        "in idle ones. The paper takes all.",
    )
    counted: Literal["all", "beside-known"] = Field(
        "all",
        description='Which clusters are counted in the end: "all" that unsorted pictures are in, as in the paper, or '
        "without those that are known kinds.",
    )
    tau: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="Clusters with less than this share of the largest one's pictures are not counted. Lower it where "
        "some kinds are rare. The paper has .01; k-means cuts off more outliers than that.",
    )
    confidence: float = Field(
        0.8, gt=0, lt=1, description="The probability with which the interval is to hold the true number."
    )


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


class CoreSettings(Section):
    """The settings of a run but for those of its method, which each method brings; see `newkinds.configure`."""

    seed: int = Field(
        0,
        ge=0,
        description="What all randomness is derived from. The same seed gives the same result to the byte; others show "
        "how much hangs on chance.",
        json_schema_extra=EVERYDAY,
    )
    method: str = Field(
        "",
        description='How the unsorted pictures are sorted. "dtc" is the paper\'s deep transfer clustering; `newkinds '
        "methods` says what the others are, and `newkinds compare` tries several.",
        json_schema_extra=EVERYDAY,
    )
    kinds: Annotated[int, Field(json_schema_extra={"minimum": 2})] | Literal["auto"] = Field(
        "auto",
        description='How many new kinds there are. Say it where you know it; "auto" estimates it, see the section '
        "[count].",
        json_schema_extra=EVERYDAY,
    )
    network: str = Field(
        "auto",
        description="The backbone f, which makes features of pictures: one that is trained here, by its name; a "
        'pretrained one of timm; or one from code of your own. "auto": a VGG6 for grey pictures, a ResNet18 for colour '
        "ones, at a quarter of the width where there is no GPU.",
        json_schema_extra={
            **EVERYDAY,
            "format": 'a name from `newkinds networks`, timm:NAME, module:function or "auto"',
        },
    )
    precision: Literal["bfloat16", "float32", "float64"] = Field(
        "float32",
        description='The numbers that training computes with. "bfloat16" takes about half as long where the processor '
        'multiplies in it, with three digits; "float64" takes two to three times as long and gives the same kinds '
        "with any number of processes.",
        json_schema_extra=EVERYDAY,
    )
    network_size: Positive | Literal["auto"] = Field(
        "auto",
        description="The side in pixels that pictures are scaled to before they enter f. Lower it where a pretrained "
        'network is too slow. "auto": the size that f was trained with, otherwise that of the pictures.',
    )
    images: Images = Images()
    pretrain: Pretrain = Pretrain()
    count: Count = Count()
    initialise: Initialise = Initialise()

    @field_validator("kinds")
    @classmethod
    def _at_least_two(cls, value: int | str) -> int | str:
        if isinstance(value, int) and value < 2:
            raise ValueError(f"{value} is too few: a set of pictures is sorted into 2 kinds or more, or 'auto'")
        return value

    @field_validator("network")
    @classmethod
    def _known_network(cls, value: str) -> str:
        if value != "auto" and value not in NETWORKS and not is_foreign(value):
            raise ValueError(str(unknown_name("network", value, ["auto", *NETWORKS, *FOREIGN])))
        return value

    def section(self, kind: type[S]) -> S:
        """Return the settings of one method, by their class."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if type(value) is kind:
                return value
        raise TypeError(f"{type(self).__name__} has no section {kind.__name__}: is its method registered?")

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Return settings with dotted keys ("pretrain.epochs") replaced, checked again."""
        return checked(type(self), merge(self.model_dump(), changes))

    def to_toml(self) -> str:
        """Return all values as TOML."""
        return tomli_w.dumps(self.model_dump(mode="json"))
