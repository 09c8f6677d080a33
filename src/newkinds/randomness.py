"""Randomness as a pure function of (seed, purpose, indices): no global generator, no generator state to save.

A run that is killed and restarted asks for the same numbers by the same names, and gets them.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def key(seed: int, purpose: str, *indices: int) -> int:
    """Return a 64-bit key for (seed, purpose, indices)."""
    text = "\x1f".join([str(seed), purpose, *map(str, indices)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Return a fresh numpy generator that depends on its arguments only."""
    return np.random.Generator(np.random.Philox(key=key(seed, purpose, *indices)))


def uniforms(
    seed: int, purpose: str, epoch: int, items: NDArray[np.int64], columns: int, view: int = 0
) -> NDArray[np.float64]:
    """Draw numbers in [0, 1) for each item, independent of the batch that it is in.

    Counter-based (the finaliser of splitmix64), so that row i depends on (seed, purpose, epoch, view, items[i]) only.

    Returns (len(items), columns) float64.
    """
    base = np.uint64(key(seed, purpose, epoch, view))
    with np.errstate(over="ignore"):
        rows = _mix(base + _STEP * (np.asarray(items).astype(np.uint64) + np.uint64(1)))
        cells = _mix(rows[:, None] + _STEP * (np.arange(columns, dtype=np.uint64) + np.uint64(1)))
    return (cells >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


@contextmanager
def seeded_torch(seed: int, purpose: str, *indices: int) -> Iterator[None]:
    """Make torch's initialisers draw from (seed, purpose, indices); torch's global generator is left untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key(seed, purpose, *indices) % 2**63)
        yield


@contextmanager
def one_thread(libraries: ThreadpoolController | None = None) -> Iterator[None]:
    """Run on one thread, so that sums are the same to the bit on any number of cores.

    libraries: the thread pools to limit; None takes all of them.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with (libraries or thread_pools()).limit(limits=1):
            yield
    finally:
        torch.set_num_threads(threads)


def thread_pools() -> ThreadpoolController:
    """Return the thread pools of all libraries: looked for, which takes milliseconds, when modules were imported."""
    return _thread_pools(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    return ThreadpoolController()
