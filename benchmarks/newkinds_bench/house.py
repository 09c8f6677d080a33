"""Where the results, the weights and the pages lie, wherever the command is typed."""

from __future__ import annotations

from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
RESULTS, WEIGHTS = HOUSE / "results", HOUSE / "weights"
AGAIN, FIGURES, STUDIES = "again", "figures", "studies"  # in the folder of results
DOCS = HOUSE.parent / "docs"
RUNS = Path("runs/bench")  # run folders are large: they go below the current folder
