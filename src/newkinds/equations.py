"""The paper's equations and omega(t), in the paper's order: one pure function each, no state, no files.

Letters: N samples, K clusters, d dimensions. z is (N, d), one embedding a row; p and q are (N, K), one distribution
over the clusters a row, so p[i, k] is the paper's p(k|i). Gradients flow through every tensor argument of Eq. 1 to 6:
call `target`, `ensemble` and `corrected` under `torch.no_grad()` if their results should be constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from newkinds.distances import Distances
from newkinds.errors import UsageError, unknown_name

Labels = Tensor | NDArray[Any] | Sequence[int]
Normalisation = Literal["n", "nk"]

_BLOCK = 2**22  # distances held at once by the silhouette: 32 MB in float64


def squared_distances(z: Tensor, centres: Tensor) -> Tensor:
    """Return ||z_i - mu_k||^2, the inner part of Eq. 1, without a tensor of N x K x d.

    z: float (N, d). centres: the same dtype, (K, d). Both are moved by the centres' mean first, so that a large common
    offset does not cancel the digits of ||z||^2 - 2 z.mu + ||mu||^2; float32 overflows from norms of 1e18 on.

    Returns the same dtype, (N, K), >= 0; the gradient is 0, not NaN, where a point lies on a centre.
    """
    if z.ndim != 2 or centres.ndim != 2 or z.shape[1] != centres.shape[1]:
        raise UsageError(
            f"z of shape {tuple(z.shape)} and centres of shape {tuple(centres.shape)} have no distances.",
            hint="Give (N, d) and (K, d) with the same d.",
        )
    offset = centres.detach().mean(dim=0)  # distances do not depend on it, so neither do gradients
    z, centres = z - offset, centres - offset
    products = z @ centres.T
    squares = (z * z).sum(dim=1, keepdim=True) - 2 * products + (centres * centres).sum(dim=1)
    return squares.clamp_min(0)


def log_assignment(z: Tensor, centres: Tensor, alpha: float = 1.0) -> Tensor:
    """Return log p(k|i), the logarithm of Eq. 1, which stays finite where p itself rounds to 0.

    z: float (N, d). centres: the same dtype, (K, d). alpha: the degrees of freedom, > 0.

    Returns the same dtype, (N, K), <= 0.
    """
    if not alpha > 0:
        raise UsageError(f"alpha={alpha} should be > 0.", hint="The paper's Student t has alpha=1.")
    weights = torch.log1p(squared_distances(z, centres) / alpha) * (-(alpha + 1) / 2)
    return torch.log_softmax(weights, dim=1)


def assignment(z: Tensor, centres: Tensor, alpha: float = 1.0) -> Tensor:
    """Return p(k|i), the probability that sample i belongs to cluster k under a Student t (Eq. 1).

    z: float (N, d). centres: the same dtype, (K, d). alpha: the degrees of freedom, > 0.

    Returns the same dtype, (N, K), in [0, 1], rows sum to 1.
    """
    return log_assignment(z, centres, alpha).exp()


def kl_divergence(q: Tensor, log_p: Tensor, normalisation: Normalisation = "n") -> Tensor:
    """Return KL(q||p), the mean over the samples of sum_k q log(q / p) (Eq. 2).

    q: float (N, K), the targets, rows sum to 1; where q is 0 its term is 0, whatever p is. log_p: (N, K), from
    `log_assignment`. normalisation: "n" divides by N as the paper does, "nk" by N x K as its authors' code does.

    Returns a scalar, >= 0.
    """
    n, k = _same_shape("q", q, "log_p", log_p)
    if normalisation not in ("n", "nk"):
        raise unknown_name("normalisation", normalisation, ("n", "nk"))
    cross = q * log_p.masked_fill(q == 0, 0)  # 0 x -inf would be NaN
    return (torch.xlogy(q, q) - cross).sum() / (n if normalisation == "n" else n * k)


def target(p: Tensor, mass: Tensor | None = None) -> Tensor:
    """Return q(k|i) ~ p(k|i)^2 / sum_i p(k|i), which sharpens p and balances the clusters (Eq. 3).

    p: float (N, K), rows sum to 1. mass: (K,), the sum of each column over all samples, for a p that is only a part of
    them; None takes the columns of p. A column without mass gets 0. A row that is all zero, about which nothing is
    known, becomes uniform.

    Returns the same dtype, (N, K), in [0, 1], rows sum to 1.
    """
    if p.ndim != 2 or (mass is not None and mass.shape != p.shape[1:]):
        given = "" if mass is None else f" and mass of shape {tuple(mass.shape)}"
        raise UsageError(f"p of shape {tuple(p.shape)}{given} make no target.", hint="Give p (N, K) and mass (K,).")
    if mass is None:
        mass = p.sum(dim=0)
    sharper = p * (p / torch.where(mass > 0, mass, 1))  # in this order, p^2 cannot underflow before the division
    total = sharper.sum(dim=1, keepdim=True)
    return torch.where(total > 0, sharper / torch.where(total > 0, total, 1), 1 / p.shape[1])


def ensemble(previous: Tensor, p: Tensor, beta: float) -> Tensor:
    """Return P^t = beta P^(t-1) + (1 - beta) p^t, the moving average of the predictions (Eq. 4).

    previous: float (N, K), P^(t-1); all zero before the first step. p: (N, K), this step's predictions. beta: [0, 1).

    Returns the same dtype, (N, K); rows sum to 1 - beta^t, which `corrected` fixes.
    """
    _same_shape("previous", previous, "p", p)
    return _momentum(beta) * previous + (1 - beta) * p


def corrected(average: Tensor, beta: float, t: int) -> Tensor:
    """Return P^t / (1 - beta^t), the average corrected for its start at zero (Eq. 5).

    average: float (N, K), P^t from `ensemble`. beta: in [0, 1). t: how many predictions are in it, >= 1.

    Returns the same dtype, (N, K), rows sum to 1.
    """
    if t < 1:
        raise UsageError(f"t={t} should be >= 1.", hint="Put a prediction in with ensemble() first.")
    return average / (1 - _momentum(beta) ** t)


def consistency(p: Tensor, p_other: Tensor) -> Tensor:
    """Return the mean squared difference of two predictions, the second term of Eq. 6 without omega(t).

    p, p_other: float (N, K); p_other is the prediction of the transformed samples or the corrected ensemble.

    Returns a scalar in [0, 2 / K].
    """
    _same_shape("p", p, "p_other", p_other)
    return (p - p_other).square().mean()


class Objective(NamedTuple):
    """Eq. 6 and its two terms, scalars >= 0; the consistency is None where there is no p'."""

    loss: Tensor
    divergence: Tensor
    consistency: Tensor | None


