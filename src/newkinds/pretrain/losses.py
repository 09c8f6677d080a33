"""The metric losses of pretraining, as pure functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from newkinds.equations import squared_distances


def prototypical_loss(embeddings: Tensor, support: int) -> Tensor:
    """Return the cross-entropy of the queries over the prototypes of their episode.

    embeddings: float (W, S + Q, d), W kinds of which the first `support` = S pictures make the prototype, their mean
        c_w. A query z belongs to kind w with probability softmax(-|z - c_w|^2).
    """
    kinds, each, width = embeddings.shape
    prototypes = embeddings[:, :support].mean(dim=1)
    queries = embeddings[:, support:].reshape(-1, width)
    logits = -squared_distances(queries, prototypes)
    labels = torch.arange(kinds, device=embeddings.device).repeat_interleave(each - support)
    return F.cross_entropy(logits, labels)


def triplet_loss(embeddings: Tensor, labels: Tensor, margin: float) -> Tensor:
    """Return the batch-hard triplet loss: each picture with its furthest positive and its nearest negative.

    mean_i max(0, margin + max_{j: y_j = y_i} |z_i - z_j| - min_{j: y_j != y_i} |z_i - z_j|), over embeddings scaled to
    length 1, so that the margin is meaningful. embeddings: float (B, d); labels: int (B,), of at least two kinds.
    """
    unit = F.normalize(embeddings, dim=1)
    # The gradient of the root is unbounded at 0, the distance of each picture to itself.
    distances = squared_distances(unit, unit).clamp_min(1e-12).sqrt()
    same = labels[:, None] == labels
    hardest_same = distances.masked_fill(~same, -1.0).max(dim=1).values
    hardest_other = distances.masked_fill(same, torch.inf).min(dim=1).values
    return F.relu(margin + hardest_same - hardest_other).mean()
