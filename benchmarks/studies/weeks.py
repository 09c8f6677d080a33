"""Ten weekly heaps of groceries: kinds appear over time, a scripted person corrects and accepts, and each week goes on.

ROOT/grocery has one folder of photographs a kind. Which kinds are known is drawn by the number of the draw, as in the
study `photographs`. At first 30 kinds are known, by 40 % of their pictures; their others come in equal parts in each of
ten weeks. The 52 other kinds appear over time, 7 in the first week and 5 in each further one: half of a kind's pictures
in the week in which it appears, the rest in equal parts from then on. The commands are

    newkinds discover KNOWN WEEK-1 --heap mixed --truth folders --out RUN-1
    newkinds grow RUN-1 WEEK-2 --truth folders --out RUN-2

and so on, without any setting, each in a process of its own, whose CPU time is told. Between two of them the person
speaks through the run's journal, by the truth: takes the five largest new kinds that are mostly one, moves out what is
wrong, names and accepts them (or says that they are a known kind); names two more, with a few confirmed pictures and
without accepting them; and looks through the ten known kinds that have most pictures, moves out what is wrong and
confirms the rest. A picture that belongs to no kind that is there is moved to none only if it is in the way.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import newkinds as nk
from newkinds.assignment import Assignment, known_kind, sort_of
from newkinds.corrections import State
from newkinds.evaluation.scores import score_answer
from newkinds.images.lists import list_from_json
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names
from newkinds.runs.growth import read_growth
from newkinds_bench.house import DOCS
from studies.tools.results import put_table, read_result, write_result

NAME, PAGE, FIGURE = "weeks", DOCS / "next-week.md", DOCS / "figures" / "weeks.svg"
WEEKS, KNOWN, LABELLED, FIRST, EACH = (
    10,
    30,
    0.4,
    7,
    5,
)  # weeks, kinds, share, kinds that appear in the first, and later
ACCEPTED, NAMED, LOOKED_AT = 5, 2, 10  # kinds that the person accepts, only names, and known ones it looks through
MOSTLY, FEWEST, CONFIRMED = 0.7, 5, 5  # share of one true kind, pictures of a kind that the person takes, and confirms
QUIET = Progress("silent")


def main() -> None:
    """Go through the weeks that are missing, and write benchmarks/results/studies/weeks.json, its page and its plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, nargs="?", help="the folder of the data sets")
    parser.add_argument("--draw", type=int, default=0, help="which kinds are known")
    parser.add_argument("--weeks", type=int, default=WEEKS, help="how many weeks")
    parser.add_argument("--runs", type=Path, default=Path("runs/weeks"), help="where folders and runs go")
    parser.add_argument("--render", action="store_true", help="only make the page and the plot again")
    chosen = parser.parse_args()
    if not chosen.render:
        through(chosen.root, chosen.runs / f"grocery-{chosen.draw}", chosen.draw, chosen.weeks)
    put_table(PAGE, "weeks", table(kept()))
    plot(kept())


def kept() -> dict[str, list[dict[str, Any]]]:
    """Return what was measured, a list of weeks for each draw."""
    return read_result(NAME, "draws")


def through(root: Path, folder: Path, draw: int, weeks: int) -> None:
    """Go through the weeks of a draw that are missing."""
    write_folders(root / "grocery", folder, draw)
    done = kept().get(str(draw), [])
    for week in range(1, weeks + 1):
        if week <= len(done):
            continue
        if week > 1:
            correct(folder / f"run-{week - 1}")
        seconds = typed(folder, week)
        done = [*done, {"week": week, **measured(folder, week), "cpu_seconds": seconds}]
        write_result(NAME, {"draws": {**kept(), str(draw): done}})
        print(json.dumps(done[-1]))


def write_folders(source: Path, folder: Path, draw: int) -> None:
    """Make folders of links: known, and a heap for each week."""
    kinds = sorted(entry.name for entry in source.iterdir() if entry.is_dir())
    drawn = [kinds[number] for number in np.random.default_rng(draw).permutation(len(kinds))]
    for number, kind in enumerate(drawn):
        pictures = sorted((source / kind).iterdir())
        order = [pictures[place] for place in np.random.default_rng([draw, number]).permutation(len(pictures))]
        if number < KNOWN:
            cut, first = round(LABELLED * len(order)), 1
            _link(order[:cut], folder / "known" / kind)
            rest = order[cut:]
        else:
            first = 1 if number < KNOWN + FIRST else 2 + (number - KNOWN - FIRST) // EACH
            cut = round(len(order) / 2) if first < WEEKS else len(order)
            _link(order[:cut], folder / f"week-{first}" / kind)
            rest = order[cut:]
        for week, some in zip(
            range(first, WEEKS + 1), np.array_split(np.arange(len(rest)), WEEKS + 1 - first), strict=True
        ):
            _link([rest[place] for place in some], folder / f"week-{week}" / kind)


def _link(pictures: list[Path], folder: Path) -> None:
    for picture in pictures:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / picture.name).exists():
            os.symlink(picture.resolve(), folder / picture.name)


