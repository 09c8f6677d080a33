"""A run that goes on from another one: by what that one is, or refused; never by something else without a word."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from damage import WAYS, contents, harm, outcome
from tallies import Tally

import newkinds as nk
from growing import QUIET, first_week, grow, of_kind, say, write_week
from newkinds.errors import NewkindsError, RunError, UsageError
from newkinds.files import sealed, unsealed

PROMISE = "A run that goes on from another one goes by what that one is, or is refused; the other is only read"
FEW, MANY, DRAWS = 4, 25, 4  # damages in a draw, and draws
WEEK = {0: 4, 8: 6, 12: 6}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a first week that people have spoken about, the heap of a second, and that week."""
    folder = tmp_path_factory.mktemp("weeks")
    run = first_week(folder)
    write_week(folder, 2, WEEK)
    say(
        run,
        {"do": "name", "kind": "new:0", "name": "washer"},
        {"do": "accept", "kinds": ["new:0"]},
        {"do": "move", "pictures": of_kind(run, "new:3")[:1], "to": "none"},
    )
    grow(run, folder / "week-2.npz", folder / "run-2")
    return folder


@pytest.fixture
def weeks(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "weeks"))


@pytest.fixture
def first(weeks: Path) -> Path:
    """Return the folder of the first run, where the second has not been made."""
    shutil.rmtree(weeks / "run-2")
    return weeks / "run-1"


def results(run: Path) -> dict[str, bytes]:
    """Return the files of a run but those that say where it and its pictures are."""
    return {name: data for name, data in contents(run).items() if name not in ("run.json", "grown.json")}


# Damage


def drawn(number: int, seed: int, made: Path, first: Path, tally: Tally) -> None:
    """Damage a run so many times, and count how going on from it ends."""
    dice, wanted = random.Random(seed), results(made / "run-2")
    whole = sorted(name for name in contents(first) if name != "journal.jsonl")  # which grows: see below
    for _ in range(number):
        name, way = dice.choice(whole), dice.choice(WAYS)
        harm(first, name, way, made / "run-2", dice)
        damaged, out = contents(first), first.parent / "run-2"
        if outcome(lambda out=out: grow(first, first.parent / "week-2.npz", out)) is NewkindsError:
            assert not out.exists(), f"{name} was {way}"
            tally.add("refused")
        else:
            found = results(out)
            differing = [one for one in wanted.keys() | found.keys() if wanted.get(one) != found.get(one)]
            assert not differing, f"{', '.join(differing)} after {name} was {way}"
            tally.add("same bytes")
        assert contents(first) == damaged
        for path in (first, out):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(made / "run-1", first)


@pytest.mark.promise(PROMISE)
def test_a_few_damages(made: Path, first: Path, tally: Tally) -> None:
    drawn(FEW, 0, made, first, tally)


@pytest.mark.slow
@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("seed", range(1, DRAWS + 1))
def test_many_damages(seed: int, made: Path, first: Path, tally: Tally) -> None:
    drawn(MANY, seed, made, first, tally)


# What was said is gone

READS: tuple[Callable[[Path], object], ...] = (
    nk.load,
    lambda run: grow(run, run.parent / "week-2.npz", run.parent / "run-2"),
    lambda run: nk.journal(run, progress=QUIET),
    lambda run: nk.report(run, progress=QUIET),
    lambda run: nk.predict(run, run.parent / "week-2.npz", progress=QUIET),
    lambda run: nk.export(run, "csv", run.parent / "table.csv", progress=QUIET),
    lambda run: first_week(run.parent),
)


@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("lines", [None, 0, 1, 3])
def test_a_journal_that_has_lost_lines(lines: int | None, first: Path) -> None:
    file, table = first / "journal.jsonl", (first / "kinds.csv").read_bytes()
    text = file.read_bytes().splitlines(keepends=True)
    file.unlink()
    if lines is not None:
        file.write_bytes(b"".join(text[:lines]))
    for call in READS:
        with pytest.raises(RunError, match=r"lines, and the run has gone by 3: the others are gone") as caught:
            call(first)
        assert "--mend" in caught.value.hint
    assert (first / "kinds.csv").read_bytes() == table
    assert nk.journal(first, mend=True, progress=QUIET).last == max(0, (lines or 0) - 1)
    assert nk.load(first).kinds.tolist() == nk.load(first_week(first.parent)).kinds.tolist()
    assert (first / "kinds.csv").read_bytes() != table


