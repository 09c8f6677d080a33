"""Every method of sorting unsorted pictures by name: DTC and what the paper compares it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from newkinds.methods.base import Found, Lesson, Material, Tensors
from newkinds.methods.centroid_networks import centroid_networks, learn_centroids
from newkinds.methods.dec import dec
from newkinds.methods.dtc import dtc
from newkinds.methods.kmeans import constrained_kmeans, plain_kmeans
from newkinds.methods.lpnmf import lpnmf_method
from newkinds.methods.lsc import lsc_method
from newkinds.methods.pairwise.clustering import kcl, mcl
from newkinds.methods.pairwise.similarity import learn_similarity
from newkinds.settings import Settings


@dataclass(frozen=True)
class Method:
    """A method: what it is, in a line; how to run it; which settings are its own; whether it takes f's features.

    lesson: what else it learns from the known kinds alone, by its name in LESSONS; that serves every seed, and other
    methods and unsorted pictures as well.
    """

    line: str
    run: Callable[[Material], Found]
    sections: tuple[str, ...]
    takes_f: Callable[[Settings], bool] = lambda settings: True
    lesson: str | None = None


LESSONS: dict[str, Callable[[Lesson], Tensors]] = {"similarity": learn_similarity, "centroids": learn_centroids}


METHODS = {
    "dtc": Method("deep transfer clustering, in the variant that --variant says (the default)", dtc, ("discover",)),
    "kmeans": Method(
        "k-means on f's features, or on pixels (kmeans.on)",
        plain_kmeans,
        ("kmeans",),
        lambda s: s.kmeans.on == "features",
    ),
    "constrained-kmeans": Method(
        "k-means with the known pictures in clusters of their own",
        constrained_kmeans,
        ("kmeans",),
        lambda s: s.kmeans.on == "features",
    ),
    "dec": Method("deep embedded clustering, without labels (Xie et al. 2016)", dec, ("dec",), lambda s: False),
    "lpnmf": Method(
        "locality preserving non-negative matrix factorisation (Cai et al. 2009)",
        lpnmf_method,
        ("lpnmf",),
        lambda s: s.lpnmf.on == "features",
    ),
    "lsc": Method(
        "landmark spectral clustering (Chen and Cai 2011)", lsc_method, ("lsc",), lambda s: s.lsc.on == "features"
    ),
    "kcl": Method(
        "a clustering network taught by a similarity network, KL loss (Hsu et al. 2018)",
        kcl,
        ("similarity", "pairs"),
        lesson="similarity",
    ),
    "mcl": Method(
        "the same with the likelihood of the pairs as its loss (Hsu et al. 2019)",
        mcl,
        ("similarity", "pairs"),
        lesson="similarity",
    ),
    "centroid-networks": Method(
        "Sinkhorn k-means on features trained for it, kinds of equal size (Huang et al. 2019)",
        centroid_networks,
        ("centroids",),
        lesson="centroids",
    ),
}
