"""None of these in a network file: what `newkinds.unlike` says of single pictures, as a part of the network."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newkinds.unlike import CAREFUL, FAR, FEW, LEAST, OTHERS, SPREAD, SURE, Unlike


class NoneOfThese(nn.Module):
    """Features float32 (N, d) and p (N, K) to p with a further column: none of the kinds.

    As `Unlike.one_by_one` and `Assignment.rejecting` have it: a network sees pictures one by one. Distances are
    computed in single precision.
    """

    references: Tensor
    scale: Tensor
    places: Tensor
    usual: Tensor
    spread: Tensor
    levels: Tensor
    centre: Tensor
    width: Tensor
    coefficients: Tensor

    def __init__(self, unlike: Unlike, rate: float) -> None:
        super().__init__()
        of = unlike.references
        starts = np.flatnonzero(np.r_[True, np.diff(of.kinds) != 0])
        parts = np.split(np.arange(len(of.kinds)), starts[1:])
        largest = max(map(len, parts))
        places = np.stack([np.resize(part, largest) for part in parts])  # repeated, which changes no minimum
        self.rate = rate
        values = {
            "references": of.features,
            "scale": of.scale,
            "usual": np.array([of.scale[part].mean() for part in parts]),
            "spread": np.array([of.scale[part].std() for part in parts]) + SPREAD,
            "levels": unlike.levels[0],
            "centre": unlike.regression.centre,
            "width": unlike.regression.scale,
            "coefficients": unlike.regression.coefficients,
        }
        for name, value in values.items():
            self.register_buffer(name, torch.from_numpy(np.asarray(value, dtype=np.float32)))
        self.register_buffer("places", torch.from_numpy(places))

    def forward(self, features: Tensor, p: Tensor) -> Tensor:
        """Return p with the column of none, float32 (N, K + 1)."""
        signals = self.signals(features)
        x = (signals - self.centre) / self.width
        unlike = self.coefficients[0] + (x * self.coefficients[1:]).sum(dim=1)
        below = (self.levels[None] < unlike[:, None]).to(p.dtype).mean(dim=1)
        members = 1 - below
        share = self.rate / (self.rate + members.clamp_max(self.rate)).clamp_min(SURE)
        none = torch.where(members < CAREFUL * self.rate, share.clamp_min(0.5), torch.zeros_like(share))[:, None]
        kept = torch.where(none > 0, 0.999 * (1 - none), torch.ones_like(none))
        return torch.cat([p * kept, none], dim=1)

    def signals(self, features: Tensor) -> Tensor:
        """Return what tells members from others, (N, 5), as `References.signals` does."""
        turned = F.normalize(features, dim=1)
        far = (2 - 2 * turned @ self.references.T).clamp(LEAST**2, FAR**2).sqrt()
        near, items = far.topk(min(FEW, far.shape[1]), dim=1, largest=False)
        nearest, mean = near[:, 0].log(), near.mean(dim=1).log()
        by_kind = far[:, self.places].amin(dim=2)
        kind = by_kind.argmin(dim=1)
        first = by_kind.topk(min(OTHERS + 1, by_kind.shape[1]), dim=1, largest=False)[0]
        others = first[:, 1:].mean(dim=1) if first.shape[1] > 1 else first[:, 0]
        local = mean - self.scale[items].mean(dim=1)
        margin = (others / first[:, 0]).log()
        of_kind = (mean - self.usual[kind]) / self.spread[kind]
        return torch.stack([nearest, nearest - self.scale[items[:, 0]], local, margin, of_kind], dim=1)
