"""Files that somebody else has made or changed: read, or refused with a clear error; no traceback, and not for long."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from readers import House, Reader
from tallies import Tally

from newkinds.errors import NewkindsError
from newkinds.files import digest
from newkinds.memory import PeakMemory

SECONDS, MEGABYTES = 5.0, 1000.0  # that no file may take
FEW, MANY, DRAWS = 2, 250, 40  # files of each reader; of a draw; draws
CORPUS = Path(__file__).with_name("corpus")
PROMISE = "A file of somebody else's is read, or refused with a clear error: within 5 s and 1 GB"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"))


@contextmanager
def limited(what: str) -> Iterator[None]:
    """End what takes too long."""

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} took more than {3 * SECONDS:.0f} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 3 * SECONDS)  # of the clock, on a machine that may be busy
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attack(reader: Reader, data: bytes, folder: Path, tally: Tally) -> str:
    """Let a reader read a file, and return what is wrong with how that went; the file is kept then."""
    folder.mkdir()
    began, wrong = time.process_time(), ""
    try:
        with limited(reader.name):
            reader.read(data, folder)
        tally.add("read")
    except NewkindsError:
        tally.add("refused")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"{reader.name}: {type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})"
    finally:
        shutil.rmtree(folder)
    seconds = time.process_time() - began
    tally.at_most("CPU seconds of a file", seconds)
    if seconds > SECONDS:
        wrong = f"{reader.name} took {seconds:.1f} s"
    if wrong:
        tally.add("WRONG")
        kept = (
            Path(os.environ.get("NEWKINDS_FOUND", folder.parent))
            / f"{reader.name.replace('/', '-')}--{digest(data)[:8]}"
        )
        kept.write_bytes(data)
        wrong += f"; the file is {kept}"
    return wrong


def campaign(readers: list[Reader], number: int, seed: int, folder: Path, tally: Tally) -> None:
    """Attack with so many files, of each reader in turn."""
    dice, peak = random.Random(seed), PeakMemory()
    before = peak.megabytes() or 0.0
    wrong = []
    for one in range(number):
        reader = readers[one % len(readers)]
        wrong.append(attack(reader, reader.mutated(dice), folder / str(one), tally))
    tally.at_most("MB above the start", (peak.megabytes() or 0.0) - before)
    assert tally.most["MB above the start"] < MEGABYTES
    assert "\n".join(filter(None, wrong)) == ""


@pytest.mark.promise(PROMISE)
def test_good_files_are_read(house: House, tmp_path: Path, tally: Tally) -> None:
    for number, reader in enumerate(house.readers()):
        for seed in reader.seeds:
            assert attack(reader, seed, tmp_path / str(number), tally) == ""
    assert tally.outcomes["read"] == tally.outcomes.total()


@pytest.mark.promise(PROMISE)
def test_a_few_mutated_files_of_each_reader(house: House, tmp_path: Path, tally: Tally) -> None:
    readers = house.readers()
    campaign(readers, FEW * len(readers), 0, tmp_path, tally)
    assert tally.outcomes["refused"] > 0


@pytest.mark.promise(PROMISE)
def test_the_corpus(house: House, tmp_path: Path, tally: Tally) -> None:
    """What was found once is never found again: corpus/READER--WHAT, a "-" in READER for each "/"."""
    readers = {reader.name.replace("/", "-"): reader for reader in house.readers()}
    for number, file in enumerate(sorted(CORPUS.glob("*--*"))):
        reader = readers[file.name.split("--")[0]]
        assert attack(reader, file.read_bytes(), tmp_path / str(number), tally) == ""


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("seed", range(1, DRAWS + 1))
def test_many_mutated_files(seed: int, house: House, tmp_path: Path, tally: Tally) -> None:
    readers = house.readers()
    dice = random.Random(-seed)
    dice.shuffle(readers)
    campaign(readers, MANY, seed, tmp_path, tally)


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize(
    "reader", ["names.json", "list.csv", "arrays.npz", "settings file", "weights", "journal.jsonl"]
)
def test_guided_by_coverage(reader: str, tmp_path: Path, tally: Tally) -> None:
    pytest.importorskip("atheris")
    line = [sys.executable, str(CORPUS.parent / "guided.py"), reader, "20", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    tried = re.findall(r"Done (\d+) runs", done.stderr)
    tally.outcomes["read or refused, guided by coverage"] += int(tried[-1])
