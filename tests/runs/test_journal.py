"""The journal: nothing that was saved is lost, what is torn or broken is said, and several may speak at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds.assignment import Assignment
from newkinds.corrections import Accept, Batch, CorrectionError, Merge, Move, Name, Redo, State
from newkinds.errors import NewkindsError, RunError
from newkinds.runs.chain import BrokenJournalError
from newkinds.runs.journal import Journal, StaleError

KINDS = 4


def answer(pictures: int = 40) -> Assignment:
    names = [f"{number:05d}.jpg" for number in range(pictures)]
    return Assignment.of_new(names, np.eye(KINDS, dtype=np.float32)[np.arange(pictures) % KINDS])


def opened(folder: Path, pictures: str = "these", machine: Assignment | None = None) -> Journal:
    journal = Journal(folder / "journal.jsonl", pictures, machine or answer(), ("bolt",))
    journal.refresh()
    return journal


def test_what_was_said_is_there_again(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert not journal.path.exists()  # reading makes nothing
    (line,) = journal.say(Move(pictures=("00000.jpg",), to="fresh"))
    assert line.number == journal.last == 1
    journal.say(Name(kind="new:4", name="<b>"), Merge(kinds=("new:1", "new:2")))
    journal.undo()
    again = opened(tmp_path)
    assert again.state == journal.state
    assert [line.to_dict() for line in again.lines] == [line.to_dict() for line in journal.lines]
    assert again.state.called == {"new:4": "<b>"}
    assert not again.state.merged
    first, *rest = map(json.loads, journal.path.read_text().splitlines())
    assert (first["begin"]["pictures"], first["begin"]["count"]) == ("these", 40)
    assert [one["line"] for one in rest] == [1, 2, 3, 4]
    assert len({one["sha256"] for one in (first, *rest)}) == 5
    assert rest[-1]["said"] == {"do": "undo", "line": 3}


def test_two_windows_see_each_other(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    one.say(Move(pictures=("00000.jpg",), to="fresh"))
    two.say(Move(pictures=("00001.jpg",), to="fresh"))  # reads what the other said first
    assert [line.said.to for line in two.lines] == ["new:4", "new:5"]  # type: ignore[union-attr]
    (seen,) = one.refresh()
    assert seen.number == 2
    assert one.state == two.state
    one.undo()
    assert two.state.kind_of("00001.jpg") == "new:5"
    two.refresh()
    assert two.state.kind_of("00001.jpg") == "new:1"
    with pytest.raises(CorrectionError, match="Line 1 is not the next"):
        two.say(Redo(line=1))
    assert two.redo()[0].said == Redo(line=2)


@settings(max_examples=25)
@given(st.data())
def test_whatever_two_windows_say_both_see_the_same(data: st.DataObject) -> None:
    machine = answer()
    with tempfile.TemporaryDirectory() as folder:
        windows = [opened(Path(folder)), opened(Path(folder))]
        for _ in range(data.draw(st.integers(1, 10))):
            window = windows[data.draw(st.integers(0, 1))]
            pictures = tuple(data.draw(st.lists(st.sampled_from(machine.names), min_size=1, max_size=4, unique=True)))
            kind = f"new:{data.draw(st.integers(1, KINDS + 1))}"
            what = data.draw(st.sampled_from(("move", "fresh", "merge", "undo", "redo", "look")))
            with suppress(CorrectionError):  # what cannot be done changes nothing
                if what in ("move", "fresh"):
                    window.say(Move(pictures=pictures, to=kind if what == "move" else "fresh"))
                elif what == "merge":
                    window.say(Merge(kinds=("new:0", kind)))
                else:
                    {"undo": window.undo, "redo": window.redo, "look": window.refresh}[what]()
        for window in windows:
            window.refresh()
        again = opened(Path(folder))
        assert windows[0].state == windows[1].state == again.state
        assert [done.line for done in windows[0].history.done] == [done.line for done in again.history.done]
        assert windows[0].history.next_number == windows[1].history.next_number == again.history.next_number


def test_one_who_has_not_seen_the_last_line_can_be_told(tmp_path: Path) -> None:
    one, two = opened(tmp_path), opened(tmp_path)
    one.say(Accept(kinds=("new:0",)), base=0)
    with pytest.raises(StaleError, match="1 more line by now") as caught:
        two.say(Accept(kinds=("new:1",)), base=0)
    assert caught.value.last == 1
    assert two.last == 1  # and it has read them by now
    two.say(Accept(kinds=("new:1",)), base=1)
    with pytest.raises(StaleError):
        one.undo(base=1)


def test_all_of_a_request_is_written_or_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.say(Accept(kinds=("new:0",)))
    before, state = journal.path.read_bytes(), opened(tmp_path).state
    for wrong in (
        lambda: journal.say(Accept(kinds=("new:1",)), Accept(kinds=("new:9",))),
        lambda: journal.undo(2),
        lambda: journal.redo(),
        lambda: journal.say(Batch(actions=(Accept(kinds=("new:1",)), Move(pictures=("x",), to="none")))),
    ):
        with pytest.raises(CorrectionError):
            wrong()
        assert journal.path.read_bytes() == before
        assert journal.state == state
        assert journal.last == 1


def test_a_full_disk_says_so_and_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(tmp_path)
    journal.say(Accept(kinds=("new:0",)))
    before, real = journal.path.read_bytes(), os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if offset > len(before):
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:10], offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(RunError, match="No space left"):
        journal.say(Accept(kinds=("new:1",)))
    monkeypatch.undo()
    assert journal.path.read_bytes() == before
    assert journal.state == opened(tmp_path).state
    journal.say(Accept(kinds=("new:1",)))
    assert opened(tmp_path).state.status == {"new:0": "accepted", "new:1": "accepted"}


def test_it_is_on_the_disk_before_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, order, real = opened(tmp_path), [], os.fsync

    def noticed(descriptor: int) -> None:
        real(descriptor)
        order.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", noticed)
    journal.say(Accept(kinds=("new:0",)))
    assert order == [str(journal.path), str(tmp_path)]


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_torn_last_line_is_dropped_said_and_kept_aside(tmp_path: Path, cut: int) -> None:
    journal = opened(tmp_path)
    journal.say(Accept(kinds=("new:0",)), Accept(kinds=("new:1",)))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-cut])
    reader = opened(tmp_path)
    assert reader.last == 1
    assert "was not written to its end" in reader.remarks[0]
    assert journal.path.read_bytes() == whole[:-cut]  # whoever reads changes nothing
    reader.refresh()
    assert len(reader.remarks) == 1
    reader.say(Accept(kinds=("new:2",)))
    again = opened(tmp_path)
    assert again.state.status == {"new:0": "accepted", "new:2": "accepted"}
    assert not again.remarks
    aside = json.loads((tmp_path / "journal-aside.jsonl").read_text())
    assert whole.decode().splitlines()[-1].startswith(aside["text"])
    assert aside["why"] == "torn"


def test_a_line_torn_anywhere_costs_nothing_that_was_saved(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.say(Accept(kinds=("new:0",)))
    saved = journal.path.read_bytes()
    journal.say(Name(kind="new:1", name="ä" * 30), Move(pictures=("00000.jpg",), to="fresh"))
    whole = journal.path.read_bytes()
    ends = [number + 1 for number, byte in enumerate(whole) if byte == 10]
    for length in range(len(saved), len(whole), 5):
        journal.path.write_bytes(whole[:length])
        reader = opened(tmp_path)
        assert reader.last == sum(end <= length for end in ends) - 1  # the first line begins the journal
        assert bool(reader.remarks) == (length not in ends)


def test_a_torn_beginning_is_dropped_too(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b'{"do":"beg')
    journal = opened(tmp_path)
    assert journal.last == 0
    journal.say(Accept(kinds=("new:0",)))
    assert opened(tmp_path).last == 1


Damage = Callable[[list[str]], list[str]]


def changed(lines: list[str]) -> list[str]:
    return [*lines[:2], lines[2].replace("new:1", "new:2"), *lines[3:]]


@pytest.mark.parametrize(
    "damage",
    [
        changed,
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
        lambda lines: [*lines[:2], lines[1], *lines[2:]],
        lambda lines: [*lines[:2], "{}", *lines[3:]],
        lambda lines: [*lines[:2], "[" * 100_000, *lines[3:]],
        lambda lines: [*lines[:2], "", *lines[2:]],
    ],
    ids=["changed", "missing", "swapped", "twice", "empty", "deep", "blank"],
)
def test_a_broken_chain_is_refused_and_can_be_mended(tmp_path: Path, damage: Damage) -> None:
    journal = opened(tmp_path)
    for kind in range(KINDS):
        journal.say(Accept(kinds=(f"new:{kind}",)))
    lines = journal.path.read_text().splitlines()
    broken = "\n".join(damage(lines)) + "\n"
    journal.path.write_text(broken)
    with pytest.raises(BrokenJournalError, match="line 2") as caught:
        opened(tmp_path)
    assert "--mend" in caught.value.hint
    fresh = Journal(journal.path, "these", answer(), ("bolt",))
    with pytest.raises(BrokenJournalError):
        fresh.say(Accept(kinds=("new:3",)))
    assert journal.path.read_text() == broken
    assert fresh.mend() == 1
    assert opened(tmp_path).state.status == {"new:0": "accepted"}
    assert json.loads((tmp_path / "journal-aside.jsonl").read_text())["text"] in broken


def test_a_journal_of_other_pictures_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).say(Accept(kinds=("new:0",)))
    other = Journal(tmp_path / "journal.jsonl", "others", answer())
    with pytest.raises(BrokenJournalError, match="not about the pictures of this run, but about 40 others") as caught:
        other.refresh()
    assert "Move it back" in caught.value.hint
    with pytest.raises(BrokenJournalError):
        other.mend()  # nothing is put aside for that
    assert opened(tmp_path).last == 1


def test_a_journal_that_shrinks_or_goes_is_noticed(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.say(Accept(kinds=("new:0",)), Accept(kinds=("new:1",)))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[: whole.rstrip().rfind(b"\n") + 1])
    with pytest.raises(BrokenJournalError, match="shorter than it was"):
        journal.say(Accept(kinds=("new:2",)))
    journal.path.unlink()
    with pytest.raises(BrokenJournalError, match="it is gone"):
        journal.refresh()


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"mine")
    (tmp_path / "journal.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NewkindsError, match="is a link"):
        Journal(tmp_path / "journal.jsonl", "these", answer()).say(Accept(kinds=("new:0",)))
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    def work(number: int) -> None:
        journal = opened(tmp_path)
        for turn in range(10):
            journal.say(Move(pictures=(f"{number * 10 + turn:05d}.jpg",), to="fresh"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    state = opened(tmp_path).state
    assert state.sizes == {f"new:{number}": 1 for number in range(KINDS, KINDS + 40)}


SPEAKER = """
import sys
sys.path[:0] = {path!r}
from test_journal import opened
from newkinds.corrections import Move
from pathlib import Path
journal = opened(Path({folder!r}))
print("ready", flush=True)
for number in range(10_000):
    line, = journal.say(Move(pictures=(f"{{number % 40:05d}}.jpg",), to="fresh"))
    print(line.number, flush=True)
