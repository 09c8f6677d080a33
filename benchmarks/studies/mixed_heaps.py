"""Heaps that hold known kinds, too, sorted by the command that a user types: groceries, and a part of Tiny-ImageNet.

ROOT/grocery and ROOT/tiny-imagenet/train have one folder of photographs a kind. Which kinds are known is drawn by the
number of the draw, as in the study `photographs`; draws from 100 on were for tuning, the others are reported. Half of
the pictures of each known kind are labelled, the others are in the heap. Each run is

    newkinds discover KNOWN HEAP --seed SEED --truth folders --out RUN [--kinds 28]

The share of known pictures is estimated on heaps in which 0, 10, 50, 90 and 100 % of the pictures are of known kinds:
made of the same pictures, as many of both sorts as there are. It is told before pictures are sorted, so these runs sort
them by --method kmeans, which is quick.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import newkinds as nk
from newkinds.runs import RunFolder, names
from newkinds_bench.house import DOCS
from studies.tools.results import put_table, read_result, standard_error, write_result

NAME, PAGE = "mixed_heaps", DOCS / "mixed-heaps.md"
FIGURE = DOCS / "figures" / "known-share.svg"
PHOTOGRAPHS = {  # the folder, how many kinds are known, and what both are called
    "grocery": ("grocery", 54, "groceries, 54 kinds known, 28 new"),
    "tiny-imagenet": ("tiny-imagenet/train", 30, "Tiny-ImageNet, 30 kinds known, 10 new"),
}
SEEDS = {"grocery": 3, "tiny-imagenet": 1}
DRAWS = 3
SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
ONE_SHARE = 0.5  # of each known kind's pictures in the heap


@dataclass(frozen=True)
class Run:
    """A run: its data, the draw of known kinds, the seed, whether K is given; the share of known pictures, if set."""

    data: str
    draw: int
    seed: int
    given: bool
    share: float | None = None

    @property
    def name(self) -> str:
        """What its folder and its result are called."""
        if self.share is not None:
            return f"{self.data}-{self.draw}-share-{self.share:g}"
        return f"{self.data}-{self.draw}-{self.seed}-{'given' if self.given else 'estimated'}"


def main() -> None:
    """Measure what is missing, and write benchmarks/results/studies/mixed_heaps.json and its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, nargs="?", help="the folder of the data sets")
    parser.add_argument("--only", action="append", help="names of runs, or how they begin")
    parser.add_argument("--runs", type=Path, default=Path("runs/mixed_heaps"), help="where folders and runs go")
    parser.add_argument("--render", action="store_true", help="only make the page again")
    chosen = parser.parse_args()
    if not chosen.render:
        for run in planned():
            if run.name not in kept() and (not chosen.only or run.name.startswith(tuple(chosen.only))):
                put(run, measured(run, chosen.root, chosen.runs))
    put_table(PAGE, "grocery", scores_table(kept()))
    put_table(PAGE, "shares", shares_table(kept()))
    plot(kept())


def planned() -> Iterator[Run]:
    """Yield the runs that are reported, one of each sort first."""
    for given in (True, False):
        for data, seeds in SEEDS.items():
            for seed in range(seeds):
                for draw in range(DRAWS):
                    yield Run(data, draw, seed, given)
    for data in PHOTOGRAPHS:
        for draw in range(DRAWS):
            for share in SHARES:
                yield Run(data, draw, 0, True, share)


def kept() -> dict[str, dict[str, Any]]:
    """Return what was measured, by name."""
    return read_result(NAME, "runs")


def put(run: Run, values: dict[str, Any]) -> None:
    """Keep what was measured."""
    write_result(NAME, {"runs": dict(sorted({**kept(), run.name: values}.items()))})


def folders(run: Run, root: Path, folder: Path) -> tuple[Path, Path, int]:
    """Return folders with a link to each picture, labelled and in the heap, and how many kinds are new."""
    place, number_known, _ = PHOTOGRAPHS[run.data]
    source = root / place
    kinds = sorted(entry.name for entry in source.iterdir() if entry.is_dir())
    drawn = [kinds[number] for number in np.random.default_rng(run.draw).permutation(len(kinds))]
    where = folder / (f"{run.data}-{run.draw}" if run.share is None else run.name + "-pictures")
    heap: dict[str, list[Path]] = {"old": [], "new": []}
    for number, kind in enumerate(drawn):
        pictures = sorted(file for file in (source / kind).rglob("*") if file.suffix.lower() in (".jpg", ".jpeg"))
        order = np.random.default_rng([run.draw, number]).permutation(len(pictures))
        labelled = round(len(pictures) * (1 - ONE_SHARE)) if number < number_known else 0
        for place in order[:labelled]:
            _link(pictures[place], where / "known" / kind)
        heap["old" if number < number_known else "new"] += [pictures[place] for place in order[labelled:]]
    for picture in _thinned(heap, run):
        _link(picture, where / "heap" / picture.relative_to(source).parts[0])
    return where / "known", where / "heap", len(drawn) - number_known


