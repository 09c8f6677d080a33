"""The targets q: by the paper's Eq. 3, or such that kinds keep their size.

Under Eq. 3, small kinds can lose a little at every update until nothing is left of them, and with many kinds p is so
flat that its square is no sharper than noise. Held targets are p to a power, scaled so that each kind has the mass it
should have: between that of the start and an even share. Either can be made from p averaged over pictures that are
similar under f, which outvotes errors on single pictures.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.equations import target
from newkinds.methods.dtc.settings import Discover

ROUNDS = 50  # of scaling columns and rows alternately
AT_ONCE = 4096  # pictures whose neighbours' p is in memory at a time


class Targets:
    """Make q from p, as the settings say.

    labels: int64 (N,), of the start, whose kind sizes held targets are tied to. neighbours: int64 (N, n), the
    pictures nearest to each, over which p is averaged first; None: p as it is.
    """

    def __init__(
        self,
        settings: Discover,
        labels: NDArray[np.int64],
        kinds: int,
        neighbours: NDArray[np.int64] | None = None,
    ) -> None:
        self.settings = settings
        self.neighbours = None if neighbours is None else torch.from_numpy(neighbours)
        sizes = np.bincount(labels, minlength=kinds).astype(np.float64)
        even = settings.evenness
        self.mass = torch.from_numpy((1 - even) * sizes + even * len(labels) / kinds)

    def __call__(self, p: Tensor) -> Tensor:
        """Return q (N, K) from p (N, K) of all pictures."""
        if self.neighbours is not None:
            p = torch.cat([p[near].mean(dim=1) for near in torch.split(self.neighbours, AT_ONCE)])
        if self.settings.targets == "eq3":
            return target(p)
        return held_target(p, self.mass, self.settings.power)


def held_target(p: Tensor, mass: Tensor, power: float) -> Tensor:
    """Return q(k|i) ~ p(k|i)^power w_k, with w such that kind k has `mass[k]` in all.

    p: float (N, K), rows sum to 1. mass: (K,), >= 0, its sum is N. The scaling is Sinkhorn's: columns to their mass
    and rows to 1, alternately, in logarithms, so that a power of a small p does not underflow.

    Returns the dtype of p, (N, K), in [0, 1]; rows sum to 1, columns to the mass up to what 50 rounds leave.
    """
    log_q = power * p.double().clamp_min(1e-300).log()
    wanted = mass.to(log_q).clamp_min(1e-300).log()
    for _ in range(ROUNDS):
        log_q = log_q + (wanted - log_q.logsumexp(dim=0))
        log_q = log_q - log_q.logsumexp(dim=1, keepdim=True)
    return log_q.exp().to(p.dtype)
