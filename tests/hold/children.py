"""Run commands in children of one process, kill or stop them, let them meet: a helper of the tests here, and a program.

    python children.py PLAN.json

The plan is a list of rounds, a round is a list of jobs that run at once: {"arguments": [...]}, and "signals": a list of
[seconds, number] that are sent to it, "limits": {"RLIMIT_FSIZE": 1000}, "environ": {...}, "cwd": where it runs,
"fresh": a folder that is copied there before, "copy", "keep": where "cwd" is copied or moved to afterwards. The answer,
on standard output, has for each job its exit code (-9 for a kill), what it said, and its seconds. Children are forked
after the imports, which take longer than most commands; nothing has started a thread by then.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from newkinds.stopping import Stopped, handle_signals

Job = dict[str, Any]


def together(rounds: list[list[Job]], folder: Path, timeout: float = 580) -> list[list[Job]]:
    """Run the rounds, one after the other, in a program of their own, and return its answer."""
    plan = folder / "plan.json"
    plan.write_text(json.dumps(rounds))
    # One thread: a child must be able to fork, and the runs are too small for two.
    environment = {**os.environ, "NEWKINDS_CHECKPOINT_SECONDS": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    line = [sys.executable, __file__, str(plan)]
    done = subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    answers: list[list[Job]] = json.loads(done.stdout)
    return answers


def in_turn(jobs: list[Job], folder: Path, timeout: float = 580) -> list[Job]:
    """Run jobs one after the other."""
    return [answer for (answer,) in together([[job] for job in jobs], folder, timeout)]


def main() -> None:
    """Run the plan."""
    import openTSNE  # noqa: F401  imported late by the report, and slow: once here instead of in every child

    import newkinds.api
    import newkinds.cli
    import newkinds.compare
    import newkinds.demo
    import newkinds.export
    import newkinds.journal
    import newkinds.plotting  # noqa: F401

    answers = [_round(jobs) for jobs in json.loads(Path(sys.argv[1]).read_text())]
    print(json.dumps(answers))


def _round(jobs: list[Job]) -> list[Job]:
    for job in jobs:
        if "fresh" in job:
            shutil.rmtree(job["cwd"], ignore_errors=True)
            shutil.copytree(job["fresh"], job["cwd"])
    began = time.monotonic()
    children = {number: _started(job) for number, job in enumerate(jobs)}
    signals = sorted((when, which, number) for number, job in enumerate(jobs) for when, which in job.get("signals", ()))
    answers: dict[int, Job] = {}
    while len(answers) < len(jobs):
        while signals and time.monotonic() - began >= signals[0][0]:
            _, which, number = signals.pop(0)
            if number not in answers:
                with suppress(ProcessLookupError):
                    os.kill(children[number][0], which)
        for number, (child, said) in children.items():
            if number not in answers and (ended := os.waitpid(child, os.WNOHANG))[0]:
                said.seek(0)
                words = said.read().decode("utf-8", "replace")
                code = os.waitstatus_to_exitcode(ended[1])
                answers[number] = {"code": code, "said": words[-3000:], "seconds": time.monotonic() - began}
        time.sleep(0.002)
    for job in jobs:
        if "copy" in job:
            shutil.copytree(job["cwd"], job["copy"])
        if "keep" in job:
            Path(job["cwd"]).rename(job["keep"])
    return [answers[number] for number in range(len(jobs))]


def _started(job: Job) -> tuple[int, Any]:
    said = tempfile.TemporaryFile()  # noqa: SIM115  read when the child has ended
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    child = os.fork()
    if child == 0:
        handle_signals()  # as the program does before anything else; until then, none arrives
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        _run(job, said.fileno())
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    return child, said


def _run(job: Job, said: int) -> None:
    import newkinds.cli

    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.update(job.get("environ", {}))
    os.chdir(job.get("cwd", "."))
    sys.argv = ["newkinds", *job["arguments"]]
    for name, most in job.get("limits", {}).items():
        resource.setrlimit(getattr(resource, name), (most, resource.RLIM_INFINITY))
    code = 71
    try:
        newkinds.cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except Stopped as stopped:  # as newkinds.__main__ does
        code = 128 + stopped.number
    except BaseException as error:  # what an interpreter would print
        sys.stderr.write(f"Traceback {error!r}\n")
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
