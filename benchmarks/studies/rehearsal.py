"""What rehearsals foretell against what then came: the share of pictures sorted right, and what a probability means.

ROOT is the folder of the data sets, with ROOT/grocery and ROOT/tiny-imagenet/train as in the study `photographs`. Each
case is a `discover` with its defaults and K given. Draws of known kinds from 100 on, OmniGlot's probe alphabets and
CIFAR-100's probe classes were for tuning: with --beginning, the calibration's beginning on other data sets
(`newkinds.rehearsal`) is made anew from them. All others are reported. Adds to
benchmarks/results/studies/rehearsal.json, and makes the tables and the plot of docs/trust.md; with --render, only that.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

import newkinds as nk
from newkinds.datasets import named as dataset
from newkinds.datasets.omniglot import EVALUATION, PROBES
from newkinds.pipeline import stages
from newkinds.pipeline.rehearsing import is_right
from newkinds.progress import Progress
from newkinds.rehearsal import calibration
from newkinds.rehearsal.calibration import Calibration, Observed, calibration_error, reliability, with_heap
from newkinds.report.figures import STYLE
from newkinds.runs import RunFolder, names
from newkinds.tensors import from_bytes
from newkinds_bench.house import DOCS, WEIGHTS
from studies.photographs import Run, folders
from studies.tools.results import RESULTS, put_table, write_result

NAME, PAGE, PICTURE = "rehearsal", DOCS / "trust.md", DOCS / "figures" / "trust.svg"
TUNING = 100  # the first draw for tuning
DRAWS = {"grocery": 10, "tiny-imagenet": 10}  # reported
TUNED = 4  # draws for tuning, of each
TITLES = {
    "grocery": "groceries, 54 kinds known, 28 unsorted",
    "tiny-imagenet": "Tiny-ImageNet, 30 kinds known, 10 unsorted",
    "omniglot": "OmniGlot, 25 alphabets known, one unsorted, f trained here",
    "cifar100": "CIFAR-100, 80 classes known, 10 unsorted, f trained here",
    "digits": "digits, 5 known, 5 unsorted, f trained here",
    "nothing": "Tiny-ImageNet, 30 kinds known, 10 unsorted, f from nothing after one epoch",
}
COLOURS = dict(zip(TITLES, ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#000000"), strict=True))
# A network from nothing that is hardly trained: an f that cannot work. Rehearsals with it are slow, so there are two.
NOTHING: dict[str, Any] = {"settings": {"pretrain": {"epochs": 1}}, "rehearsals": 2, "choose": "off"}
OMNIGLOT = {"count.probes": [f"{alphabet}/*" for alphabet in PROBES], "count.probe_groups": "apart"}
STAGES = {"features": "features", "transfer": "transfer", "rehearsals": "rehearse", "sorting": "sort"}


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
    yield named("digits", "digits:known", "digits:unsorted")
    for alphabet in EVALUATION:
        yield omniglot(alphabet)
    yield named("cifar100", "cifar100:labelled+probes", "cifar100:unlabelled", "cifar100-80")
    yield photographs("tiny-imagenet", 0, "resnet18-imagenet-slim")


def main() -> None:
    """Measure what is missing, and make the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, nargs="?", help="the folder of the data sets")
    parser.add_argument("--only", action="append", help="names of cases, or how they begin")
    parser.add_argument("--runs", type=Path, default=Path("runs/rehearsal"), help="where folders and runs go")
    parser.add_argument("--beginning", action="store_true", help="make the beginning of the calibration anew")
    parser.add_argument("--render", action="store_true", help="only make the page again")
    chosen = parser.parse_args()
    for case in planned():
        wanted = not chosen.only or case.name.startswith(tuple(chosen.only))
        if wanted and case.name not in kept() and not (chosen.render or chosen.beginning):
            found = measured(case, chosen.root, chosen.runs)
            write_result(NAME, {"cases": dict(sorted({**kept(), case.name: found}.items()))})
    if chosen.beginning:
        make_beginning(chosen.runs)
    if kept():
        render(kept())


def kept() -> dict[str, dict[str, Any]]:
    """Return what was measured, by name."""
    file = RESULTS / f"{NAME}.json"
    return dict(json.loads(file.read_text())["cases"]) if file.exists() else {}


