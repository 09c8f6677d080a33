"""LPNMF: the objective by hand and in loops, updates that never raise it, the graph, the scale, odd data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from sklearn.datasets import make_blobs
from striped import check_method

from newkinds.clustering.threads import Threads
from newkinds.configure import Settings
from newkinds.equations import clustering_accuracy
from newkinds.errors import DataError, UsageError
from newkinds.methods import lpnmf as module
from newkinds.methods.lpnmf import Factorisation, Lpnmf, laplacian, lpnmf, lpnmf_method, roughness, scaled, solve, start

PATH = scipy.sparse.csr_matrix(np.array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]]))  # the Laplacian of 0 - 1 - 2
QUICK = Lpnmf(restarts=2, first_iterations=3, max_iterations=30)


def blobs(n: int = 60, kinds: int = 3, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[Any]]:
    points, labels = make_blobs(n, 6, centers=kinds, cluster_std=1.0, random_state=seed)
    return np.maximum(points + 5, 0).astype(np.float32), labels


def random_problem(
    seed: int, n: int = 9, d: int = 4, kinds: int = 3, weight: float = 2.0
) -> tuple[Factorisation, Any, Any]:
    """Return a problem with some zeros, and factors that are no start of ours but keep the sum of U."""
    random = np.random.default_rng(seed)
    x = random.exponential(size=(n, d)) * (random.random((n, d)) < 0.8)
    x[:, 0] += 0.1
    x = scaled(x)
    u = random.exponential(size=(x.shape[1], kinds))
    v = random.exponential(size=(n, kinds))
    return Factorisation(x, laplacian(x, 2), weight), x.shape[1] * u / u.sum(axis=0), v


# The objective


def test_roughness_by_hand() -> None:
    v = np.array([[1.0, 2.0], [math.e, 2.0], [math.e, 2.0]])
    # 0 - 1 differs by e - 1 and, in logarithms, by 1; nothing else does.
    assert roughness(v, PATH) == pytest.approx(math.e - 1)


def test_objective_by_hand() -> None:
    # Y is 2 everywhere, X is 1, 3 / 2, 2 / 4, 0, and V is the same for all but the last picture.
    x = np.array([[1.0, 3.0], [2.0, 2.0], [4.0, 0.0]])
    problem = Factorisation(x, PATH, weight=10.0)
    found = problem.look(u=np.ones((2, 1)) * 2, v=np.array([[1.0], [1.0], [1.0]]))
    assert found.value == pytest.approx(math.log(1 / 2) + 3 * math.log(3 / 2) + 4 * math.log(2))
    assert found.a == pytest.approx(np.array([[7.0], [5.0]]))  # a single part has all that there is
    assert found.b == pytest.approx(np.array([[4.0], [4.0], [4.0]]))
    found = problem.look(u=np.ones((2, 1)) * 2, v=np.array([[1.0], [1.0], [2.0]]))
    data = math.log(1 / 2) + 3 * math.log(3 / 2) + (4 * math.log(1) - 4 + 8)
    assert found.value == pytest.approx(data + 10 * (2 - 1) * math.log(2))


def plain_look(problem: Factorisation, u: NDArray[Any], v: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], float]:
    """a, b and the objective again, in slow loops over entries and pairs."""
    (n, d), kinds, x = problem.x.shape, u.shape[1], problem.x
    a, b, value = np.zeros((d, kinds)), np.zeros((n, kinds)), 0.0
    for i in range(n):
        for j in range(d):
            y = sum(v[i, k] * u[j, k] for k in range(kinds))
            value += y - x[i, j] + (x[i, j] * math.log(x[i, j] / y) if x[i, j] > 0 else 0)
            for k in range(kinds):
                share = x[i, j] * v[i, k] * u[j, k] / y
                a[j, k] += share
                b[i, k] += share
    weights = -problem.laplacian.toarray()
    for i in range(n):
        for j in range(i):
            for k in range(kinds):
                apart = (v[i, k] - v[j, k]) * (math.log(v[i, k]) - math.log(v[j, k]))
                value += problem.weight * weights[i, j] * apart
    return a, b, value


@pytest.mark.parametrize("block", [1, 9, 2**19])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_look_is_what_plain_loops_give(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    problem, u, v = random_problem(seed)
    found = problem.look(u, v)
    a, b, value = plain_look(problem, u, v)
    assert found.a == pytest.approx(a)
    assert found.b == pytest.approx(b)
    assert found.value == pytest.approx(value)


# Updates


def test_without_the_graph_a_step_is_lee_and_seungs() -> None:
    problem, u, v = random_problem(0, weight=0.0)
    found = problem.step(problem.look(u, v))
    x, y = problem.x, v @ u.T
    # Their updates, each from the same Y. U's is brought to the old sums.
    lee_u = u * ((x / y).T @ v) / v.sum(axis=0)
    lee_v = v * ((x / y) @ u) / u.sum(axis=0)
    assert found.v == pytest.approx(lee_v, rel=1e-5)
    assert found.u == pytest.approx(lee_u * u.sum(axis=0) / lee_u.sum(axis=0))


def test_with_the_graph_v_solves_the_published_equation() -> None:
    problem, u, v = random_problem(3, weight=0.5)
    now = problem.look(u, v)
    found = problem.step(now)
    for k in range(3):
        matrix = u[:, k].sum() * np.eye(9) + 0.5 * problem.laplacian.toarray()
        assert found.v[:, k] == pytest.approx(np.linalg.solve(matrix, now.b[:, k]), rel=1e-4)


def factors(elements: st.SearchStrategy[float], rows: int, columns: int) -> st.SearchStrategy[NDArray[np.float64]]:
    return hnp.arrays(np.float64, (rows, columns), elements=elements)


@given(st.data(), st.integers(2, 9), st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.0, 0.1, 1, 10, 100, 1e4]))
@settings(max_examples=40)
def test_the_objective_never_rises(data: st.DataObject, n: int, d: int, kinds: int, weight: float) -> None:
    x = data.draw(factors(st.sampled_from([0, 0, 1e-3, 0.5, 1, 2, 30]), n, d))
    x[0] += 1
    u = data.draw(factors(st.floats(1e-3, 1), x.shape[1], kinds))
    v = data.draw(factors(st.floats(1e-3, 10), n, kinds))
    x = scaled(x)
    problem = Factorisation(x, laplacian(x, data.draw(st.integers(1, 3))), weight)
    now = problem.look(problem.total * u / u.sum(axis=0), v)
    for _ in range(6):
        before, now = now, problem.step(now)
        assert now.value <= before.value
        assert -1e-9 * problem.mass <= now.value
        assert now.u.sum(axis=0) == pytest.approx(np.full(kinds, problem.total))
        assert (now.u >= 0).all()
        assert (now.v > 0).all()


def test_a_step_of_v_that_would_raise_the_objective_is_shortened() -> None:
    raised, fell = 0, 0
    for seed in range(6):
        problem, u, v = random_problem(seed, n=6, weight=20.0)
        now = problem.look(u, v)
        for _ in range(15):
            full = problem.look(problem.total * now.a / now.a.sum(axis=0), problem.smooth(now.b, now.v))
            before, now = now, problem.step(now)
            if full.value > before.value:
                raised += 1
                fell += now.value < before.value
    assert raised > 5
    assert fell == raised


def test_iterations_end_by_tolerance_or_number() -> None:
    problem, u, v = random_problem(0, weight=0.1)
    first = problem.look(u, v)
    one, two = problem.settle(first, 1, 0.0), problem.settle(first, 2, 0.0)
    assert one.value == problem.step(first).value
    assert two.value < one.value
    ended = problem.settle(first, 10_000, 1e-3)
    assert 0 <= ended.value - problem.step(ended).value <= 1.1e-3 * ended.value
    assert problem.settle(first, 10_000, 1e-5).value < ended.value


@given(st.integers(0, 100), st.integers(1, 12), st.integers(1, 20), st.sampled_from([0.0, 1.0, 1e3, 1e6]))
@settings(max_examples=40)
def test_solve(seed: int, n: int, columns: int, weight: float) -> None:
    random = np.random.default_rng(seed)
    table = random.random((n, n)) < 0.3
    table = np.triu(table, 1) | np.triu(table, 1).T
    matrix = 3.0 * np.eye(n) + weight * (np.diag(table.sum(axis=1)) - table)
    right = random.exponential(size=(n, columns)) * 10.0 ** random.integers(-20, 3, columns)
    right[:, 0] = 0
    found = solve(scipy.sparse.csr_matrix(matrix), right, right / 3)
    expected = np.linalg.solve(matrix, right)
    assert found == pytest.approx(expected, rel=1e-3, abs=0)


def test_solve_begins_where_it_is_told_to() -> None:
    matrix = scipy.sparse.csr_matrix(2 * np.eye(3) + 5 * PATH.toarray())
    answer = np.array([[1.0], [2.0], [3.0]])
    assert (solve(matrix, matrix @ answer, answer) == answer).all()
    assert abs(solve(matrix, np.zeros((3, 1)), answer)).max() < 1e-5


# The graph


def test_graph_by_hand() -> None:
    # On a line at 0, 1, 3 and 10: the nearest of each is 1, 0, 1 and 3.
    found = laplacian(np.array([[0.0], [1.0], [3.0], [10.0]]), 1).toarray()
    assert found.tolist() == [[1, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1]]


@pytest.mark.parametrize("points", [np.ones((6, 2)), np.arange(12.0).reshape(6, 2)])
def test_graph_of_few_or_equal_points(points: NDArray[Any]) -> None:
    for neighbours in (1, 3, 5, 50):
        found = laplacian(points, neighbours).toarray()
        assert (found == found.T).all()
        assert (found.sum(axis=1) == 0).all()
        assert (found.diagonal() >= min(neighbours, 5)).all()
        assert set((found - np.diag(found.diagonal())).ravel()) <= {0, -1}


# Data and scale


def test_rows_are_scaled_and_features_that_are_0_throughout_left_out() -> None:
    x = scaled(np.array([[1.0, 0, 3, 0], [0, 0, 0, 0], [2, 0, 0, 0]]))
    assert x.tolist() == [[0.5, 1.5], [0, 0], [2, 0]]


def test_negative_features_are_refused() -> None:
    with pytest.raises(DataError, match=r"least of all features is -0\.25.*lsc or kmeans"):
        lpnmf(np.array([[1.0, 2.0], [3.0, -0.25]]), 2, QUICK, seed=0)


def test_bad_points_are_refused() -> None:
    with pytest.raises(DataError, match="features of all 4 pictures are 0"):
        lpnmf(np.zeros((4, 3)), 2, QUICK, seed=0)
    with pytest.raises(UsageError, match="1 of 3 rows are not finite"):
        lpnmf(np.array([[1.0], [math.inf], [2.0]]), 2, QUICK, seed=0)
    with pytest.raises(UsageError, match=r"n_clusters=11 .* n_samples=10"):
        lpnmf(np.ones((10, 2)), 11, QUICK, seed=0)


def test_scale_of_the_data_does_not_matter() -> None:
    points, _ = blobs()
    points = points.astype(np.float64)
    one, other = (lpnmf(factor * points, 3, QUICK, seed=0)[1] for factor in (1.0, 1024.0))
    assert one == pytest.approx(other, rel=1e-6)


def test_start_is_k_means_blurred() -> None:
    points, truth = blobs()
    x = scaled(points)
    u, v = start(x, 3, seed=0)
    assert u.sum(axis=0) == pytest.approx(np.full(3, 6))
    assert (u > 0).all()
    assert v.sum(axis=1) == pytest.approx(np.ones(60))
    assert set(v.round(6).ravel()) == {0.866667, 0.066667}
    assert clustering_accuracy(v.argmax(axis=1), truth) == 1.0


# The whole


def test_blobs_are_found() -> None:
    points, truth = blobs(90, kinds=4, seed=3)
    labels, memberships = lpnmf(points, 4, QUICK, seed=0)
    assert clustering_accuracy(labels, truth) == 1.0
    assert labels.dtype == np.int64
    assert memberships.shape == (90, 4)
    assert memberships.sum(axis=1) == pytest.approx(np.ones(90), abs=0.2)


def test_neighbours_become_alike_the_more_the_larger_the_weight() -> None:
    points = np.random.default_rng(0).exponential(size=(60, 5))
    graph = laplacian(scaled(points), 5)
    rough = [
        roughness(lpnmf(points, 3, QUICK.model_copy(update={"weight": weight}), seed=0)[1], graph)
        for weight in (0, 1, 100)
    ]
    assert rough[0] > 3 * rough[1] > 9 * rough[2]


def test_the_best_restart_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[float] = []
    settle = Factorisation.settle

    def watched(self: Factorisation, *given: Any) -> Any:
        ended.append(given[0].value)
        found = settle(self, *given)
        ended.append(found.value)
        return found

    monkeypatch.setattr(Factorisation, "settle", watched)
    points = np.random.default_rng(0).exponential(size=(40, 5)).astype(np.float32)
    lpnmf(points, 6, Lpnmf(restarts=4, first_iterations=2, max_iterations=3), seed=0)
    assert len(ended) == 10
    assert len(set(ended[1:8:2])) == 4
    assert ended[8] == min(ended[1:8:2])


@pytest.mark.parametrize(("n", "kinds"), [(2, 2), (3, 3), (7, 6)])
def test_few_or_equal_pictures_some_of_them_all_0(n: int, kinds: int) -> None:
    points = np.random.default_rng(0).exponential(size=(n, 4)).astype(np.float32)
    points[-1] = 0
    for some in (points, np.repeat(points[:1], n, axis=0)):
        labels, memberships = lpnmf(some, kinds, QUICK, seed=0)
        assert set(labels) <= set(range(kinds))
        assert memberships.shape == (n, kinds)
        assert np.isfinite(memberships).all()


def test_same_seed_same_result_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 60)
    monkeypatch.setattr(module, "COLUMNS", 2)
    points = np.random.default_rng(0).exponential(size=(50, 6)).astype(np.float32)
    one, other = (lpnmf(points, 5, QUICK, seed) for seed in (0, 1))

    def two(threads: Threads) -> None:
        init(threads)
        threads.number = 2

    init = Threads.__init__
    monkeypatch.setattr(Threads, "__init__", two)
    same = lpnmf(points, 5, QUICK, 0)
    assert one[0].tobytes() == same[0].tobytes()
    assert one[1].tobytes() == same[1].tobytes()
    assert one[1].tobytes() != other[1].tobytes()


def test_float32_is_near_to_float64() -> None:
    points, _ = blobs()
    x = scaled(points)
    u, v = start(x, 3, seed=0)
    graph = laplacian(x, 5)
    problems = [Factorisation(x.astype(dtype), graph, 100.0) for dtype in (np.float32, np.float64)]
    single, double = (problem.settle(problem.look(u, v), 20, 0.0) for problem in problems)
    assert single.value == pytest.approx(double.value, rel=1e-4)
    assert single.v == pytest.approx(double.v, rel=1e-3, abs=1e-6)
    assert single.u == pytest.approx(double.u, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("on", ["features", "pixels"])
def test_as_a_method(on: str) -> None:
    check_method(lpnmf_method, Settings(method="lpnmf", lpnmf={**QUICK.model_dump(), "on": on}))
