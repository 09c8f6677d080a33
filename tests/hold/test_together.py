"""Commands that meet on one run: nothing is lost, and the only failure is that the folder is in use, said so."""

from __future__ import annotations

import pytest
from children import together
from commands import Commands
from damage import QUIET, contents
from tallies import Tally

import newkinds as nk

PROMISE = "Commands that meet on one run lose nothing, and fail only by saying that it is in use"
EACH, FEW, MANY, DRAWS = 4, 1, 5, 10  # of each command at once; rounds, of a draw; draws


def meeting(commands: Commands, rounds: int, tally: Tally) -> None:
    """Let four each of report, evaluate, predict and discover meet on one run, in some rounds."""
    place = commands.root  # where the run was made, which its run.json says
    again = [part if part != "new" else "run" for part in commands.lines()["discover"]]
    lines = [commands.lines()[name] for name in ("report", "evaluate", "predict")]
    jobs = [{"arguments": line} for _ in range(EACH) for line in (*lines, again)]
    before = contents(place / "run")
    for answers in together([jobs] * rounds, place):
        for answer in answers:
            assert "Traceback" not in answer["said"]
            in_use = "Another process is working in run" in answer["said"]
            assert answer["code"] == 0 or in_use, answer["said"]
            tally.add("said that it is in use" if in_use else "done")
    assert contents(place / "run") == before  # every entry, every byte
    assert (place / "new.csv").read_bytes() == nk.predict(place / "run", place / "unsorted.npz", progress=QUIET).table()
    assert [file.name for file in place.iterdir() if file.name.startswith(".tmp-")] == []


@pytest.mark.promise(PROMISE)
def test_a_round(commands: Commands, tally: Tally) -> None:
    meeting(commands, FEW, tally)


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("draw", range(1, DRAWS + 1))
def test_many_rounds(draw: int, commands: Commands, tally: Tally) -> None:
    meeting(commands, MANY, tally)
