"""The paper's tables and studies: their rows, their columns, and what the paper says in each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Figures = tuple[float | None, float | None]  # ACC in percent and NMI, as printed
VARIANTS = {"baseline": "DTC-Baseline", "pi": "DTC-Π", "te": "DTC-TE", "tep": "DTC-TEP"}


@dataclass(frozen=True)
class Row:
    """A row of a table: a method with what the table changes about it, and the paper's figures by data set.

    published: All, Old and New in percent, by data set, where the heap is mixed. method: "" for a row of published
    figures alone. kinds: "true" for the number that there are, "auto" for an estimate, or a number. changed: settings,
    those of one data set under its name.
    """

    label: str
    method: str
    paper: Mapping[str, Figures]
    kinds: int | Literal["true", "auto"] = "true"
    changed: Mapping[str, Any] = field(default_factory=dict)
    changed_for: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    def settings(self, setup: str) -> dict[str, Any]:
        """Return what differs from the preset on a data set, by dotted keys."""
        return {**self.changed, **self.changed_for.get(setup, {})}


@dataclass(frozen=True)
class Table:
    """A table of the paper, or a study of its appendix.

    minutes: about how long it takes on two cores with our own settings and `--jobs 2`, f being there; without ImageNet.
    """

    name: str
    title: str
    setups: tuple[str, ...]
    rows: tuple[Row, ...]
    minutes: int
    kind: Literal["scores", "counts", "study", "figure", "mixed"] = "scores"
    about: str = ""
    x: str = ""  # of a study: what its rows differ in
    backbone: str = ""  # of published figures that are not the paper's


def _dtc(variant: str, paper: Mapping[str, Figures], **more: Any) -> Row:
    return Row(VARIANTS[variant], "dtc", paper, changed={"discover.variant": variant}, **more)


KNOWN_K = Table(
    "known-k",
    "Table 1: visual category discovery, number of kinds known",
    ("cifar10", "cifar100", "svhn", "omniglot", "imagenet"),
    (
        Row(
            "k-means",
            "kmeans",
            {
                "cifar10": (65.5, 0.422),
                "cifar100": (66.2, 0.555),
                "svhn": (42.6, 0.182),
                "omniglot": (77.2, 0.888),
                "imagenet": (71.9, 0.713),
            },
        ),
        _dtc(
            "baseline",
            {
                "cifar10": (74.9, 0.572),
                "cifar100": (72.1, 0.630),
                "svhn": (57.6, 0.348),
                "omniglot": (87.9, 0.933),
                "imagenet": (78.3, 0.790),
            },
        ),
        _dtc(
            "pi",
            {
                "cifar10": (87.5, 0.735),
                "cifar100": (70.6, 0.605),
                "svhn": (60.9, 0.419),
                "omniglot": (89.0, 0.949),
                "imagenet": (76.7, 0.767),
            },
        ),
        _dtc(
            "te",
            {
                "cifar10": (82.8, 0.661),
                "cifar100": (72.8, 0.634),
                "svhn": (55.8, 0.353),
                "omniglot": (87.8, 0.931),
                "imagenet": (78.2, 0.791),
            },
        ),
        _dtc(
            "tep",
            {
                "cifar10": (75.2, 0.591),
                "cifar100": (72.5, 0.632),
                "svhn": (55.4, 0.329),
                "omniglot": (87.8, 0.932),
                "imagenet": (78.3, 0.791),
            },
        ),
    ),
    minutes=60,
    about="k-means is on f's features.",
)

_EVEN = {"discover.evenness": 1}
EQUAL_SIZES = Table(
    "equal-sizes",
    "Table 1, where kinds are known to be equally large",
    ("cifar10", "cifar100"),
    tuple(
        Row(
            row.label,
            "dtc",
            {name: row.paper[name] for name in ("cifar10", "cifar100")},
            changed={**row.changed, **_EVEN},
        )
        for row in KNOWN_K.rows
        if row.method == "dtc"
    ),
    minutes=40,
    about="With `discover.evenness = 1`, which holds all kinds to the same size. That is true of these classes, and of "
    "few heaps: it is not in the defaults.",
)

# OmniGlot's older methods work on raw pixels in the paper, ImageNet's on features.
_PIXELS = [{"omniglot": {f"{method}.on": "pixels"}} for method in ("kmeans", "lpnmf", "lsc")]

OMNIGLOT_IMAGENET = Table(
    "omniglot-imagenet",
    "Table 2: OmniGlot and ImageNet, number of kinds known",
    ("omniglot", "imagenet"),
    (
        Row("k-means", "kmeans", {"omniglot": (21.7, 0.353), "imagenet": (71.9, 0.713)}, changed_for=_PIXELS[0]),
        Row("LPNMF", "lpnmf", {"omniglot": (22.2, 0.372), "imagenet": (43.0, 0.526)}, changed_for=_PIXELS[1]),
        Row("LSC", "lsc", {"omniglot": (23.6, 0.376), "imagenet": (73.3, 0.733)}, changed_for=_PIXELS[2]),
        Row("KCL", "kcl", {"omniglot": (82.4, 0.889), "imagenet": (73.8, 0.750)}),
        Row("MCL", "mcl", {"omniglot": (83.3, 0.897), "imagenet": (74.4, 0.762)}),
        Row("Centroid Networks", "centroid-networks", {"omniglot": (86.6, None)}),
        Row(
            "DTC",
            "dtc",
            {"omniglot": (89.0, 0.949), "imagenet": (78.3, 0.791)},
            changed_for={"omniglot": {"discover.variant": "pi"}, "imagenet": {"discover.variant": "baseline"}},
        ),
        Row("LPNMF, features", "lpnmf", {}),
        Row("LSC, features", "lsc", {}),
    ),
    minutes=140,
    about="k-means, LPNMF and LSC are on raw pixels of OmniGlot and on features of ImageNet, as in the paper. The last "
    "two rows are not in the paper: the same on f's features.",
)

KCL_MCL = Table(
    "kcl-mcl",
    "Table 3: KCL and MCL on CIFAR-10, CIFAR-100 and SVHN",
    ("cifar10", "cifar100", "svhn"),
    (
        Row("KCL", "kcl", {"cifar10": (66.5, 0.438), "cifar100": (27.4, 0.151), "svhn": (21.4, 0.001)}),
        Row("MCL", "mcl", {"cifar10": (64.2, 0.398), "cifar100": (32.7, 0.202), "svhn": (38.6, 0.138)}),
        Row(
            "DTC",
            "dtc",
            {"cifar10": (87.5, 0.735), "cifar100": (72.8, 0.634), "svhn": (60.9, 0.419)},
            changed_for={
                "cifar10": {"discover.variant": "pi"},
                "cifar100": {"discover.variant": "te"},
                "svhn": {"discover.variant": "pi"},
            },
        ),
    ),
    minutes=180,
    about="DTC is the variant that is best in the paper.",
)

K_ESTIMATES = Table(
    "k-estimates",
    "Tables 4 and 8: the number of kinds, estimated",
    ("omniglot", "imagenet", "cifar100"),
    (Row("Algorithm 2", "count", {}, kinds="auto"),),
    minutes=10,
    kind="counts",
)
# By alphabet in the order of the data set: KCL, MCL, DTC (the paper's Table 8).
ESTIMATED = {
    "KCL": (26, 34, 41, 28, 32, 32, 45, 43, 44, 28, 47, 41, 36, 45, 49, 50, 38, 41, 42, 40),
    "MCL": (22, 26, 25, 22, 23, 25, 36, 31, 30, 23, 35, 33, 29, 38, 32, 30, 24, 26, 34, 27),
    "DTC": (23, 25, 34, 34, 31, 31, 46, 34, 40, 25, 42, 39, 33, 51, 33, 22, 26, 28, 43, 33),
}
# The paper's Table 4: estimates and their mean error.
ESTIMATED_ELSEWHERE = {"imagenet": ((34, 31, 32), 2.33), "cifar100": ((11,), 1.0)}
MEAN_ERRORS = {"KCL": 6.35, "MCL": 5.10, "DTC": 4.60}  # as the paper prints them, over OmniGlot

_DROP = {"pairs.unknown": "drop"}
UNKNOWN_K = Table(
    "unknown-k",
    "Table 5: OmniGlot and ImageNet, number of kinds unknown",
    ("omniglot", "imagenet"),
    (
        Row("k-means", "kmeans", {"omniglot": (18.9, 0.464), "imagenet": (34.5, 0.671)}, 100, changed_for=_PIXELS[0]),
        Row("LPNMF", "lpnmf", {"omniglot": (16.3, 0.498), "imagenet": (21.8, 0.500)}, 100, changed_for=_PIXELS[1]),
        Row("LSC", "lsc", {"omniglot": (18.0, 0.500), "imagenet": (33.5, 0.655)}, 100, changed_for=_PIXELS[2]),
        Row("KCL", "kcl", {"omniglot": (78.1, 0.874), "imagenet": (65.2, 0.715)}, "auto", _DROP),
        Row("MCL", "mcl", {"omniglot": (80.2, 0.893), "imagenet": (71.5, 0.765)}, "auto", _DROP),
        Row(
            "DTC",
            "dtc",
            {"omniglot": (87.0, 0.945), "imagenet": (77.6, 0.786)},
            "auto",
            changed_for={"omniglot": {"discover.variant": "pi"}, "imagenet": {"discover.variant": "baseline"}},
        ),
    ),
    minutes=140,
    about="k-means, LPNMF and LSC take 100 kinds; KCL and MCL take 100 and drop the small ones; DTC takes our "
    "estimate.",
)

KCL_MCL_OUR_K = Table(
    "kcl-mcl-our-k",
    "Table 6: KCL and MCL with our estimate of the number of kinds",
    ("omniglot", "imagenet"),
    (
        UNKNOWN_K.rows[3],
        Row("KCL with our K", "kcl", {"omniglot": (80.3, 0.875), "imagenet": (71.4, 0.740)}, "auto"),
        UNKNOWN_K.rows[4],
        Row("MCL with our K", "mcl", {"omniglot": (80.5, 0.879), "imagenet": (72.9, 0.752)}, "auto"),
        UNKNOWN_K.rows[5],
    ),
    minutes=250,
)

_TRANSFER = "imagenet-to-cifar10"
IMAGENET_TO_CIFAR10 = Table(
    _TRANSFER,
    "Table 7: from ImageNet to CIFAR-10",
    (_TRANSFER,),
    (
        Row("k-means", "kmeans", {_TRANSFER: (71.0, 0.639)}),
        _dtc("baseline", {_TRANSFER: (76.9, 0.729)}),
        _dtc("pi", {_TRANSFER: (78.9, 0.753)}),
        _dtc("te", {_TRANSFER: (78.5, 0.755)}),
        _dtc("tep", {_TRANSFER: (77.4, 0.734)}),
    ),
    minutes=600,
    about="All ten classes of CIFAR-10 are unsorted. `--network efficientnet-lite0`, or another that is trained on "
    "ImageNet, spares the training on ImageNet.",
)

# Many runs, of which only the differences count: half as long as those of the tables, and without mixed pictures.
_STUDIED = {
    "discover.variant": "baseline",
    "discover.mixed": False,
    "discover.epochs": 20,
    "discover.evenness": 1,
}
BOTTLENECK_WIDTH = Table(
    "bottleneck-width",
    "Appendix A: the width of the bottleneck",
    ("cifar100",),
    tuple(
        Row(
            str(width),
            "dtc",
            {},
            changed={**_STUDIED, "initialise.bottleneck": "pca", "initialise.width": width},
        )
        for width in (2, 5, 10, 20, 40, 80, 128)
    ),
    minutes=5,
    kind="study",
    about="DTC-Baseline on the ten unlabelled classes for 20 epochs, kinds held to the same size, started from the "
    "PCA. The paper draws a curve and gives no figures: it is not very sensitive, and best with as many components as "
    "kinds, ten.",
    x="width of the bottleneck",
)

WRONG_K = Table(
    "wrong-k",
    "Appendix B: a wrong number of kinds",
    ("cifar100",),
    tuple(
        Row(str(kinds), "dtc", {}, "true" if kinds == 10 else kinds, changed=_STUDIED)
        for kinds in (5, 8, 9, 10, 11, 12, 15, 20, 30, 50)
    ),
    minutes=7,
    kind="study",
    about="DTC-Baseline on the ten unlabelled classes for 20 epochs, kinds held to the same size. The paper draws a "
    "curve and gives no figures: both measures fall away from the true number, and a larger one does less harm than a "
    "smaller one.",
    x="number of kinds asked for",
)

_PI_ON_CIFAR10 = EQUAL_SIZES.rows[1]
FIGURES = tuple(
    Table(name, title, ("cifar10",), (_PI_ON_CIFAR10,), minutes=12, kind="figure", about=about)
    for name, title, about in (
        (
            "tsne-over-epochs",
            "Appendix C: the representation over the epochs",
            "t-SNE of the unlabelled pictures of CIFAR-10, coloured by their true class; `init` is f's features. In "
            "the paper the classes are not apart at `init` and become more and more so until the last epoch.",
        ),
        (
            "p-and-q",
            "Appendix D: the assignments and their targets over the epochs",
            "Rows are pictures, ten of each class, columns are kinds. In the paper P is noisy at `init`, Q is sharper "
            "than P, and both come close to the truth on the left.",
        ),
        (
            "tsne-with-images",
            "Appendix E: the representation with the pictures themselves",
            "Coloured by the true class above, with the pictures below. The pictures are not ours to publish: the "
            "command leaves this figure, and that of the commonest confusions, in the folder `figures` of the run.",
        ),
    )
)

GCD = Table(
    "gcd",
    "Generalized category discovery: heaps that hold known kinds, too",
    ("cifar10-gcd", "cifar100-gcd", "grocery-gcd"),
    (
        Row("nearest known kind", "nearest-known", {}),
        Row(
            "GCD",
            "gcd",
            {},
            published={"cifar10-gcd": (91.5, 97.9, 88.2), "cifar100-gcd": (70.8, 77.6, 57.0)},
        ),
        Row(
            "PIM",
            "pim",
            {},
            published={"cifar10-gcd": (94.7, 97.4, 93.3), "cifar100-gcd": (75.6, 81.6, 63.6)},
        ),
        Row(
            "SimGCD",
            "simgcd",
            {},
            published={"cifar10-gcd": (97.1, 95.1, 98.1), "cifar100-gcd": (80.1, 81.2, 77.8)},
        ),
        Row("CMS", "", {}, published={"cifar100-gcd": (82.3, 85.7, 75.5)}),
        Row("DTC for mixed heaps", "dtc", {}),
    ),
    minutes=240,
    kind="mixed",
    about="All / Old / New: ACC in percent of all unsorted pictures, of those of known kinds and of those of new ones, "
    "under one matching of everything. Half of each known kind is labelled, the number of new kinds is given. "
    "Published figures start from another, far larger backbone, which is named in their column: a difference to ours "
    "is one of backbones first. PIM's published figure on CIFAR-100 is with an estimate of 95 kinds in all. GCD's "
    "figure on CIFAR-10 is quoted from memory of its paper; the others stand in the methods' repositories.",
    backbone="ViT-B/16, DINO",
)

TABLES = {
    one.name: one
    for one in (
        KNOWN_K,
        EQUAL_SIZES,
        OMNIGLOT_IMAGENET,
        KCL_MCL,
        K_ESTIMATES,
        UNKNOWN_K,
        KCL_MCL_OUR_K,
        IMAGENET_TO_CIFAR10,
        BOTTLENECK_WIDTH,
        WRONG_K,
        *FIGURES,
        GCD,
    )
}