def _thinned(heap: dict[str, list[Path]], run: Run) -> list[Path]:
    """Return the pictures of the heap: all, or as many of both sorts as give the share of known ones that is wanted."""
    if run.share is None:
        return heap["old"] + heap["new"]
    of = {"old": run.share, "new": 1 - run.share}
    most = min(len(heap[sort]) / share for sort, share in of.items() if share)
    random = np.random.default_rng([run.draw, 1])
    found: list[Path] = []
    for sort, share in of.items():
        order = random.permutation(len(heap[sort]))[: round(most * share)]
        found += [heap[sort][place] for place in np.sort(order)]
    return found


def _link(picture: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / picture.name).exists():
        os.symlink(picture.resolve(), folder / picture.name)


def measured(run: Run, root: Path, folder: Path) -> dict[str, Any]:
    """Run the command and return its scores; of a share, only what novelty says."""
    known, heap, kinds = folders(run, root, folder)
    out = folder / run.name
    line = [sys.executable, "-m", "newkinds", "discover", str(known), str(heap), "--seed", str(run.seed)]
    line += ["--truth", "folders", "--out", str(out), "--offline"] + (["--kinds", str(kinds)] if run.given else [])
    line += [] if run.share is None else ["--method", "kmeans", "--rehearsals", "0"]
    process = subprocess.Popen(line)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{run.name} failed: {' '.join(line)}")
    folder_of_run = RunFolder.open(out)
    told = folder_of_run.get_json(names.NOVELTY)
    names_of_known = {entry.name for entry in known.iterdir()}
    found = nk.load(out)
    is_known = np.array([Path(name).parts[0] in names_of_known for name in found.names])
    values: dict[str, Any] = {
        "pictures": len(found.names),
        "known": float(is_known.mean()),
        "said": told["known"],
        "low": told["low"],
        "high": told["high"],
        "holds": told["holds"],
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }
    if run.share is None:
        assert found.scores is not None
        assert found.scores.mixed is not None
        mixed = found.scores.mixed
        values |= {key: getattr(mixed, key) for key in ("all", "old", "new", "named", "auroc")}
        values["found_known"] = float(np.char.startswith(found.kinds, "known:").mean())
        values["k"] = kinds if found.count is None else found.count["k"]
        values["foretold"] = None if found.trust is None else found.trust.acc
    return values


def scores_table(runs: dict[str, dict[str, Any]]) -> list[str]:
    """Return All, Old and New, with K given and estimated."""
    lines = [
        "| pictures | number of new kinds | All | Old | New | right by name | AUROC | K | predicted ACC | runs |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for data, (_, _, title) in PHOTOGRAPHS.items():
        for how in ("given", "estimated"):
            some = [one for name, one in runs.items() if name.startswith(data) and name.endswith(how)]
            if some:
                told = " | ".join(spread([one[key] for one in some]) for key in ("all", "old", "new", "named", "auroc"))
                counts = ", ".join(str(number) for number in dict.fromkeys(one["k"] for one in some))
                foretold = f"{np.mean([one['foretold'] for one in some]):.3f}"
                lines.append(f"| {title} | {how} | {told} | {counts} | {foretold} | {len(some)} |")
    return lines


def shares_table(runs: dict[str, dict[str, Any]]) -> list[str]:
    """Return the estimated share of known pictures beside the actual one."""
    lines = ["| pictures | draw | in the heap | known | known, estimated | treated as |", "|---|---|---|---|---|---|"]
    for name, one in runs.items():
        if "-share-" in name:
            data, draw = name.partition("-share-")[0].rsplit("-", 1)
            said = f"{one['said']:.0%} ({one['low']:.0%} to {one['high']:.0%})"
            about = f"{PHOTOGRAPHS[data][2]} | {draw} | {one['pictures']:,}"
            lines.append(f"| {about} | {one['known']:.0%} | {said} | {one['holds']} |")
    return lines if len(lines) > 2 else ["Not measured yet."]


def plot(runs: dict[str, dict[str, Any]]) -> None:
    """Draw the estimated against the true share."""
    of_shares = {name: one for name, one in runs.items() if "-share-" in name}
    if not of_shares:
        return
    figure, axes = plt.subplots(figsize=(4.5, 4.5))
    axes.plot([0, 1], [0, 1], color="0.7", zorder=0)
    for data, (_, _, title) in PHOTOGRAPHS.items():
        some = [one for name, one in of_shares.items() if name.startswith(data)]
        said = np.array([one["said"] for one in some])
        around = [said - [one["low"] for one in some], np.array([one["high"] for one in some]) - said]
        axes.errorbar([one["known"] for one in some], said, around, fmt="o", capsize=3, label=title.partition(",")[0])
    axes.legend(frameon=False)
    axes.set(xlabel="share of known pictures in the heap", ylabel="estimated", xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
    figure.savefig(FIGURE, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def spread(values: list[float]) -> str:
    """Return the mean and, of several, its standard error."""
    mean = f"{np.mean(values):.3f}"
    return mean if len(values) < 2 else f"{mean} ± {standard_error(np.array(values)):.3f}"


if __name__ == "__main__":
    main()
