"""From "auto" to values: what the settings leave open is decided here, once, from the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from newkinds.errors import UsageError
from newkinds.images.augment import POLICIES
from newkinds.images.imageset import ImageSet
from newkinds.networks import Network, default_network
from newkinds.settings import Centroids, Discover, Pretrain, Settings

FEW_KINDS = 20  # below it, quarter turns make kinds of their own
FEWEST_EPOCHS, MOST_EPOCHS = 5, 60
MANY_KINDS, FEW_PICTURES = 50, 40  # at least so many kinds of at most so many pictures: prototypical loss
MOST_SHOTS = 5
# With K kinds, the mean over K in the consistency makes it K times as small, and p is K times as flat.
ALPHA_A_KIND, CONSISTENCY_A_KIND = 0.25, 6.0
EPISODES = 10_000  # of centroid networks with fresh weights; the published number


def resolved(
    settings: Settings, known: ImageSet, weights: Network | None, accelerator: bool, takes_f: bool = True
) -> Settings:
    """Return settings without "auto", but for the number of kinds and what it takes to estimate it.

    accelerator: whether anything faster than a CPU is at hand; only the width of the network hangs on it. takes_f:
    whether anything needs f's features; if not, nothing is trained for them.
    """
    changes: dict[str, Any] = {
        "images.size": known.size,
        "network": _network(settings, known, weights, accelerator, takes_f),
        "network_size": _network_size(settings, known, weights),
        "pretrain": resolved_pretrain(settings.pretrain, known).model_dump(),
        "discover": resolved_discover(settings.discover, known).model_dump(),
        "centroids.episodes": episodes_of(settings.centroids),
    }
    for section in ("similarity", "pairs", "centroids"):
        changes[f"{section}.augmentation"] = suited_augmentation(getattr(settings, section).augmentation, known)
    return settings.with_changes(changes)


def resolved_pretrain(settings: Pretrain, known: ImageSet) -> Pretrain:
    """Return the settings of pretraining on `known` without "auto"."""
    turns = settings.quarter_turns
    if turns == "auto":
        turns = len(known.classes) < FEW_KINDS and not known.is_embedding
    epochs = settings.epochs
    if epochs == "auto":
        seen = len(known) * (1 - settings.held_out) * (4 if turns else 1)
        epochs = min(max(math.ceil(settings.pictures / seen), FEWEST_EPOCHS), MOST_EPOCHS)
    values = {
        "augmentation": suited_augmentation(settings.augmentation, known),
        "quarter_turns": turns,
        "epochs": epochs,
    }
    # Half of what the smallest kind keeps for training, at most the authors' 5, for each of support and query.
    smallest = _smallest_kind(known)
    most = min(MOST_SHOTS, max(1, (smallest - max(1, round(settings.held_out * smallest))) // 2))
    values |= {name: most for name in ("support", "query") if getattr(settings, name) == "auto"}
    if settings.loss == "auto":
        values["loss"] = _suited_loss(known)
    return settings.model_copy(update=values)


def _suited_loss(known: ImageSet) -> str:
    """Return the loss that suits the known kinds: metric where each has too few pictures to learn its name."""
    many_of_few = len(known.classes) >= MANY_KINDS and _typical_kind(known) <= FEW_PICTURES
    return "prototypical" if many_of_few and _smallest_kind(known) > 2 else "cross-entropy"


def why_loss(settings: Pretrain, known: ImageSet) -> str:
    """Return in words why a loss is used."""
    suited = _suited_loss(known)
    have = f"{len(known.classes)} known kinds of typically {_typical_kind(known)} pictures"
    if settings.loss != suited:
        return f"asked for; {have} would suit the {suited} loss"
    if suited == "prototypical":
        return f"{have}, many kinds with few pictures each, are learned by comparing"
    return f"{have} are few enough kinds, or enough pictures of each, to learn by name"


def _smallest_kind(known: ImageSet) -> int:
    assert known.labels is not None
    return int(np.bincount(known.labels, minlength=len(known.classes)).min())


def _typical_kind(known: ImageSet) -> int:
    assert known.labels is not None
    return int(np.median(np.bincount(known.labels, minlength=len(known.classes))))


def resolved_discover(settings: Discover, images: ImageSet, kinds: int | None = None) -> Discover:
    """Return the settings of discovery on `images` without "auto", but for what hangs on K where that is not known."""
    name = suited_augmentation(settings.augmentation, images)
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


def episodes_of(settings: Centroids) -> int:
    """Return how many episodes of known kinds centroid networks are trained on, where "auto" hangs on the start."""
    if settings.episodes != "auto":
        return settings.episodes
    return EPISODES if settings.start == "fresh" else 0


def suited_augmentation(name: str, images: ImageSet) -> str:
    """Return the name of an augmentation, where "auto" is what suits the pictures."""
    if name != "auto":
        return name
    return "none" if images.is_embedding else "crop-flip" if images.channels == 3 else "affine"


def _network(settings: Settings, known: ImageSet, weights: Network | None, accelerator: bool, takes_f: bool) -> str:
    if weights is not None:
        if (weights.channels, weights.size) != (known.channels, known.size):
            raise UsageError(
                f"The weights are for pictures of {weights.channels}x{weights.size}x{weights.size}, these are "
                f"{known.channels}x{known.size}x{known.size}.",
                hint=f"Set images.size to {weights.size}, or leave the weights out.",
            )
        if settings.network not in ("auto", weights.name):
            raise UsageError(
                f"The weights are of the network {weights.name!r}, not {settings.network!r}.",
                hint="Leave --network out.",
            )
        return weights.name
    name = settings.network
    if name == "auto" and not takes_f and not known.is_embedding:
        return "pixels"
    if name == "auto":
        return default_network(known.channels, known.size, known.is_embedding, accelerator)
    if known.is_embedding != (name == "identity"):
        what = "ready-made embeddings" if known.is_embedding else "pictures"
        raise UsageError(f"The network {name!r} does not take {what}.", hint="Leave --network out.")
    return name


def _network_size(settings: Settings, known: ImageSet, weights: Network | None) -> int:
    asked = settings.network_size
    if known.is_embedding and asked not in ("auto", 1):
        raise UsageError(
            f"network_size = {asked} is for pictures, and these are ready-made embeddings.", hint="Leave it out."
        )
    if weights is None:
        return known.size if asked == "auto" else asked
    if asked not in ("auto", weights.network_size):
        raise UsageError(
            f"The weights are of a network that brings pictures to {weights.network_size} pixels, not to {asked}.",
            hint="Leave network_size out.",
        )
    return weights.network_size
