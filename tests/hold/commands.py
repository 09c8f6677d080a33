"""Every command that writes, over a folder with a finished run in it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from children import Job, in_turn
from damage import QUIET, contents, discover

import newkinds as nk
from pictures import write_embeddings

SETTINGS = (
    "discover.warmup_epochs=1", "discover.epochs=3", "discover.snapshots=2", "count.max_kinds=5", "count.splits=2",
    "count.enough=4", "rehearse.rehearsals=1", "rehearse.choose=off",
)  # fmt: skip
LEFT = ("cost.json", "table.json", "table.csv", "compare.json", "journal.jsonl")  # say when, or how long it took
SET = [part for setting in SETTINGS for part in ("--set", setting)]


class Commands:
    """Every command that writes, over a folder with a finished run in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.place = root / "base", root / "place"  # always the same: run.json says where it was
        self.root.mkdir()
        sets = write_embeddings(self.root)
        self._write_week(sets)
        (self.root / "said.csv").write_text("path,kind\n00,odd one\n01,odd one\n40,none\n")
        self.seconds: dict[str, float] = {}  # that each takes when nobody kills it
        self._ends: dict[str, dict[str, bytes]] = {}
        line = ["run" if part == "new" else part for part in self.lines()["discover"]]
        self._ended(["predict"], {"arguments": line, "cwd": str(self.root)})

    def _write_week(self, sets: tuple[Path, Path]) -> None:
        """Write a run that people have spoken about, and the heap of next week."""
        week = self.root / "week-1"
        discover(sets, week, kinds=3, rehearsals=0, page=False)
        say: list[dict[str, Any]] = [
            {"do": "name", "kind": "new:0", "name": "washer"},
            {"do": "accept", "kinds": ["new:0"]},
            {"do": "name", "kind": "new:1", "name": "gasket"},
            {"do": "move", "pictures": [nk.load(week).names[0]], "to": "new:1"},
        ]
        for one in say:
            nk.journal(week, say=one, progress=QUIET)
        points = np.concatenate([np.load(file)["embeddings"][::2] for file in sets])
        names = [f"later-{row}" for row in range(len(points))]
        np.savez(self.root / "later.npz", embeddings=points[::-1] + np.float32(0.1), names=names)

    def job(self, name: str, **more: Any) -> Job:
        """Return a command as a job, which begins in a fresh copy of the folder if that is said."""
        fresh = {"fresh": str(self.root)} if more.pop("fresh", False) else {}
        return {"arguments": self.lines()[name], "cwd": str(self.place), **fresh, **more}

    def ends(self, name: str) -> dict[str, bytes]:
        """Return what is kept after a command, when nobody kills it."""
        if name not in self._ends:
            self._ended([name])
        return self._ends[name]

    def _ended(self, chosen: Sequence[str], *before: Job) -> None:
        kept_in = {name: self.root.parent / f"{name}-whole" for name in chosen}
        jobs = [self.job(name, fresh=True, keep=str(place)) for name, place in kept_in.items()]
        answers = in_turn([*before, *jobs], self.root.parent)
        assert [answer["code"] for answer in answers] == [0] * len(answers), answers
        for name, answer in zip(chosen, answers[len(before) :], strict=True):
            self.seconds[name], self._ends[name] = answer["seconds"], kept(kept_in[name])
            shutil.rmtree(kept_in[name])

    @staticmethod
    def lines() -> dict[str, list[str]]:
        """Return the arguments of each, for the folder as the current one."""
        sets, out = ["known.npz", "unsorted.npz"], ["--out", "new", "--quiet"]
        methods = ["--methods", "kmeans,dtc", "--seeds", "1", "--kinds", "3"]
        return {
            "discover": ["discover", *sets, "--truth", "folders", *out, *SET],
            "grow": ["grow", "week-1", "later.npz", *out, "--rehearsals", "1"],
            "count": ["count", *sets, *out, *SET],
            "rehearse": ["rehearse", "known.npz", *out, *SET],
            "pretrain": ["pretrain", "known.npz", *out],
            "compare": ["compare", *sets, *methods, *out, *SET[:4]],
            "evaluate": ["evaluate", "run", "--truth", "folders", "--quiet"],
            "report": ["report", "run", "--quiet"],
            "figures": ["figures", "run", "--quiet"],
            "journal": ["journal", "run", "--import", "said.csv", "--quiet"],
            "predict": ["predict", "run", "unsorted.npz", "--to", "new.csv", "--quiet"],
            "export": ["export", "run", "--to", "csv", "--out", "new.csv", "--quiet"],
            "onnx": ["export", "run", "--to", "onnx", "--out", "new.onnx", "--quiet"],
        }


def kept(folder: Path) -> dict[str, bytes]:
    """Return the files that must be the same: all but those that say how long something took."""
    files = contents(folder).items()
    return {name: data for name, data in files if Path(name).name not in LEFT and not _has_times(name, folder)}


def _has_times(name: str, folder: Path) -> bool:
    is_compared = (folder / "new" / "f").exists() or (folder / "new" / "compare.json").exists()
    return is_compared and Path(name).name in ("run.json", "index.html")
