"""KCL and MCL (Hsu et al. 2018, 2019): a clustering network taught by a similarity network's answers on pairs."""

from dataclasses import replace

from newkinds.methods.base import Auxiliary, Method
from newkinds.methods.pairwise.clustering import kcl, mcl
from newkinds.methods.pairwise.settings import Pairs, Similarity, finds_kinds, resolve
from newkinds.methods.pairwise.similarity import learn_similarity

KCL = Method(
    "kcl",
    "a clustering network taught by a similarity network, KL loss (Hsu et al. 2018)",
    kcl,
    {"similarity": Similarity, "pairs": Pairs},
    stages={"similarity": "Loss of the similarity network"},
    assigns="kcl",
    auxiliary=Auxiliary("similarity", learn_similarity),
    resolve=resolve,
    finds_kinds=finds_kinds,
)
MCL = replace(
    KCL,
    name="mcl",
    line="the same with the likelihood of the pairs as its loss (Hsu et al. 2019)",
    run=mcl,
    assigns="mcl",
)

METHODS = (KCL, MCL)

__all__ = ["METHODS", "Pairs", "Similarity"]
