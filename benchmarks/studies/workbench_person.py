"""A person corrects groceries in the workbench: clicks from the raw result to 99 % right, against moving each by hand.

The person is scripted: it acts by the truth, and only by requests that the page sends, too. What it does in each round
is what a person would do: split kinds that are visibly several and merge those that are one; then take pages of
suggestions, picking what is right or what is wrong, whichever takes fewer clicks, with Shift for runs. What counts as a
click: each kind or picture that is picked (two for a run), each button, each choice in a dialog, opening a kind. By
hand, a wrong picture takes three: the picture, "Move to ...", the kind.

    python benchmarks/study.py workbench_person RUN [RUN ...]

RUN is a run folder of `newkinds discover` on folders of pictures, one folder a true kind; it is copied first.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from newkinds.app.serving import Serving, open_workbench
from newkinds.evaluation.scores import score
from newkinds_bench.house import DOCS
from studies.tools.results import write_result

NAME, FIGURE = "workbench_person", DOCS / "workbench-clicks.svg"
GOAL, BY_HAND = 0.99, 3
FEWEST, SHARE = 6, 0.15  # pictures of a second kind, and their share, that a person notices in a kind
PAYS = 6  # pictures more than clicks that a split must bring


class Person:
    """Somebody at the page, who knows the truth and counts clicks."""

    def __init__(self, serving: Serving) -> None:
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{serving.port}", timeout=60, verify=False)
        self.http.get(serving.url).raise_for_status()
        self._origin = {"Origin": f"http://127.0.0.1:{serving.port}"}
        self.bench = serving.bench
        names = serving.bench.pictures.names
        self.truth = tuple(name.partition("/")[0] for name in names)
        self.true = np.unique(self.truth, return_inverse=True)[1]
        self.clicks = 0
        self.spent: dict[str, int] = {}
        self.curve: list[tuple[int, float]] = []
        self._split: set[str] = set()
        self.look()
        self.curve.append((0, self.accuracy))

    def get(self, path: str, **params: Any) -> Any:
        """Ask for something."""
        return self.http.get(path, params=params).raise_for_status().json()

    def post(self, path: str, body: Any) -> None:
        """Say something."""
        self.http.post(path, json=body, headers=self._origin).raise_for_status()

    def look(self) -> None:
        """Look at the pictures of all kinds, as the page has them."""
        now = self.bench.now()
        there, self.kind = np.unique(now.kind, return_inverse=True)
        self.kinds = [now.kinds[kind] for kind in there.tolist()]
        self.table = np.zeros((len(self.kinds), self.true.max() + 1), dtype=int)
        np.add.at(self.table, (self.kind, self.true), 1)
        self.accuracy = float(score(self.kind, self.truth).acc or 0)
        self.of = dict(zip(*(one.tolist() for one in linear_sum_assignment(-self.table)), strict=True))

    def did(self, what: str, clicks: int) -> None:
        """Count clicks, and look at what became of it."""
        self.clicks += clicks
        self.spent[what] = self.spent.get(what, 0) + clicks
        self.look()
        self.curve.append((self.clicks, self.accuracy))

    def split(self) -> bool:
        """Split a kind that is visibly several around one picture of each, if that pays."""
        for number in np.argsort(-self.table.sum(axis=1)).tolist():
            counts, kind = self.table[number], self.kinds[number]
            several = [true for true in np.argsort(-counts) if counts[true] >= max(FEWEST, SHARE * counts.sum())]
            if len(several) < 2 or kind in self._split:
                continue
            self._split.add(kind)
            rows = np.array(self.get("/api/kind", kind=kind)["rows"])
            seeds = [int(rows[self.true[rows] == true][0]) for true in several]
            parts = self.get("/api/parts", kind=kind, seeds=",".join(map(str, seeds)))["parts"]
            brings = sum(int(np.bincount(self.true[part]).max()) for part in parts) - counts.max()
            if len(parts) > 1 and brings >= len(seeds) + PAYS:
                fresh = [{"to": "fresh", "rows": part} for part in parts[1:]]
                self.post("/api/say", {"action": {"do": "split", "kind": kind, "parts": fresh}})
                self.did("split", 1 + len(seeds) + 2)  # open it, pick, "Split around these", "Split"
                return True
        return False

    def merge(self) -> bool:
        """Merge kinds that are mostly one."""
        groups: dict[int, list[int]] = {}
        for number, counts in enumerate(self.table):
            if counts.max() >= counts.sum() / 2:
                groups.setdefault(int(counts.argmax()), []).append(number)
        sizes = self.table.sum(axis=1)
        for some in groups.values():
            if len(some) > 1 and sorted(sizes[some].tolist())[-2] >= FEWEST - 2:
                self.post("/api/say", {"action": {"do": "merge", "kinds": [self.kinds[one] for one in some]}})
                self.did("merge", len(some) + 2)  # pick them, "Merge", "Merge"
                return True
        return False

    def take(self) -> bool:
        """Take a page of suggestions: move what is right, and nothing else."""
        moves = self.get("/api/suggest")["moves"]
        rows, index = moves["rows"], {kind: number for number, kind in enumerate(self.kinds)}
        if not rows:
            return False
        guess = [index.get(kind, -1) for kind in moves["guess"]]
        right = np.array([self.of.get(one) == self.true[row] for row, one in zip(rows, guess, strict=True)])
        actions = []
        for kind in dict.fromkeys(moves["guess"]):
            mine = [row for row, one, good in zip(rows, moves["guess"], right, strict=True) if one == kind and good]
            rest = [row for row, one, good in zip(rows, moves["guess"], right, strict=True) if one == kind and not good]
            if rest:
                self.post("/api/refuse", {"kind": kind, "rows": rest})
            if mine:
                actions.append({"do": "move", "rows": mine, "to": kind})
        if actions:
            self.post("/api/say", {"action": {"do": "batch", "actions": actions, "note": ""}})
        self.did("suggestions", 1 + min(picks(right), picks(~right)))
        return True


def picks(chosen: NDArray[np.bool_]) -> int:
    """Return how many clicks it takes to pick some of the pictures in a row: one each, or two for a run."""
    edges = np.diff(np.concatenate([[0], chosen.astype(int), [0]]))
    return int(np.minimum(np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1), 2).sum())


def corrected(run: Path) -> dict[str, Any]:
    """Let the person correct a copy of a run, and return how that went."""
    with tempfile.TemporaryDirectory() as folder:
        bench = open_workbench(shutil.copytree(run, Path(folder) / "run"))
        bench.near(None)
        serving = Serving(bench, log=lambda text: None)
        thread = threading.Thread(target=serving.run, daemon=True)
        thread.start()
        person = Person(serving)
        raw = person.accuracy
        while person.accuracy < GOAL and (person.split() or person.merge() or person.take()):
            pass
        serving.stop()
        thread.join()
    wrong = round((1 - raw) * len(person.truth))
    by_hand = BY_HAND * max(0, wrong - int((1 - GOAL) * len(person.truth)))
    return {
        "pictures": len(person.truth),
        "raw": raw,
        "end": person.accuracy,
        "clicks": person.clicks,
        "by_hand": by_hand,
        "times": by_hand / person.clicks,
        "spent": person.spent,
        "curve": person.curve,
    }


def draw(found: dict[str, dict[str, Any]]) -> None:
    """Draw accuracy against clicks."""
    plt.rcParams["svg.hashsalt"] = "newkinds"
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for number, (name, one) in enumerate(found.items()):
        clicks, right = np.array(one["curve"]).T
        axes.plot(clicks, 100 * right, f"C{number}", label=f"{name}, workbench")
        hand = np.array([0, one["by_hand"]])
        axes.plot(hand, 100 * np.array([one["raw"], GOAL]), f"C{number}:", label=f"{name}, each by hand")
    axes.axhline(100 * GOAL, color="0.7", linewidth=0.8)
    axes.set(xlabel="clicks", ylabel="pictures in the right kind, %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    """Correct each run, and keep the result and its curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("runs", type=Path, nargs="+")
    found = {run.name: corrected(run) for run in parser.parse_args().runs}
    for name, one in found.items():
        print(f"{name}: {one['raw']:.3f} to {one['end']:.3f} in {one['clicks']} clicks, {one['times']:.1f} times fewer")
    write_result(NAME, {"goal": GOAL, "clicks_by_hand": BY_HAND, "runs": found})
    draw(found)


if __name__ == "__main__":
    main()
