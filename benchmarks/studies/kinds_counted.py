"""The number of new kinds by rehearsals, where it is known: error, and how often the interval holds the truth.

ROOT/grocery and ROOT/tiny-imagenet/train have one folder of photographs a kind; ROOT has OmniGlot and CIFAR-100. Which
photographs' kinds are known is drawn by the number of the draw; draws from 100 on, OmniGlot's probe alphabets and
CIFAR-100's probe classes were for tuning, and none of them is reported. `sizes`: new kinds are as large as known ones,
or half as large, or very unequal: the same heaps thinned. Every row is written to
benchmarks/results/studies/kinds_counted.json at once, with all that speaks for each number, so that no linkage is made
twice; the answers are found anew each time, with the constants as they are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import newkinds as nk
from newkinds.cache import open_cache
from newkinds.count import Rehearsal, hidden_draws
from newkinds.count.rehearsed import Evidence, answer, gather
from newkinds.datasets.omniglot import EVALUATION
from newkinds.features import extract_features
from newkinds.images import open_images
from newkinds.images.imageset import group_of
from newkinds.networks import build_network
from newkinds.networks.files import read_network
from newkinds.pipeline.frozen import Views
from newkinds.settings import Count as CountSettings
from newkinds_bench.house import DOCS
from newkinds_bench.starts import opened
from studies.tools.clustering import Rows
from studies.tools.networks import network_file
from studies.tools.results import put_table

NAME, PAGE = "kinds_counted", DOCS / "how-many-kinds.md"
PHOTOGRAPHS = {"grocery": ("grocery", 54), "tiny-imagenet": ("tiny-imagenet/train", 30)}  # folder, kinds known
TUNING = 100  # the first draw for tuning
DRAWS, THINNED = 10, 3  # draws of known kinds; so many also with heaps that are thinned
TITLES = {
    "omniglot": "OmniGlot's evaluation alphabets",
    "cifar100": "CIFAR-100's ten unlabelled classes",
    "grocery": "groceries, 54 kinds known",
    "tiny-imagenet": "Tiny-ImageNet, 30 kinds known",
}

SIZES = {"alike": "as large as known ones", "half": "half as large", "unequal": "5 to 100 pictures each"}
FEWEST, MOST = 5, 100  # pictures of kinds of unequal sizes, any ratio as probable

Cases = Iterator[tuple[dict[str, Any], Callable[[], list[Rehearsal]]]]  # what each is, and how it is made


def main() -> None:
    """Count every case that the result file lacks, and put the table into its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    parser.add_argument("--runs", type=Path, default=Path("runs/studies/kinds_counted"), help="where features are kept")
    parser.add_argument("--render", action="store_true", help="only make the table again")
    chosen = parser.parse_args()
    settings = CountSettings(estimator="rehearsed")
    rows = Rows(NAME, {"what": "the number of new kinds by rehearsals", "count": settings.model_dump(mode="json")})
    for about, make in () if chosen.render else cases(chosen.data, chosen.runs):
        if not rows.has(**about):
            rehearsals = make()
            started = time.process_time()
            kept = to_plain(gather(rehearsals))
            seconds = time.process_time() - started
            rows.add({**about, **counted(kept, about["truth"], settings), "cpu_seconds": seconds, "evidence": kept})
            print({key: value for key, value in rows.rows[-1].items() if key != "evidence"}, flush=True)
    rows.rows = [{**row, **counted(row["evidence"], row["truth"], settings)} for row in rows.rows]
    rows.write()
    put_table(PAGE, "rehearsed", table(rows.rows))


def counted(evidence: dict[str, Any], truth: int, settings: CountSettings) -> dict[str, Any]:
    """Return the estimate that evidence gives, with the constants as they are."""
    found = answer(to_evidence(evidence), settings)
    told = {"k": found.k, "low": found.low, "high": found.high, "holds": found.low <= truth <= found.high}
    return told | {"error": found.error, "size_ratio": found.size_ratio, "cannot_tell": found.cannot_tell}


