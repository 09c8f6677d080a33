"""What rehearsals foretell against what then came: the share of pictures sorted right, and what a probability means.

ROOT is the folder of the data sets, with ROOT/grocery and ROOT/tiny-imagenet/train as in the study `photographs`. Each
case is a `discover` with its defaults and K given. Draws of known kinds from 100 on, OmniGlot's probe alphabets and
CIFAR-100's probe classes were for tuning: with --beginning, the calibration's beginning on other data sets
(`newkinds.rehearsal`) is made anew from them. All others are reported. Adds to
benchmarks/results/studies/rehearsal.json, and makes the tables and the plot of docs/trust.md; with --render, only that.
With --again, what finished runs foretell is found anew, after the calibration has changed: nothing is sorted again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import newkinds as nk
from newkinds.datasets.omniglot import EVALUATION, PROBES
from newkinds.pipeline import stages
from newkinds.pipeline.frozen import Views
from newkinds.pipeline.rehearsing import is_pure, is_right
from newkinds.progress import Progress
from newkinds.rehearsal import calibration
from newkinds.rehearsal.calibration import Calibration, Observed, calibration_error, reliability, with_heap
from newkinds.rehearsal.outcome import AS_SET, Rehearsed, is_hopeless
from newkinds.rehearsal.signals import signals
from newkinds.rehearsal.trust import judge
from newkinds.runs import RunFolder, names
from newkinds.runs.results import read_tensors
from newkinds.tensors import from_bytes
from newkinds.transfer import from_tensors
from newkinds_bench.house import WEIGHTS
from newkinds_bench.starts import opened
from studies.photographs import Run, folders, thinned
from studies.tools.results import RESULTS, write_result
from studies.tools.trust_page import STAGES, render

NAME = "rehearsal"
TUNING = 100  # the first draw for tuning
DRAWS = {"grocery": 10, "tiny-imagenet": 10}  # reported
TUNED = 4  # draws for tuning, of each
FEW, FEW_DRAWS = 6, 3  # pictures of each new kind, in cases of few; draws of these, reported and for tuning
# A network from nothing that is hardly trained: an f that cannot work. Rehearsals with it are slow, so there are two.
NOTHING: dict[str, Any] = {"settings": {"pretrain": {"epochs": 1}}, "rehearsals": 2, "choose": "off"}
OMNIGLOT = {"count.probes": [f"{alphabet}/*" for alphabet in PROBES], "count.probe_groups": "apart"}


@dataclass(frozen=True)
class Case:
    """A heap: what it is called, its data, and the arguments of `discover`, made when they are needed."""

    name: str
    data: str
    arguments: Callable[[Path, Path], dict[str, Any]]
    tuning: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def photographs(data: str, draw: int, network: str = "") -> Case:
    """Return a draw of known kinds of photographs."""

    def arguments(root: Path, runs: Path) -> dict[str, Any]:
        known, heap, kinds = folders(Run(data, draw, 0), root, runs)
        found = {"known": known, "unsorted": heap, "kinds": kinds}
        return found | ({"network": network, **NOTHING} if network else {})

    return Case(f"{network or data}-{draw}", "nothing" if network else data, arguments, draw >= TUNING)


def few_of_each(data: str, draw: int) -> Case:
    """Return a draw of photographs whose new kinds have few pictures each."""

    def arguments(root: Path, runs: Path) -> dict[str, Any]:
        known, heap, kinds = folders(Run(data, draw, 0), root, runs)
        return {"known": known, "unsorted": thinned(heap, draw, FEW), "kinds": kinds}

    return Case(f"{data}-{draw}-few", f"{data}-few", arguments, draw >= TUNING)


def omniglot(alphabet: str) -> Case:
    """Return an alphabet, with f of the 25 alphabets without the probes."""

    def arguments(root: Path, runs: Path) -> dict[str, Any]:
        return {
            "known": "omniglot:background",
            "unsorted": f"omniglot:{alphabet}",
            "kinds": "true",
            "weights": WEIGHTS / "omniglot-25-group.safetensors",
            "settings": {"count": {key.partition(".")[2]: value for key, value in OMNIGLOT.items()}},
        }

    return Case(f"omniglot-{alphabet}", "omniglot", arguments)


def named(name: str, known: str, unsorted: str, weights: str | None = None) -> Case:
    """Return a data set that is called by its name."""

    def arguments(root: Path, runs: Path) -> dict[str, Any]:
        file = None if weights is None else WEIGHTS / f"{weights}.safetensors"
        return {"known": known, "unsorted": unsorted, "kinds": "true", "weights": file}

    return Case(name, name, arguments)


def planned() -> Iterator[Case]:
    """Yield all cases, quick ones first."""
    for data in DRAWS:
        for draw in range(TUNING, TUNING + TUNED):
            yield photographs(data, draw)
    for draw in range(max(DRAWS.values())):
        for data, number in DRAWS.items():
            if draw < number:
                yield photographs(data, draw)
    for draw in (*range(FEW_DRAWS), *range(TUNING, TUNING + FEW_DRAWS)):
        for data in DRAWS:
            yield few_of_each(data, draw)
    yield named("digits", "digits:known", "digits:unsorted")
    for alphabet in EVALUATION:
        yield omniglot(alphabet)
    yield named("cifar100", "cifar100:labelled+probes", "cifar100:unlabelled", "cifar100-80")
    yield photographs("tiny-imagenet", 0, "resnet18-imagenet-slim")


def main() -> None:
    """Measure what is missing, and make the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, nargs="?", help="the folder of the data sets")
    parser.add_argument("--only", action="append", help="names of cases, or how they begin, such as grocery")
    parser.add_argument("--runs", type=Path, default=Path("runs/rehearsal"), help="where folders and runs go")
    parser.add_argument("--beginning", action="store_true", help="make the beginning of the calibration anew")
    parser.add_argument("--again", action="store_true", help="judge the runs of measured cases again")
    parser.add_argument("--anew", action="store_true", help="measure cases again that were measured before")
    parser.add_argument("--render", action="store_true", help="only make the page again")
    chosen = parser.parse_args()
    for case in planned():
        wanted = not chosen.only or any(f"{case.name}-".startswith(f"{name}-") for name in chosen.only)
        if not wanted or chosen.render or chosen.beginning or chosen.again:
            continue
        if chosen.anew or case.name not in kept():
            found = measured(case, chosen.root, chosen.runs)
            write_result(NAME, {**whole(), "cases": dict(sorted({**kept(), case.name: found}.items()))})
    if chosen.beginning:
        make_beginning(chosen.runs)
    if chosen.again:
        there = {name: chosen.runs / f"rehearsed-{name}" for name in kept()}
        again = {name: judged(RunFolder.open(run)) for name, run in there.items() if run.exists()}
        cases = {name: case | again.get(name, {}) for name, case in kept().items()}
        tuned = by_other_data(chosen.runs, list(again)) or whole().get("by other data sets", {})
        write_result(NAME, {"cases": cases, "by other data sets": tuned})
    if kept():
        render(kept(), whole().get("by other data sets", {}))


