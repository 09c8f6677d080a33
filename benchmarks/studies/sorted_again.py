"""Sorting again by what people said: how many of the pictures that nobody spoke of are right, before and after.

A scripted person, who knows the truth, merges kinds that are mostly of one true kind, and then says of some pictures,
drawn at random, of which kind they are. What `newkinds discover --again` then does is done to the answers of the runs
that the study `photographs` leaves below --runs, those of the draws of known kinds that were for tuning transfers. The
weight of a confirmed picture was chosen on draws 100 and 101 together, so the figures of 100 flatter, and groceries 102
was looked at, too. Five draws of pictures each.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment
from newkinds.corrections import Action, Batch, History, Merge, Move, Name
from newkinds.corrections.again import sorted_anew, what_was_said
from newkinds.pipeline.frozen import Views
from newkinds.runs import RunFolder, names
from newkinds.runs.results import read_assignment, read_tensors
from newkinds.transfer import from_tensors
from newkinds_bench.house import DOCS
from studies.tools.results import put_table, write_result

NAME, PAGE = "sorted_again", DOCS / "corrections.md"
RUNS = {
    "groceries": ("grocery-100-0-auto", "grocery-102-0-auto"),
    "Tiny-ImageNet": ("tiny-imagenet-100-0-auto", "tiny-imagenet-102-0-auto"),
}
SHARES = (0.01, 0.05, 0.1, 0.2)
DRAWS = 5


def main() -> None:
    """Measure, and write benchmarks/results/studies/sorted_again.json and the table of docs/corrections.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=Path, default=Path("runs/photographs"), help="where the runs of photographs are")
    folder: Path = parser.parse_args().runs
    found = {data: {name: measured(folder / name) for name in runs} for data, runs in RUNS.items()}
    write_result(NAME, {"draws": DRAWS, "shares": list(SHARES), "right": found})
    lines = ["| share of pictures that the person spoke of | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |"]
    lines += ["|---|" + "---|" * len(SHARES)]
    for data, runs in found.items():
        means = np.mean([runs[name] for name in runs], axis=0)
        for row, when in enumerate(("before", "sorted again")):
            lines.append(f"| {data}, {when} | " + " | ".join(f"{share:.3f}" for share in means[:, row]) + " |")
    put_table(PAGE, NAME, lines)


def measured(path: Path) -> list[list[float]]:
    """Return the share of pictures that nobody spoke of that are right, before and after, for each of SHARES."""
    run = RunFolder.open(path)
    machine = read_assignment(run)
    truth = np.array([name.partition("/")[0] for name in machine.names])
    transfer = from_tensors(*read_tensors(run, names.TRANSFER))
    views = [run.get_array(names.features(which)) for which in ("unsorted", "unsorted-mirrored")]
    features = Views(tuple(views)).transferred(transfer)
    rows = []
    for share in SHARES:
        both = [list(_right(machine, truth, features, share, seed)) for seed in range(DRAWS)]
        rows.append(np.mean(both, axis=0).tolist())
    return rows


def _right(
    machine: Assignment, truth: NDArray[np.str_], features: NDArray[np.float32], share: float, seed: int
) -> Iterator[float]:
    """Yield the share that is right before sorting again, and after."""
    history = History(machine)
    spoken = np.random.default_rng(seed).random(len(truth)) < share
    for line, action in enumerate(_said(history, truth, spoken), 1):
        history.take(line, history.resolved(action))
    state = history.state
    said = what_was_said(machine, state, len(history.done))
    after = sorted_anew(machine.names, said, features, {})
    for kinds in (np.array(said.columns)[said.labels], after.kinds):
        yield float(np.mean(np.array([state.name_of(kind) for kind in kinds])[~spoken] == truth[~spoken]))


def _said(history: History, truth: NDArray[np.str_], spoken: NDArray[np.bool_]) -> Iterator[Action]:
    """Yield what the person says: kinds that are mostly of one true kind are it, and pictures are what they are."""
    state = history.state
    mostly: dict[str, list[str]] = {}
    for kind in state.sizes:
        mostly.setdefault(Counter(truth[state.rows_of(kind)].tolist()).most_common(1)[0][0], []).append(kind)
    for name, kinds in mostly.items():
        if len(kinds) > 1:
            yield Merge(kinds=tuple(kinds))
        yield Name(kind=kinds[0], name=name)
    called = {name: state.current(kinds[0]) for name, kinds in mostly.items()}
    for name in sorted(set(truth[spoken].tolist())):
        pictures = tuple(state.names[row] for row in np.flatnonzero(spoken & (truth == name)))
        to = called.get(name, "fresh")
        new = (Name(kind="fresh", name=name),) if to == "fresh" else ()
        yield Batch(actions=(Move(pictures=pictures, to=to), *new))


if __name__ == "__main__":
    main()
