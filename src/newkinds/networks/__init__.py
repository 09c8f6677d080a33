"""f: the networks of the paper, chosen by name, and those from elsewhere."""

from newkinds.networks.catalogue import NETWORKS, UNTRAINED, default_network
from newkinds.networks.foreign import FOREIGN, Foreign, is_foreign, open_foreign
from newkinds.networks.network import ClusteringNetwork, Network, SoftmaxNetwork, bfloat16, build_network

__all__ = [
    "FOREIGN",
    "NETWORKS",
    "UNTRAINED",
    "ClusteringNetwork",
    "Foreign",
    "Network",
    "SoftmaxNetwork",
    "bfloat16",
    "build_network",
    "default_network",
    "is_foreign",
    "open_foreign",
]