def whole() -> dict[str, Any]:
    """Return the result file."""
    file = RESULTS / f"{NAME}.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def kept() -> dict[str, dict[str, Any]]:
    """Return what was measured, by name."""
    return dict(whole().get("cases", {}))


def measured(case: Case, root: Path, runs: Path) -> dict[str, Any]:
    """Run a case, and return what was foretold and what came."""
    arguments = case.arguments(root, runs)
    if arguments["kinds"] == "true":
        arguments["kinds"] = len(opened(arguments["unsorted"], root).classes)
    out = runs / f"rehearsed-{case.name}"
    with timed() as seconds:
        found = nk.discover(
            **arguments, out=out, truth="folders", data=root, anyway=True, page=False, progress=Progress("quiet")
        )
    run = RunFolder.open(out)
    rehearsal = run.get_json(names.REHEARSAL)
    unchosen = sorted_as_set(arguments, out, root) if rehearsal["chosen"] != AS_SET else {}
    assert found.scores is not None
    return {
        "data": case.data,
        "tuning": case.tuning,
        "acc": found.scores.acc,
        "nmi": found.scores.nmi_geometric,
        "rehearsed": [one["trials"][rehearsal["chosen"]]["acc"] for one in rehearsal["rehearsed"]],
        "as_set": [one["trials"][AS_SET]["acc"] for one in rehearsal["rehearsed"]],
        "chosen": rehearsal["chosen"],
        "cpu_seconds": dict(seconds),
        **unchosen,
        **judged(run),
    }


