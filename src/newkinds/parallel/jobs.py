"""Many runs at once, by joblib: on this machine, or on a cluster by its dask and ray backends."""

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
    """Refuse a number of jobs below 1 and a backend that there is not."""
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
    """Yield call(*one) for each of the work, in its order; so many at once as `jobs`, which share the threads."""
    with progress.step(title, len(work)) as step:
        if jobs == 1 and backend == "loky":
            for one in work:
                yield call(*one)
                step.advance()
            return
        threads = max(1, torch.get_num_threads() // jobs)
        with _opened(backend):
            calls = (delayed(_with_threads)(threads, call, *one) for one in work)
            how = "list" if backend == "ray" else "generator"  # ray's has no other way
            for result in Parallel(n_jobs=jobs, return_as=how)(calls):
                yield result
                step.advance()


def _with_threads(threads: int, call: Callable[..., Result], *arguments: Any) -> Result:
    torch.set_num_threads(threads)
    return call(*arguments)


@contextmanager
def _opened(name: str) -> Iterator[None]:
    """Let joblib use a backend. dask: the client at hand, else that of DASK_SCHEDULER_ADDRESS or of this machine."""
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
                ray.register_ray()  # joins RAY_ADDRESS, or starts on this machine
        except ImportError:
            package = "distributed" if name == "dask" else name
            raise UsageError(f"The backend {name!r} is not installed.", hint=f"pip install {package}.") from None
        stack.enter_context(parallel_config(backend=name))
        yield
