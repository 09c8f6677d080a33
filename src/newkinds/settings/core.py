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
from newkinds.settings.base import AboveZero, NotNegative, Optimiser, PolicyName, Positive, Section
from newkinds.settings.files import checked, merge

S = TypeVar("S", bound=Section)


class Images(Section):
    """How files become pixels."""

    size: Positive | Literal["auto"] = "auto"  # side in pixels; "auto" takes the files' own, at most `largest`
    largest: int = Field(64, ge=8)  # what a CPU still trains on in minutes
    fit: Literal["crop", "squash"] = "crop"  # pictures that are not square: cut the longer side, or squeeze it
    max_pixels: int = Field(100_000_000, ge=1)  # of one file, against decompression bombs


class Pretrain(Optimiser):
    """Training f on the known kinds (Algorithm 1, line 2)."""

    # "auto": prototypical with many known kinds of few pictures each, as characters are; otherwise cross-entropy
    loss: Literal["auto", "cross-entropy", "prototypical", "triplet"] = "auto"
    episode_kinds: int = Field(20, ge=2)  # in a batch of the metric losses; the authors'
    # Which kinds meet in such a batch. "any": whichever, the authors'; "group": those whose names agree before the
    # first "/", as the characters of an alphabet do: harder to tell apart, and what is to be told apart later
    episodes_of: Literal["any", "group"] = "any"
    support: Positive | Literal["auto"] = "auto"  # pictures of a kind that make its prototype; "auto": at most 5
    query: Positive | Literal["auto"] = "auto"  # and those named by it; triplets take support + query of a kind
    margin: float = Field(0.5, gt=0)  # of the triplet loss, between embeddings of length 1
    keep: Literal["last", "best"] = "last"  # weights of the last epoch, as the authors; or of the best score
    epochs: NotNegative | Literal["auto"] = "auto"  # "auto": about `pictures` pictures seen, whatever the set's size
    pictures: int = Field(60_000, ge=1)
    held_out: float = Field(0.1, gt=0, lt=1)  # share of each known kind kept back to measure accuracy
    augmentation: PolicyName = "auto"  # "auto": crop and flip for colour, affine without a flip for grey pictures
    quarter_turns: bool | Literal["auto"] = "auto"  # turned kinds are kinds too; "auto": with less than 20 known kinds
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    schedule: Literal["constant", "cosine", "steps"] = "cosine"
    weight_decay: float = Field(1e-4, ge=0)


class Count(Section):
    """Estimating the number of new kinds (Algorithm 2)."""

    # "probes": Algorithm 2. "labelled": that of generalized category discovery, by the accuracy on all known kinds
    estimator: Literal["probes", "labelled"] = "probes"
    max_kinds: int = Field(100, ge=1)  # K_max, the paper's
    # Which known kinds are the probes: by number, see below; or by name, with * for any letters
    probes: Literal["auto"] | Annotated[tuple[str, ...], Field(min_length=1)] = "auto"
    probe_share: float = Field(0.2, gt=0, lt=1)  # of the known kinds, kept from training when there are enough
    enough: int = Field(20, ge=4)  # known kinds; with fewer, all are both trained on and used as probes
    # Probes whose names differ behind the first "/" only: in one clustering with the others, or in one of their own
    probe_groups: Literal["together", "apart"] = "together"
    probes_at_once: int = Field(30, ge=2)  # in one clustering; of more, some are drawn each time
    anchor_share: float = Field(0.8, gt=0, lt=1)  # of the probe kinds; the paper's 4:1
    splits: int = Field(10, ge=1)  # random divisions into anchors and validation, or more to have all groups as often
    restarts: int = Field(3, ge=1)  # of each constrained k-means; the authors' 10
    tolerance: float = Field(0.02, ge=0, le=1)  # accuracies this close to the best count as equal; the paper's is 0
    index_tolerance: float = Field(0.05, ge=0, le=1)  # share of the index that decides between equal accuracies
    decline: float = Field(0.1, ge=0, le=1)  # of the accuracy, beyond which K is too large; the paper's is 1: never
    index: Literal["silhouette", "dunn", "davies-bouldin", "calinski-harabasz"] = "silhouette"  # the paper's
    index_on: Literal["unsorted", "validation-too"] = "unsorted"  # the paper's; the authors' is the other
    index_sample: int = Field(10_000, ge=100)  # of more points than this, so many are drawn for the index
    rounding: Literal["nearest", "up"] = "nearest"  # of means; the authors': up
    unit_length: bool = True  # features scaled to length 1; the paper's are raw
    dimensions: int = Field(32, ge=2)  # features reduced to by PCA: the silhouette drowns in idle dimensions
    # Which clusters count: those that unsorted pictures are in, the paper's; or without those of known kinds
    counted: Literal["all", "beside-known"] = "all"
    tau: float = Field(0.1, ge=0, lt=1)  # clusters below this share of the largest are dropped; the paper's is .01
    confidence: float = Field(0.8, gt=0, lt=1)  # with which the interval is to hold the truth


class Initialise(Section):
    """The bottleneck, the centres and the first targets (Algorithm 1, line 2)."""

    # First weights of the last layer. "pca": the paper's; "centres": the span of k-means' centres among the features,
    # which loses nothing that k-means sees, where few components of PCA do; "directions": the same where k-means
    # compares features by direction, whatever their length; "random": the authors' code
    bottleneck: Literal["pca", "centres", "directions", "random"] = "pca"
    views: int = Field(0, ge=0)  # random views of a picture that its features are averaged over; the paper's: none
    neighbours: int = Field(0, ge=0)  # pictures nearest to each that they are averaged over, too; the paper's: none
    width: Positive | Literal["kinds"] = "kinds"  # of the bottleneck; the paper's K
    restarts: int = Field(20, ge=1)  # of k-means, the authors' 20
    # Clusters that k-means begins with, as a multiple of the kinds; those that cost least merge. The paper's is 1
    overseed: float = Field(1.5, ge=1, le=10)
    scale: AboveZero | Literal["none", "auto"] = "auto"  # of the embedding against Eq. 1's unit width
    certainty: float = Field(0.45, gt=0, lt=1)  # what "auto" brings the mean probability of the own kind to


class CoreSettings(Section):
    """The settings of a run but for those of its method, which each method brings; see `newkinds.configure`."""

    seed: int = Field(0, ge=0)
    # How the unsorted pictures are sorted; `newkinds methods` says what each is
    method: str = ""
    kinds: int | Literal["auto"] = "auto"
    network: str = "auto"
    # Of training. "bfloat16" takes about half as long where the processor multiplies in it, and leaves f three digits;
    # "float64" takes two to three times as long and gives the same kinds with any number of processes
    precision: Literal["bfloat16", "float32", "float64"] = "float32"
    network_size: Positive | Literal["auto"] = "auto"  # pictures' side before f; "auto": f's own
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
