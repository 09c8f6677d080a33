"""Images a second of a whole epoch beside a bare loop of the same network.

A bare loop is forward, loss, backward and step on the same batches, whose views are made beforehand; it has no
augmentation, no checks, no scores and, for discovery, no look at all pictures that makes q. Both take turns in one
run, and what is reported is the ratio of their median times. Discovery is measured with the defaults, where q is made
of what the epoch's own steps said, and with `discover.p_from = "pass"`, the paper's way. Beside them, an epoch of
discovery with `precision = "bfloat16"` against one with "float32".

Memory: one epoch of discovery on as many pictures as CIFAR-10 has in five classes, in a process of its own, beside the
bare loop with the same pictures in memory: the largest size of the process while it ran, above what it had before.
Writes benchmarks/results/studies/speed.json; with --only, the other rows there stay as they are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import newkinds as nk
from newkinds.methods.dtc.settings import Discover, resolved_discover
from newkinds.methods.dtc.task import ClusteringTask
from newkinds.networks import Network, build_network
from newkinds.parallel.processes import make_accelerator
from newkinds.pretrain.pretraining import split_held_out
from newkinds.pretrain.resolve import resolved_pretrain
from newkinds.pretrain.tasks import TASKS, KnownTask
from newkinds.progress import QUIET
from newkinds.start import initialise
from newkinds.training import Phase, Task, _epoch, make_optimiser
from newkinds_bench.starts import opened
from studies.tools.memory import memory_of, peak_growth
from studies.tools.results import RESULTS, write_result
from studies.tools.timing import seconds_in_turn

CASES = {
    "omniglot": ("omniglot:Tengwar", "omniglot:train", "vgg6-4-2"),
    "cifar": ("cifar10:unlabelled", None, "resnet18-slim"),
}
CIFAR10 = 25_000  # pictures of five classes


def main() -> None:
    """Measure speed and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    parser.add_argument("--pictures", type=int, default=512, help="of each case but pretraining")
    parser.add_argument(
        "--only", nargs="+", default=[], help="such as cifar:pretrain, omniglot:pi, precision or memory"
    )
    parser.add_argument("--memory", choices=["ours", "bare"], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.memory:
        print(json.dumps(peak(chosen.memory, chosen.data)))
        return
    path = RESULTS / "speed.json"
    before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"speed": []}
    rows = {f"{row['data']}:{row['epoch_of']}": row for row in before["speed"]}
    for case in CASES:
        for what in ("pi", "baseline", "pretrain", "pi, pass", "baseline, pass"):
            if chosen.only and f"{case}:{what}" not in chosen.only:
                continue
            task = make_task(case, what, chosen.data, chosen.pictures)
            row = {"network": CASES[case][2], "data": case, "epoch_of": what, "pictures": len(task.names)}
            loops = {"ours": ours(task), "bare": bare(task)}
            rows[f"{case}:{what}"] = row | compare(task, loops, 3 if len(task.names) > 10_000 else 7)
            print(rows[f"{case}:{what}"], flush=True)
    precisions: list[dict[str, Any]] = before.get("precision", [])
    if not chosen.only or "precision" in chosen.only:
        precisions = []
        for case, (_, _, name) in CASES.items():
            task = make_task(case, "pi", chosen.data, chosen.pictures)
            loops = {precision: ours(task, precision) for precision in ("bfloat16", "float32")}
            row = {"network": name, "data": case, "pictures": len(task.names)}
            precisions.append(row | compare(task, loops, 7))
            print(precisions[-1], flush=True)
    memory = before.get("memory", {})
    if not chosen.only or "memory" in chosen.only:
        above = {kind: memory_of("speed", kind, chosen.data) for kind in ("bare", "ours")}
        memory = {"pictures": CIFAR10, "network": "resnet18-slim", "peak_mb_above_the_start": above}
        memory["beyond_the_bare_loop_mb"] = above["ours"] - above["bare"]
        print(memory)
    values = {
        "what": "median time of a bare loop / median time of our epoch, taking turns in one run; precision: of float32 "
        "/ of bfloat16",
        "threads": torch.get_num_threads(),
        "speed": list(rows.values()),
        "precision": precisions,
        "memory": memory,
    }
    write_result("speed", values)


