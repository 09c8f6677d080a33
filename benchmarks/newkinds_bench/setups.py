"""The data sets of the paper's tables: what is known, what is unsorted, and which f our own runs start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from newkinds.datasets.omniglot import EVALUATION
from newkinds.presets import find_preset
from newkinds.pretrain.resolve import FEW_KINDS

OURS = "ours"  # beside the presets: what a user gets who says nothing, the profile of the pictures
PRESETS = (OURS, "paper", "authors", "quick")


@dataclass(frozen=True)
class Trained:
    """An f of ours: the name of its file in the folder of weights, and how it is trained where the file is not there.

    known: the part that it is trained on. recipe: settings by dotted keys. after: the f that goes on learning, instead
    of a fresh network.
    """

    weights: str
    known: str
    recipe: Mapping[str, Any]
    after: Trained | None = None


@dataclass(frozen=True)
class Setup:
    """A data set as the paper uses it.

    profile: the settings of our own runs. known, unsorted: parts by name; of several unsorted parts, figures are
    means over all of them. counted_with: the known part where the number of kinds is estimated, which holds the
    probes. but_probes: what f is trained on where the number is to be estimated, if that is less than `known`. f,
    f_but_probes: what our own runs start from, trained on the one and the other; without it, f is trained by the
    profile. own: settings of our own runs beside their profile, and own_of: those of single methods. differs: what
    sets our own runs apart from the paper's, in words. is_mixed: whether the heap holds known kinds, too: such set-ups
    are not the paper's and have none of its presets. network: f, where it is pretrained elsewhere.
    """

    name: str
    title: str
    profile: str
    known: str
    unsorted: tuple[str, ...]
    counted_with: str
    but_probes: str | None = None
    f: Trained | None = None
    f_but_probes: Trained | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    own_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    differs: str = ""
    beside: str | None = None  # the known part where f is given by --network, trained on whatever it was
    is_mixed: bool = False
    network: str | None = None
    whole: int = 0  # unsorted pictures of each part as published; figures of a set with fewer are not the paper's

    def probes(self) -> dict[str, Any]:
        """Return the settings that name the probes of Algorithm 2: the paper's, whatever the preset."""
        if self.is_mixed:
            return {}
        count = find_preset(f"{self.name}-paper").values.get("count", {})
        return {f"count.{key}": count[key] for key in ("probes", "probe_groups") if key in count}


# By far the longest rows of their tables.
_FAST_PAIRS = {method: {"precision": "bfloat16"} for method in ("kcl", "mcl")}
_SHORT = {"similarity.epochs": 6, "similarity.milestones": (4, 5)}
_CHARACTERS = {
    "network": "vgg6-4-2",
    "pretrain.loss": "prototypical",
    "pretrain.quarter_turns": True,
    "pretrain.episode_kinds": 40,
    "pretrain.episodes_of": "group",
    "pretrain.weight_decay": 0.0,
}
_OMNIGLOT_25 = Trained("omniglot-25-group", "omniglot:train", {**_CHARACTERS, "pretrain.epochs": 12})
_OMNIGLOT_30 = Trained(
    "omniglot-30-group",
    "omniglot:background",
    {**_CHARACTERS, "pretrain.epochs": 5, "pretrain.learning_rate": 5e-4},
    after=_OMNIGLOT_25,
)


_HALF = {"precision": "bfloat16"}  # where f is trained for long: about half the time
GCD_EPOCHS = 12  # of DTC on the mixed heaps of CIFAR, where a user gets 45: what two cores can do


