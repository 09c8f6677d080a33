"""Parallel runs by joblib: on this machine, or on a cluster with its dask and ray backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, TypeVar

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from newkinds.errors import RunError, UsageError, check_whole, told, unknown_name
from newkinds.progress import Progress

RESTARTS = 2  # of what killed worker processes were at
BACKENDS = ("loky", "threading", "dask", "ray")

Result = TypeVar("Result")


def check_spread(jobs: int, backend: str) -> None:
    """Refuse fewer than 1 job and an unknown backend."""
    check_whole("jobs", jobs, 1, "Leave it out for 1.")
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
    jobs = max(1, min(jobs, len(work)))
    with progress.step(title, len(work)) as step:
        if jobs == 1 and backend == "loky":
            for one in work:
                yield call(*one)
                step.advance()
            return
        threads = max(1, torch.get_num_threads() // jobs)
        with _opened(backend):
            done = deaths = 0
            while done < len(work):
                try:
                    for result in _results(threads, call, work[done:], jobs, backend):
                        done += 1
                        yield result
                        step.advance()
                except TerminatedWorkerError as error:  # noqa: PERF203
                    deaths += 1
                    if deaths > RESTARTS:
                        raise _died(title, jobs, deaths, error) from error
                    progress.warn("A worker process was killed; what it was at is started again.")


def _results(
    threads: int, call: Callable[..., Result], work: Sequence[tuple[Any, ...]], jobs: int, backend: str
) -> Iterator[Result]:
    calls = (delayed(_with_threads)(threads, call, *one) for one in work)
    how = "list" if backend == "ray" else "generator"  # ray supports nothing else
    yield from Parallel(n_jobs=jobs, return_as=how)(calls)


def _died(title: str, jobs: int, deaths: int, error: Exception) -> RunError:
    return RunError(
        f"{title}: worker processes were killed {deaths} times, the last one so: {told(error)}.",
        hint=f"Often memory does not suffice for {jobs} at once: lower --jobs. What is done is kept; the same line "
        "again continues.",
    )


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