def make_task(case: str, what: str, data: Path | None, pictures: int) -> ClusteringTask | KnownTask:
    """Return a task of discovery on so many pictures, or one of pretraining on more."""
    unsorted, known, name = CASES[case]
    settings = nk.Settings()
    if what == "pretrain":
        # OmniGlot's whole training part: the few-shot score looks at 1,400 pictures however many there are.
        images = opened(known, data) if known else some(unsorted, data, 4 * pictures)
        chosen = resolved_pretrain(settings.pretrain, images).model_copy(
            update={"quarter_turns": False, "loss": "prototypical" if known else "cross-entropy"}
        )
        kept, held_out = split_held_out(images, chosen.held_out, 0)
        network = build_network(name, images.channels, images.size, seed=0)
        return TASKS[chosen.loss](network, images, kept, held_out, chosen, seed=0)
    images = some(unsorted, data, pictures)
    network = build_network(name, images.channels, images.size, seed=0)
    return clustering_task(network, images, what)


def some(source: str, data: Path | None, pictures: int) -> nk.ImageSet:
    """Return about so many pictures of a set."""
    images = opened(source, data)
    return images.select(np.arange(0, len(images), max(1, len(images) // pictures)))


def clustering_task(network: Network, images: nk.ImageSet, what: str) -> ClusteringTask:
    """Return a task of discovery whose start is made of random features: its speed is the same."""
    variant, _, p_from = what.partition(", ")
    changes = {"variant": variant} | ({"p_from": p_from} if p_from else {})
    chosen = resolved_discover(nk.Settings().section(Discover).model_copy(update=changes), images, len(images.classes))
    rows = np.random.default_rng(0).normal(size=(len(images), network.feature_dim)).astype(np.float32)
    start = initialise(rows, len(images.classes), nk.Settings().initialise.model_copy(update={"restarts": 1}))
    return ClusteringTask(network, start, images, chosen, seed=0)


def ours(task: ClusteringTask | KnownTask, precision: str = "float32") -> Callable[[], None]:
    """Return a function that runs one epoch as the loop does, with what is due at its end."""
    accelerator = make_accelerator()
    settings = task.settings
    optimiser = make_optimiser(settings, task.parameter_groups(settings))
    phase = Phase("main", 1000, settings)

    def run() -> None:
        with QUIET.step("", 1) as step:
            _epoch(task, task.module, optimiser, accelerator, 7, step, precision)
        task.epoch_done(phase, 7, last_of_phase=False)

    return run


def bare(task: Task, most: int | None = None) -> Callable[[], None]:
    """Return a function that runs a bare loop over the same batches, or at most so many of them, made beforehand."""
    batches = [(task.inputs(items, 7), items) for items in task.batches(7)[:most]]
    optimiser = torch.optim.Adam(task.module.parameters(), lr=1e-4)

    def run() -> None:
        task.set_mode()
        for views, items in batches:
            loss = task.losses(task.module(views), items, 7)["loss"]
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return run


def compare(task: Task, loops: dict[str, Callable[[], None]], repeats: int) -> dict[str, Any]:
    """Time two loops in turn."""
    median = seconds_in_turn(loops, repeats)
    seen = sum(len(items) for items in task.batches(7))
    first, second = median.values()
    return {
        "repeats": repeats,
        "images_a_second": {name: seen / value for name, value in median.items()},
        "ratio": second / first,
    }


def peak(kind: str, data: Path | None) -> float:
    """Return by how many MB this process grows at most in an epoch of discovery, or in some steps of the bare loop."""
    images = opened("cifar10:unlabelled", data)
    task = clustering_task(build_network("resnet18-slim", 3, 32, seed=0), images, "pi")
    return peak_growth(ours(task) if kind == "ours" else bare(task, 3))


if __name__ == "__main__":
    main()