"""


def test_a_killed_speaker_loses_nothing_that_was_saved(tmp_path: Path) -> None:
    script = SPEAKER.format(path=[*sys.path, str(Path(__file__).parent)], folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as speaker:
        assert speaker.stdout is not None
        assert speaker.stdout.readline() == "ready\n"
        time.sleep(0.3)
        speaker.send_signal(signal.SIGKILL)
        saved = [int(line) for line in speaker.stdout.read().splitlines() if line.strip()]
    journal = opened(tmp_path)
    assert saved
    assert saved[-1] <= journal.last <= saved[-1] + 1
    journal.undo(journal.last)
    assert journal.state == State(answer(), ("bolt",))


def test_ten_thousand_actions_on_fifty_thousand_pictures(tmp_path: Path) -> None:
    machine, rng = answer(50_000), np.random.default_rng(0)
    journal = opened(tmp_path, machine=machine)
    some = [tuple(f"{number:05d}.jpg" for number in rng.choice(50_000, 5, replace=False)) for _ in range(10_000)]
    journal.say(*(Move(pictures=names, to=f"new:{number % KINDS}") for number, names in enumerate(some)))
    began = time.process_time()
    again = opened(tmp_path, machine=machine)
    replay = time.process_time() - began
    assert again.state == journal.state
    began = time.process_time()
    again.say(Merge(kinds=("new:0", "new:1")))
    again.undo()
    single = time.process_time() - began
    assert replay < 4  # about 0.6 s on a free core
    assert single < 0.1
