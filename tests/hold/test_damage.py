"""A finished run of which one file is damaged: made anew to the same bytes, or refused; never silently wrong."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from damage import QUIET, WAYS, contents, discover, harm, killed, outcome
from tallies import Tally

import newkinds as nk
from newkinds.errors import NewkindsError
from newkinds.runs.outputs import stage_of
from pictures import write_embeddings

PROMISE = "A damaged file of a run is noticed: made anew to the same bytes, or refused"
FEW, MANY, FINISHED, INTERRUPTED = 6, 25, 20, 12  # damages in a draw, and draws


class Finished:
    """A run, what its folder holds, and what can be asked of it."""

    def __init__(self, root: Path) -> None:
        self.sets = write_embeddings(root)
        self.path, self.other = root / "first" / "run", root / "second" / "run"
        discover(self.sets, self.path)
        discover(self.sets, self.other, seed=1)
        self.files = contents(self.path)
        self.answers = self.asked(self.path)

    def asked(self, path: Path) -> dict[str, object]:
        """Return what each of the commands that only read says about a run, or that it refuses."""
        return {
            "load": outcome(lambda: _told(nk.load(path))),
            "predict": outcome(lambda: nk.predict(path, self.sets[1], progress=QUIET).table()),
            "export": outcome(lambda: _exported(path)),
        }

    def check(self, path: Path, name: str, way: str, dice: random.Random) -> str:
        """Damage a copy of the run, ask it, and do the same discovery again; return how that went."""
        shutil.copytree(self.path, path)
        harm(path, name, way, self.other, dice)
        for command, said in self.asked(path).items():
            assert said is NewkindsError or said == self.answers[command], f"{command} after {name} was {way}"
        if outcome(lambda: discover(self.sets, path)) is NewkindsError:
            return "refused"
        after = contents(path)
        differing = [one for one in self.files.keys() | after.keys() if self.files.get(one) != after.get(one)]
        assert not differing, f"{', '.join(differing)} after {name} was {way}"
        assert self.asked(path) == self.answers
        return "repaired"


def _told(found: nk.Discovery) -> tuple[object, ...]:
    return found.names, found.columns, found.probabilities.tobytes(), str(found.scores), str(found.count), found.trust


def _exported(path: Path) -> bytes:
    target = path.parent / "table.csv"
    target.unlink(missing_ok=True)
    return nk.export(path, "csv", target, progress=QUIET).read_bytes()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return Finished(tmp_path_factory.mktemp("finished"))


def drawn(finished: Finished, number: int, seed: int, folder: Path, tally: Tally) -> None:
    """Damage a finished run so many times, and count what was repaired and refused."""
    dice = random.Random(seed)
    for one in range(number):
        path = folder / str(one) / "run"
        path.parent.mkdir()
        name = dice.choice(sorted(finished.files))
        tally.add(finished.check(path, name, dice.choice(WAYS), dice))
        shutil.rmtree(path.parent)


@pytest.mark.promise(PROMISE)
def test_a_few_random_damages(finished: Finished, tmp_path: Path, tally: Tally) -> None:
    drawn(finished, FEW, 0, tmp_path, tally)
    assert tally.outcomes["repaired"] >= FEW // 2


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("seed", range(1, FINISHED + 1))
def test_many_random_damages(seed: int, finished: Finished, tmp_path: Path, tally: Tally) -> None:
    drawn(finished, MANY, seed, tmp_path, tally)
    assert tally.outcomes["repaired"] >= MANY * 3 // 4


# Interrupted runs


@pytest.fixture(scope="module")
def interrupted(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the same run, killed on its way."""
    path = killed(finished.sets, tmp_path_factory.mktemp("interrupted") / "run")
    assert len(list((path / "checkpoint").iterdir())) == 2
    return path


def harmed_on_the_way(
    finished: Finished, interrupted: Path, path: Path, name: str, way: str, dice: random.Random
) -> str:
    """Damage a copy of an interrupted run, and return how that went: it ends as the whole one, or is refused."""
    shutil.copytree(interrupted, path)
    harm(path, name, way, finished.other, dice)
    if outcome(lambda: discover(finished.sets, path)) is NewkindsError:
        return "refused"
    after = contents(path)
    differing = [one for one in finished.files.keys() | after.keys() if finished.files.get(one) != after.get(one)]
    assert not differing, f"{', '.join(differing)} after {name} was {way}"
    return "repaired"


def test_an_interrupted_run_ends_with_the_same_log(finished: Finished, interrupted: Path, tmp_path: Path) -> None:
    shutil.copytree(interrupted, tmp_path / "run")
    discover(finished.sets, tmp_path / "run")
    assert contents(tmp_path / "run") == finished.files


@pytest.mark.parametrize("way", ["changed", "deleted"])
@pytest.mark.parametrize("what", ["log.jsonl", "snapshots", "checkpoint"])
def test_damage_to_what_an_interrupted_run_goes_on_from(
    what: str, way: str, finished: Finished, interrupted: Path, tmp_path: Path
) -> None:
    name = sorted(name for name in contents(interrupted) if name.startswith(what))[-1]
    harmed_on_the_way(finished, interrupted, tmp_path / "run", name, way, random.Random(0))
    assert contents(tmp_path / "run") == finished.files


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("seed", range(1, INTERRUPTED + 1))
def test_many_random_damages_to_an_interrupted_run(
    seed: int, finished: Finished, interrupted: Path, tmp_path: Path, tally: Tally
) -> None:
    dice, files = random.Random(seed), sorted(contents(interrupted))
    for one in range(MANY):
        path = tmp_path / str(one) / "run"
        path.parent.mkdir()
        tally.add(harmed_on_the_way(finished, interrupted, path, dice.choice(files), dice.choice(WAYS), dice))
        shutil.rmtree(path.parent)


# What nothing looked at


@pytest.mark.parametrize("way", ["changed", "deleted"])
@pytest.mark.parametrize(
    "name", ["model/weights.safetensors", "log.jsonl", "settings.toml", "report/index.html", "scores.json"]
)
def test_what_nothing_looked_at_before(name: str, way: str, finished: Finished, tmp_path: Path) -> None:
    assert finished.check(tmp_path / "run", name, way, random.Random(0)) == "repaired"


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("rehearsal/01.safetensors", "changed"),
        ("rehearsal/00.safetensors", "swapped"),
        ("rehearsal.json", "cut"),
        ("trust.json", "changed"),
        ("features/uncalibrated.npy", "deleted"),
    ],
)
def test_what_rehearsals_showed(name: str, way: str, finished: Finished, tmp_path: Path) -> None:
    assert finished.check(tmp_path / "run", name, way, random.Random(0)) == "repaired"


@pytest.mark.parametrize("name", ["rehearsal/00.safetensors", "rehearsal.json"])
def test_rehearsals_that_there_was_no_time_for_are_not_made_up_for(
    name: str, finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, times = tmp_path / "run", iter((0.0, 0.0, 1e6))
    with monkeypatch.context() as patch:
        patch.setattr("newkinds.pipeline.rehearsing.time", SimpleNamespace(monotonic=lambda: next(times)))
        discover(finished.sets, path, page=False)
    before = contents(path)
    assert "rehearsal/00.safetensors" in before
    assert "rehearsal/01.safetensors" not in before
    harm(path, name, "changed", path, random.Random(0))
    discover(finished.sets, path, page=False)
    assert contents(path) == before


def test_every_output_of_a_run_has_a_stage(finished: Finished) -> None:
    unlisted = {"run.json", "settings.toml", "log.jsonl"}
    assert [name for name in finished.files if name not in unlisted and not stage_of(name).name] == []