def measured(case: Case, root: Path, runs: Path) -> dict[str, Any]:
    """Run a case, and return what was foretold and what came."""
    arguments = case.arguments(root, runs)
    if arguments["kinds"] == "true":
        arguments["kinds"] = len(dataset(arguments["unsorted"], data=root).classes)
    out = runs / f"rehearsed-{case.name}"
    with timed() as seconds:
        found = nk.discover(
            **arguments, out=out, truth="folders", data=root, anyway=True, page=False, progress=Progress("quiet")
        )
    run = RunFolder.open(out)
    trust, rehearsal = run.get_json(names.TRUST), run.get_json(names.REHEARSAL)
    truth = np.unique(run.get_json(names.SCORES)["truth"], return_inverse=True)[1]
    right, said = is_right(found.labels, truth), run.get_array(names.UNCALIBRATED).max(axis=1).astype(np.float64)
    own = found.assignment.probability.astype(np.float64)
    assert found.scores is not None
    return {
        "data": case.data,
        "tuning": case.tuning,
        "acc": found.scores.acc,
        "nmi": found.scores.nmi_geometric,
        **{f"expected_{key}": trust[key] for key in ("acc", "low", "high", "nmi")},
        "rehearsed": [one["trials"][rehearsal["chosen"]]["acc"] for one in rehearsal["rehearsed"]],
        "hopeless": bool(rehearsal["hopeless"]),
        "chosen": rehearsal["chosen"],
        "bins": [[one.pictures, one.said, one.right] for one in reliability(own, right)],
        "error": calibration_error(reliability(own, right)),
        "error_before": calibration_error(reliability(said, right)),
        "cpu_seconds": dict(seconds),
    }


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Time some stages of a run, in seconds of the processor, what a stage calls left out."""
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

    for title, name in STAGES.items():
        before[name] = getattr(stages.Pipeline, name)
        setattr(stages.Pipeline, name, wrapped(title, before[name]))
    try:
        yield seconds
    finally:
        for name, call in before.items():
            setattr(stages.Pipeline, name, call)


def make_beginning(runs: Path) -> None:
    """Write the coefficients that the calibration begins from: of rehearsals for tuning, as the settings were."""
    observed: dict[str, list[Observed]] = {"right": [], "pure": []}
    tuning = [case for case in planned() if case.tuning] + [omniglot(EVALUATION[0])]
    for case in tuning:  # the rehearsals of the last one hide the probe alphabets
        for file in sorted((runs / f"rehearsed-{case.name}" / "rehearsal").glob("*.safetensors")):
            tensors, _ = from_bytes(file.read_bytes(), str(file))
            for of, some in observed.items():
                part = (tensors[f"0-{name}"].numpy() for name in ("signals", of, "kinds"))
                some.append(Observed(*part))
    rows = np.concatenate([with_heap(one.x) for one in observed["right"]])
    flat = Calibration(rows.mean(axis=0), rows.std(axis=0), np.zeros(rows.shape[1] + 1))
    found = {of: flat.after(some, strength=1.0).to_dict() for of, some in observed.items()}
    rounded = {of: {key: np.round(value, 4).tolist() for key, value in one.items()} for of, one in found.items()}
    file = Path(calibration.__file__).with_name("beginning.json")
    file.write_text(json.dumps(rounded, indent=2) + "\n")
    print(f"wrote {file}, from {len(observed['right'])} rehearsals")


def render(cases: dict[str, dict[str, Any]]) -> None:
    """Make the tables and the plot of the page from the cases that are reported."""
    reported = [case for case in cases.values() if not case["tuning"]]
    for name, lines in {"cases": by_data(reported), "cost": costs(reported), "all": all_cases(cases)}.items():
        put_table(PAGE, name, lines)
    PICTURE.write_bytes(drawn(reported))


def by_data(cases: list[dict[str, Any]]) -> list[str]:
    """Return a row for each data set, and one for all."""
    lines = ["| pictures | heaps | right | foretold | difference | in the range | calibration error, before |"]
    lines.append("|---|---|---|---|---|---|---|")
    for data, title in {**TITLES, "": "all"}.items():
        some = [case for case in cases if not data or case["data"] == data]
        if not some:
            continue
        acc, foretold = (np.array([case[key] for case in some]) for key in ("acc", "expected_acc"))
        inside = [case["expected_low"] <= case["acc"] <= case["expected_high"] for case in some]
        bins = [tuple(one) for case in some for one in case["bins"]]
        error, before = (np.mean([case[key] for case in some]) for key in ("error", "error_before"))
        pooled = pooled_error(bins)
        lines.append(
            f"| {title} | {len(some)} | {acc.mean():.3f} | {foretold.mean():.3f} | {np.abs(acc - foretold).mean():.3f} "
            f"| {sum(inside)} of {len(inside)} | {error:.3f} (all heaps together {pooled:.3f}), {before:.3f} |"
        )
    if len(cases) > 2:
        rank = spearmanr([case["acc"] for case in cases], [case["expected_acc"] for case in cases]).statistic
        lines += ["", f"Rank correlation over all heaps: {rank:.2f}."]
    return lines


def pooled_error(bins: list[tuple[float, ...]]) -> float:
    """Return the calibration error of all heaps' pictures together, by ten bins of what was said."""
    pictures, said, right = (np.array(column) for column in zip(*bins, strict=True))
    place = np.minimum(np.floor(said * 10).astype(np.int64), 9)
    total = 0.0
    for one in np.unique(place):
        here = place == one
        total += abs(float((pictures * (said - right))[here].sum()))
    return total / float(pictures.sum())


