"""Work that is measured in a process which does nothing else, and how much memory it takes (Linux)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from newkinds_bench.house import HOUSE


def peak_growth(work: Callable[[], Any]) -> float:
    """Return by how many MB this process grows at most while it does some work."""
    Path("/proc/self/clear_refs").write_text("5")  # the largest size counts from here on
    before = _size("VmRSS")
    work()
    return _size("VmHWM") - before


def in_a_process(study: str, *options: str) -> str:
    """Return the last line that a study prints, run in a process of its own."""
    line = [sys.executable, str(HOUSE / "study.py"), study, *options]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def memory_of(study: str, what: str, data: Path | None) -> float:
    """Return the number that `study --memory WHAT` prints last."""
    return float(in_a_process(study, "--memory", what, *(["--data", str(data)] if data else [])))


def _size(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024
