"""How much memory a piece of work takes, measured in a process that does nothing else (Linux)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def peak_growth(work: Callable[[], Any]) -> float:
    """Return by how many MB this process grows at most while it does some work."""
    Path("/proc/self/clear_refs").write_text("5")  # the largest size counts from here on
    before = _size("VmRSS")
    work()
    return _size("VmHWM") - before


def in_a_process(program: str, what: str, data: str | None) -> float:
    """Return what `program --memory WHAT` prints last, a number."""
    line = [sys.executable, program, "--memory", what] + (["--data", data] if data else [])
    return float(json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))


def _size(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024
