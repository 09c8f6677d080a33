"""Mixed heaps for methods that only tell new kinds apart: they get the pictures that are probably new."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from newkinds.assignment import Assignment, known_kind
from newkinds.clustering.kmeans import nearest
from newkinds.clustering.neighbours import directions_float32
from newkinds.equations import assignment
from newkinds.features import apply, model_outputs
from newkinds.methods.base import Method, Problem, Solution

SHARPER = 8  # the power of Eq. 1, which is nearly flat among many kinds
PROBABLY = 0.5  # novelty from which on a picture is probably new


def solve(method: Method, problem: Problem) -> Solution:
    """Run a method on a problem; in a mixed heap, one that does not take known kinds sorts what is probably new."""
    if problem.novelty is None or method.takes_known:
        return method.run(problem)
    rows = probably_new(problem.novelty, problem.kinds)
    truth = None if problem.truth is None else problem.truth[rows]
    inner = replace(
        problem, unsorted=problem.unsorted.select(rows), features=problem.features[rows], truth=truth, novelty=None
    )
    found = method.run(inner)
    new = np.zeros(len(problem.unsorted), dtype=np.int64)  # the new kind that fits best
    features, embedding = problem.features, problem.features
    if found.model is not None:
        said = model_outputs(found.model, problem.unsorted)
        new, features, embedding = said.log_p.argmax(axis=1), said.features, said.embedding
    new[rows] = found.assignment.labels
    known = nearest_known(problem, found)
    p = np.zeros((len(new), len(problem.columns)), dtype=np.float32)
    every = np.arange(len(new))
    share = np.clip(problem.novelty, 0.01, 0.99)
    share[rows] = np.maximum(share[rows], 0.51)  # those that were sorted stay where they were put
    p[every, new], p[every, problem.kinds + known] = share, 1 - share
    return replace(found, assignment=problem.assign(p), embedding=embedding, features=features)


def probably_new(novelty: NDArray[np.float32], kinds: int) -> NDArray[np.int64]:
    """Return which pictures are probably new, in order; at least as many of the newest as there are new kinds."""
    enough = max(kinds, int((novelty >= PROBABLY).sum()))
    return np.sort(np.argsort(-novelty, kind="stable")[:enough])


def named_by_nearest(problem: Problem, known: NDArray[np.float32]) -> Assignment:
    """Return an answer of known kinds alone: by the means of their features (L, d), compared by direction.

    Probabilities are Eq. 1's, sharpened: they order kinds and pictures, and are not calibrated.
    """
    means = _means(problem, known)
    turned = directions_float32(problem.features)
    p = assignment(torch.from_numpy(turned), torch.from_numpy(means), alpha=1.0) ** SHARPER
    columns = tuple(map(known_kind, problem.known.classes))
    source = {"method": problem.settings.method, "seed": problem.settings.seed, "nothing_new": True}
    shares = (p / p.sum(dim=1, keepdim=True)).numpy()
    return Assignment(problem.unsorted.names, columns, shares.astype(np.float32), source)


def _means(problem: Problem, known: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the directions of the means of the known kinds' directions, float32 (L, d)."""
    turned, labels = directions_float32(known), problem.known.labels
    means = [turned[labels == kind].mean(axis=0) for kind in range(len(problem.known.classes))]
    return directions_float32(np.stack(means))


def nearest_known(problem: Problem, found: Solution) -> NDArray[np.int64]:
    """Return the known kind whose mean is nearest to each unsorted picture by direction, int64 (N,)."""
    network = problem.network if found.model is None else found.model.network
    unsorted = problem.features if found.model is None else apply(network, problem.unsorted)
    return nearest(directions_float32(unsorted), _means(problem, apply(network, problem.known)))