def sorted_as_set(arguments: dict[str, Any], out: Path, root: Path) -> dict[str, Any]:
    """Return how well a heap is sorted with the settings as they are, where rehearsals have chosen others."""
    beside = {**arguments, "out": Path(f"{out}-as-set"), "truth": "folders", "data": root, "rehearsals": 0}
    found = nk.discover(**beside, page=False, progress=Progress("quiet"))
    assert found.scores is not None
    return {"acc_as_set": found.scores.acc}


def truth_of(run: RunFolder) -> NDArray[np.int64]:
    """Return the true kinds of a run's pictures, numbered."""
    return np.unique(run.get_json(names.SCORES)["truth"], return_inverse=True)[1]


def judged(run: RunFolder, begun: Callable[[str], Calibration] = calibration.beginning) -> dict[str, Any]:
    """Return what a finished run foretells, and what its probabilities were worth, by the calibration as it is now.

    begun: what it begins from.
    """
    rehearsal, heap = run.get_json(names.REHEARSAL), heap_of(run)
    rehearsed = [Rehearsed.from_dict(one) for one in rehearsal["rehearsed"]]
    chosen = rehearsal["chosen"]
    trust, own = judge(
        heap.x,
        heap.kinds,
        run.get_array(names.PROBABILITIES).shape[1],
        rehearsals_of(run, "right"),
        rehearsals_of(run, "pure"),
        [one.trials[chosen] for one in rehearsed],
        hidden=max((len(one.hidden) for one in rehearsed), default=0),
        begun=begun,
    )
    bins = reliability(own, heap.yes)
    before = run.get_array(names.UNCALIBRATED).max(axis=1).astype(np.float64)
    return {
        "hopeless": is_hopeless(rehearsed, chosen),
        **{f"expected_{key}": getattr(trust, key) for key in ("acc", "low", "high", "nmi")},
        "bins": [[one.pictures, one.said, one.right] for one in bins],
        "error": calibration_error(bins),
        "error_before": calibration_error(reliability(before, heap.yes)),
    }


def heap_of(run: RunFolder, of: str = "right") -> Observed:
    """Return the signals of a finished run's heap, and which of its pictures are "right", or "pure"."""
    rows = [run.get_array(names.features("unsorted"))]
    if run.has(names.features("unsorted-mirrored")):
        rows.append(run.get_array(names.features("unsorted-mirrored")))
    features = rows[0]
    if run.has(names.TRANSFER):
        features = Views(tuple(rows)).transferred(from_tensors(*read_tensors(run, names.TRANSFER)))
    labels = run.get_array(names.PROBABILITIES).argmax(axis=1)
    is_so = {"right": is_right, "pure": is_pure}[of](labels, truth_of(run))
    return Observed(signals(labels, features, seed=run.settings.seed), is_so, labels)


