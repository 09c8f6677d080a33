"""Run the pipeline on another device and on the CPU: python benchmarks/study.py second_device [--device xla].

Pretraining, features, the start, DTC-Pi and `predict` on the digits, in few large batches, on each of the two devices
in a process of its own; prints what came out side by side. XLA computes on a CPU as well, so that there is a second
device wherever torch_xla can be installed:

    python3 -m venv venv-xla
    venv-xla/bin/pip install torch==2.9.0 torch_xla==2.9.0 .
    PJRT_DEVICE=CPU venv-xla/bin/python benchmarks/study.py second_device --device xla
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import newkinds as nk
from newkinds.datasets import named
from newkinds.equations import clustering_accuracy
from newkinds.parallel.devices import OVERRIDE, pick_device

# All batches of a stage have the same shape, as XLA compiles anew for each other one: of 170 pictures of each digit 153
# are trained on, upright and turned, which makes 10 batches.
EACH = 170
SETTINGS: dict[str, Any] = {
    "network": "vgg6-4-2-slim",
    "pretrain": {"epochs": 8, "batch_size": 306},
    "discover": {"variant": "pi", "warmup_epochs": 2, "epochs": 8, "batch_size": 170, "settled": 0.0},
}


def main() -> None:
    """Run on both devices and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="xla", help="the other device: xla, cuda, cuda:1, mps, ...")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.alone:
        print(json.dumps(run(chosen.device, chosen.seed)))
        return
    found = [_in_a_process(device, chosen.seed) for device in ("cpu", chosen.device)]
    for name in found[0]:
        if name != "kinds":
            print(f"{name:34}" + "".join(f"{one[name]:>10}" for one in found))
    same = clustering_accuracy(np.array(found[0]["kinds"]), np.array(found[1]["kinds"]))
    print(f"{'pictures in the same kind on both':34}{same:>10.4f}")


def _in_a_process(device: str, seed: int) -> dict[str, Any]:
    """Return what `run` returns in a fresh process."""
    command = [sys.executable, __file__, "--alone", "--device", device, "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(device: str, seed: int) -> dict[str, Any]:
    """Return what the pipeline comes to on a device."""
    there = str(pick_device(device))
    os.environ[OVERRIDE] = there
    known, unsorted = (_some(f"digits:{part}") for part in ("known", "unsorted"))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = nk.discover(
            known,
            unsorted,
            out=Path(folder) / "run",
            kinds=len(unsorted.classes),
            seed=seed,
            truth="folders",
            settings=SETTINGS,
            page=False,
            progress=nk.Progress("plain"),
        )
        predicted = found.predict(known)
    assert found.scores is not None
    assert found.scores.acc is not None
    assert found.kmeans_scores is not None
    assert found.kmeans_scores.acc is not None
    assert known.labels is not None
    truth = [f"known:{known.classes[label]}" for label in known.labels]
    return {
        "device": there,
        "ACC of k-means on the features": round(found.kmeans_scores.acc, 4),
        "ACC of discovery (DTC-Pi)": round(found.scores.acc, 4),
        "known digits that predict names": round(float(np.mean(np.array(predicted.kinds) == truth)), 4),
        "seconds": round(time.perf_counter() - began),
        "kinds": found.labels.tolist(),
    }


def _some(name: str) -> nk.ImageSet:
    """Return the first pictures of each digit of a part of the digits."""
    images = named(name, labelled=True)
    assert images is not None
    assert images.labels is not None
    first = [np.flatnonzero(images.labels == label)[:EACH] for label in range(len(images.classes))]
    return images.select(np.sort(np.concatenate(first)))


if __name__ == "__main__":
    main()
