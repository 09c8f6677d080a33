"""Photographs sorted by the command that a user types: groceries, Tiny-ImageNet, and CIFAR-10 from ImageNet.

ROOT/grocery and ROOT/tiny-imagenet/train have one folder of photographs a kind, ROOT has CIFAR-10. Which kinds are
known is drawn by the number of the draw; draws from 100 on were for tuning, the others are reported. Each run is

    newkinds discover KNOWN HEAP --kinds K --seed SEED --truth folders --out RUN [--network NAME]

in a process of its own, whose CPU time and memory are told. Features are computed once for all runs of a network; a run
that had to compute them says so by its time.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA

import newkinds as nk
from newkinds.datasets import named
from newkinds.evaluation.scores import score
from newkinds.images.decode import encode
from newkinds.runs import RunFolder, names
from newkinds_bench.house import DOCS
from studies.tools.results import put_table, read_result, standard_error, write_result

NAME, PAGE = "photographs", DOCS / "photographs.md"
KNOWN = {"grocery": 54, "tiny-imagenet": 30, "cifar10": 40}  # of 82, 40 and all 40 kinds of Tiny-ImageNet
TITLES = {
    "grocery": "groceries, 54 kinds known, 28 unsorted",
    "tiny-imagenet": "Tiny-ImageNet, 30 kinds known, 10 unsorted",
    "cifar10": "CIFAR-10's ten classes, 40 kinds of Tiny-ImageNet known",
}
DEFAULT, LITE2, NOTHING = "", "efficientnet-lite2", "resnet18-imagenet-slim"
TRANSFERS = {
    "none": "no transfer",
    "project": "projection only",
    "whiten": "whitening only",
    "both": "whitening, then a projection",
    "auto": "chosen on hidden known kinds, the default",
}
EACH = 1000  # pictures of each class of CIFAR-10
COMPONENTS, FEWEST = 32, 10  # of HDBSCAN: principal components, pictures in a kind


@dataclass(frozen=True)
class Run:
    """A run: the data, the draw of known kinds, the seed, and the network and the transfer where they are asked for."""

    data: str
    draw: int
    seed: int
    network: str = DEFAULT
    transfer: str = ""  # the setting transfer.kind, if it is asked for

    @property
    def name(self) -> str:
        """What its folder and its result are called."""
        return "-".join(filter(None, [self.data, str(self.draw), str(self.seed), self.network, self.transfer]))


def main() -> None:
    """Measure what is missing, and write benchmarks/results/studies/photographs.json and its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, nargs="?", help="the folder of the data sets")
    parser.add_argument("--only", action="append", help="names of runs, or how they begin")
    parser.add_argument("--runs", type=Path, default=Path("runs/photographs"), help="where folders and runs go")
    parser.add_argument("--render", action="store_true", help="only make the page again")
    chosen = parser.parse_args()
    if not chosen.render:
        for run in planned():
            if run.name not in kept() and (not chosen.only or run.name.startswith(tuple(chosen.only))):
                put(run, measured(run, chosen.root, chosen.runs))
    for name, lines in tables(kept()).items():
        put_table(PAGE, name, lines)


def planned() -> Iterator[Run]:
    """Yield the runs that are reported, the quick ones first, then those that compare transfers on draws for tuning."""
    for data in ("grocery", "tiny-imagenet"):
        for draw in range(3):
            for seed in range(3):
                yield Run(data, draw, seed)
    yield Run("cifar10", 0, 0)
    for data in ("grocery", "tiny-imagenet"):
        for draw in range(3):
            yield Run(data, draw, 0, LITE2)
        yield Run(data, 0, 0, NOTHING)
    for data in ("grocery", "tiny-imagenet"):
        for draw in range(100, 103):
            for transfer in TRANSFERS:
                yield Run(data, draw, 0, transfer=transfer)


def kept() -> dict[str, dict[str, Any]]:
    """Return what was measured, by name."""
    return read_result(NAME, "runs")


def put(run: Run, values: dict[str, Any]) -> None:
    """Keep what was measured."""
    write_result(NAME, {"runs": dict(sorted({**kept(), run.name: values}.items()))})


def measured(run: Run, root: Path, folder: Path) -> dict[str, Any]:
    """Run the command, and return the scores of what it found and of others on the same features."""
    known, heap, kinds = folders(run, root, folder)
    out = folder / run.name
    line = [sys.executable, "-m", "newkinds", "discover", str(known), str(heap), "--kinds", str(kinds)]
    line += ["--seed", str(run.seed), "--truth", "folders", "--out", str(out), "--offline"]
    line += ["--network", run.network] if run.network else []
    # Where transfers are compared, nothing else may be chosen by rehearsals.
    line += ["--set", f"transfer.kind={run.transfer}", "--rehearsals", "0"] if run.transfer else []
    process = subprocess.Popen(line)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{run.name} failed: {' '.join(line)}")
    found = nk.load(out)
    assert found.scores is not None
    assert found.kmeans_scores is not None
    values: dict[str, Any] = {
        "network": RunFolder.open(out).settings.network,
        "pictures": len(found.names),
        "acc": found.scores.acc,
        "nmi": found.scores.nmi_geometric,
        "kmeans_acc": found.kmeans_scores.acc,
        "kmeans_nmi": found.kmeans_scores.nmi_geometric,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }
    if run.seed == 0 and run.network == DEFAULT and not run.transfer:
        values |= by_density(np.load(out / names.features("unsorted")), [Path(name).parts[0] for name in found.names])
    return values


