"""Corrections in a heap that holds known kinds, too: all sorts of kinds follow, sorting again keeps what was said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from test_mixed_heap import discover, heap

import newkinds as nk
from newkinds.progress import Progress

QUIET = Progress("silent")


def test_what_was_said_holds_in_a_mixed_heap(tmp_path: Path) -> None:
    pictures, truth = heap(12, 30)
    run = tmp_path / "run"
    found = discover(run, pictures)
    kinds = found.kinds.astype(object)
    known = next(kind for kind in found.columns if kind.startswith("known:"))
    moved = [found.names[row] for row in np.flatnonzero(truth == "kind 11")[:8]]
    wrong = found.names[int(np.flatnonzero(kinds == known)[0])]
    say = [
        {"do": "move", "pictures": moved, "to": "fresh"},
        {"do": "move", "pictures": [wrong], "to": "none"},
        {"do": "merge", "kinds": ["new:0", known]},
    ]
    nk.journal(run, say=say, progress=QUIET)
    before = nk.load(run)
    assert "new:0" not in before.columns
    assert {before.kinds[before.names.index(name)] for name in moved} == {"new:4"}
    again = discover(run, pictures, again=True)
    assert {again.kinds[again.names.index(name)] for name in moved} == {"new:4"}
    assert again.kinds[again.names.index(wrong)] == "none"
    is_known = (truth < "kind 10") & ~np.isin(again.names, [wrong])
    named = np.char.add("known:", truth[is_known])
    assert (again.kinds[is_known] == named).mean() >= (before.kinds[is_known] == named).mean() - 0.02
    assert set(again.columns) <= set(before.columns)
    assert discover(run, pictures).kinds.tolist() == again.kinds.tolist()
