"""A pretrained f: from a file of weights, or a network from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from newkinds.errors import UsageError
from newkinds.files import digest
from newkinds.images.imageset import ImageSet
from newkinds.networks import Foreign, Network, build_network, is_foreign, open_foreign
from newkinds.networks.files import is_plain, load_plain, network_from_bytes, network_to_bytes
from newkinds.settings import CoreSettings
from newkinds.tensors import from_bytes, read_bytes


def open_pretrained(settings: CoreSettings, weights: Path | None, offline: bool = False) -> Foreign | None:
    """Return the backbone from elsewhere that the settings name, before any picture is opened, or None.

    Importing it is safe: settings hold what the user named; `combine` has refused what only a file named. offline:
    whether to download nothing.
    """
    if not is_foreign(settings.network):
        return None
    return open_foreign(
        settings.network,
        admitted=settings.network,
        seed=settings.seed,
        pretrained=weights is None,
        features=settings.network_features,
        offline=offline,
    )


def largest_side(settings: CoreSettings, foreign: Foreign | None) -> int:
    """Return the side that large pictures are decoded to: at least what f takes, where that is known already."""
    side = settings.network_size
    if side == "auto":
        side = (foreign.input_size if foreign else None) or settings.images.largest
    return max(side, settings.images.largest)


def pretrained_network(
    settings: CoreSettings, known: ImageSet, weights: Path | None, foreign: Foreign | None
) -> Network | None:
    """Return f for pictures like the known ones if it is pretrained, or None if it is to be trained here."""
    if foreign is not None and known.is_embedding:
        raise UsageError(f"The network {foreign.name!r} does not take ready-made embeddings.", hint="Leave it out.")
    side = None if settings.network_size == "auto" else settings.network_size
    if weights is None:
        return None if foreign is None else Network(foreign.name, known.channels, known.size, side, foreign)
    data, where = read_bytes(weights), str(weights)
    named = None if settings.network == "auto" else settings.network
    if named is None or not is_plain(data, where):
        return network_from_bytes(data, where, admitted=named)[0]
    if foreign is not None:
        network = Network(named, known.channels, known.size, side, foreign)
    else:
        network = build_network(named, known.channels, known.size, settings.seed, network_size=side)
    if not load_plain(network, data, where):
        network.normalise_by(known.pixels)
    return network


def told_by(weights: Path | None) -> dict[str, Any]:
    """Return what a file of weights tells about its training; nothing where it is a state dict alone, or not given."""
    return {} if weights is None else from_bytes(read_bytes(weights), str(weights))[1]


def pretrained_digest(network: Network | None, weights: Path | None) -> str | None:
    """Return the hash of a pretrained f, or None if there is none: a function may return another one next time."""
    if network is None:
        return None
    return digest(network_to_bytes(network) if weights is None else read_bytes(weights))
