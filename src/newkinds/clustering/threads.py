"""Work spread over threads so that the result does not depend on their number.

A library that splits a matrix product over threads may add up in another order with another number of them. Here work
is cut into pieces that depend on its size alone, each piece is done by one thread, and the pieces are spread over as
many threads as torch was told to use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

import torch

from newkinds.randomness import one_thread, thread_pools

T = TypeVar("T")
R = TypeVar("R")

_here = threading.local()


class Threads:
    """A pool of as many threads as torch was told to use, each single-threaded itself, within the context.

    It may be re-entered after it was left; the number of threads stays as it was at the beginning.
    """

    def __init__(self) -> None:
        self.number = torch.get_num_threads()
        self.libraries = thread_pools()
        self.pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Threads:
        """Start the threads; the calling one becomes single-threaded, too."""
        self.alone = one_thread(self.libraries)
        self.alone.__enter__()
        if self.number > 1:
            self.pool = ThreadPoolExecutor(self.number, initializer=_start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None
        self.alone.__exit__(kind, error, trace)

    def map(self, work: Callable[[T], R], pieces: Sequence[T]) -> list[R]:
        """Return `work(piece)` for every piece, in order. Called within a piece, it works sequentially."""
        if self.pool is None or len(pieces) == 1 or getattr(_here, "is_piece", False):
            return [work(piece) for piece in pieces]
        return list(self.pool.map(work, pieces))


def _start() -> None:
    _here.is_piece = True
    torch.set_num_threads(1)
