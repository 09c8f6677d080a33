"""None of these: pictures of kinds that are neither known nor discovered, as `predict` sees them.

ROOT/grocery has one folder of photographs a kind. Of each draw's 28 new kinds a quarter is in turn left out of the heap
altogether: its pictures are the strangers. Of the 54 known kinds half of the pictures are labelled and a quarter is in
the heap; of the other new kinds three quarters are in the heap. The last quarter of both are members that the run has
not seen. Each run is

    newkinds discover KNOWN HEAP --kinds 21 --rehearsals 0 --out RUN

and then what its model tells strangers by is asked, as `predict RUN ASKED` does, about strangers and members together,
and about each on its own; their features come from the cache. Draws from 100 on were for tuning.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import newkinds as nk
from newkinds.cache import open_cache
from newkinds.features import extract_features
from newkinds.methods.registry import HEADS
from newkinds.networks.files import model_from_bytes, network_from_bytes
from newkinds.runs import RunFolder, names
from newkinds.runs.pictures import open_for
from newkinds.runs.results import read_tensors
from newkinds.transfer import from_tensors
from newkinds.unlike import Unlike, rejected
from newkinds_bench.house import DOCS
from studies.tools.results import put_table, read_result, write_result

NAME, PAGE = "none_of_these", DOCS / "mixed-heaps.md"
KNOWN, QUARTERS = 54, 4


def main() -> None:
    """Measure what is missing, and write benchmarks/results/studies/none_of_these.json and its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, nargs="?", help="the folder of the data sets")
    parser.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quarters", type=int, nargs="+", default=list(range(QUARTERS)))
    parser.add_argument("--runs", type=Path, default=Path("runs/none_of_these"), help="where folders and runs go")
    parser.add_argument("--render", action="store_true", help="only make the page again")
    chosen = parser.parse_args()
    for quarter in [] if chosen.render else chosen.quarters:
        for draw in chosen.draws:
            if f"{draw}-{quarter}" not in kept():
                found = measured(draw, quarter, chosen.root, chosen.runs)
                write_result(NAME, {"runs": dict(sorted({**kept(), f"{draw}-{quarter}": found}.items()))})
    put_table(PAGE, "none", table(kept()))


def kept() -> dict[str, dict[str, Any]]:
    """Return what was measured, by draw and quarter."""
    return read_result(NAME, "runs")


def folders(draw: int, quarter: int, root: Path, where: Path) -> set[str]:
    """Make folders of links, `known`, `heap` and `asked`, and return the names of the kinds that are strangers."""
    kinds = sorted(entry.name for entry in (root / "grocery").iterdir() if entry.is_dir())
    drawn = [kinds[number] for number in np.random.default_rng(draw).permutation(len(kinds))]
    strangers = set(drawn[KNOWN:][quarter::QUARTERS])
    for number, kind in enumerate(drawn):
        pictures = sorted((root / "grocery" / kind).iterdir())
        order = np.random.default_rng([draw, number]).permutation(len(pictures))
        half, most = len(order) // 2, 3 * len(order) // 4
        parts = {"known": order[:half], "heap": order[half:most]} if number < KNOWN else {"heap": order[:most]}
        parts["asked"] = order[most:]
        for part, items in ({"asked": order} if kind in strangers else parts).items():
            (where / part / kind).mkdir(parents=True, exist_ok=True)
            for item in items:
                link = where / part / kind / pictures[item].name
                if not link.exists():
                    os.symlink(pictures[item].resolve(), link)
    return strangers


def measured(draw: int, quarter: int, root: Path, runs: Path) -> dict[str, Any]:
    """Return the shares of strangers and of members that are called none."""
    where = runs / f"{draw}-{quarter}-pictures"
    strangers = folders(draw, quarter, root, where)
    out, kinds = runs / f"{draw}-{quarter}", sum(1 for _ in (where / "heap").iterdir()) - KNOWN
    options: dict[str, Any] = {"kinds": kinds, "rehearsals": 0, "offline": True, "page": False}
    found = nk.discover(where / "known", where / "heap", out=out, **options)
    asked, together, alone = called_none(out, where / "asked")
    is_stranger = np.array([Path(name).parts[0] in strangers for name in asked])
    return {
        "strangers": int(is_stranger.sum()),
        "members": int((~is_stranger).sum()),
        "together": {"strangers": float(together[is_stranger].mean()), "members": float(together[~is_stranger].mean())},
        "alone": {"strangers": float(alone[is_stranger].mean()), "members": float(alone[~is_stranger].mean())},
        "in_the_heap": float((found.kinds == "none").mean()),  # which holds no strangers
    }


def called_none(out: Path, asked: Path) -> tuple[tuple[str, ...], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the names of pictures, and which are called none if they are asked about together, and if alone."""
    run, quiet = RunFolder.open(out), nk.Progress("quiet")
    pictures = open_for(run, asked, None, quiet)
    network, _ = network_from_bytes(run.get(names.NETWORK), str(out))
    transfer = from_tensors(*read_tensors(run, names.TRANSFER))
    model, extra, _ = model_from_bytes(run.get(names.MODEL), str(out), HEADS)
    unlike = Unlike.from_tensors(extra, model.network.feature_dim)
    assert unlike is not None
    features = transfer(extract_features(network, pictures, cache=open_cache()))
    together, alone = (
        rejected(members, run.settings.none) for members in (unlike(features), unlike.one_by_one(features))
    )
    return pictures.names, together, alone


def table(runs: dict[str, dict[str, Any]]) -> list[str]:
    """Return the mean over quarters of each draw, and over the draws that are reported."""
    lines = [
        "| called none | strangers, judged together | members, together | strangers, one by one | members, one by one "
        "| of the heap, which has no strangers | runs |",
        "|---|---|---|---|---|---|---|",
    ]
    draws = sorted({int(name.partition("-")[0]) for name in runs})
    reported = [draw for draw in draws if draw < 100]
    groups = [(f"groceries, draw {draw}{', for tuning' if draw >= 100 else ''}", [draw]) for draw in draws]
    for title, some in [*groups, ("mean of the reported draws", reported)]:
        mine = [one for name, one in runs.items() if int(name.partition("-")[0]) in some]
        if mine:
            shares = [
                np.mean([one[how][of] for one in mine])
                for how in ("together", "alone")
                for of in ("strangers", "members")
            ]
            told = " | ".join(f"{share:.1%}" for share in (*shares, np.mean([one["in_the_heap"] for one in mine])))
            lines.append(f"| {title} | {told} | {len(mine)} |")
    return lines


if __name__ == "__main__":
    main()
