"""The data sets of the paper's tables: what is known, what is unsorted, and which f our own runs start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from newkinds.datasets.omniglot import EVALUATION
from newkinds.presets import find_preset

OURS = "ours"  # beside the presets: the defaults of this project
PRESETS = (OURS, "paper", "authors", "quick")


@dataclass(frozen=True)
class Setup:
    """A data set as the paper uses it.

    known, unsorted: parts by name; of several unsorted parts, figures are means over all of them. counted_with: the
    known part where the number of kinds is estimated, which holds the probes that f has not seen. weights: the name
    of the file that our own runs start from, where the folder of weights has it; recipe: how f is trained where it has
    not, as settings by dotted keys. own: settings of our own runs beside the
    defaults. differs: what sets our own runs apart from the paper's, in words.
    """

    name: str
    title: str
    known: str
    unsorted: tuple[str, ...]
    counted_with: str
    weights: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    differs: str = ""
    beside: str | None = None  # the known part where f is given by --network, trained on whatever it was
    whole: int = 0  # unsorted pictures of each part as published; figures of a set with fewer are not the paper's

    def probes(self) -> dict[str, Any]:
        """Return the settings that name the probes of Algorithm 2: the paper's, whatever the preset."""
        count = find_preset(f"{self.name}-paper").values.get("count", {})
        return {f"count.{key}": count[key] for key in ("probes", "probe_groups") if key in count}


SETUPS = {
    one.name: one
    for one in (
        Setup(
            "cifar10",
            "CIFAR-10",
            "cifar10:labelled",
            ("cifar10:unlabelled",),
            "cifar10:labelled",
            weights="cifar10-5",
            whole=25_000,
            recipe={"network": "vgg6-5-1-slim", "pretrain.epochs": 12},
            own={"initialise.bottleneck": "centres", "discover.learning_rate": 1e-3, "discover.epochs": 20},
            differs="f is CIFAR-100's VGG at a quarter of its width, a hundredth of the work of the paper's ResNet18, "
            "and is trained for 12 epochs, with quarter turns as further classes; the paper's for 200",
        ),
        Setup(
            "cifar100",
            "CIFAR-100",
            "cifar100:labelled",
            ("cifar100:unlabelled",),
            "cifar100:labelled+probes",
            weights="cifar100-80",
            whole=5_000,
            recipe={"network": "vgg6-5-1-slim", "pretrain.epochs": 40},
            own={"initialise.bottleneck": "centres", "discover.learning_rate": 1e-3, "discover.epochs": 100},
            differs="f has a quarter of the paper's width, and is trained for 40 epochs",
        ),
        Setup("svhn", "SVHN", "svhn:labelled", ("svhn:unlabelled",), "svhn:labelled", whole=27_908),
        Setup(
            "omniglot",
            "OmniGlot",
            "omniglot:train",
            tuple(f"omniglot:{alphabet}" for alphabet in EVALUATION),
            "omniglot:background",
            weights="omniglot-25",
            recipe={
                "network": "vgg6-4-2",
                "pretrain.loss": "prototypical",
                "pretrain.quarter_turns": True,
                "pretrain.episode_kinds": 40,
                "pretrain.epochs": 8,
                "pretrain.weight_decay": 0.0,
            },
            own={
                "initialise.bottleneck": "centres",
                "discover.epochs": 20,
                "similarity.epochs": 6,
                "similarity.milestones": (4, 5),
            },
            differs="f is trained for 8 epochs with quarter turns as further characters, on 25 alphabets; the paper "
            "trains for 200, without turns, where the number of kinds is given on 30",
        ),
        Setup(
            "imagenet",
            "ImageNet",
            "imagenet:labelled",
            tuple(f"imagenet:unlabelled-{letter}" for letter in "abc"),
            "imagenet:labelled",
            whole=30_000,
        ),
        Setup(
            "imagenet-to-cifar10",
            "ImageNet to CIFAR-10",
            "imagenet:labelled",
            ("cifar10:all",),
            "imagenet:labelled",
            beside="cifar10:labelled",
            whole=50_000,
        ),
    )
}
