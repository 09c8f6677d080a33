"""Where the constants of the number of kinds by rehearsals are from: how often intervals hold on heaps for tuning.

The heaps are draws of groceries' and Tiny-ImageNet's kinds from 100 on, OmniGlot's probe alphabets, each and random
halves of its characters counted by the others, and halves of CIFAR-100's probe classes; all of them also thinned, as in
the study `kinds_counted`, which reports none of them; its features are used. What speaks for each number is kept in
benchmarks/results/studies/kinds_tuning.json, so that other constants can be tried in seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newkinds.count.rehearsed import Rehearsal, gather
from newkinds.images.imageset import group_of
from newkinds.settings import Count as CountSettings
from newkinds_bench.starts import opened
from studies import kinds_counted
from studies.kinds_counted import SIZES, TUNING, Cases, counted, features, thinned, to_plain
from studies.tools.clustering import Rows

NAME = "kinds_tuning"
DRAWS = 6  # of photographs' kinds
HALVES, SPLITS = 2, 4  # random halves of an alphabet's characters; of CIFAR-100's probe classes


def main() -> None:
    """Gather what is missing, and say how often intervals hold with the constants as they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    parser.add_argument("--runs", type=Path, default=Path("runs/studies/kinds_counted"), help="where features are kept")
    parser.add_argument("--only", choices=kinds_counted.TITLES, help="one of the data sets")
    parser.add_argument("--show", action="store_true", help="gather nothing")
    chosen = parser.parse_args()
    rows = Rows(NAME, {"what": "what speaks for each number of kinds, on heaps for tuning"})
    for about, make in () if chosen.show else cases(chosen.data, chosen.runs, chosen.only):
        if not rows.has(**about):
            rows.add({**about, "evidence": to_plain(gather(make()))})
            print(about, flush=True)
    show(rows.rows)


def cases(data: Path | None, runs: Path, only: str | None) -> Cases:
    """Yield what each case is, and a function that makes its rehearsals. only: of one of the data sets."""
    if only in (None, "omniglot"):
        yield from alphabets(data, runs)
    if only in (None, "cifar100"):
        yield from classes(data, runs)
    for name in kinds_counted.PHOTOGRAPHS:
        for draw in range(TUNING, TUNING + DRAWS) if only in (None, name) else ():
            yield from kinds_counted.photographs(name, draw, data, runs)


def alphabets(data: Path | None, runs: Path) -> Cases:
    """Yield the probe alphabets and random halves of their characters, each counted by the other alphabets."""
    probes, images = features(runs, "omniglot-25-group", "omniglot:probes", data), opened("omniglot:probes", data)
    x, y = probes["plain"], probes["y"]
    groups = np.array([group_of(name) for name in images.classes])[y]
    for alphabet in dict.fromkeys(groups.tolist()):
        mine = np.flatnonzero(groups == alphabet)
        for part, kinds in enumerate(halves(np.unique(y[mine]))):
            for sizes in ("alike", "half"):

                def make(mine: NDArray[np.int64] = mine, kinds: Any = kinds, sizes: str = sizes) -> list[Rehearsal]:
                    rows = mine[np.isin(y[mine], kinds)]
                    heap = x[rows[thinned(y[rows], sizes)]]
                    others = [groups == other for other in dict.fromkeys(groups.tolist()) if other != groups[mine[0]]]
                    return [Rehearsal(x[other], y[other], heap) for other in others]

                yield {"data": "omniglot", "case": f"{alphabet} {part}", "truth": len(kinds), "sizes": sizes}, make


def halves(kinds: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield all kinds, and some random halves of them."""
    yield kinds
    for number in range(HALVES):
        yield np.random.default_rng(number).permutation(kinds)[: max(6, len(kinds) // 2)]


def classes(data: Path | None, runs: Path) -> Cases:
    """Yield halves of CIFAR-100's probe classes, counted by the other half."""
    probes = features(runs, "cifar100-80", "cifar100:probes", data)
    x, y = probes["plain"], probes["y"]
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(10)
        for sizes in SIZES:

            def make(order: NDArray[np.int64] = order, sizes: str = sizes, split: int = split) -> list[Rehearsal]:
                known, heap = (np.flatnonzero(np.isin(y, some)) for some in (order[:5], order[5:]))
                return [Rehearsal(x[known], y[known], x[heap[thinned(y[heap], sizes, split)]])]

            yield {"data": "cifar100", "case": split, "truth": 5, "sizes": sizes}, make


def show(rows: list[dict[str, Any]]) -> None:
    """Print error, coverage and width of each data set, with the constants as they are."""
    for sizes in SIZES:
        for name in (*kinds_counted.TITLES, ""):
            some = [row for row in rows if row["sizes"] == sizes and name in ("", row["data"])]
            if not some:
                continue
            found = [counted(row["evidence"], row["truth"], CountSettings()) for row in some]
            truth = np.array([row["truth"] for row in some])
            error = np.mean([abs(one["k"] - true) / true for one, true in zip(found, truth, strict=True)])
            holds = sum(one["holds"] for one in found)
            width = np.mean([(one["high"] - one["low"]) / true for one, true in zip(found, truth, strict=True)])
            told = f"{name or 'all':14} {sizes:7} {len(some):3} error {error:.1%}"
            print(f"{told}, holds {holds} ({holds / len(some):.0%}), width {width:.0%} of the truth")


if __name__ == "__main__":
    main()
