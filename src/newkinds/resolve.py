"""From "auto" to values: what the settings leave open is decided here, once, from the data."""

from __future__ import annotations

import math
from typing import Any

from newkinds.errors import UsageError
from newkinds.images.imageset import ImageSet
from newkinds.networks import Network, default_network
from newkinds.settings import Discover, Pretrain, Settings

FEW_KINDS = 20  # below it, quarter turns make kinds of their own
FEWEST_EPOCHS, MOST_EPOCHS = 5, 60


def resolved(settings: Settings, known: ImageSet, weights: Network | None, accelerator: bool) -> Settings:
    """Return settings without "auto", but for the number of kinds and what it takes to estimate it.

    accelerator: whether anything faster than a CPU is at hand; only the width of the network hangs on it.
    """
    changes: dict[str, Any] = {
        "images.size": known.size,
        "network": _network(settings, known, weights, accelerator),
        "pretrain": resolved_pretrain(settings.pretrain, known).model_dump(),
        "discover": resolved_discover(settings.discover, known).model_dump(),
    }
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
    values = {"augmentation": _augmentation(settings.augmentation, known), "quarter_turns": turns, "epochs": epochs}
    return settings.model_copy(update=values)


def resolved_discover(settings: Discover, images: ImageSet) -> Discover:
    """Return the settings of discovery on `images` without "auto"."""
    return settings.model_copy(update={"augmentation": _augmentation(settings.augmentation, images)})


def _augmentation(name: str, images: ImageSet) -> str:
    if name != "auto":
        return name
    return "none" if images.is_embedding else "crop-flip" if images.channels == 3 else "affine"


def _network(settings: Settings, known: ImageSet, weights: Network | None, accelerator: bool) -> str:
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
    if name == "auto":
        return default_network(known.channels, known.size, known.is_embedding, accelerator)
    if known.is_embedding != (name == "identity"):
        what = "ready-made embeddings" if known.is_embedding else "pictures"
        raise UsageError(f"The network {name!r} does not take {what}.", hint="Leave --network out.")
    return name
