"""Every choice that changes a result, with its default and the reason for it.

Settings are frozen values: nothing is parked in them while a run goes on. They are read from TOML, an unknown key is an
error that lists the valid ones, and a run folder keeps all of them, resolved, in `settings.toml`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from newkinds.errors import UsageError, unknown_name
from newkinds.images.augment import POLICIES
from newkinds.networks.catalogue import NETWORKS
from newkinds.networks.foreign import FOREIGN, is_foreign

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NotNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _known_policy(name: str) -> str:
    if name != "auto" and name not in POLICIES:
        raise ValueError(str(unknown_name("augmentation", name, ["auto", *POLICIES])))
    return name


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
    augmentation: str = "auto"  # "auto": crop and flip for colour, affine without a flip for grey pictures
    quarter_turns: bool | Literal["auto"] = "auto"  # turned kinds are kinds too; "auto": with less than 20 known kinds
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    schedule: Literal["constant", "cosine", "steps"] = "cosine"
    weight_decay: float = Field(1e-4, ge=0)

    _policy = field_validator("augmentation")(_known_policy)


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
    augmentation: str = "auto"
    # What the divergence sees. "auto": the picture as it is, but for a shifted or mirrored view where there is but one
    first_view: Literal["auto", "plain", "augmented"] = "auto"
    mixed: bool = False  # a further view: each picture laid over another, their q mixed alike; the paper's: none
    settled: float = Field(0.001, ge=0, le=1)  # share of assignments that still changes when all is settled; 0: go on
    settled_epochs: int = Field(5, ge=1)  # so many such epochs in a row end the main loop
    guard_tolerance: float = Field(0.04, ge=0, le=1)  # of the sign, by which the last state may be worse than the best
    moments: int = Field(6, ge=0, le=100)  # states on the way that are kept for the report's pictures; 0: none
    guard: Literal["off", "warn", "keep-best"] = "keep-best"  # what to do when signs say that it ends below its best

    _policy = field_validator("augmentation")(_known_policy)


class KMeans(Section):
    """Plain and constrained k-means (methods kmeans and constrained-kmeans)."""

    on: Literal["features", "pixels"] = "features"
    restarts: int = Field(20, ge=1)


class Dec(Optimiser):
    """Deep embedded clustering, without labels (method dec)."""

    optimiser: Literal["sgd", "adam"] = "adam"  # published: SGD, at .1 for the autoencoder and .01 for clustering
    widths: tuple[int, ...] = (500, 500, 2000, 10)  # of the encoder's layers; the decoder's are the same backwards
    batch_size: int = Field(256, ge=2)
    autoencoder_epochs: int = Field(100, ge=0)  # of reconstruction
    noise: float = Field(0.2, ge=0, lt=1)  # share of the inputs set to 0 while the autoencoder is trained
    epochs: int = Field(100, ge=0)  # of clustering, at most
    learning_rate: float = Field(1e-3, gt=0)
    update_every: int = Field(1, ge=1)  # epochs between two targets
    settled: float = Field(0.001, ge=0, le=1)  # share of assignments that still changes at the end; 0: go on
    restarts: int = Field(20, ge=1)  # of k-means for the first centres


class Lpnmf(Section):
    """Locality preserving non-negative matrix factorisation (method lpnmf)."""

    on: Literal["features", "pixels"] = "features"
    neighbours: int = Field(5, ge=1)  # of each picture in the graph
    weight: float = Field(100.0, ge=0)  # of the graph's term, lambda
    restarts: int = Field(10, ge=1)
    first_iterations: int = Field(10, ge=1)  # of each restart; the best is iterated further
    max_iterations: int = Field(500, ge=1)
    tolerance: float = Field(1e-5, ge=0)  # relative change of the objective that ends it


class Lsc(Section):
    """Landmark spectral clustering (method lsc)."""

    on: Literal["features", "pixels"] = "features"
    landmarks: int = Field(1000, ge=2)  # at most half of the pictures
    choose: Literal["kmeans", "random"] = "kmeans"  # how landmarks are found
    nearest: int = Field(5, ge=2)  # landmarks of each picture
    restarts: int = Field(10, ge=1)  # of the last k-means


class Similarity(Optimiser):
    """The network that says whether two pictures are of one kind (methods kcl and mcl)."""

    start: Literal["f", "fresh"] = "f"  # its backbone's first weights; published: "fresh"
    episode_kinds: int = Field(20, ge=2)  # kinds in a batch
    each: int = Field(5, ge=2)  # pictures of each
    epochs: int = Field(50, ge=0)
    schedule: Literal["constant", "cosine", "steps"] = "steps"
    milestones: tuple[int, ...] = (30, 40)
    augmentation: str = "auto"

    _policy = field_validator("augmentation")(_known_policy)


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
    augmentation: str = "auto"

    _policy = field_validator("augmentation")(_known_policy)


class Centroids(Optimiser):
    """Centroid networks: Sinkhorn's assignment in training and in clustering (method centroid-networks)."""

    start: Literal["f", "fresh"] = "f"  # the backbone's first weights; published: "fresh"
    episode_kinds: int = Field(20, ge=2)  # kinds in an episode; published: those of one alphabet
    each: int = Field(10, ge=2)  # pictures of each, half of them for the prototype
    # "auto": the published 10,000 from fresh weights; none from f, which was trained on the known kinds already: more
    # episodes made its new kinds worse
    episodes: NotNegative | Literal["auto"] = "auto"
    halve_every: int = Field(2_000, ge=1)  # episodes after which the learning rate is halved
    regulariser: float = Field(1.0, gt=0)  # of Sinkhorn's assignment
    iterations: int = Field(10, ge=1)  # of Sinkhorn in training
    centre_weight: float = Field(0.1, ge=0)  # of the mean squared distance to the own prototype
    steps: int = Field(20, ge=1)  # of Sinkhorn k-means
    first_iterations: int = Field(20, ge=1)  # of Sinkhorn in its first step
    later_iterations: int = Field(4, ge=1)  # and in the others, which start where the one before ended
    restarts: int = Field(5, ge=1)  # of Sinkhorn k-means, of which the cheapest is kept; published: 1
    augmentation: str = "auto"

    _policy = field_validator("augmentation")(_known_policy)


