"""Next week's heap: accepted kinds are known, numbers, names and corrections stay, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import newkinds as nk
from growing import (
    FEW,
    KNOWN,
    OPTIONS,
    QUIET,
    first_week,
    grow,
    of_kind,
    say,
    true_kind,
    truths,
    write_week,
)
from newkinds.assignment import sort_of
from newkinds.cli import app
from newkinds.errors import RunError, UsageError
from newkinds.pipeline import known as known_stages
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names
from pictures import KNOWN as FOLDERS
from pictures import UNSORTED, write_pictures

NEXT = {**dict.fromkeys(range(4), 5), **dict.fromkeys(range(8, 14), 12)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a first week that people have spoken about, and the heap of a second."""
    folder = tmp_path_factory.mktemp("weeks")
    run = first_week(folder)
    write_week(folder, 2, NEXT)
    new = [kind for kind in nk.load(run).columns if sort_of(kind) == "new"]
    wrong = of_kind(run, new[3])[0]
    say(
        run,
        {"do": "name", "kind": new[0], "name": "washer"},
        {"do": "accept", "kinds": [new[0]]},
        {"do": "name", "kind": new[1], "name": "gasket"},
        {"do": "move", "pictures": [wrong], "to": "none"},
        {"do": "move", "pictures": [of_kind(run, new[2])[0]], "to": "fresh"},
        {"do": "confirm", "kind": new[1], "pictures": of_kind(run, new[1])[:3]},
        {"do": "move", "pictures": [of_kind(run, new[2])[1]], "to": "known:kind 05"},
    )
    return folder


@pytest.fixture
def weeks(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "weeks"))