def costs(cases: list[dict[str, Any]]) -> list[str]:
    """Return the mean seconds of the processor that stages take, for each data set."""
    lines = [f"| pictures | {' | '.join(STAGES)} |", "|---" * (len(STAGES) + 1) + "|"]
    for data, title in TITLES.items():
        some = [case["cpu_seconds"] for case in cases if case["data"] == data]
        if some:
            means = [np.mean([one.get(stage, 0.0) for one in some]) for stage in STAGES]
            lines.append(f"| {title} | {' | '.join(f'{mean:.0f}' for mean in means)} |")
    return lines


def all_cases(cases: dict[str, dict[str, Any]]) -> list[str]:
    """Return a row for each case, those for tuning marked."""
    lines = ["| heap | right | foretold | rehearsals | chosen |", "|---|---|---|---|---|"]
    for name, case in cases.items():
        between = f"{case['expected_acc']:.3f} ({case['expected_low']:.2f} to {case['expected_high']:.2f})"
        past = ", ".join(f"{acc:.2f}" for acc in case["rehearsed"]) or "none"
        told = f"{case['chosen']}{', hopeless' if case['hopeless'] else ''}"
        lines.append(
            f"| {name}{' (tuning)' if case['tuning'] else ''} | {case['acc']:.3f} | {between} | {past} | {told} |"
        )
    return lines


def drawn(cases: list[dict[str, Any]]) -> bytes:
    """Return the plot: what came against what was foretold, and what was right against what was said."""
    import io

    with mpl.rc_context({**STYLE, "svg.hashsalt": NAME}):
        figure = Figure(figsize=(9, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axis in (left, right):
            axis.plot([0, 1], [0, 1], color="#999999", linewidth=1)
            axis.set_xlim(0, 1)
            axis.set_ylim(0, 1)
            axis.set_aspect("equal")
        for data, title in TITLES.items():
            some = [case for case in cases if case["data"] == data]
            if not some:
                continue
            acc, foretold, low, high = (
                np.array([case[key] for case in some])
                for key in ("acc", "expected_acc", "expected_low", "expected_high")
            )
            left.errorbar(
                foretold,
                acc,
                xerr=[foretold - low, high - foretold],
                fmt="o",
                markersize=4,
                linewidth=0.7,
                color=COLOURS[data],
                label=title.partition(",")[0],
            )
            bins = np.array([one for case in some for one in case["bins"]])
            right.plot(bins[:, 1], bins[:, 2], "o", markersize=2.5, alpha=0.6, color=COLOURS[data])
        left.set_xlabel("foretold share of pictures sorted right, with its range")
        left.set_ylabel("what came")
        left.legend(loc="upper left", fontsize=7)
        right.set_xlabel("probability of a picture's kind, tenths of each heap")
        right.set_ylabel("share that was right")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()


if __name__ == "__main__":
    main()