def _gcd(name: str, title: str, known: int, new: int, pictures: int, epochs: int) -> Setup:
    """Return CIFAR as generalized category discovery has it, with an f that saw the labelled half alone."""
    labelled = f"{name}:gcd-labelled"
    recipe = {"network": "vgg6-5-1-slim", "pretrain.epochs": epochs}
    return Setup(
        f"{name}-gcd",
        f"{title}, {known} | {new}",
        "pictures",
        labelled,
        (f"{name}:gcd-heap",),
        labelled,
        f=Trained(f"{name}-gcd", labelled, recipe),
        own={"heap": "mixed"},
        own_of={"gcd": _HALF, "simgcd": _HALF, "dtc": {**_HALF, "discover.epochs": GCD_EPOCHS}},
        is_mixed=True,
        whole=pictures,
        differs=f"f is a VGG6 of a quarter of the usual width, trained for {epochs} epochs on the labelled half alone"
        + (", with quarter turns as further classes" if known < FEW_KINDS else ""),
    )


SETUPS = {
    one.name: one
    for one in (
        Setup(
            "cifar10",
            "CIFAR-10",
            "pictures",
            "cifar10:labelled",
            ("cifar10:unlabelled",),
            "cifar10:labelled",
            f=Trained("cifar10-5", "cifar10:labelled", {"network": "vgg6-5-1-slim", "pretrain.epochs": 32}),
            whole=25_000,
            own_of=_FAST_PAIRS,
            differs="f is CIFAR-100's VGG at a quarter of its width, a hundredth of the work of the paper's ResNet18, "
            "and is trained for 32 epochs, as its profile has it, with quarter turns as further classes; the authors' "
            "for 180. Where kinds are said to be equally large, and in the figures, f is trained for 12",
        ),
        Setup(
            "cifar100",
            "CIFAR-100",
            "pictures",
            "cifar100:labelled",
            ("cifar100:unlabelled",),
            "cifar100:labelled+probes",
            f=Trained("cifar100-80", "cifar100:labelled", {"network": "vgg6-5-1-slim", "pretrain.epochs": 40}),
            whole=5_000,
            own_of=_FAST_PAIRS,
            differs="f has a quarter of the paper's width and is trained for 40 epochs, the authors' for 180; by "
            "k-means it is about as good as theirs",
        ),
        Setup("svhn", "SVHN", "pictures", "svhn:labelled", ("svhn:unlabelled",), "svhn:labelled", whole=27_908),
        Setup(
            "omniglot",
            "OmniGlot",
            "characters",
            "omniglot:background",
            tuple(f"omniglot:{alphabet}" for alphabet in EVALUATION),
            "omniglot:background",
            but_probes="omniglot:train",
            f=_OMNIGLOT_30,
            f_but_probes=_OMNIGLOT_25,
            own_of={method: {**_FAST_PAIRS[method], **_SHORT} for method in _FAST_PAIRS},
            differs="f is trained on 25 alphabets for 12 epochs, in episodes of one alphabet or two, with quarter "
            "turns as further characters, and where the number of kinds is given for 5 more on all 30; the paper's "
            "for 200 epochs, on the 25 or the 30, in episodes of any characters, without turns",
        ),
        Setup(
            "imagenet",
            "ImageNet",
            "pictures",
            "imagenet:labelled",
            tuple(f"imagenet:unlabelled-{letter}" for letter in "abc"),
            "imagenet:labelled",
            whole=30_000,
        ),
        Setup(
            "imagenet-to-cifar10",
            "ImageNet to CIFAR-10",
            "photos",
            "imagenet:labelled",
            ("cifar10:all",),
            "imagenet:labelled",
            beside="cifar10:labelled",
            whole=50_000,
            own={"transfer.kind": "none"},
            differs="f is the network that is named; its known kinds are not here, so nothing is transferred from them",
        ),
        _gcd("cifar10", "CIFAR-10", 5, 5, 37_500, 16),
        _gcd("cifar100", "CIFAR-100", 80, 20, 30_000, 20),
        Setup(
            "grocery-gcd",
            "groceries, 54 | 28",
            "photos",
            "grocery:gcd-labelled-DRAW",
            tuple(f"grocery:gcd-heap-{draw}" for draw in range(3)),
            "grocery:gcd-labelled-DRAW",
            own={"heap": "mixed"},
            is_mixed=True,
            network="efficientnet-lite0",
            differs="three draws of the known kinds; f is EfficientNet-Lite0, trained on ImageNet and frozen",
        ),
    )
}
