"""Run commands in children of one process, kill or stop them, let them meet: a helper of the tests here, and a program.

The program reads plans, a line each, and answers each with a line. A plan is a list of rounds, a round a list of jobs
that run at once: {"arguments": [...]}, and "signals": a list of [seconds, number] that are sent to it, "limits":
{"RLIMIT_FSIZE": 1000}, "environ": {...}, "cwd": where it runs, "fresh": a folder that is copied there before, "copy",
"keep": where "cwd" is copied or moved to afterwards. The answer has for each job its exit code (-9 for a kill), what it
said, and its seconds. Children are forked after the imports, which take longer than most commands; nothing has started
a thread by then.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from newkinds.stopping import Stopped, handle_signals, leave

Job = dict[str, Any]


_program: subprocess.Popen[str] | None = None  # started by the first plan, ends with the tests


def together(rounds: list[list[Job]], folder: Path, timeout: float = 580) -> list[list[Job]]:
    """Run the rounds, one after the other, in a program of their own, and return its answer."""
    program = _started_program()
    assert program.stdin is not None
    assert program.stdout is not None
    placed = [[{"cwd": str(folder), **job} for job in jobs] for jobs in rounds]
    program.stdin.write(json.dumps(placed) + "\n")
    program.stdin.flush()
    if not select.select([program.stdout], [], [], timeout)[0]:
        program.kill()
        raise AssertionError(f"no answer after {timeout} s")
    answer = program.stdout.readline()
    assert answer, f"it ended with {program.wait()}"
    answers: list[list[Job]] = json.loads(answer)
    return answers


def _started_program() -> subprocess.Popen[str]:
    global _program
    if _program is None or _program.poll() is not None:
        # One thread: a child must be able to fork, and the runs are too small for two.
        more = {"NEWKINDS_CHECKPOINT_SECONDS": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        _program = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    return _program


def in_turn(jobs: list[Job], folder: Path, timeout: float = 580) -> list[Job]:
    """Run jobs one after the other."""
    return [answer for (answer,) in together([[job] for job in jobs], folder, timeout)]


def main() -> None:
    """Run the plans that come."""
    import openTSNE  # noqa: F401  imported late by the report, and slow: once here instead of in every child

    import newkinds.api
    import newkinds.cli
    import newkinds.compare
    import newkinds.demo
    import newkinds.export
    import newkinds.journal
    import newkinds.plotting  # noqa: F401

    for line in sys.stdin:
        print(json.dumps([_round(jobs) for jobs in json.loads(line)]), flush=True)


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
                said.close()
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
        _run(job, said.fileno(), held)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    return child, said


def _run(job: Job, said: int, held: set[signal.Signals]) -> None:
    import newkinds.cli

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.update(job.get("environ", {}))
    os.chdir(job["cwd"])
    sys.argv = ["newkinds", *job["arguments"]]
    for name, most in job.get("limits", {}).items():
        resource.setrlimit(getattr(resource, name), (most, resource.RLIM_INFINITY))
    code = 71
    try:
        handle_signals()  # as the program does before anything else; until then, none arrives
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        newkinds.cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except Stopped as stopped:  # as newkinds.__main__ does
        leave(stopped.number)
    except BaseException as error:  # what an interpreter would print
        sys.stderr.write(f"Traceback {error!r}\n")
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