@pytest.fixture(scope="module")
def grown(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same folder with the second week in it."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("grown") / "weeks"))
    grow(folder / "run-1", folder / "week-2.npz", folder / "run-2", truth="folders")
    return folder


def contents(run: Path) -> dict[str, bytes]:
    files = {str(file.relative_to(run)): file for file in run.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if name != ".lock"}


def now(run: Path) -> dict[str, str]:
    found = nk.load(run)
    return dict(zip(found.names, found.kinds.tolist(), strict=True))


def test_accepted_kinds_are_known_with_their_names(grown: Path) -> None:
    first, found = grown / "run-1", nk.load(grown / "run-2")
    washer = of_kind(first, "new:0")
    assert "known:washer" in found.columns
    assert "new:0" not in found.columns
    assert not set(washer) & set(found.names)  # they are known pictures now
    known = RunFolder.open(grown / "run-2").get_json(names.KNOWN)
    assert known == [*(f"kind {number:02d}" for number in range(KNOWN)), "washer"]
    true, truth = true_kind(first, "new:0"), truths(first)
    of_this_week = [kind for name, kind in now(grown / "run-2").items() if truth[name] == true and name[0] == "2"]
    assert of_this_week.count("known:washer") > 0.8 * len(of_this_week)


def test_open_kinds_keep_numbers_and_names_and_get_pictures(grown: Path) -> None:
    first, found, truth = grown / "run-1", nk.load(grown / "run-2"), truths(grown / "run-1")
    assert found.called == {"new:1": "gasket"}
    kinds = now(grown / "run-2")
    for kind in ("new:1", "new:2", "new:3"):  # one that people spoke of, and two of which they moved a picture
        true = true_kind(first, kind)
        came = [one for name, one in kinds.items() if truth[name] == true and name.startswith("2-")]
        assert came.count(kind) > 0.7 * len(came), kind
        assert set(of_kind(first, kind)) & set(of_kind(grown / "run-2", kind))


def test_further_kinds_get_numbers_that_none_had(grown: Path) -> None:
    found, truth = nk.load(grown / "run-2"), truths(grown / "run-1")
    numbers = [int(kind[4:]) for kind in found.columns if kind.startswith("new:")]
    assert set(numbers) - {1, 2, 3, 4} == {n for n in numbers if n > 4}  # new:0 is known, new:4 was made by a person
    fresh = {kind for name, kind in now(grown / "run-2").items() if truth[name] in ("kind 12", "kind 13")}
    assert any(kind.startswith("new:") and int(kind[4:]) > 4 for kind in fresh)


def test_what_people_said_holds_and_is_not_theirs_to_undo(grown: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(grown / "run-2", tmp_path / "run"))
    state, kinds = nk.journal(run, progress=QUIET).state, now(run)
    first = nk.journal(grown / "run-1", progress=QUIET).state
    carried = [name for name in first.names if first.said[first.rows[name]] and name in state.rows]
    assert len(carried) == 5
    for name in carried:
        assert kinds[name] == first.kind_of(name)
        assert state.confirmed[state.rows[name]]
    found = nk.load(run)
    assert found.machine is None  # nobody has said anything about this week
    assert (found.assignment.probability[[found.names.index(name) for name in carried]] == 1).all()
    with pytest.raises(UsageError, match="nothing to undo"):
        nk.journal(run, undo=True, progress=QUIET)


def test_a_picture_that_was_put_into_a_known_kind_is_a_known_picture(grown: Path) -> None:
    run = RunFolder.open(grown / "run-2")
    state = nk.journal(grown / "run-1", progress=QUIET).state
    moved = next(
        name for name in state.names if state.said[state.rows[name]] and state.kind_of(name) == "known:kind 05"
    )
    assert moved not in nk.load(run.path).names
    with np.load(run.path / names.pictures("known", files=False)) as arrays:
        told = dict(zip(arrays["names"].tolist(), arrays["labels"].tolist(), strict=True))
    assert told[moved] == "kind 05"


def test_nothing_is_lost(grown: Path) -> None:
    first, second = nk.load(grown / "run-1"), nk.load(grown / "run-2")
    with np.load(grown / "run-2" / names.pictures("known", files=False)) as arrays:
        known = arrays["names"].tolist()
    with np.load(grown / "week-2.npz") as arrays:
        came = arrays["names"].tolist()
    assert sorted([*first.names, *came]) == sorted({*second.names, *known} - set(_names(grown / "week-0.npz")))


def _names(file: Path) -> list[str]:
    with np.load(file) as arrays:
        found: list[str] = arrays["names"].tolist()
        return found


def test_the_earlier_run_is_left_as_it_is(weeks: Path) -> None:
    before = contents(weeks / "run-1")
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2")
    assert contents(weeks / "run-1") == before


def test_what_is_new_is_said(grown: Path) -> None:
    since = nk.load(grown / "run-2").since
    assert since is not None
    assert (since.week, since.came) == (2, sum(NEXT.values()))
    assert list(since.accepted) == ["washer"]
    assert since.found
    assert set(since.found) >= set(since.fresh)
    assert {"new:1", "new:2", "new:3"} <= set(since.open)
    said = " ".join(since.in_words())
    assert "Known since last time: washer (" in said
    assert "gasket (+" in said
    assert sum(since.known.values()) + sum(since.open.values()) + sum(since.fresh.values()) + since.none == since.came


def test_the_same_line_again_is_done_at_once_and_a_killed_one_goes_on(
    grown: Path, weeks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = contents(grown / "run-2")
    put, left = RunFolder.put, 0

    def counted(self: RunFolder, name: str, data: bytes) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        put(self, name, data)

    monkeypatch.setattr(RunFolder, "put", counted)
    for left in (1, 2, 3, 5, 9):  # noqa: B007 - `counted` counts it down
        with pytest.raises(KeyboardInterrupt):
            grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2", truth="folders")
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2", truth="folders")
    monkeypatch.undo()
    after = contents(weeks / "run-2")
    places = {names.ABOUT, names.GROWN}  # they say where the runs are
    assert {name for name in expected if expected[name] != after.get(name)} <= places
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2", truth="folders")
    assert contents(weeks / "run-2") == after


def test_what_is_said_later_about_the_earlier_run_changes_nothing(weeks: Path) -> None:
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2")
    before = contents(weeks / "run-2")
    say(weeks / "run-1", {"do": "accept", "kinds": ["new:1"]})
    warned = Said()
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2", progress=warned)
    assert contents(weeks / "run-2") == before
    assert any("People have said more about" in line for line in warned.lines)


class Said(Progress):
    """Keeps what was said."""

    def __init__(self) -> None:
        super().__init__("silent")
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def warn(self, line: str) -> None:
        self.lines.append(line)


def test_earlier_features_are_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = folders(tmp_path)
    write_pictures(tmp_path / "week-2", (FOLDERS[0], UNSORTED[1], "lever"), each=4, seed=2)
    extract, counts = known_stages.extract_features, []

    def counted(network: Any, images: nk.ImageSet, **options: Any) -> Any:
        counts.append(len(images))
        return extract(network, images, **options)

    monkeypatch.setattr(known_stages, "extract_features", counted)
    grow(run, tmp_path / "week-2", tmp_path / "run-2", kinds=3)
    held = nk.load(tmp_path / "run-2").names
    assert sum(name.startswith("week-2/") for name in held) == 12
    assert 12 in counts  # the heap: those of this week alone
    assert len(held) not in counts


def folders(tmp_path: Path, **options: Any) -> Path:
    """Make the first run of pictures in folders, name and accept a kind of it, and return it."""
    write_pictures(tmp_path / "known", FOLDERS, each=8)
    write_pictures(tmp_path / "week-1", UNSORTED, each=8)
    few = {**FEW, "pretrain": {"epochs": 1}}
    given = {**OPTIONS, "settings": few, "page": False, "kinds": 3, **options}
    nk.discover(tmp_path / "known", tmp_path / "week-1", out=tmp_path / "run-1", **given)
    say(
        tmp_path / "run-1",
        {"do": "move", "pictures": [f"{UNSORTED[0]}/0{n}.png" for n in range(5)], "to": "fresh:a"},
        {"do": "name", "kind": "new:3", "name": "<hinge>"},
        {"do": "accept", "kinds": ["new:3"]},
    )
    return tmp_path / "run-1"


def test_folders_of_pictures(tmp_path: Path) -> None:
    """Names, lists, the page, exports, predictions, scores, the workbench, sorting again: as with any run."""
    run = folders(tmp_path)
    write_pictures(tmp_path / "week-2", (FOLDERS[0], UNSORTED[0], "lever"), each=6, seed=2)
    out = tmp_path / "run-2"
    found = nk.grow(run, tmp_path / "week-2", out=out, kinds=2, truth="folders", **OPTIONS)
    assert "known:<hinge>" in found.columns
    assert found.scores is not None
    assert f"week-2/{UNSORTED[0]}/00.png" in found.names  # there was one of that name
    assert f"{UNSORTED[1]}/00.png" in found.names
    page = (out / names.PAGE).read_text()
    assert 'id="since"' in page
    assert "&lt;hinge&gt; (5)" in page
    assert "<hinge>" not in page
    nk.export(out, "folders", tmp_path / "sorted", progress=QUIET)
    assert sum(1 for file in (tmp_path / "sorted").rglob("*.png")) == len(found.names)
    assert len(nk.predict(out, tmp_path / "week-2", progress=QUIET).names) == 18
    assert nk.evaluate(out, "folders", progress=QUIET)[0].acc == found.scores.acc
    say(out, {"do": "move", "pictures": [found.names[-1]], "to": "fresh"})
    again = nk.grow(run, tmp_path / "week-2", out=out, kinds=2, truth="folders", again=True, **OPTIONS)
    assert again.kinds[-1].startswith("new:")
    from newkinds.app.serving import open_workbench

    bench = open_workbench(out)
    assert bench.pictures.thumbnail(len(found.names) - 1).media_type == "image/png"
    assert bench.overview()["known"] == sorted([*FOLDERS, "<hinge>"])


def test_pictures_that_have_moved_or_are_gone(tmp_path: Path) -> None:
    run = folders(tmp_path)
    write_pictures(tmp_path / "week-2", (UNSORTED[0], "lever"), each=6, seed=2)
    (tmp_path / "elsewhere").mkdir()
    for name in ("known", "week-1"):
        os.rename(tmp_path / name, tmp_path / "elsewhere" / name)
    with pytest.raises(RunError, match=r"known pictures of .* cannot be opened") as refused:
        grow(run, tmp_path / "week-2", tmp_path / "run-2", kinds=2)
    assert "--known FOLDER" in refused.value.hint
    there: dict[str, Any] = {"known": tmp_path / "elsewhere" / "known", "pictures": tmp_path / "elsewhere" / "week-1"}
    with pytest.raises(RunError, match="None of the 24 unsorted pictures"):
        grow(
            run,
            tmp_path / "week-2",
            tmp_path / "run-2",
            kinds=2,
            **{**there, "pictures": tmp_path / "week-2" / "lever"},
        )
    (tmp_path / "elsewhere" / "week-1" / UNSORTED[1] / "07.png").unlink()
    said = Said()
    found = grow(run, tmp_path / "week-2", tmp_path / "run-2", kinds=2, progress=said, **there)
    assert any("1 of the 24 unsorted pictures" in line and "missing and are left out" in line for line in said.lines)
    assert len(found.names) == 24 - 5 - 1 + 12
    os.rename(tmp_path / "elsewhere", tmp_path / "further")  # now those of the grown run have moved
    with pytest.raises(nk.NewkindsError):
        nk.report(tmp_path / "run-2", progress=QUIET)
    nk.report(tmp_path / "run-2", images=tmp_path / "further", progress=QUIET)
    nk.report(tmp_path / "run-2", progress=QUIET)  # remembered
    write_pictures(tmp_path / "week-3", ("lever", UNSORTED[2]), each=4, seed=3)
    places: dict[str, Any] = {"known": tmp_path / "further", "pictures": tmp_path / "further"}
    third = grow(tmp_path / "run-2", tmp_path / "week-3", tmp_path / "run-3", kinds=2, **places)
    assert len(third.names) == len(found.names) + 8


def test_pictures_that_are_there_already(weeks: Path) -> None:
    with np.load(weeks / "week-1.npz") as first, np.load(weeks / "week-2.npz") as second:
        both = {key: np.concatenate([second[key], first[key][:7]]) for key in ("embeddings", "labels", "names")}
        np.savez(weeks / "both.npz", **both)
    said = Said()
    found = grow(weeks / "run-1", weeks / "both.npz", weeks / "run-2", progress=said)
    assert any("7 of" in line and "stay as they are there" in line for line in said.lines)
    assert found.since is not None
    assert (found.since.left_out, found.since.came) == (7, sum(NEXT.values()))
    with pytest.raises(UsageError, match=r"All 84 pictures in .* are already in "):
        grow(weeks / "run-1", weeks / "week-1.npz", weeks / "run-3")
    assert not (weeks / "run-3").exists()


def test_runs_that_cannot_be_gone_on_from(weeks: Path) -> None:
    with pytest.raises(UsageError, match="is the run to go on from"):
        grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-1")
    with pytest.raises(RunError, match="is not a run folder"):
        grow(weeks / "nothing", weeks / "week-2.npz", weeks / "run-2")
    about = json.loads((weeks / "run-1" / names.ABOUT).read_text())
    assert about["outputs"].pop(names.KINDS)
    from newkinds.files import sealed

    (weeks / "run-1" / names.ABOUT).write_bytes(sealed({k: v for k, v in about.items() if k != "sha256"}))
    with pytest.raises(RunError, match="is not finished"):
        grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2")


def test_nothing_accepted_is_said_and_works(tmp_path: Path) -> None:
    run = first_week(tmp_path)
    heap = write_week(tmp_path, 2, {8: 8, 9: 8})
    said = Said()
    found = grow(run, heap, tmp_path / "run-2", progress=said)
    assert any("No new kind in" in line and "newkinds open" in line for line in said.lines)
    assert len(found.names) == len(nk.load(run).names) + 16
    kept = set(nk.load(run).columns) & {kind for kind in found.columns if sort_of(kind) == "new"}
    assert len(kept) >= 3  # matched by their pictures


def test_another_heap_or_folder_is_refused(grown: Path, weeks: Path) -> None:
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2")
    other = write_week(weeks, 3, {8: 8, 9: 8})
    with pytest.raises(UsageError, match=r"grown\.heap"):
        grow(weeks / "run-1", other, weeks / "run-2")


def test_an_accepted_kind_of_one_picture_stays_open_until_it_has_two(weeks: Path) -> None:
    say(weeks / "run-1", {"do": "name", "kind": "new:4", "name": "rare"}, {"do": "accept", "kinds": ["new:4"]})
    said = Said()
    found = grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2", progress=said)
    assert any("too small to become known kinds (fewer than 2 pictures): new:4" in line for line in said.lines)
    assert found.called["new:4"] == "rare"
    assert len(of_kind(weeks / "run-2", "new:4")) == 1


def test_a_kind_that_was_rejected_stays_none(weeks: Path) -> None:
    gone = of_kind(weeks / "run-1", "new:3")
    say(weeks / "run-1", {"do": "reject", "kinds": ["new:3"]})
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2")
    kinds = now(weeks / "run-2")
    assert {kinds[name] for name in gone} == {"none"}
    assert "new:3" not in kinds.values()


def test_two_accepted_kinds_of_one_name_are_one(weeks: Path) -> None:
    say(
        weeks / "run-1",
        {"do": "name", "kind": "new:1", "name": "washer"},
        {"do": "accept", "kinds": ["new:1"]},
    )
    grow(weeks / "run-1", weeks / "week-2.npz", weeks / "run-2")
    assert RunFolder.open(weeks / "run-2").get_json(names.KNOWN).count("washer") == 1


def test_the_command(weeks: Path) -> None:
    line = ["grow", str(weeks / "run-1"), str(weeks / "week-2.npz"), "--out", str(weeks / "run-2")]
    done = CliRunner().invoke(app, [*line, "--rehearsals", "0", "--quiet"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "Week 2: 92 pictures came" in done.stdout
    assert "Known since last time: washer" in done.stdout
    assert "newkinds grow continues" in done.stdout


def chain(folder: Path, last: int) -> None:
    """Go through weeks: each time one kind is named and accepted, and another one is named."""
    run = first_week(folder)
    called: dict[str, str] = {}  # the names that were given, by number
    for week in range(2, last + 1):
        state = nk.journal(run, progress=QUIET).state
        new = sorted((k for k in state.sizes if sort_of(k) == "new" and state.sizes[k] > 1), key=lambda k: int(k[4:]))
        for kind in new[:2]:
            if not state.name_of(kind):
                called[kind] = f"kind called {kind[4:]}"
                say(run, {"do": "name", "kind": kind, "name": called[kind]})
        moved = of_kind(run, new[-1])[0]
        say(run, {"do": "accept", "kinds": [new[0]]}, {"do": "move", "pictures": [moved], "to": new[1]})
        heap = write_week(folder, week, {week % KNOWN: 5, 7 + week: 12, 8 + week: 12, 9 + week: 6})
        out = folder / f"run-{week}"
        found = grow(run, heap, out)
        state, run = nk.journal(out, progress=QUIET).state, out
        known = RunFolder.open(out).get_json(names.KNOWN)
        for kind, name in called.items():
            assert found.called.get(kind) == name or name in known, (week, kind)
        assert now(out)[moved] == new[1]
        assert state.confirmed[state.rows[moved]]
    for week in range(1, last + 1):  # any week can be opened, scored and predicted with
        assert nk.load(folder / f"run-{week}").names
        assert nk.evaluate(folder / f"run-{week}", "folders", progress=QUIET)[0].acc is not None
        assert len(nk.predict(folder / f"run-{week}", folder / "week-1.npz", progress=QUIET)) == 84


def test_a_chain_of_three_weeks(tmp_path: Path) -> None:
    chain(tmp_path, 3)


@pytest.mark.slow
def test_a_chain_of_ten_weeks(tmp_path: Path) -> None:
    chain(tmp_path, 10)
