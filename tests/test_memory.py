"""A process of ours keeps freed memory; one whose allocator the user chose is left alone."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from newkinds.memory import keep_freed_memory

ASKED = """
import resource
import torch
from newkinds.memory import keep_freed_memory
{}
for _ in range(10):
    torch.empty(2**24).fill_(1)  # 64 MB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.empty(2**24).fill_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc only")
def test_a_block_is_not_mapped_again() -> None:
    untuned = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "LD_PRELOAD"))}
    faults = []
    for line in ("keep_freed_memory()", ""):
        command = [sys.executable, "-c", ASKED.format(line)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=untuned)
        faults.append(int(done.stdout))
    assert faults[0] < faults[1] / 4


@pytest.mark.parametrize(("name", "value"), [("MALLOC_ARENA_MAX", "2"), ("LD_PRELOAD", "libjemalloc.so")])
def test_the_users_allocator_is_left_alone(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda *what: calls.append(what))
    monkeypatch.setattr(ctypes, "CDLL", lambda path: library)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    keep_freed_memory()
    assert len(calls) == 2
    monkeypatch.setenv(name, value)
    keep_freed_memory()
    assert len(calls) == 2


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "CDLL", lambda path: pytest.fail("there is no such library"))
    keep_freed_memory()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda path: SimpleNamespace())  # a C library without mallopt
    keep_freed_memory()
