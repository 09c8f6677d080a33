"""Resolving settings: each "auto" becomes a value here, once, chosen from the data and the device."""

from __future__ import annotations

from typing import Any

import torch

from newkinds.errors import UsageError
from newkinds.images.imageset import ImageSet
from newkinds.methods.registry import METHODS
from newkinds.networks import Foreign, Network, default_network
from newkinds.networks.tuning import check_last_blocks
from newkinds.parallel.devices import suited_precision
from newkinds.pretrain.resolve import resolved_pretrain
from newkinds.profiles import suited_profile, with_profile
from newkinds.settings import CoreSettings


def resolved(
    settings: CoreSettings, known: ImageSet, weights: Network | None, device: torch.device, takes_features: bool = True
) -> CoreSettings:
    """Return settings without "auto", except for the number of kinds and what its estimate needs.

    device: where it is computed, on which the width of the network and the precision depend.
    takes_features: whether anything needs f's features; if not, no network is trained for them.
    """
    settings = with_profile(settings, suited_profile(settings, known, _is_foreign(weights)))
    changes: dict[str, Any] = {
        "images.size": known.size,
        "network": _network(settings, known, weights, device, takes_features),
        "network_size": _network_size(settings, known, weights),
        "network_features": _network_features(settings, weights),
        "precision": suited_precision(settings.precision, device),
        "tune": suited_tuning(settings, known, weights),
        "pretrain": resolved_pretrain(settings.pretrain, known).model_dump(),
    }
    for method in METHODS.values():
        changes |= method.resolve(settings, known)
    return settings.with_changes(changes)


def suited_tuning(settings: CoreSettings, known: ImageSet, weights: Network | None) -> str:
    """Return which part of f discovery trains, where "auto" depends on where f comes from."""
    if settings.tune == "last":
        check_last_blocks(weights)
    if settings.tune != "auto":
        return settings.tune
    return "none" if _is_foreign(weights) or known.is_embedding else "all"


def _is_foreign(weights: Network | None) -> bool:
    return weights is not None and isinstance(weights.backbone, Foreign)


def _network(
    settings: CoreSettings, known: ImageSet, weights: Network | None, device: torch.device, takes_features: bool
) -> str:
    if weights is not None:
        if (weights.channels, weights.size) != (known.channels, known.size):
            raise UsageError(
                f"The weights are for pictures of {weights.channels}x{weights.size}x{weights.size}, these are "
                f"{known.channels}x{known.size}x{known.size}.",
                hint=f"Set images.size to {weights.size}, or do not give weights.",
            )
        if settings.network not in ("auto", weights.name):
            raise UsageError(
                f"The weights belong to the network {weights.name!r}, not {settings.network!r}.",
                hint="Leave --network out.",
            )
        return weights.name
    name = settings.network
    if name == "auto" and not takes_features and not known.is_embedding:
        return "pixels"
    if name == "auto":
        return default_network(known.channels, known.size, known.is_embedding, device.type != "cpu")
    if known.is_embedding != (name == "identity"):
        what = "ready-made embeddings" if known.is_embedding else "pictures"
        raise UsageError(f"The network {name!r} does not take {what}.", hint="Leave --network out.")
    return name


def _network_size(settings: CoreSettings, known: ImageSet, weights: Network | None) -> int:
    asked = settings.network_size
    if known.is_embedding and asked not in ("auto", 1):
        raise UsageError(
            f"network_size = {asked} applies to pictures, but these are ready-made embeddings.", hint="Leave it out."
        )
    if weights is None:
        return known.size if asked == "auto" else asked
    if asked not in ("auto", weights.network_size):
        raise UsageError(
            f"The weights belong to a network that scales pictures to {weights.network_size} pixels, not to {asked}.",
            hint="Leave network_size out.",
        )
    return weights.network_size


def _network_features(settings: CoreSettings, weights: Network | None) -> str:
    asked, given = settings.network_features, "last" if weights is None else weights.features
    if asked not in ("auto", given):
        what = settings.network if weights is None else weights.name
        raise UsageError(
            f"network_features = {asked!r} is not possible: the network {what!r} gives {given!r}.",
            hint="Leave it out, or name one of the efficientnet-lite networks without --weights.",
        )
    return given
