"""The settings of estimating the number of new kinds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from newkinds.settings.base import Restarts, Section


class Count(Section):
    """The number of new kinds: how it is estimated where it is not given (Algorithm 2)."""

    estimator: Literal["rehearsed", "paper", "probes", "labelled", "ward"] = Field(
        "rehearsed",
        description='"rehearsed": known kinds are hidden and clustered as the heap is; what gives their number gives '
        "that of the heap, and how far it is off gives the interval. With too few known kinds for that, it is as with "
        '"paper" (once called "probes"): the paper\'s Algorithm 2. "labelled": that of generalized category discovery, '
        'k-means on everything and the number that sorts all known pictures best; "ward": the same over the cuts of '
        "one tree of merges. These two give no interval.",
    )
    max_kinds: int = Field(
        100,
        ge=1,
        description="The largest number of new kinds that is tried, the paper's K_max. Raise it where there may be "
        "more, lower it to save time; half the number of unsorted pictures is never exceeded.",
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
        le=1000,
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
    neighbours: int = Field(
        0,
        ge=0,
        description="Over how many of the most similar pictures, probes and unsorted ones, each picture's features are "
        "averaged first, which brings pictures of one kind together; fewer than a kind has. The paper has none.",
    )
    counted: Literal["all", "beside-known"] = Field(
        "all",
        description='Which clusters are counted in the end: "all" that unsorted pictures are in, as in the paper, or '
        "without those that are known kinds.",
    )
    rehearsals: int = Field(
        4,
        ge=2,
        description='For the estimator "rehearsed", where f is not trained here: how often a third of the known kinds '
        "is hidden, and the transfer learnt from the others.",
    )
    size_spread: float = Field(
        0.3,
        gt=0,
        le=2,
        description='For the estimator "rehearsed": by which share new kinds may well be larger or smaller than known '
        "ones, on average; less where known kinds are all equally large. Raise it where they may be quite different.",
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
