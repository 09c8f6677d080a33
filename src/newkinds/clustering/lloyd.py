"""Lloyd's iterations with distance bounds: only points whose nearest centre may have changed are looked at again.

The distance of every point to every centre is kept as last computed. A centre that has moved by s since then can have
come nearer by s at most, so most points need no product: those whose own centre is still nearer than any other can be.
The result is that of plain Lloyd iterations; only the work is less, and ever less towards the end.

Products are in the precision of the points. Sums of members are float64, and updated by the points that come and go.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from newkinds.clustering.threads import Threads
from newkinds.errors import UsageError

PIECE = 2048  # rows of one product
FEW = 4096  # points up to which the products of all pairs are kept, 64 MB: seeds are points
TRIED = 4  # points for a seed, about
SLACK = {torch.float32: 1e-5, torch.float64: 1e-12}  # of the largest norm: the rounding error of a bound


def floats(points: NDArray[Any] | Tensor) -> Tensor:
    """Return points (N, d) as a tensor of float32 or float64, or refuse those that are not finite."""
    if isinstance(points, np.ndarray) and not points.flags.writeable:
        points = points.copy()  # torch warns about read-only arrays
    x = torch.as_tensor(points)
    x = x if x.dtype in (torch.float32, torch.float64) else x.double()
    if x.ndim != 2:
        raise UsageError(f"Points of shape {tuple(x.shape)} are no rows of features.", hint="Give (N, d).")
    broken = int((~x.isfinite().all(dim=1)).sum())
    if broken:
        raise UsageError(f"{broken} of {len(x)} rows are not finite.", hint="Leave these points out.")
    return x


class Points:
    """Points (N, d), centred, with cached norms, and the anchors among them, which stay in the cluster of their class.

    anchors: int64 (N,), the class of each anchor, and -1 for points that are free. seeds: how many clusters all
    restarts begin with, together.
    """

    def __init__(self, points: Tensor, anchors: Tensor, seeds: int = 0) -> None:
        self.offset = points.mean(dim=0, dtype=torch.float64)  # small norms: little cancels
        self.x = (points - self.offset).to(points.dtype)
        self.norms = self.x.square().sum(dim=1)
        self.square = float(self.norms.double().sum())
        self.variance = self.square / max(1, self.x.numel())
        self.slack = SLACK[self.x.dtype] * math.sqrt(float(self.norms.max()))
        # The largest computed distance of equal points: near 0, a difference of products keeps half the digits.
        self.blur = (8 * torch.finfo(self.x.dtype).eps * self.norms).sqrt()
        self.anchors = anchors
        self.free = anchors < 0
        self.classes = int(anchors.max().item()) + 1
        self.everyone = torch.arange(len(self.x), device=self.x.device)
        self._keeps_products = len(self.x) <= min(FEW, TRIED * seeds)

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def products(self) -> Tensor | None:
        """The products of all pairs of points (N, N), None where there are too many, or few seeds that need them."""
        return self.x @ self.x.T if self._keeps_products else None

    def distances_to(self, drawn: Tensor, threads: Threads) -> Tensor:
        """Return the distances (N, M) of all points to some of them, int64 (M,)."""
        if self.products is None:
            centres = self.x[drawn]
            pieces = [slice(start, start + PIECE) for start in range(0, len(self), PIECE)]
            return torch.cat(threads.map(lambda rows: self.distances(rows, centres), pieces))
        squares = self.products[drawn].T.mul(-2).add_(self.norms[drawn]).add_(self.norms[:, None])
        return squares.clamp_(min=0).sqrt_()

    def distances(self, rows: Tensor | slice, centres: Tensor) -> Tensor:
        """Return the distances (n, M) of some points to centres (M, d) of their own precision."""
        squares = torch.addmm(centres.square().sum(dim=1), self.x[rows], centres.T, alpha=-2)
        return squares.add_(self.norms[rows, None]).clamp_(min=0).sqrt_()


class Restart:
    """One run of k-means over some points: `seed` and `settle`, then `shrink` and `settle` again.

    most: the largest number of clusters. threads: which compute the products.
    """

    def __init__(self, points: Points, most: int, threads: Threads) -> None:
        self.points = points
        self.threads = threads
        new = points.x.new_zeros
        self.k, self.iterations = 0, 0
        self.centres = new((most, points.x.shape[1]), dtype=torch.float64)
        self.sums = new((most, points.x.shape[1]), dtype=torch.float64)
        self.mass = new(most, dtype=torch.int64)
        self.dirty = new(most, dtype=torch.bool)  # clusters whose members changed since their centre moved
        self.drift = new(most)  # the length of each centre's path so far
        # Distances as last computed, plus the centre's drift at that time; infinite for the own cluster. (N, most)
        self.kept = new(0, most)
        self.labels = points.anchors.clone()
        self.nearest = new(len(points)).fill_(math.inf)  # an upper bound of the distance to the own centre
        if points.classes:
            fixed = torch.nonzero(~points.free)[:, 0]
            classes = points.anchors[fixed]
            means = self.sums[: points.classes].index_add(0, classes, points.x[fixed].double())
            self.start(means / torch.bincount(classes)[:, None] + points.offset)

    def start(self, centres: Tensor) -> None:
        """Begin with given centres (K, d)."""
        self.k = len(centres)
        self.centres[: self.k] = centres.double() - self.points.offset
        self.drift[: self.k] = 0
        self._allocate()
        self.labels = self._look_at(self.points.everyone)
        self._count_all()

    # Seeds

    def seed(self, number: int, random: np.random.Generator) -> None:
        """Add clusters at points drawn by k-means++, then assign all points to the nearest."""
        self._recall()
        before = self.labels.clone()
        for _ in range(number):
            column = self._add(random)
            closer = (column < self.nearest) & self.points.free
            self.labels[closer] = self.k - 1
            self.nearest = torch.where(closer, column, self.nearest)
        self.kept[self.points.everyone, self.labels] = math.inf
        left = torch.nonzero((before >= 0) & (before != self.labels))[:, 0]
        self.kept[left, before[left]] = -math.inf  # not known: the points are looked at again
        self._count_all()

    def _add(self, random: np.random.Generator) -> Tensor:
        """Add a centre: of a few candidates, drawn by their squared distance, the one that lowers the inertia most.

        Returns the distances of all points to it.
        """
        drawn = self._draw(2 + int(math.log(self.k)) if self.k else 1, random)
        columns = self.points.distances_to(drawn, self.threads)
        best = 0
        if self.k:
            gain = (self.nearest.square()[:, None] - columns.square()).clamp_(min=0)
            best = int(gain.mul_(self.points.free[:, None]).sum(dim=0, dtype=torch.float64).argmax())
        c, column = self.k, columns[:, best]
        self.k += 1
        self.centres[c] = self.points.x[drawn[best]]
        self.sums[c], self.mass[c], self.drift[c], self.dirty[c] = 0, 0, 0, False
        self.kept[:, c] = column
        return column

    def _draw(self, trials: int, random: np.random.Generator) -> Tensor:
        """Draw free points with probability proportional to the squared distance; evenly where all of them are 0."""
        weights = self.points.free.double()
        if self.k:
            weights = weights * self.nearest.double().square()
        cumulative = weights.cumsum(dim=0)
        if not float(cumulative[-1]) > 0:
            cumulative = self.points.free.cumsum(dim=0).double()
        targets = torch.from_numpy(random.random(trials)).to(cumulative) * cumulative[-1]
        drawn = torch.searchsorted(cumulative, targets, right=True)
        last = torch.searchsorted(cumulative, cumulative[-1])  # rounding may overshoot the last point with weight
        return torch.minimum(drawn, last)

    # Iterations

    def settle(self, max_iterations: int, tolerance: float) -> None:
        """Iterate until no point changes its cluster, or the centres move by no more than the tolerance."""
        self._recall()
        limit = tolerance * self.points.variance
        for self.iterations in range(1, max_iterations + 1):
            if self.step() <= limit:
                return

    def step(self) -> float:
        """Move centres to the means of their clusters, then points to the nearest centre; return the squared shift."""
        self._fill_empty()
        moved = torch.nonzero(self.dirty[: self.k])[:, 0]
        if not len(moved):
            return 0.0
        self.dirty[: self.k] = False
        centres = self.sums[moved] / self.mass[moved, None]
        squares = (centres - self.centres[moved]).square().sum(dim=1)
        shift = torch.zeros_like(self.drift)
        shift[moved] = squares.sqrt().to(shift)
        self.centres[moved] = centres
        self.drift += shift
        self.nearest += shift[self.labels]
        self._look_again(self._doubtful(moved))
        return float(squares.sum())

    def _doubtful(self, moved: Tensor) -> Tensor:
        """Return the free points whose nearest centre may be another one now that some centres have moved."""
        limit = self.nearest + self.points.slack
        if 2 * len(moved) > self.k:
            doubtful = self._others(slice(None), slice(self.k)) <= limit
        else:  # against those that moved; and against all, where the own one moved
            doubtful = self._others(slice(None), moved) <= limit
            is_moved = torch.zeros_like(self.dirty)
            is_moved[moved] = True
            own = torch.nonzero(is_moved[self.labels] & ~doubtful)[:, 0]
            doubtful[own] = self._others(own, slice(self.k)) <= limit[own]
        return torch.nonzero(doubtful & self.points.free)[:, 0]

    def _others(self, rows: Tensor | slice, clusters: Tensor | slice) -> Tensor:
        """Return the least distance (n,) that some points can have to any of some clusters but their own."""
        kept = self.kept[rows][:, clusters]
        return (kept - self.drift[clusters]).amin(dim=1)

    def _look_again(self, rows: Tensor) -> None:
        """Recompute the nearest centres of some points, and move those that change to their new cluster."""
        if len(rows):
            found = self._look_at(rows)
            changed = found != self.labels[rows]
            self._join(rows[changed], found[changed])

    def _look_at(self, rows: Tensor) -> Tensor:
        """Return the nearest cluster of some points, or their own if they are anchors, and keep the distances."""
        centres = self.centres[: self.k].to(self.points.x.dtype)

        def look(some: Tensor) -> Tensor:
            distances = self.points.distances(some, centres)
            labels = torch.where(self.points.free[some], distances.argmin(dim=1), self.points.anchors[some])[:, None]
            self.nearest[some] = torch.hypot(distances.gather(1, labels)[:, 0], self.points.blur[some])
            self.kept[some, : self.k] = distances.add_(self.drift[: self.k]).scatter_(1, labels, math.inf)
            return labels[:, 0]

        return torch.cat(self.threads.map(look, torch.split(rows, PIECE)))

    def _join(self, who: Tensor, to: Tensor) -> None:
        """Move points out of their clusters, if they have any, and into others."""
        origin, x = self.labels[who], self.points.x[who].double()
        left = torch.nonzero(origin >= 0)[:, 0]
        for clusters, members, sign in ((origin[left], x[left], -1), (to, x, 1)):
            self.sums.index_add_(0, clusters, members, alpha=sign)
            self.mass.index_add_(0, clusters, torch.ones_like(clusters), alpha=sign)
            self.dirty[clusters] = True
        self.labels[who] = to

    def _count_all(self) -> None:
        """Recompute the sums of all clusters and mark every centre for an update."""
        self.sums[: self.k] = 0
        for start in range(0, len(self.points), PIECE):
            rows = slice(start, start + PIECE)
            self.sums.index_add_(0, self.labels[rows], self.points.x[rows].double())
        self.mass[: self.k] = torch.bincount(self.labels, minlength=self.k)
        self.dirty[: self.k] = True

    def _fill_empty(self) -> None:
        """Move each empty cluster to the free point farthest from its centre, out of a cluster that can spare it."""
        for c in torch.nonzero(self.mass[: self.k] == 0)[:, 0].tolist():
            self.dirty[c] = False
            spare = self.points.free & (self.mass[self.labels] > 1)
            distance = torch.where(spare, self.nearest, -math.inf)
            who = distance.argmax()[None]
            if not float(distance[who]) > self.points.slack + 2 * float(self.points.blur[who]):
                continue  # fewer distinct points than clusters: it stays empty
            self.kept[who, self.labels[who]] = -math.inf  # not known: the point is looked at again
            self._join(who, torch.full_like(who, c))

    # Fewer clusters

    def shrink(self, number: int, random: np.random.Generator | None = None) -> None:
        """Merge clusters down to `number`, each time the cheapest pair; or with `random`, one of the cheap pairs.

        Where clusters are far apart, the first merge decides all that follow: so restarts should differ.
        """
        self._recall()
        for _ in range(number):
            c, partner, last = *self._cheapest(random), self.k - 1
            members = torch.nonzero(self.labels == c)[:, 0]
            self._join(members, torch.full_like(members, partner))
            self.nearest[members] = math.inf  # the next step computes the distance to the new centre
            if c != last:  # the last cluster takes the number that is free now
                self.labels[self.labels == last] = c
                self.kept[:, c] = self.kept[:, last]
                for values in (self.centres, self.sums, self.mass, self.drift, self.dirty):
                    values[c] = values[last].clone()
            self.k, self.mass[last], self.dirty[last] = last, 0, False

    def _cheapest(self, random: np.random.Generator | None) -> tuple[int, int]:
        """Return a cluster without anchors, and the one to merge it into, by the least rise in inertia (Ward's cost).

        random: each cost is multiplied by a random factor from 1 to 2.
        """
        classes, centres, mass = self.points.classes, self.centres[: self.k], self.mass[: self.k].double()
        squares = torch.cdist(centres[classes:], centres, compute_mode="donot_use_mm_for_euclid_dist").square()
        cost = squares * mass[classes:, None] * mass / (mass[classes:, None] + mass).clamp_min(1)
        if random is not None:
            cost *= torch.from_numpy(1 + random.random(cost.shape)).to(cost)
        cost[torch.arange(len(cost)), torch.arange(classes, self.k)] = math.inf
        goes, stays = divmod(int(cost.argmin()), self.k)
        return goes + classes, stays

    # State

    def forget(self) -> None:
        """Free the memory of the distances; they are recomputed when needed."""
        self.kept = self.kept.new_zeros(0, len(self.mass))

    def _recall(self) -> None:
        if len(self.kept) < len(self.points):
            self._allocate()
            if self.k:
                self._look_again(self.points.everyone)

    def _allocate(self) -> None:
        if len(self.kept) < len(self.points):
            self.kept = self.points.x.new_empty(len(self.points), len(self.mass))

    def inertia(self) -> float:
        """Return the sum of squared distances of all points to the centres of their clusters."""
        centres, mass = self.centres[: self.k], self.mass[: self.k].double()
        cross = float((centres * self.sums[: self.k]).sum())
        return max(0.0, self.points.square - 2 * cross + float((mass * centres.square().sum(dim=1)).sum()))