class Settings(Section):
    """All settings of a run."""

    seed: int = Field(0, ge=0)
    # How the unsorted pictures are sorted; `newkinds methods` says what each is
    method: Literal["dtc", "kmeans", "constrained-kmeans", "dec", "lpnmf", "lsc", "kcl", "mcl", "centroid-networks"] = (
        "dtc"
    )
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
    discover: Discover = Discover()
    kmeans: KMeans = KMeans()
    dec: Dec = Dec()
    lpnmf: Lpnmf = Lpnmf()
    lsc: Lsc = Lsc()
    similarity: Similarity = Similarity()
    pairs: Pairs = Pairs()
    centroids: Centroids = Centroids()

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

    def with_changes(self, changes: Mapping[str, Any]) -> Settings:
        """Return settings with dotted keys ("discover.epochs") replaced, checked again."""
        return make_settings(merge(self.model_dump(), changes))

    def to_toml(self) -> str:
        """Return all values as TOML."""
        return tomli_w.dumps(self.model_dump(mode="json"))


def merge(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values with dotted keys replaced."""
    merged: dict[str, Any] = {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
    for dotted, value in changes.items():
        *sections, last = dotted.split(".")
        inner = merged
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise UsageError(f"Unknown setting {dotted!r}: {section!r} is not a section.", hint=_VALID_HINT)
        inner[last] = value
    return merged


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Return checked settings from nested values, or an error that names each bad key, its value and what is valid."""
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise UsageError("Bad settings: " + "; ".join(_complaints(error)) + ".", hint=_VALID_HINT) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the nested values of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"The settings file {path} cannot be read: {error.strerror}.", hint="Check the path."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The settings file {path} is not TOML: {error}.", hint="`newkinds settings` shows what one looks like."
        ) from None


def parse_value(text: str) -> Any:
    """Return a value written as in TOML; what is not TOML is taken as text, so that quotes may be left out."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


_VALID_HINT = "`newkinds settings` shows every setting with its default."
_MEMBER = re.compile(r"(constrained-)?(int|float|bool|str)|literal\[.*\]")


def _complaints(error: ValidationError) -> list[str]:
    complaints: dict[str, str] = {}
    for problem in error.errors():
        # A union reports one problem for each of its members, and ends the key with the member: one line is enough.
        path = [str(part) for part in problem["loc"]]
        if _MEMBER.fullmatch(path[-1]) and problem["type"] != "extra_forbidden":
            path.pop()
        key = ".".join(path)
        if problem["type"] == "extra_forbidden":
            model: type[BaseModel] = Settings
            for part in path[:-1]:
                model = type(model.model_fields[part].default)
            # The likely one is found by the last part: with the section before it, everything looks alike.
            said = str(unknown_name("setting", path[-1], model.model_fields))
            complaints[key] = said.replace(repr(path[-1]), repr(key), 1)
        elif key not in complaints:
            text = problem["msg"].removeprefix("Value error, ")
            complaints[key] = f"{key} = {problem['input']!r}: {text}"
        elif problem["type"] == "literal_error":
            complaints[key] += f", or {problem['ctx']['expected']}"
    return [text.rstrip(".") for text in complaints.values()]
