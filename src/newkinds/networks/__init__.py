"""f: the networks of the paper, chosen by name."""

from newkinds.networks.catalogue import NETWORKS, default_network
from newkinds.networks.network import ClusteringNetwork, Network, build_network

__all__ = ["NETWORKS", "ClusteringNetwork", "Network", "build_network", "default_network"]