def typed(folder: Path, week: int) -> float:
    """Type the line of a week, and return the CPU seconds that it took."""
    heap, out = folder / f"week-{week}", folder / f"run-{week}"
    first = ["discover", str(folder / "known"), str(heap), "--heap", "mixed"]
    line = first if week == 1 else ["grow", str(folder / f"run-{week - 1}"), str(heap)]
    line = [sys.executable, "-m", "newkinds", *line, "--truth", "folders", "--out", str(out), "--offline", "--anyway"]
    process = subprocess.Popen(line)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(line)} ended with {status}")
    return used.ru_utime + used.ru_stime


def truth_of(run: Path) -> list[str]:
    """Return the true kinds of a run's heap, by the folders of its pictures."""
    folder = RunFolder.open(run)
    if not folder.lists(names.GROWN):
        return [name.partition("/")[0] for name in nk.load(run).names]
    listing = list_from_json(run / names.pictures("unsorted"))
    assert listing.kinds is not None
    return [str(listing.kinds[name]) for name in listing.names]


def known_of(run: Path) -> dict[str, str]:
    """Return the kind of each known picture of a run, by its file."""
    listing = list_from_json(run / names.pictures("known"), labelled=True)
    assert listing.kinds is not None
    return {str(path): str(listing.kinds[name]) for name, path in zip(listing.names, listing.paths, strict=True)}


class Person:
    """Somebody who knows the truth, and speaks about a run."""

    def __init__(self, run: Path) -> None:
        self.run, self.truth = run, np.array(truth_of(run))
        self.known = set(RunFolder.open(run).get_json(names.KNOWN))

    def say(self, *actions: dict[str, Any]) -> None:
        """Say several things as one."""
        if actions:
            nk.journal(self.run, say={"do": "batch", "actions": list(actions), "note": "a person"}, progress=QUIET)

    def look(self) -> State:
        """Return what holds now."""
        return nk.journal(self.run, progress=QUIET).state

    def place_of(self, state: State, true: str) -> str | None:
        """Return the kind that pictures of a true kind belong to, None if there is none of that name."""
        if true in self.known:
            return known_kind(true)
        return next((kind for kind, name in state.called.items() if name == true and kind not in state.merged), None)

    def moved_out(self, state: State, kind: str, true: str) -> list[dict[str, Any]]:
        """Return what moves out of a kind the pictures that are not of a true kind, as far as they belong anywhere."""
        rows = state.rows_of(kind)
        wrong = rows[self.truth[rows] != true]
        found: dict[str, list[str]] = {}
        for row in wrong.tolist():
            place = self.place_of(state, str(self.truth[row])) or "none"
            found.setdefault(place, []).append(state.names[row])
        return [{"do": "move", "pictures": some, "to": place} for place, some in sorted(found.items())]

    def new_kinds(self, state: State) -> list[tuple[str, str]]:
        """Return the open new kinds that are mostly of one true kind, the largest first, and which."""
        found = []
        for kind, size in state.sizes.items():
            if sort_of(kind) == "new" and size >= FEWEST and state.status.get(kind) is None:
                true, count = Counter(self.truth[state.rows_of(kind)].tolist()).most_common(1)[0]
                if count >= MOSTLY * size:
                    found.append((size, kind, true))
        return [(kind, true) for _, kind, true in sorted(found, reverse=True)]

    def accept(self) -> None:
        """Accept the largest new kinds, or say which known ones they are."""
        for _ in range(ACCEPTED):
            state = self.look()
            some = self.new_kinds(state)
            if not some:
                return
            kind, true = some[0]
            actions, place = self.moved_out(state, kind, true), self.place_of(state, true)
            if place is not None and place != kind:
                actions.append({"do": "merge", "kinds": [kind, place]})
                if place.startswith("new:"):
                    actions.append({"do": "accept", "kinds": [min(kind, place, key=lambda k: int(k[4:]))]})
            else:
                actions += [{"do": "name", "kind": kind, "name": true}, {"do": "accept", "kinds": [kind]}]
            self.say(*actions)

    def name(self) -> None:
        """Name further new kinds, and confirm some pictures of them."""
        state = self.look()
        unnamed = [one for one in self.new_kinds(state) if self.place_of(state, one[1]) is None]
        for kind, true in unnamed[:NAMED]:
            rows = state.rows_of(kind)
            right = [state.names[row] for row in rows[self.truth[rows] == true][:CONFIRMED]]
            self.say({"do": "name", "kind": kind, "name": true}, {"do": "confirm", "kind": kind, "pictures": right})

    def look_through(self) -> None:
        """Look through the known kinds that have most pictures."""
        state = self.look()
        sizes = {kind: size for kind, size in state.sizes.items() if sort_of(kind) == "known"}
        for kind in sorted(sizes, key=lambda kind: (-sizes[kind], kind))[:LOOKED_AT]:
            true = kind.partition(":")[2]
            rows = state.rows_of(kind)
            right = [state.names[row] for row in rows[self.truth[rows] == true].tolist()]
            actions = self.moved_out(state, kind, true)
            self.say(*actions, *([{"do": "confirm", "kind": kind, "pictures": right}] if right else []))


