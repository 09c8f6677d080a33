"""Discover 10 classes of Tiny-ImageNet with 30 others known.

ROOT/tiny-imagenet/train has one folder of JPEG files a class. Of the first 40 classes by name, 30 are known and the
last 10 unsorted.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import newkinds as nk
from newkinds.clustering import kmeans
from newkinds.evaluation.scores import score
from studies.tools.results import write_result

CLASSES, KNOWN = 40, 30


def main() -> None:
    """Measure and write benchmarks/results/studies/tiny-imagenet*.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--kinds", default="10", help="a number, or auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, default=Path("runs/tiny-imagenet"), help="where folders and runs go")
    chosen = parser.parse_args()
    known, unsorted = link_classes(chosen.root / "tiny-imagenet" / "train", chosen.runs)
    kinds = "auto" if chosen.kinds == "auto" else int(chosen.kinds)
    started = time.monotonic()
    out = chosen.runs / f"run-{kinds}-{chosen.seed}"
    found = nk.discover(
        known, unsorted, out=out, kinds=kinds, seed=chosen.seed, truth="folders", progress=nk.Progress()
    )
    seconds = time.monotonic() - started
    pictures = nk.open_images(unsorted, labelled=True)
    pixels = pictures.pixels.reshape(len(pictures), -1) / 255
    raw = kmeans(pixels, CLASSES - KNOWN, seed=chosen.seed, restarts=10)
    name = "tiny-imagenet" if kinds != "auto" else "tiny-imagenet-auto"
    about = f"a part of Tiny-ImageNet: {KNOWN} classes known, {CLASSES - KNOWN} unsorted, {len(pictures)} pictures"
    values = {
        "data": about,
        "seed": chosen.seed,
        "kinds": kinds,
        "n_kinds": found.n_kinds,
        "acc": found.scores.acc,
        "nmi_geometric": found.scores.nmi_geometric,
        "kmeans_on_features_acc": found.kmeans_scores.acc,
        "kmeans_on_pixels_acc": score(raw.labels, pictures.labels).acc,
        "seconds": seconds,
    }
    print(values)
    write_result(name, values)


def link_classes(train: Path, folder: Path) -> tuple[Path, Path]:
    """Return folders of known and unsorted classes, with a link to each picture."""
    names = sorted(entry.name for entry in train.iterdir() if entry.is_dir())[:CLASSES]
    parts = {"known": names[:KNOWN], "unsorted": names[KNOWN:]}
    for part, classes in parts.items():
        for name in classes:
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            for picture in (train / name).iterdir():
                link = folder / part / name / picture.name
                if not link.exists():
                    os.symlink(picture.resolve(), link)
    return folder / "known", folder / "unsorted"


if __name__ == "__main__":
    main()
