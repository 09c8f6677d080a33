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
    pictures nearest to each, over which p is averaged first; None: p as it is. held: the kind of each picture that is
    labelled, -1 for the others, int64 (N,), in a mixed heap: labelled pictures keep their kind, and count as of it
    where p is averaged. new: how many kinds are new, the first ones, whose sizes `evenness` is about.
    """

    def __init__(
        self,
        settings: Discover,
        labels: NDArray[np.int64],
        kinds: int,
        neighbours: NDArray[np.int64] | None = None,
        held: NDArray[np.int64] | None = None,
        new: int | None = None,
    ) -> None:
        self.settings = settings
        self.neighbours = None if neighbours is None else torch.from_numpy(neighbours)
        self.held = None if held is None else torch.from_numpy(held)
        free = labels if held is None else labels[held < 0]
        sizes = np.bincount(free, minlength=kinds).astype(np.float64)
        even, new = settings.evenness, kinds if new is None else new
        sizes[:new] = (1 - even) * sizes[:new] + even * sizes[:new].sum() / new
        self.mass = torch.from_numpy(sizes)

    def __call__(self, p: Tensor) -> Tensor:
        """Return q (N, K) from p (N, K) of all pictures."""
        if self.held is not None:
            p = self._with_labels(p)
        if self.neighbours is not None:
            p = torch.cat([p[near].mean(dim=1) for near in torch.split(self.neighbours, AT_ONCE)])
        if self.held is None:
            return self._sharpened(p)
        q = p.clone()
        q[self.held < 0] = self._sharpened(p[self.held < 0])
        return self._with_labels(q)

    def _sharpened(self, p: Tensor) -> Tensor:
        return target(p) if self.settings.targets == "eq3" else held_target(p, self.mass, self.settings.power)

    def _with_labels(self, p: Tensor) -> Tensor:
        """Return p with labelled pictures wholly of their kind."""
        assert self.held is not None
        rows = torch.nonzero(self.held >= 0)[:, 0]
        labelled = p.clone()
        labelled[rows] = torch.nn.functional.one_hot(self.held[rows], p.shape[1]).to(p)
        return labelled


def held_target(p: Tensor, mass: Tensor, power: float) -> Tensor:
    """Return q(k|i) ~ p(k|i)^power w_k, with w such that kind k has `mass[k]` in all.

    p: float (N, K), rows sum to 1. mass: (K,), >= 0, its sum is N. The scaling is Sinkhorn's: columns to their mass
    and rows to 1, alternately. The first round is in logarithms, so that a power of a small p does not underflow; the
    others only change a factor of each column and one of each row.

    Returns the dtype of p, (N, K), in [0, 1]; rows sum to 1, columns to the mass up to what 50 rounds leave.
    """
    log_q = power * p.double().clamp_min(1e-300).log()
    wanted = mass.to(log_q).clamp_min(1e-300)
    log_q = log_q + (wanted.log() - log_q.logsumexp(dim=0))
    q = (log_q - log_q.logsumexp(dim=1, keepdim=True)).exp()
    columns, rows = torch.ones_like(wanted), q.new_ones(len(q))
    for _ in range(ROUNDS - 1):
        columns = wanted / (q.T @ rows).clamp_min(1e-300)
        rows = 1 / (q @ columns).clamp_min(1e-300)
    return (rows[:, None] * q * columns).to(p.dtype)
