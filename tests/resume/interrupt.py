"""Run newkinds in children of one process and kill them: a helper of test_resume.py, run as a program.

    python interrupt.py PLAN.json

The plan is a list of jobs, each {"arguments": [...], "kill": HOW, "global_random": bool}; the answer on standard output
is the list of the children's exit codes (-9 for a kill) and seconds. Children are forked after the imports, which take
longer than the runs; nothing has started a thread by then.

HOW is null; {"after": SECONDS}; or {"boundary": N}: before the N-th step of writing the third checkpoint, where a step
is a call that touches the disk, and a write is two of them, one for each half.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import openTSNE  # noqa: F401  imported late by the report, and slow: once here instead of in every child

import newkinds.api  # with all that a run uses: the command line imports it only when it runs
import newkinds.cli
import newkinds.files
import newkinds.runs.checkpoints
from newkinds import randomness


def main() -> None:
    answers = []
    for job in json.loads(Path(sys.argv[1]).read_text()):
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            run(job)
        if job["kill"] and "after" in job["kill"]:
            kill_after(child, job["kill"]["after"])
        status = os.waitpid(child, 0)[1]
        answers.append({"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - started})
    print(json.dumps(answers))


def run(job: dict[str, Any]) -> None:
    sys.stdout = sys.stderr
    sys.argv = ["newkinds", *job["arguments"]]
    if job["global_random"]:
        use_global_generator()
    if job["kill"] and "boundary" in job["kill"]:
        kill_at_boundary(job["kill"]["boundary"])
    try:
        newkinds.cli.main()
    except SystemExit as end:
        os._exit(int(end.code or 0))
    finally:
        os._exit(70)


def kill_after(child: int, seconds: float) -> None:
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def use_global_generator() -> None:
    """Draw everything from one generator with a state, as most training code does: the control."""
    stream = np.random.default_rng(0)

    def uniforms(seed: int, purpose: str, epoch: int, items: Any, columns: int, view: int = 0) -> Any:
        return stream.random((len(items), columns))

    stateful = {"generator": (randomness.generator, lambda *_: stream), "uniforms": (randomness.uniforms, uniforms)}
    for module in list(sys.modules.values()):
        for name, (pure, replacement) in stateful.items():
            if getattr(module, name, None) is pure:
                setattr(module, name, replacement)


class CountingOs:
    """The os module, with the calls that touch the disk counted; the process dies before the one that is asked for."""

    def __init__(self, fatal: int) -> None:
        self.fatal = fatal
        self.steps = 0
        self.active = False

    def step(self) -> None:
        if self.active:
            if self.steps == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            self.steps += 1

    def write(self, descriptor: int, data: memoryview) -> int:
        half = max(1, len(data) // 2)
        self.step()
        written = os.write(descriptor, data[:half])
        self.step()
        return written

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in ("open", "fsync", "close", "replace"):
            return real

        def counted(*arguments: Any, **options: Any) -> Any:
            self.step()
            return real(*arguments, **options)

        return counted


def kill_at_boundary(number: int) -> None:
    counting = CountingOs(number)
    saves = 0
    save, unlink = newkinds.runs.checkpoints.DiskCheckpoints.save, Path.unlink

    def counted_save(self: Any, *arguments: Any) -> None:
        nonlocal saves
        saves += 1
        counting.active = saves == 3  # the first to drop an older generation
        save(self, *arguments)
        if counting.active:
            # All steps are done; what is asked for lies behind the last one.
            print(f"boundaries: {counting.steps}", file=sys.stderr)
            os.kill(os.getpid(), signal.SIGKILL)

    def counted_unlink(self: Path, missing_ok: bool = False) -> None:
        counting.step()
        unlink(self, missing_ok=missing_ok)

    newkinds.files.os = counting  # type: ignore[assignment]
    newkinds.runs.checkpoints.DiskCheckpoints.save = counted_save  # type: ignore[method-assign]
    Path.unlink = counted_unlink  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
