"""Sinkhorn k-means: clusters of equal size, by Sinkhorn's assignment of points to centres."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.equations import squared_distances
from newkinds.errors import UsageError
from newkinds.randomness import generator, one_thread

START_NOISE, STEP_NOISE = 0.01, 0.001  # spread of the first centres, and what is added to each later ones; published


class Plan(NamedTuple):
    """An assignment P: log_p (N, K), and the duals u (N,) and v (K,) that log_p = u_i + v_k - costs / regulariser."""

    log_p: Tensor
    rows: Tensor
    columns: Tensor


def sinkhorn(costs: Tensor, regulariser: float, iterations: int, columns: Tensor | None = None) -> Plan:
    """Return the P that costs least among those with equal shares, by Sinkhorn's scaling in logarithms.

    P minimises sum_ik P_ik costs_ik + regulariser x sum_ik P_ik log P_ik, where each row sums to 1 / N and each column
    to 1 / K. Then log P_ik = u_i + v_k - costs_ik / regulariser, and an iteration solves the rows for u, the columns
    for v: at the end the columns sum exactly, the rows the more closely the more iterations there were.

    costs: float (N, K), finite. columns: v (K,) to start from, such as that of nearly the same costs; None: 0.
    Gradients flow through the iterations.
    """
    if costs.ndim != 2 or costs.numel() == 0:
        raise UsageError(f"costs of shape {tuple(costs.shape)} have no plan.", hint="Give (N, K), with a row or more.")
    if not regulariser > 0 or iterations < 1:
        raise UsageError(
            f"regulariser={regulariser} should be above 0 and iterations={iterations} at least 1.",
            hint="Published are a regulariser of 1 and 10 iterations.",
        )
    n, k = costs.shape
    # What all costs of a row share changes u only; without it, their differences keep more digits.
    common = costs.detach().amin(dim=1)
    scores = (common[:, None] - costs) / regulariser
    v = scores.new_zeros(k) if columns is None else columns
    for _ in range(iterations):
        u = -math.log(n) - (scores + v).logsumexp(dim=1)
        v = -math.log(k) - (scores + u[:, None]).logsumexp(dim=0)
    return Plan(scores + u[:, None] + v, u + common / regulariser, v)


@dataclass(frozen=True)
class EvenClustering:
    """A result of Sinkhorn k-means.

    centres: (K, d). probabilities: (N, K), p(k|i) = P_ik / sum_k P_ik = softmax_k(v_k - |x_i - c_k|^2 / regulariser).
    columns: v (K,). cost: sum_ik P_ik |x_i - c_k|^2. All float64.
    """

    centres: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    columns: NDArray[np.float64]
    cost: float


def sinkhorn_kmeans(
    points: NDArray[Any],
    kinds: int,
    *,
    seed: int,
    regulariser: float = 1.0,
    steps: int = 20,
    first_iterations: int = 20,
    later_iterations: int = 4,
    restarts: int = 1,
) -> EvenClustering:
    """Cluster points (N, d) into `kinds` clusters of equal size; that of the least cost of `restarts` is returned.

    The centres start around the mean of the points, c_k = mean + .01 N(0, 1). A step finds P of |x_i - c_k|^2, from
    the duals of the step before, and moves the centres: c_k = sum_i P_ik x_i / sum_i P_ik + .001 N(0, 1). After the
    last step the noise is left out and P found once more, with as many iterations as the first.
    """
    x = torch.from_numpy(np.asarray(points, dtype=np.float64))
    if x.ndim != 2 or not 2 <= kinds <= len(x):
        raise UsageError(
            f"Points of shape {tuple(x.shape)} cannot be sorted into {kinds} kinds: 2 to {len(x)} are possible.",
            hint="Ask for fewer with --kinds, or give more pictures.",
        )
    with one_thread():
        mean = x.mean(dim=0)
        iterations = [first_iterations] + [later_iterations] * (steps - 1) + [first_iterations]
        tries = (_run(x - mean, kinds, seed, number, regulariser, iterations) for number in range(restarts))
        centres, plan, cost = min(tries, key=lambda one: one[2])
        p = plan.log_p.softmax(dim=1)
        return EvenClustering((centres + mean).numpy(), p.numpy(), plan.columns.numpy(), cost)


def _run(
    x: Tensor, kinds: int, seed: int, number: int, regulariser: float, iterations: list[int]
) -> tuple[Tensor, Plan, float]:
    """Return the centres, P and its cost of one restart on points that have their mean at 0."""
    random = generator(seed, "Sinkhorn k-means", number)

    def noise(spread: float) -> Tensor:
        return torch.from_numpy(random.normal(0, spread, (kinds, x.shape[1])))

    centres, duals = noise(START_NOISE), None
    for step, some in enumerate(iterations):
        costs = squared_distances(x, centres)
        plan = sinkhorn(costs, regulariser, some, duals)
        duals = plan.columns
        if step + 1 < len(iterations):
            centres = plan.log_p.softmax(dim=0).T @ x
            if step + 2 < len(iterations):
                centres = centres + noise(STEP_NOISE)
    return centres, plan, float((plan.log_p.exp() * costs).sum())
