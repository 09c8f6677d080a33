"""Pairwise distances without cancellation, at the speed of matrix products."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Below this share of the squared norms, a squared distance computed by products loses too many digits.
_CANCELS = {torch.float32: 1e-2, torch.float64: 1e-6}


class Distances:
    """Distances between points (N, d) of float32 or float64: by products, but near pairs by differences."""

    def __init__(self, points: Tensor) -> None:
        self.points = points  # differences of near ones are exact
        self.x = (points - points.mean(dim=0, dtype=torch.float64)).to(points.dtype)  # centred, so that little cancels
        self.norms = self.x.square().sum(dim=1)

    def to(self, rows: slice, block: int) -> Tensor:
        """Return the distances (N, n) of all points to those of `rows`. block: the most numbers for near pairs."""
        scale = self.norms[:, None] + self.norms[rows]
        squares = torch.addmm(scale, self.x, self.x[rows].T, alpha=-2)
        column = torch.arange(squares.shape[1], device=squares.device)
        squares[column + rows.start, column] = math.inf  # a point and itself are no near pair
        i, j = (squares <= _CANCELS[squares.dtype] * scale).nonzero(as_tuple=True)
        if len(i) * self.x.shape[1] > block:  # tight clusters far apart
            return torch.cdist(self.points, self.points[rows], compute_mode="donot_use_mm_for_euclid_dist")
        squares[i, j] = (self.points[i] - self.points[j + rows.start]).square().sum(dim=1)
        squares[column + rows.start, column] = 0
        return squares.sqrt_()
