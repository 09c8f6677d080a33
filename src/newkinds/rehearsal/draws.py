"""Which known kinds a rehearsal hides, and which of their pictures play the heap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from newkinds.randomness import generator

FEWEST_HIDDEN = 2  # kinds: with one, there is nothing to sort
FEWEST_EACH = 3  # pictures of a kind, or it is not hidden: of fewer, hardly any can be right or wrong
AGAIN = 20  # times that kinds are drawn again for a rehearsal that there was already
SPARED = 2  # kinds that stay known, where the others teach the transfer
AS_LARGE = 0.5**0.5  # of the mean size of hidden kinds: what is larger counts as equally large


@dataclass(frozen=True, eq=False)
class Draw:
    """A rehearsal's heap. hidden: the known kinds in it, by number; items: its pictures among the known, int64 (n,)."""

    number: int
    hidden: tuple[int, ...]
    items: NDArray[np.int64]


def draw_heaps(
    labels: NDArray[np.int64],
    unseen: Sequence[int],
    *,
    number: int,
    kinds: int,
    pictures: int,
    most: int,
    seed: int,
    shared: bool,
    groups: Sequence[str] | None = None,
) -> list[Draw]:
    """Return heaps of hidden known kinds, as many and as large as those of the real heap, as far as there are any.

    labels: of the known pictures, int64 (L,). unseen: the kinds that f has not learnt from. number: of heaps. kinds,
    pictures: of the real heap. most: pictures in one heap. shared: whether the kinds that are not hidden teach
    something, so that at least half of all should stay. groups: of all kinds, by number; a heap is then of one group.
    Fewer heaps, or none, where there are too few kinds. How many kinds a rehearsal has, and how large they are, need
    only be about right, so both go in steps: a run with another number of kinds then mostly finds its rehearsals in the
    cache.
    """
    sizes = np.bincount(labels)
    fit = [kind for kind in unseen if sizes[kind] >= FEWEST_EACH]
    parts = [fit]
    if groups is not None:
        parts = [[kind for kind in fit if groups[kind] == group] for group in dict.fromkeys(groups)]
        parts = [part for part in parts if len(part) > FEWEST_HIDDEN]
    heaps: list[Draw] = []
    for one in range(number if parts else 0):
        random = generator(seed, "rehearsal", one)
        part = parts[one % len(parts)]
        size = _how_many(len(part), kinds, shared, groups is not None)
        hidden = np.sort(random.permutation(part)[:size])
        for _ in range(AGAIN):  # with few kinds, the same ones may be drawn twice
            if groups is not None or tuple(hidden.tolist()) not in {heap.hidden for heap in heaps}:
                break
            hidden = np.sort(random.permutation(part)[:size])
        if len(hidden) >= FEWEST_HIDDEN:
            heaps.append(Draw(one, tuple(hidden.tolist()), _pictures(labels, hidden, pictures / kinds, most, random)))
    return heaps


def _how_many(there: int, kinds: int, shared: bool, together: bool) -> int:
    """Return how many kinds to hide: the power of two that is nearest to the heap's number by its ratio.

    At most half of those that there are where the others teach; otherwise at most four fifths, so that heaps differ.
    """
    if together:  # a group is hidden whole
        return there
    most = there // 2 if shared else -(-4 * there // 5)
    least = min(FEWEST_HIDDEN, there - SPARED if shared else there)
    power = min(round(math.log2(max(2, kinds))), int(math.log2(max(1, most))))
    return max(1 << power, least)


def _pictures(
    labels: NDArray[np.int64], hidden: NDArray[np.int64], typical: float, most: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Return pictures of the hidden kinds, thinned where they have clearly more than is typical of the heap's kinds."""
    members = [np.flatnonzero(labels == kind) for kind in hidden]
    sizes = np.array([len(one) for one in members])
    share = min(_share(typical / sizes.mean()), most / sizes.sum())
    kept = np.clip(np.rint(sizes * share).astype(np.int64), np.minimum(sizes, FEWEST_EACH), sizes)
    drawn = [random.permutation(one)[:n] for one, n in zip(members, kept, strict=True)]
    return np.sort(np.concatenate(drawn))


def _share(ratio: float) -> float:
    """Return the share of their pictures that hidden kinds keep, in steps of the square root of two.

    ratio: of the size of the heap's kinds to theirs.
    """
    return 1.0 if ratio > AS_LARGE else float(2 ** (round(2 * math.log2(ratio)) / 2))