def to_plain(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as plain values."""
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in asdict(evidence).items()}


def to_evidence(kept: dict[str, Any]) -> Evidence:
    """Take back what `to_plain` gave."""
    values: dict[str, Any] = {k: np.array(value) if isinstance(value, list) else value for k, value in kept.items()}
    return Evidence(**values)


def cases(data: Path | None, runs: Path) -> Cases:
    """Yield what each case is, and a function that makes its rehearsals."""
    yield from omniglot(data, runs)
    yield from cifar100(data, runs)
    for draw in range(DRAWS):
        for name in PHOTOGRAPHS:
            yield from photographs(name, draw, data, runs)


def omniglot(data: Path | None, runs: Path) -> Cases:
    """Yield the evaluation alphabets; the five probe alphabets are a rehearsal each."""
    weights = "omniglot-25-group"
    for sizes in ("alike", "half"):
        for alphabet in EVALUATION[: None if sizes == "alike" else 2 * THINNED]:
            truth = len(opened(f"omniglot:{alphabet}", data).classes)

            def make(alphabet: str = alphabet, sizes: str = sizes) -> list[Rehearsal]:
                probes = features(runs, weights, "omniglot:probes", data)
                heap = features(runs, weights, f"omniglot:{alphabet}", data)
                images = opened("omniglot:probes", data)
                groups = np.array([group_of(name) for name in images.classes])[probes["y"]]
                parts = [np.flatnonzero(groups == group) for group in dict.fromkeys(groups)]
                some = heap["plain"][thinned(heap["y"], sizes)]
                return [Rehearsal(probes["plain"][part], probes["y"][part], some) for part in parts]

            yield {"data": "omniglot", "case": alphabet, "truth": truth, "sizes": sizes}, make


def cifar100(data: Path | None, runs: Path) -> Cases:
    """Yield the ten unlabelled classes; the ten probe classes are the one rehearsal."""
    for sizes in SIZES:

        def make(sizes: str = sizes) -> list[Rehearsal]:
            probes, heap = (
                features(runs, "cifar100-80", f"cifar100:{part}", data) for part in ("probes", "unlabelled")
            )
            return [Rehearsal(probes["plain"], probes["y"], heap["plain"][thinned(heap["y"], sizes)])]

        yield {"data": "cifar100", "case": "unlabelled", "truth": 10, "sizes": sizes}, make


def photographs(name: str, draw: int, data: Path | None, runs: Path) -> Cases:
    """Yield a draw of known kinds of photographs, with rehearsals as the pipeline makes them."""
    _, known = PHOTOGRAPHS[name]
    for sizes in SIZES if draw < THINNED or draw >= TUNING else ("alike",):

        def make(sizes: str = sizes) -> list[Rehearsal]:
            kept = photograph_features(runs, name, data)
            order = np.random.default_rng(draw).permutation(len(kept["names"]))
            views, labels, settings = Views((kept["plain"], kept["mirrored"])), kept["y"], nk.Settings()
            heap = np.flatnonzero(np.isin(labels, order[known:]))
            heap = heap[thinned(labels[heap], sizes, draw)]
            taught = np.flatnonzero(np.isin(labels, order[:known]))
            mine, kinds = views.of(taught), labels[taught]
            way, found = mine.learn(kinds, settings, open_cache()).chosen, []
            for number in hidden_draws(known, settings.count.rehearsals, draw):
                hidden = np.sort(order[:known])[number]
                out = np.isin(kinds, hidden)
                transfer = mine.learn_from(np.flatnonzero(~out), kinds, way, settings, open_cache())
                rows = mine.of(np.flatnonzero(out)).transferred(transfer)
                found.append(Rehearsal(rows, kinds[out], views.of(heap).transferred(transfer)))
            return found

        total = {"grocery": 82, "tiny-imagenet": 40}[name]
        yield {"data": name, "case": draw, "truth": total - known, "sizes": sizes}, make


def thinned(labels: NDArray[np.int64], sizes: str, draw: int = 0) -> NDArray[np.int64]:
    """Return all rows, every other one of each kind, or so many of each that kinds have very unequal sizes."""
    if sizes == "alike":
        return np.arange(len(labels))
    random, kept = np.random.default_rng(draw), []
    for kind in np.unique(labels):
        mine = np.flatnonzero(labels == kind)
        if sizes == "half":
            kept.append(mine[::2])
        else:
            size = round(FEWEST * (MOST / FEWEST) ** random.random())
            kept.append(random.permutation(mine)[:size])
    return np.sort(np.concatenate(kept))


def features(runs: Path, weights: str, source: str, data: Path | None) -> dict[str, NDArray[Any]]:
    """Return f's features of a set of pictures ("plain") and its labels ("y"), computed once."""
    file = runs / f"{weights}-{source.replace(':', '-')}.npz"
    if not file.exists():
        images = opened(source, data)
        assert images.labels is not None
        rows = nk.extract_features(read_network(network_file(weights, data))[0], images)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, plain=rows, y=images.labels)
    return dict(np.load(file))


def photograph_features(runs: Path, name: str, data: Path | None) -> dict[str, NDArray[Any]]:
    """Return features of photographs, plain and mirrored, their labels and the names of the kinds, computed once."""
    file = runs / f"{name}.npz"
    if not file.exists():
        images = open_images((data or Path()) / PHOTOGRAPHS[name][0], labelled=True)
        network = build_network("efficientnet-lite0", images.channels, images.size, seed=0).eval()
        cache = open_cache()
        ways = ("plain", "mirrored")
        views: dict[str, Any] = {way: extract_features(network, images, view=way, cache=cache) for way in ways}
        assert images.labels is not None
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **views, y=images.labels, names=np.array(images.classes))
    return dict(np.load(file))


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return error and coverage of each data set, and over all cases."""
    lines = [
        "| data | sizes of new kinds | new kinds | cases | mean error | relative error | interval contains "
        "the truth | mean width | cannot tell |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for sizes, words in SIZES.items():
        mine = [row for row in rows if row["sizes"] == sizes]
        for name, title in TITLES.items():
            lines += _line(title, words, [row for row in mine if row["data"] == name])
        lines += _line("all", words, mine)
    return lines


def _line(title: str, sizes: str, rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    truths = [row["truth"] for row in rows]
    errors = np.array([abs(row["k"] - row["truth"]) for row in rows])
    kinds = f"{min(truths)} to {max(truths)}" if min(truths) < max(truths) else f"{truths[0]}"
    held, unsure = sum(row["holds"] for row in rows), sum(row["cannot_tell"] is not None for row in rows)
    width = np.mean([row["high"] - row["low"] for row in rows])
    return [
        f"| {title} | {sizes} | {kinds} | {len(rows)} | {errors.mean():.2f} | "
        f"{np.mean(errors / truths):.1%} | {held} of {len(rows)} | {width:.1f} | {unsure} |"
    ]


if __name__ == "__main__":
    main()
