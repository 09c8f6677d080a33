"""Parallel runs by joblib: on this machine, or on a cluster with its dask and ray backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, TypeVar

import torch
from joblib import Parallel, delayed, parallel_config

from newkinds.errors import UsageError, unknown_name
from newkinds.progress import Progress

BACKENDS = ("loky", "threading", "dask", "ray")

Result = TypeVar("Result")


def check_spread(jobs: int, backend: str) -> None:
    """Refuse fewer than 1 job and an unknown backend."""
    if jobs < 1:
        raise UsageError(f"jobs={jobs} should be at least 1.", hint="Leave it out for 1.")
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)


def spread(
    call: Callable[..., Result],
    work: Sequence[tuple[Any, ...]],
    *,
    title: str,
    jobs: int = 1,
    backend: str = "loky",
    progress: Progress,
) -> Iterator[Result]:
    """Yield call(*one) for each item of `work`, in order, running up to `jobs` at once; they share the threads."""
    with progress.step(title, len(work)) as step:
        if jobs == 1 and backend == "loky":
            for one in work:
                yield call(*one)
                step.advance()
            return
        threads = max(1, torch.get_num_threads() // jobs)
        with _opened(backend):
            calls = (delayed(_with_threads)(threads, call, *one) for one in work)
            how = "list" if backend == "ray" else "generator"  # ray supports nothing else
            for result in Parallel(n_jobs=jobs, return_as=how)(calls):
                yield result
                step.advance()


def _with_threads(threads: int, call: Callable[..., Result], *arguments: Any) -> Result:
    torch.set_num_threads(threads)
    return call(*arguments)


@contextmanager
def _opened(name: str) -> Iterator[None]:
    """Set joblib's backend. dask: the current client, else one for DASK_SCHEDULER_ADDRESS or for this machine."""
    with ExitStack() as stack:
        try:
            if name == "dask":
                client: Any = import_module("distributed").Client
                try:
                    client.current()
                except ValueError:
                    stack.enter_context(client(processes=True))
            if name == "ray":
                ray: Any = import_module("ray.util.joblib")
                ray.register_ray()  # connects to RAY_ADDRESS, or starts on this machine
        except ImportError:
            package = "distributed" if name == "dask" else name
            raise UsageError(f"The backend {name!r} is not installed.", hint=f"pip install {package}.") from None
        stack.enter_context(parallel_config(backend=name))
        yield
