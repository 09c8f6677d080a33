"""Runs side by side: all are done, in order, whatever spreads them."""

from __future__ import annotations

import math

import pytest
import torch

from newkinds.errors import UsageError
from newkinds.parallel.jobs import check_spread, spread
from newkinds.progress import QUIET


def done(jobs: int, backend: str) -> list[int]:
    work = [(number,) for number in (9, 4, 16, 1)]
    return list(spread(math.isqrt, work, title="roots", jobs=jobs, backend=backend, progress=QUIET))


@pytest.mark.parametrize(("jobs", "backend"), [(1, "loky"), (2, "loky"), (2, "threading"), (10**8, "threading")])
def test_results_come_in_the_order_of_the_work(jobs: int, backend: str) -> None:
    threads = torch.get_num_threads()
    assert done(jobs, backend) == [3, 2, 4, 1]
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_clusters(backend: str, package: str) -> None:
    pytest.importorskip(package)
    assert done(2, backend) == [3, 2, 4, 1]


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_backend_that_is_not_installed_is_named(backend: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("newkinds.parallel.jobs.import_module", missing)
    with pytest.raises(UsageError) as caught:
        done(2, backend)
    assert f"pip install {package}" in str(caught.value.hint)


def test_bad_numbers_and_names() -> None:
    with pytest.raises(UsageError, match="jobs=0"):
        check_spread(0, "loky")
    with pytest.raises(UsageError, match="slurm"):
        check_spread(1, "slurm")
