"""Networks: the backbones of the paper and those from elsewhere, heads, and models of both."""

from newkinds.networks.catalogue import NETWORKS, UNTRAINED, default_network
from newkinds.networks.foreign import FOREIGN, Foreign, is_foreign, open_foreign
from newkinds.networks.heads import Head, Model, Outputs, SoftmaxHead, StudentHead
from newkinds.networks.network import Network, bfloat16, build_network

__all__ = [
    "FOREIGN",
    "NETWORKS",
    "UNTRAINED",
    "Foreign",
    "Head",
    "Model",
    "Network",
    "Outputs",
    "SoftmaxHead",
    "StudentHead",
    "bfloat16",
    "build_network",
    "default_network",
    "is_foreign",
    "open_foreign",
]