def objective(
    q: Tensor,
    log_p: Tensor,
    p_other: Tensor | None = None,
    weight: float = 0.0,
    normalisation: Normalisation = "n",
) -> Objective:
    """Return the complete loss, the divergence plus omega(t) times the consistency, and both terms (Eq. 6).

    q, log_p, normalisation: as in `kl_divergence`. p_other: float (N, K), the paper's p', or None for the divergence
    alone (the baseline and TEP). weight: omega(t), >= 0.
    """
    divergence = kl_divergence(q, log_p, normalisation)
    if p_other is None:
        return Objective(divergence, divergence, None)
    difference = consistency(log_p.exp(), p_other)
    return Objective(divergence + weight * difference, divergence, difference)


def omega(epoch: float, ramp_epochs: float, maximum: float = 1.0) -> float:
    """Return omega(t), the weight of the consistency at an epoch: maximum x exp(-5 (1 - t/T)^2) (Eq. 6).

    epoch: t, >= 0. ramp_epochs: T, >= 0; from T on the weight is `maximum`, with T = 0 from the start. The ramp starts
    at exp(-5) = .0067 of the maximum, not at 0, as in the works on temporal ensembling that the paper refers to.

    Returns a number in (0, maximum].
    """
    if epoch < 0 or ramp_epochs < 0:
        raise UsageError(f"epoch={epoch} and ramp_epochs={ramp_epochs} should be >= 0.", hint="Count epochs from 0.")
    if epoch >= ramp_epochs:
        return maximum
    return maximum * math.exp(-5 * (1 - epoch / ramp_epochs) ** 2)


def matching(assigned: Labels, truth: Labels) -> dict[int, int]:
    """Return which class each cluster stands for: the one-to-one g that attains the maximum in Eq. 7.

    assigned, truth: N integers each, in any numbering. There may be more clusters than classes or fewer: those left
    over, and pairs that share no sample, are not in the answer.

    Returns {cluster: class} in the order of the clusters.
    """
    clusters, classes, table = _contingency(assigned, truth)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return {int(clusters[r]): int(classes[c]) for r, c in zip(rows, columns, strict=True) if table[r, c] > 0}


