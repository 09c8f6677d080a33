"""What the cells of a table start from: the pictures, f, and what methods learn beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from newkinds import api
from newkinds.datasets import named
from newkinds.images.imageset import ImageSet
from newkinds.presets import combine
from newkinds.progress import QUIET, Progress
from newkinds.randomness import generator
from newkinds_bench.cells import Cell, shared_settings
from newkinds_bench.folders import is_folder, open_part
from newkinds_bench.house import RESULTS, RUNS, WEIGHTS
from newkinds_bench.setups import OURS, SETUPS, Trained


@dataclass(frozen=True)
class Where:
    """Where a bench reads and writes, and what it notes there.

    data: the folder of the data sets; None: $NEWKINDS_DATA. note: words about the data that every result keeps.
    """

    results: Path = RESULTS
    runs: Path = RUNS
    weights: Path = WEIGHTS
    data: Path | None = None
    note: str = ""


@lru_cache(maxsize=32)
def opened(source: str, data: Path | None, each: int | None = None) -> ImageSet:
    """Return a set of pictures by name, opened once in a process; each: so many of each kind, drawn at random."""
    if each is None and is_folder(source):
        return open_part(source, data)
    if each is None:
        images = named(source, data=data)
        assert images is not None
        return images
    images = opened(source, data)
    order = generator(0, f"each of {source}").permutation(len(images))
    assert images.labels is not None
    mine = [order[images.labels[order] == label][:each] for label in range(len(images.classes))]
    return images.select(np.sort(np.concatenate(mine)))


def f_of(cell: Cell, where: Where, progress: Progress) -> Path | None:
    """Return the file of f that a cell starts from: one that is kept, or trained here first, with the seed 0.

    None: f is the network that was named, trained elsewhere.
    """
    setup = SETUPS[cell.setup]
    if cell.network is not None or setup.network is not None:
        return None
    but_probes = cell.taught == setup.but_probes
    f = setup.f_but_probes if but_probes else setup.f
    if cell.preset == OURS and f is not None:
        return trained(f, where, progress, cell.each)
    name = "-".join(["f", cell.setup, cell.preset, *(["but-probes"] if but_probes else [])])
    out = where.runs / _cut(name, cell.each)
    known = opened(cell.taught, where.data, cell.each)
    return api.pretrain(known, out=out, settings=shared_settings(cell), data=where.data, progress=progress)


def trained(f: Trained, where: Where, progress: Progress, each: int | None = None) -> Path:
    """Return the file of an f of ours, trained first where it is not kept; each: on so many pictures of each kind."""
    file = where.weights / f"{f.weights}.safetensors"
    if file.exists():
        return file
    return api.pretrain(
        opened(f.known, where.data, each),
        out=where.runs / _cut(f.weights, each),
        settings=combine(None, f.recipe),
        weights=None if f.after is None else trained(f.after, where, progress, each),
        data=where.data,
        progress=progress,
    )


def _cut(name: str, each: int | None) -> str:
    """Return the name of what is learnt from the known part, which differs where only some pictures are taken."""
    return f"{name}-{each}-each" if each else name


def lesson_of(cell: Cell, lesson: str, where: Where, progress: Progress) -> Path:
    """Return the file of what a method learns from the known kinds beside f, learnt here first, with the seed 0."""
    return api.prepare(
        opened(cell.known, where.data, cell.each),
        lesson,
        out=where.runs / _cut(f"{lesson}-{cell.setup}-{cell.preset}", cell.each),
        weights=f_of(cell, where, QUIET),
        settings=shared_settings(cell),
        data=where.data,
        progress=progress,
    )