def rehearsals_of(run: RunFolder, of: str) -> list[Observed]:
    """Return what was observed in the rehearsals of a run with the settings that were chosen, "right" or "pure".

    Files number the settings that were tried; which number was chosen is seen by the shares that were right.
    """
    rehearsal = run.get_json(names.REHEARSAL)
    accs = [one["trials"][rehearsal["chosen"]]["acc"] for one in rehearsal["rehearsed"]]
    files = [from_bytes(file.read_bytes(), str(file))[0] for file in sorted(run.path.glob("rehearsal/*.safetensors"))]

    def agrees(number: int) -> bool:
        right = [file.get(f"{number}-right") for file in files]
        return all(
            one is not None and math.isclose(float(one.double().mean()), acc)
            for one, acc in zip(right, accs, strict=True)
        )

    number = next(filter(agrees, range(len(rehearsal["changes"])))) if files else 0
    return [Observed(*(file[f"{number}-{name}"].numpy() for name in ("signals", of, "kinds"))) for file in files]


def for_beginning(runs: Path, case: Case, of: str) -> list[Observed]:
    """Return what a case for tuning teaches the beginning: its heap, sorted as people's own heaps are.

    The heap of an alphabet is reported, so that its rehearsals have to do, which hide the alphabets for tuning.
    """
    run = RunFolder.open(runs / f"rehearsed-{case.name}")
    return [heap_of(run, of)] if case.tuning else rehearsals_of(run, of)


def by_other_data(runs: Path, cases: list[str]) -> dict[str, dict[str, Any]]:
    """Return what is foretold of heaps for tuning, and what came, if the beginning is from the other data sets alone.

    Nothing that the reported cases have in common with it was seen: the width of ranges is from here.
    """
    taught = [case for case in begun_from() if case.name in cases]
    past = {of: {case.name: for_beginning(runs, case, of) for case in taught} for of in ("right", "pure")}
    found = {}
    for case in (case for case in taught if case.tuning):
        family = case.data.removesuffix("-few")
        others = [other.name for other in taught if not other.data.startswith(family)]
        begun = {of: flat([one for name in others for one in past[of][name]]) for of in past}
        told = judged(RunFolder.open(runs / f"rehearsed-{case.name}"), begun.__getitem__)
        found[case.name] = told | {"acc": float(past["right"][case.name][0].yes.mean())}
    return found


def begun_from() -> list[Case]:
    """Return the cases that the calibration begins from."""
    return [case for case in planned() if case.tuning] + [omniglot(EVALUATION[0])]


@contextmanager
def timed(timed_stages: dict[str, str] = STAGES) -> Iterator[dict[str, float]]:
    """Time some stages of a run, in seconds of the processor, what other stages take that it calls left out.

    timed_stages: titles, and the names of the pipeline's methods.
    """
    seconds: dict[str, float] = defaultdict(float)
    before, running = {}, []

    def wrapped(title: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            begun, inner = time.process_time(), [0.0]
            running.append(inner)
            try:
                return call(*arguments, **options)
            finally:
                running.pop()
                took = time.process_time() - begun
                seconds[title] += took - inner[0]
                if running:
                    running[-1][0] += took

        return run

    for title, name in timed_stages.items():
        before[name] = getattr(stages.Pipeline, name)
        setattr(stages.Pipeline, name, wrapped(title, before[name]))
    try:
        yield seconds
    finally:
        for name, call in before.items():
            setattr(stages.Pipeline, name, call)


def flat(observed: list[Observed]) -> Calibration:
    """Return the calibration that these rehearsals teach, beginning from nothing."""
    rows = np.concatenate([with_heap(one.x) for one in observed])
    nothing = Calibration(rows.mean(axis=0), rows.std(axis=0), np.zeros(rows.shape[1] + 1))
    return nothing.after(observed, strength=1.0)


def make_beginning(runs: Path) -> None:
    """Write the coefficients that the calibration begins from: of heaps for tuning, as they were sorted."""
    found = {}
    for of in ("right", "pure"):
        observed = [one for case in begun_from() for one in for_beginning(runs, case, of)]
        found[of] = {key: np.round(value, 4).tolist() for key, value in flat(observed).to_dict().items()}
    file = Path(calibration.__file__).with_name("beginning.json")
    file.write_text(json.dumps(found, indent=2) + "\n")
    print(f"wrote {file}, from {len(observed)} heaps and rehearsals")


if __name__ == "__main__":
    main()