def clustering_accuracy(assigned: Labels, truth: Labels) -> float:
    """Return ACC, the share of samples whose cluster stands for their class under the best one-to-one g (Eq. 7).

    assigned, truth: N integers each, in any numbering. Samples of clusters or classes left over count as wrong, which
    is what the paper's permutations amount to once the shorter side is padded with empty clusters or classes.

    Returns a number in (0, 1].
    """
    _, _, table = _contingency(assigned, truth)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def silhouette_samples(x: Tensor | NDArray[Any], labels: Labels, chunk: int | None = None) -> Tensor:
    """Return (b(x) - a(x)) / max(a(x), b(x)) for each sample, the terms of the sum in Eq. 8.

    x: float (N, d); computed in float64. labels: N integers with 2 to N - 1 different values. chunk: samples whose N
    distances are held at once; None takes as many as fit in 32 MB, so the N x N matrix never exists whole.

    Returns float64 (N,) on the device of x, in [-1, 1]; 0 for a sample alone in its cluster, and where a = b = 0.
    """
    x = torch.as_tensor(x).detach().to(torch.float64)
    if chunk is not None and chunk < 1:
        raise UsageError(f"chunk={chunk} should be >= 1.", hint="Leave it out to have it chosen.")
    own, sizes = _clusters(x, labels)
    between = Distances(x)
    step = chunk or max(1, _BLOCK // max(1, len(x)))
    pieces = [slice(start, start + step) for start in range(0, len(x), step)]
    parts = []
    for rows in pieces:
        distances = between.to(rows, _BLOCK)
        sums = distances.new_zeros(len(sizes), distances.shape[1]).index_add_(0, own, distances)
        parts.append(silhouette_terms(sums.T, own[rows], sizes))
    return torch.cat(parts)


def silhouette(
    x: Tensor | NDArray[Any],
    labels: Labels,
    chunk: int | None = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> float:
    """Return the silhouette index of a clustering (Eq. 8).

    x, labels, chunk: as in `silhouette_samples`. reduction: "sum" is the paper's formula; "mean", the sum divided by N,
    is what is reported here and elsewhere. N is fixed when K is swept, so both are largest at the same K.

    Returns a number in [-1, 1], or in [-N, N] for the sum.
    """
    if reduction not in ("mean", "sum"):
        raise unknown_name("reduction", reduction, ("mean", "sum"))
    values = silhouette_samples(x, labels, chunk)
    return float(values.mean() if reduction == "mean" else values.sum())


def _clusters(x: Tensor, labels: Labels) -> tuple[Tensor, Tensor]:
    """Return the cluster 0..K-1 of each sample (N,) and the sizes of the clusters (K,), or refuse."""
    _, own = torch.unique(torch.as_tensor(_integers("labels", labels)), return_inverse=True)
    if x.ndim != 2 or len(x) != len(own):
        raise UsageError(f"x of shape {tuple(x.shape)} does not go with {len(own)} labels.", hint="Give x (N, d).")
    sizes = torch.bincount(own)
    if not 2 <= len(sizes) < len(x):
        raise UsageError(
            f"The silhouette of {len(x)} samples is undefined for {len(sizes)} clusters: 2 to {len(x) - 1} are needed.",
            hint="Leave this number of clusters out.",
        )
    return own.to(x.device), sizes.to(x.device)


def silhouette_terms(sums: Tensor, mine: Tensor, sizes: Tensor) -> Tensor:
    """Return (b - a) / max(a, b) for n of the samples, from their distances summed over each cluster (Eq. 8).

    sums: float (n, K), the sum of a sample's distances to all samples of a cluster. mine: int64 (n,), their clusters.
    sizes: (K,), of the clusters.

    Returns the dtype of sums, (n,), in [-1, 1]; 0 for a sample alone in its cluster, and where a = b = 0.
    """
    own, column = sizes[mine], mine[:, None]
    a = sums.gather(1, column)[:, 0] / (own - 1).clamp_min(1)
    b = (sums / sizes).scatter_(1, column, torch.inf).amin(dim=1)
    larger = torch.maximum(a, b)
    defined = (own > 1) & (larger > 0)
    return torch.where(defined, (b - a) / torch.where(defined, larger, 1), 0)


def _contingency(assigned: Labels, truth: Labels) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return the clusters, the classes, and how many samples each pair of them shares (clusters by classes)."""
    ours, theirs = _integers("assigned", assigned), _integers("truth", truth)
    if len(ours) != len(theirs) or len(ours) == 0:
        raise UsageError(
            f"assigned has {len(ours)} labels and truth has {len(theirs)}.", hint="Give one of each for every sample."
        )
    clusters, row = np.unique(ours, return_inverse=True)
    classes, column = np.unique(theirs, return_inverse=True)
    cells = np.bincount(row * len(classes) + column, minlength=len(clusters) * len(classes))
    return clusters, classes, cells.reshape(len(clusters), len(classes)).astype(np.int64)


def _integers(name: str, labels: Labels) -> NDArray[Any]:
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1 or (array.dtype.kind not in "biu" and array.size):
        raise UsageError(
            f"{name} of shape {array.shape} and type {array.dtype} are no labels.", hint="Give (N,) integers."
        )
    return array.astype(np.int64)


def _momentum(beta: float) -> float:
    if not 0 <= beta < 1:
        raise UsageError(f"beta={beta} should be in [0, 1).", hint="The paper's authors used 0.6.")
    return beta


def _same_shape(first: str, a: Tensor, second: str, b: Tensor) -> tuple[int, int]:
    if a.ndim != 2 or a.shape != b.shape or a.numel() == 0:
        raise UsageError(
            f"{first} of shape {tuple(a.shape)} and {second} of shape {tuple(b.shape)} do not go together.",
            hint="Give both as (N, K) with at least one row.",
        )
    return int(a.shape[0]), int(a.shape[1])
