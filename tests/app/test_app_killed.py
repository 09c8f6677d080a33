"""A server that is killed while people work loses nothing that it has called saved."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from windows import serve_elsewhere

from newkinds.app.serving import open_workbench
from newkinds.corrections import History
from newkinds.runs import RunFolder
from newkinds.runs.journal import Journal


def started(run: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the command in a process of its own, and return it with its address."""
    line = [sys.executable, "-m", "newkinds", "open", str(run), "--no-browser"]
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    for text in process.stdout:
        if "http://" in text:
            return process, text.strip()
    raise AssertionError("no address was shown")


# A process that has imported everything, from which those are made that are killed.
CLEAN = multiprocessing.get_context("forkserver")
CLEAN.set_forkserver_preload(["newkinds.app.serving"])


def forked(run: Path) -> tuple[Any, str]:
    """Serve a workbench in a process of its own, and return it with its address."""
    here, there = CLEAN.Pipe()
    process = CLEAN.Process(target=serve_elsewhere, args=(run, there), daemon=True)
    process.start()
    assert here.poll(60)
    return process, here.recv()


class Hands(threading.Thread):
    """Somebody who says random things, one after the other, until nobody answers. saved: what was called saved."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.saved: list[tuple[int, Any]] = []
        self.last: Any = None
        self.begun = threading.Event()  # something was saved
        self._url = url

    def run(self) -> None:
        origin = self._url.partition("/?")[0]
        with httpx.Client(base_url=origin, timeout=10, verify=False, headers={"Origin": origin}) as http:
            try:
                http.get(self._url)
                state = http.get("/api/state").json()
                while True:
                    path, body = self._thought(state)
                    answer = http.post(path, json=body)
                    assert answer.status_code in (200, 409, 422), answer.text
                    if answer.status_code == 200:
                        state = answer.json()
                        self.saved += [(number, state["said"]) for number in state["saved"]]
                        self.last = state
                        self.begun.set()
            except httpx.HTTPError:
                return

    def _thought(self, state: Any) -> tuple[str, Any]:
        """Return something to say: an action that may make no sense, an undo or a redo."""
        draw, kinds = self.random, [one["kind"] for one in state["kinds"]]
        if state["undo"] and draw.random() < 0.2:
            return "/api/undo", {"line": state["undo"]["line"]}
        if state["redo"] and draw.random() < 0.5:
            return "/api/redo", {"line": state["redo"]["line"]}
        rows = draw.sample(range(240), draw.randint(1, 30))
        kind = draw.choice(kinds)
        some = draw.sample(kinds, min(len(kinds), draw.randint(1, 3)))
        action = draw.choice(
            [
                {"do": "move", "rows": rows, "to": draw.choice([*kinds, "fresh", "none", "known:nut"])},
                {"do": "name", "kind": kind, "name": draw.choice(["", "washer", "<b>", "é" * 100])},
                {"do": "merge", "kinds": some},
                {"do": "accept", "kinds": some},
                {"do": "reject", "kinds": some},
                {"do": "reopen", "kinds": some},
                {"do": "batch", "actions": [{"do": "move", "rows": rows, "to": "fresh:a"},
                                            {"do": "name", "kind": "fresh:a", "name": "made"}]},
            ]
        )  # fmt: skip
        return "/api/say", {"action": action}


def kill_in_the_middle(made_up: Path, folder: Path, seed: int) -> int:
    """Work on a run, kill the server, look at what is left, and return how many lines were saved."""
    run = Path(shutil.copytree(made_up / "run", folder / f"run-{seed}"))
    process, url = forked(run)
    hands = Hands(url, seed)
    hands.start()
    assert hands.begun.wait(30)
    time.sleep(0.5 * random.Random(seed).random())
    process.kill()
    process.join()
    hands.join()
    journal = Journal.open(RunFolder.open(run))
    for number, said in hands.saved:
        assert journal.lines[number - 1].said.model_dump(mode="json") == said
    again = History(journal.answer, RunFolder.open(run).get_json("known.json"))
    for line in journal.lines:
        again.take(line.number, line.said)
    assert journal.state == again.state
    if hands.last and hands.last["version"] == journal.last:
        assert open_workbench(run).overview()["kinds"] == hands.last["kinds"]
    return len(hands.saved)


def test_nothing_that_was_called_saved_is_lost_when_the_server_is_killed(made_up: Path, tmp_path: Path) -> None:
    assert min(kill_in_the_middle(made_up, tmp_path, seed) for seed in range(4)) > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_is_lost_in_a_hundred_sequences(made_up: Path, tmp_path: Path) -> None:
    saved = [kill_in_the_middle(made_up, tmp_path, seed) for seed in range(100, 200)]
    assert min(saved) > 0


def test_ctrl_c_stops_it_and_the_answer_follows(made_up: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(made_up / "run", tmp_path / "run"))
    process, url = started(run)
    origin = url.partition("/?")[0]
    with httpx.Client(base_url=origin, verify=False, headers={"Origin": origin}) as http:
        http.get(url)
        http.post("/api/say", json={"action": {"do": "move", "rows": [0], "to": "known:nut"}}).raise_for_status()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "is closed" in rest
    assert ",known:nut," in (run / "kinds.csv").read_text()
