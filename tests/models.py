"""Models for tests."""

from __future__ import annotations

from newkinds.networks import Model, Network, StudentHead


def student(network: Network, kinds: int, width: int, alpha: float = 1.0) -> Model:
    """Return f with the paper's head behind it, its centres at zero."""
    return Model(network, StudentHead(network.feature_dim, kinds, width, alpha))
