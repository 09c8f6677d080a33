"""Locality preserving non-negative matrix factorisation (Cai et al. 2009).

Pictures X (N, d) >= 0 are mixtures of K parts, Y = V U^T with parts U (d, K) >= 0 and memberships V (N, K) > 0, where
pictures that are neighbours in a graph have similar memberships. The objective to minimise is

    sum_ij (x_ij log(x_ij / y_ij) - x_ij + y_ij) + lambda sum_k v_k^T L log v_k.

L is the Laplacian of the graph, and v^T L log v = 1/2 sum_ij w_ij (v_i - v_j)(log v_i - log v_j) >= 0. Both factors
are updated by what part k has in feature j and in picture i:

    a_jk = u_jk sum_i v_ik x_ij / y_ij,    u_k <- S a_k / sum_j a_jk    (Lee and Seung's update, brought to the sum S)
    b_ik = v_ik sum_j u_jk x_ij / y_ij,    v_k <- (S I + lambda L)^-1 b_k

Scale. When U grows and V shrinks, Y stays as it is but the graph's term goes to 0. So each u_k keeps the sum S: then
sum_ij y_ij depends on V alone, both updates may be made at once, and there is one matrix to solve with for all k.
Pictures are rows with the sum S, too, so that memberships of a picture sum to about 1; lambda counts as lambda / S. We
take S = d: an entry of X is 1 on average. The published program begins with U's columns of length 1, which comes to
an S of 10 to 25 here: with lambda = 100, and on pixels, memberships then come out nearly the same for all pictures.

The update of V is published but not exact: where the objective is least, S - b / v + lambda (L log v + (L v) / v) = 0,
and L log v is left out. A step of V that would raise the objective is therefore shortened, at worst to nothing, as
the update of U never raises it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from pydantic import Field
from sklearn.neighbors import kneighbors_graph

from newkinds.clustering import kmeans
from newkinds.clustering.lloyd import floats
from newkinds.clustering.threads import Threads
from newkinds.errors import DataError
from newkinds.methods.base import Method, Problem, Solution
from newkinds.randomness import key, one_thread
from newkinds.settings import Section
from newkinds.settings.base import ClusteredOn, Restarts

BLOCK, COLUMNS = 2**19, 32  # entries of X processed at a time; columns of V solved for at a time
LEAST = 1e-12  # of a membership: its logarithm is needed
TINY = 1e-30  # in place of 0 in a denominator and in a logarithm
BLUR = 0.2  # share of a start that is the same for all kinds: what is 0 stays 0
SHARES = (1.0, 0.5, 0.25, 0.125, 0.0)  # of a step of V, the first that does not raise the objective is taken
# Of conjugate gradients: tolerances relative to the right side and to the first residual; the most steps
EXACT, ROUNDING, STEPS = 1e-6, 1e-12, 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Factors:
    """U (d, K) and V (N, K), their shares a and b of the data (see above), and the objective."""

    u: Floats
    v: Floats
    a: Floats
    b: Floats
    value: float


class Lpnmf(Section):
    """Locality preserving non-negative matrix factorisation (method lpnmf)."""

    on: ClusteredOn = "features"
    neighbours: int = Field(
        5, ge=1, description="How many nearest pictures each is joined with in the graph. Published with 5."
    )
    weight: float = Field(
        100.0,
        ge=0,
        description="The weight of the graph's term, lambda: how much alike the memberships of neighbours should be. "
        "Published with 100.",
    )
    restarts: Restarts = Field(
        10,
        description="How often the factorisation, and the k-means on its memberships, begin anew; the best outcome is "
        "kept.",
    )
    first_iterations: int = Field(
        10, ge=1, description="Iterations of each restart; the best restart is then iterated further."
    )
    max_iterations: int = Field(500, ge=1, description="The most iterations that the best restart gets.")
    tolerance: float = Field(
        1e-5, ge=0, description="It ends when an iteration lowers the objective by no more than this share of it."
    )


def lpnmf_method(problem: Problem) -> Solution:
    """Cluster the memberships of the unsorted pictures; there is no model for other pictures."""
    chosen = problem.settings.section(Lpnmf)
    labels, memberships = lpnmf(problem.points(chosen.on), problem.kinds, chosen, problem.settings.seed)
    return Solution(problem.certain(labels), memberships.astype(np.float32))


def lpnmf(points: NDArray[Any], kinds: int, settings: Lpnmf, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """Cluster points (N, d) >= 0 into `kinds`; returns the labels (N,) and the memberships V (N, kinds).

    Each restart begins with its own k-means; the best after a few iterations is continued.
    """
    x, threads = scaled(floats(points).numpy()), Threads()
    problem = Factorisation(x, laplacian(x, settings.neighbours), settings.weight, threads)
    best = None
    for number in range(settings.restarts):
        u, v = start(x, kinds, key(seed, "lpnmf", number))
        with threads:  # not around k-means, which uses its own threads
            found = problem.settle(problem.look(u, v), settings.first_iterations, settings.tolerance)
        best = found if best is None or found.value < best.value else best
    assert best is not None
    with threads:
        v = problem.settle(best, settings.max_iterations, settings.tolerance).v
    return kmeans(v, kinds, seed=seed, restarts=settings.restarts).labels, v


def scaled(points: NDArray[Any]) -> NDArray[Any]:
    """Return the features that are not 0 throughout, with rows scaled to sum to their number; refuse negative ones."""
    least = float(points.min(initial=0))
    if least < 0:
        raise DataError(
            f"The least of all features is {least:.3g}: the method lpnmf, a non-negative factorisation, takes none "
            "below 0.",
            hint="Use another --method, such as lsc or kmeans; on pictures lpnmf.on = 'pixels' is possible, too.",
        )
    x = points[:, points.any(axis=0)]
    if not x.size:
        raise DataError(
            f"All features of all {len(points)} pictures are 0: there is nothing to factorise.",
            hint="Check the pictures, or train f anew.",
        )
    sums = x.sum(axis=1, keepdims=True, dtype=np.float64)
    rows: NDArray[Any] = (x / np.where(sums > 0, sums, 1) * x.shape[1]).astype(x.dtype)
    return rows


def laplacian(points: NDArray[Any], neighbours: int) -> scipy.sparse.csr_matrix:
    """Return L = D - W (N, N), sparse: w_ij is 1 where i is one of j's nearest neighbours or j one of i's."""
    with one_thread():
        one_way = kneighbors_graph(points, min(neighbours, len(points) - 1), mode="connectivity")
    graph = one_way.maximum(one_way.T)
    return (scipy.sparse.diags(np.asarray(graph.sum(axis=1)).ravel()) - graph).tocsr()


def start(x: NDArray[Any], kinds: int, seed: int) -> tuple[Floats, Floats]:
    """Return a first U (d, K), the centres of k-means, and V (N, K), its labels; both blurred."""
    found = kmeans(x, kinds, seed=seed, restarts=1)
    u = (1 - BLUR) * found.centres.T + BLUR * x.mean(axis=0, dtype=np.float64)[:, None]
    v = (1 - BLUR) * np.eye(kinds)[found.labels] + BLUR / kinds
    return len(u) * u / u.sum(axis=0), v


class Factorisation:
    """What is to be factorised: X (N, d) with rows of the sum d, the Laplacian (N, N) and its weight lambda.

    Products are in the precision of X, sums in float64. threads: which do the work, once they are entered.
    """

    def __init__(
        self, x: NDArray[Any], laplacian: scipy.sparse.csr_matrix, weight: float, threads: Threads | None = None
    ) -> None:
        self.x, self.laplacian, self.weight, self.threads = x, laplacian, weight, threads or Threads()
        self.total, self.mass = x.shape[1], float(x.sum(dtype=np.float64))  # S, and the sum of all
        self.matrix = (self.total * scipy.sparse.identity(len(x)) + weight * laplacian).tocsr()

    def look(self, u: Floats, v: Floats) -> Factors:
        """Return the factors with a and b, and the objective."""
        parts, members = u.astype(self.x.dtype), v.astype(self.x.dtype)

        def some(rows: slice) -> tuple[NDArray[Any], NDArray[Any], float]:
            ratio = self.x[rows] / np.maximum(members[rows] @ parts.T, TINY)
            logs = self.x[rows] * np.log(np.maximum(ratio, TINY))
            return ratio.T @ members[rows], ratio @ parts, float(logs.sum(dtype=np.float64))

        a, b, fits = zip(*self.threads.map(some, _pieces(len(v), max(1, BLOCK // self.total))), strict=True)
        divergence = sum(fits) - self.mass + float(u.sum(axis=0) @ v.sum(axis=0))
        value = divergence + self.weight * roughness(v, self.laplacian)
        return Factors(u, v, u * np.sum(a, axis=0, dtype=np.float64), v * np.concatenate(b), value)

    def step(self, now: Factors) -> Factors:
        """Return the factors updated, with an objective that is not larger."""
        u = self.total * now.a / np.maximum(now.a.sum(axis=0), TINY)
        aim = np.maximum(self.smooth(now.b, now.v), LEAST)
        for share in SHARES:
            found = self.look(u, now.v + share * (aim - now.v))
            if found.value <= now.value:
                return found
        return now  # only rounding errors are left

    def smooth(self, b: Floats, first: Floats) -> Floats:
        """Return (S I + lambda L)^-1 b (N, K), starting from `first`."""

        def some(columns: slice) -> Floats:
            return solve(self.matrix, b[:, columns], first[:, columns])

        return np.concatenate(self.threads.map(some, _pieces(b.shape[1], COLUMNS)), axis=1)

    def settle(self, factors: Factors, iterations: int, tolerance: float) -> Factors:
        """Return the factors when the objective falls by no more than `tolerance` of itself, or after `iterations`."""
        for _ in range(iterations):
            before, factors = factors.value, self.step(factors)
            if before - factors.value <= tolerance * abs(before):
                break
        return factors


def roughness(v: Floats, laplacian: scipy.sparse.csr_matrix) -> float:
    """Return sum_k v_k^T L log v_k for V (N, K) > 0."""
    return float((v * (laplacian @ np.log(v))).sum())


def solve(matrix: scipy.sparse.csr_matrix, right: Floats, first: Floats) -> Floats:
    """Return M^-1 R for a positive definite M (N, N) and R (N, K): conjugate gradients, scaled by M's diagonal.

    It needs a few arrays of the size of R, whereas a factorised M may become dense. first: initial solution (N, K).
    """
    scale = 1 / matrix.diagonal()[:, None]
    found, rest = first.copy(), right - matrix @ first
    way = scale * rest
    size = (rest * way).sum(axis=0)
    limit = EXACT**2 * (right * scale * right).sum(axis=0) + ROUNDING**2 * size
    for _ in range(STEPS):
        if (size <= limit).all():
            break
        product = matrix @ way
        length = _quotient(size, (way * product).sum(axis=0))
        found += length * way
        rest -= length * product
        better = scale * rest
        size, before = (rest * better).sum(axis=0), size
        way = better + _quotient(size, before) * way
    return found


def _pieces(number: int, size: int) -> list[slice]:
    return [slice(first, first + size) for first in range(0, number, size)]


def _quotient(above: Floats, below: Floats) -> Floats:
    """Return above / below; 0 for a column that has nothing left."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


METHODS = (
    Method(
        "lpnmf",
        "locality preserving non-negative matrix factorisation (Cai et al. 2009)",
        lpnmf_method,
        {"lpnmf": Lpnmf},
        takes_features=lambda settings: settings.section(Lpnmf).on == "features",
        takes_transfer=False,
    ),
)