def by_density(features: np.ndarray[Any, Any], truth: list[str]) -> dict[str, Any]:
    """Return what HDBSCAN finds among the principal components of the features; pictures of no kind are one kind."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    labels = HDBSCAN(min_cluster_size=FEWEST, copy=True).fit_predict(
        PCA(COMPONENTS, random_state=0).fit_transform(unit)
    )
    found = score(labels + 1, np.unique(truth, return_inverse=True)[1])
    return {
        "hdbscan_acc": found.acc,
        "hdbscan_nmi": found.nmi_geometric,
        "hdbscan_kinds": int(labels.max()) + 1,
        "hdbscan_noise": float((labels < 0).mean()),
    }


def folders(run: Run, root: Path, folder: Path) -> tuple[Path, Path, int]:
    """Return folders with a link to each picture, of known and unsorted kinds, and how many kinds are unsorted."""
    source = root / ("grocery" if run.data == "grocery" else "tiny-imagenet/train")
    kinds = sorted(entry.name for entry in source.iterdir() if entry.is_dir())
    drawn = [kinds[number] for number in np.random.default_rng(run.draw).permutation(len(kinds))]
    parts = {"known": drawn[: KNOWN[run.data]], "heap": drawn[KNOWN[run.data] :]}
    where = folder / f"{run.data}-{run.draw}"
    for part, some in parts.items():
        for kind in some:
            (where / part / kind).mkdir(parents=True, exist_ok=True)
            for picture in (source / kind).iterdir():
                link = where / part / kind / picture.name
                if not link.exists():
                    os.symlink(picture.resolve(), link)
    if run.data == "cifar10":
        return where / "known", cifar10(root, where / "heap"), 10
    return where / "known", where / "heap", len(parts["heap"])


def thinned(heap: Path, draw: int, each: int) -> Path:
    """Return a folder beside a heap with links to so many pictures of each of its kinds."""
    small = heap.with_name(f"{heap.name}-{each}")
    for kind in sorted(heap.iterdir()):
        pictures = sorted(kind.iterdir())
        (small / kind.name).mkdir(parents=True, exist_ok=True)
        for place in np.random.default_rng(draw).permutation(len(pictures))[:each]:
            link = small / kind.name / pictures[place].name
            if not link.exists():
                os.symlink(pictures[place].resolve(), link)
    return small


def cifar10(root: Path, folder: Path) -> Path:
    """Write the first pictures of each class of CIFAR-10 as files, a folder for each class."""
    images = named("cifar10:all", labelled=True, data=root)
    assert images is not None
    assert images.labels is not None
    for number, kind in enumerate(images.classes):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for item in np.flatnonzero(images.labels == number)[:EACH]:
            file = folder / kind / f"{item:05d}.png"
            if not file.exists():
                file.write_bytes(encode(images.pixels[item], "png"))
    return folder


def tables(runs: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Return the tables of the page."""
    lines = ["| photographs | method | ACC | NMI | runs |", "|---|---|---|---|---|"]
    for data, title in TITLES.items():
        rows = (
            ("newkinds, default", DEFAULT, ""),
            ("k-means on the same features", DEFAULT, "kmeans_"),
            ("HDBSCAN on 32 principal components of these", DEFAULT, "hdbscan_"),
            ("newkinds, `--network efficientnet-lite2`", LITE2, ""),
            ("newkinds, `--network resnet18-imagenet-slim`, from scratch", NOTHING, ""),
        )
        for what, network, prefix in rows:
            some = [values for name, values in runs.items() if is_of(name, data, network) and f"{prefix}acc" in values]
            if some:
                told = " | ".join(spread([values[f"{prefix}{key}"] for values in some]) for key in ("acc", "nmi"))
                lines.append(f"| {title} | {what} | {told} | {len(some)} |")
    cost = ["| run | unsorted pictures | CPU seconds | peak memory, MB |", "|---|---|---|---|"]
    for name, values in runs.items():
        cost.append(f"| {name} | {values['pictures']:,} | {values['cpu_seconds']:.0f} | {values['peak_mb']:.0f} |")
    return {"scores": lines, "cost": cost, "transfers": transfers(runs)}


def transfers(runs: dict[str, dict[str, Any]]) -> list[str]:
    """Return how the ways of transfer compare on the draws for tuning."""
    lines = ["| transfer | groceries | Tiny-ImageNet |", "|---|---|---|"]
    for kind, words in TRANSFERS.items():
        told = []
        for data in ("grocery", "tiny-imagenet"):
            some = [v["acc"] for name, v in runs.items() if name.startswith(data) and name.endswith(f"-{kind}")]
            told.append(spread(some) if some else "")
        lines.append(f"| {words} | {' | '.join(told)} |")
    return lines


def is_of(name: str, data: str, network: str) -> bool:
    """Return whether a run is of this data, of a draw that is reported, and of this network."""
    return re.fullmatch(rf"{data}-\d-\d{f'-{network}' if network else ''}", name) is not None


def spread(values: list[float]) -> str:
    """Return the mean and, of several, its standard error."""
    mean = f"{np.mean(values):.3f}"
    return mean if len(values) < 2 else f"{mean} ± {standard_error(np.array(values)):.3f}"


if __name__ == "__main__":
    main()