@pytest.mark.promise(PROMISE)
def test_a_journal_of_names_alone_that_is_gone(first: Path) -> None:
    """Names change no row of kinds.csv, which follows the journal otherwise."""
    (first / "journal.jsonl").unlink()
    nk.journal(first, mend=True, progress=QUIET)
    nk.journal(first, say={"do": "name", "kind": "new:0", "name": "washer"}, progress=QUIET)
    (first / "journal.jsonl").unlink()
    for call in READS:
        with pytest.raises(RunError, match=r"has 0 lines, and the run has gone by 1: the others are gone"):
            call(first)
    nk.journal(first, mend=True, progress=QUIET)
    assert nk.load(first).called == {}


# Another run, or another answer


@pytest.mark.promise(PROMISE)
def test_another_run_of_the_same_pictures(made: Path, weeks: Path) -> None:
    shutil.rmtree(weeks / "run-1")
    first_week(weeks, method="kmeans", seed=5)
    say(weeks / "run-1", *({"do": "name", "kind": f"new:{number}", "name": "washer"} for number in range(3)))
    with pytest.raises(UsageError, match="holds a run made with other data or settings"):
        grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2")
    assert contents(weeks / "run-2") == contents(made / "run-2")


@pytest.mark.promise(PROMISE)
def test_only_the_sorting_is_another(weeks: Path) -> None:
    """The same pictures, settings and number of lines, and other kinds."""
    out, heap = weeks / "out", weeks / "week-2.npz"
    for name, moved in (("a", 0), ("b", 1)):
        shutil.copytree(weeks / "run-1", weeks / name)
        say(weeks / name, {"do": "move", "pictures": of_kind(weeks / name, "new:2")[moved : moved + 1], "to": "new:1"})
    grow(weeks / "a", heap, out)
    before = contents(out)
    with pytest.raises(UsageError, match=r"data\.grown\.carried"):
        grow(weeks / "b", heap, out)
    assert contents(out) == before


@pytest.mark.promise(PROMISE)
def test_what_is_said_later_changes_nothing(made: Path, weeks: Path) -> None:
    """Numbers of kinds neither: a later one may be the same as that of a kind of the next week."""
    say(weeks / "run-1", {"do": "move", "pictures": of_kind(weeks / "run-1", "new:2")[:2], "to": "fresh"})
    for damaged in ("kinds.csv", "assignment.json"):
        (weeks / "run-2" / damaged).unlink()
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2")
    assert results(weeks / "run-2") == results(made / "run-2")


# Arguments


@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("where", ["heap", "known", "pictures", "remembered", "run"])
def test_a_place_among_pictures_or_in_the_run(where: str, first: Path) -> None:
    folder, heap = first.parent / "photos", first.parent / "week-2.npz"
    folder.mkdir()
    out = (first if where == "run" else folder) / "new"
    if where == "remembered":
        about = unsealed((first / "run.json").read_bytes())
        (first / "run.json").write_bytes(sealed({**about, "sources": {**about["sources"], "known": str(folder)}}))
    given = {where: folder} if where in ("known", "pictures") else {}
    with pytest.raises(UsageError, match=r"among the pictures|lies in it"):
        grow(first, folder if where == "heap" else heap, out, **given)
    assert not out.exists()


@pytest.mark.promise(PROMISE)
@pytest.mark.parametrize("network", ["os:system", "resnet18", "vgg6-4-2-slim", ""])
def test_another_network_than_the_run_has(network: str, first: Path) -> None:
    with pytest.raises(UsageError, match="is of the network 'identity'"):
        grow(first, first.parent / "week-2.npz", first.parent / "run-2", network=network)
