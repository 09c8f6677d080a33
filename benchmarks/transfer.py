"""From ImageNet to CIFAR-10 (the paper's Table 7): python benchmarks/transfer.py [--data ROOT] [--each 80].

f is EfficientNet-Lite0 with ImageNet's weights (see efficientnet_lite0.py for the two packages it needs). As in the
paper, all ten classes of CIFAR-10 are unsorted and the number of kinds is given; `--classes unlabelled` takes the last
five, with the first five known. ROOT, default $NEWKINDS_DATA, holds cifar-10-batches-py.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from efficientnet_lite0 import NAME
from results import write_result

import newkinds as nk
from newkinds.clustering import kmeans
from newkinds.datasets import named
from newkinds.evaluate import score
from newkinds.images import fingerprint
from newkinds.randomness import generator

PAPER = {"kmeans": (0.710, 0.639), "baseline": (0.769, 0.729), "pi": (0.789, 0.753)}
PAPER |= {"te": (0.785, 0.755), "tep": (0.774, 0.734)}


def main() -> None:
    """Measure and write benchmarks/results/transfer.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of cifar-10-batches-py; default $NEWKINDS_DATA")
    parser.add_argument("--classes", choices=["all", "unlabelled"], default="all", help="which are unsorted")
    parser.add_argument("--each", type=int, default=80, help="pictures of each class; the paper has 5,000")
    parser.add_argument("--size", type=int, default=96, help="side that pictures are brought to; f was trained at 224")
    parser.add_argument("--variants", nargs="+", default=["baseline", "pi"], help="of discovery")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, nargs=2, default=[3, 9], metavar=("WARMUP", "MAIN"))
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="other settings, numbers only")
    parser.add_argument("--runs", type=Path, default=Path("runs/transfer"), help="where the run folders go")
    parser.add_argument("--name", default="transfer", help="of the result file")
    chosen = parser.parse_args()
    changes: dict[str, Any] = {"network_size": chosen.size, "discover.batch_size": 32}
    changes |= {"discover.warmup_epochs": chosen.epochs[0], "discover.epochs": chosen.epochs[1]}
    changes |= {key: float(value) for key, value in (word.split("=") for word in chosen.set)}
    rows = []
    for seed in range(chosen.seeds):
        known, unsorted = pictures(chosen.data, chosen.classes, chosen.each, seed)
        for variant in chosen.variants:
            folder = f"{chosen.classes}-{chosen.each}-{chosen.size}-{variant}-{seed}"
            rows.append(measure(known, unsorted, variant, seed, changes, chosen.runs / folder))
            print(rows[-1], flush=True)
    values = {
        "data": f"CIFAR-10's training pictures: {chosen.each} of each of {len(unsorted.classes)} unsorted classes, "
        "drawn anew for each seed",
        "network": f"{NAME}, ImageNet's weights, no pretraining",
        "differs_from_the_paper": "EfficientNet-Lite0 for ResNet18, fewer pictures, smaller ones than f was trained "
        "on, fewer epochs, and this project's default settings but for those listed",
        "settings_changed": changes,
        "paper": {name: {"acc": acc, "nmi": nmi} for name, (acc, nmi) in PAPER.items()},
        "mean": means(rows),
        "runs": rows,
    }
    write_result(chosen.name, values)


def measure(
    known: nk.ImageSet, unsorted: nk.ImageSet, variant: str, seed: int, changes: dict[str, Any], out: Path
) -> dict[str, Any]:
    """Discover once and return the scores of k-means on pixels, of k-means on f's features, and of discovery."""
    started = time.monotonic()
    found = nk.discover(
        known,
        unsorted,
        out=out,
        kinds=len(unsorted.classes),
        variant=variant,
        network=NAME,
        seed=seed,
        truth="folders",
        settings=nk.Settings().with_changes(changes),
        progress=nk.Progress(),
    )
    seconds = time.monotonic() - started
    pixels = unsorted.pixels.reshape(len(unsorted), -1) / 255
    raw = kmeans(pixels, len(unsorted.classes), seed=seed, restarts=10)
    return {
        "seed": seed,
        "variant": variant,
        "acc": found.scores.acc,
        "nmi_geometric": found.scores.nmi_geometric,
        "kmeans_on_features_acc": found.kmeans_scores.acc,
        "kmeans_on_features_nmi_geometric": found.kmeans_scores.nmi_geometric,
        "kmeans_on_pixels_acc": score(raw.labels, unsorted.labels).acc,
        "seconds": seconds,
    }


def means(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean of each number over the seeds, for each variant."""
    names = [name for name in rows[0] if name not in ("seed", "variant")]
    return {
        variant: {name: float(np.mean([row[name] for row in rows if row["variant"] == variant])) for name in names}
        for variant in dict.fromkeys(row["variant"] for row in rows)
    }


def pictures(data: Path | None, classes: str, each: int, seed: int) -> tuple[nk.ImageSet, nk.ImageSet]:
    """Return `each` known pictures of each of the first five classes, and as many of each unsorted class.

    With f and the number of kinds given nothing is learned from the known ones: `discover` just asks for some. Where
    all classes are unsorted, they are other pictures than those.
    """
    labelled, unlabelled = (named(f"cifar10:{part}", data=data) for part in ("labelled", "unlabelled"))
    first, second = halves(labelled, each, seed)
    new = halves(unlabelled, each, seed)[0]
    return first, joined(second, new) if classes == "all" else new


def halves(images: nk.ImageSet, each: int, seed: int) -> tuple[nk.ImageSet, nk.ImageSet]:
    """Return two sets of `each` pictures of each class that have none in common."""
    orders = [
        generator(seed, "transfer", label).permutation(np.flatnonzero(images.labels == label))
        for label in range(len(images.classes))
    ]
    parts = (np.sort(np.concatenate([order[start : start + each] for order in orders])) for start in (0, each))
    first, second = (images.select(part) for part in parts)
    return first, second


def joined(first: nk.ImageSet, second: nk.ImageSet) -> nk.ImageSet:
    """Return the pictures of both sets, whose classes differ."""
    pixels = np.concatenate([first.pixels, second.pixels])
    names, classes = first.names + second.names, first.classes + second.classes
    labels = np.concatenate([first.labels, second.labels + len(first.classes)])
    return nk.ImageSet(pixels, names, labels, classes, "cifar10", fingerprint(pixels, names, None, ()))


if __name__ == "__main__":
    main()