def correct(run: Path) -> None:
    """Let the person speak about a run, once."""
    if nk.journal(run, progress=QUIET).last:
        return
    person = Person(run)
    person.accept()
    person.name()
    person.look_through()


def measured(folder: Path, week: int) -> dict[str, Any]:
    """Return how well this week's pictures were sorted by the machine, and what of the weeks before was kept."""
    run = folder / f"run-{week}"
    opened, found, truth = RunFolder.open(run), nk.load(run), np.array(truth_of(run))
    growth = read_growth(opened)
    came = np.ones(len(truth), np.bool_) if growth is None else growth.is_new
    some = Assignment(
        tuple(name for name, yes in zip(found.names, came, strict=True) if yes),
        found.columns,
        found.probabilities[came],
    )
    known = {name: known_kind(name) for name in opened.get_json(names.KNOWN)}
    scores = score_answer(some, truth[came].tolist(), known)
    assert scores.mixed is not None
    values = {
        "came": int(came.sum()),
        "earlier": int((~came).sum()),
        "known_kinds": len(known),
        "open_kinds": len([kind for kind, size in zip(found.columns, found.assignment.sizes, strict=True)
                           if sort_of(kind) == "new" and size]),
        "named": scores.mixed.named, "all": scores.mixed.all, "old": scores.mixed.old, "new": scores.mixed.new,
        "auroc": scores.mixed.auroc,
    }  # fmt: skip
    if growth is None:
        return values
    names_lost, corrections_lost = lost(folder, week)
    before = nk.journal(folder / f"run-{week - 1}", progress=QUIET)
    fresh = found.since.found if found.since is not None else {}
    reused = [kind for kind in fresh if int(kind[4:]) < before.history.next_number]
    spoken = [kind for kind in found.called if kind in growth.carried.held]
    right = [truth[came][found.kinds[came] == kind] == found.called[kind] for kind in spoken]
    hits = np.concatenate(right) if right else np.zeros(0, np.bool_)
    labels = known_of(run)
    taught = [Path(path).resolve().parent.name == kind for path, kind in labels.items() if "/known/" not in path]
    return values | {
        "accepted": len(growth.accepted),
        "names_lost": names_lost,
        "corrections": int(before.state.said.sum()),
        "corrections_lost": corrections_lost,
        "numbers_reused": len(reused),
        "in_named_open_kinds": len(hits),
        "of_them_right": float(hits.mean()) if len(hits) else None,
        "known_right": float(np.mean(taught)) if taught else None,
    }


def lost(folder: Path, week: int) -> tuple[int, int]:
    """Return how many names, and how many corrections of single pictures, of the week before are lost in a week."""
    if week < 2:
        return 0, 0
    before = nk.journal(folder / f"run-{week - 1}", progress=QUIET).state
    run = folder / f"run-{week}"
    after, called = nk.journal(run, progress=QUIET).state, nk.load(run).called
    known = set(RunFolder.open(run).get_json(names.KNOWN))
    kinds = [kind for kind in before.called if before.current(kind) == kind and before.sizes.get(kind)]
    names_lost = sum(
        before.called[kind] not in known if before.status.get(kind) == "accepted" else
        called.get(kind) != before.called[kind] for kind in kinds
    )  # fmt: skip
    labels = {Path(path).name: kind for path, kind in known_of(run).items()}
    corrections_lost = 0
    for row in np.flatnonzero(before.said).tolist():
        name, kind = before.names[row], before.kinds[before.kind[row]]
        if name in after.rows:
            corrections_lost += after.kind_of(name) != before.current(kind)
        else:  # a known picture now: of the kind's name
            corrections_lost += labels.get(Path(name).name) != before.name_of(before.current(kind))
    return names_lost, corrections_lost


def table(draws: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return a row for each week."""
    lines = [
        "| draw | week | pictures this week | from earlier | known kinds | right by name | known or new, AUROC "
        "| names lost | corrections kept | corrections lost | numbers used twice | CPU seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for draw, weeks in draws.items():
        for one in weeks:
            cells = [draw, one["week"], f"{one['came']:,}", f"{one['earlier']:,}", one["known_kinds"]]
            cells += [f"{one['named']:.3f}", f"{one['auroc']:.3f}", one.get("names_lost", "")]
            cells += [one.get("corrections", ""), one.get("corrections_lost", ""), one.get("numbers_reused", "")]
            lines.append(f"| {' | '.join(map(str, [*cells, round(one['cpu_seconds'])]))} |")
    return lines


def plot(draws: dict[str, list[dict[str, Any]]]) -> None:
    """Draw accuracy and CPU time by week."""
    plt.rcParams["svg.hashsalt"] = "newkinds"
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 4.6), sharex=True)
    for number, (draw, weeks) in enumerate(draws.items()):
        x = [one["week"] for one in weeks]
        above.plot(x, [100 * one["named"] for one in weeks], f"C{number}o-", label=f"draw {draw}")
        below.plot(x, [one["cpu_seconds"] for one in weeks], f"C{number}o-")
    above.set(ylabel="right by name, %")
    below.set(xlabel="week", ylabel="CPU seconds", ylim=(0, None))
    above.legend(frameon=False)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
