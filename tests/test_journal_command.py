"""What is said about a run is followed by kinds.csv, the result in Python, scores and a run that is continued."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import newkinds as nk
from newkinds.cli import app
from newkinds.errors import DataError, NewkindsError, UsageError
from newkinds.rehearsal.trust import Trust
from newkinds.runs import RunFolder
from newkinds.runs.lock import FolderLock
from pictures import UNSORTED

QUIET = nk.Progress("silent")
SETTINGS = {"pretrain": {"epochs": 1}, "discover": {"warmup_epochs": 1, "epochs": 1}}
OPTIONS: dict[str, Any] = {
    "kinds": 3,
    "truth": "folders",
    "rehearsals": 0,
    "settings": SETTINGS,
    "page": False,
    "cache": False,
    "progress": QUIET,
}


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "run"
    again(photos, out)
    return out


def again(photos: Path, out: Path, **more: Any) -> nk.Discovery:
    """Run the same line, which continues what is there."""
    return nk.discover(photos / "known", photos / "unsorted", out=out, **{**OPTIONS, **more})


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def table(run: Path) -> dict[str, str]:
    """Return the kind of each picture in kinds.csv."""
    return {row["path"]: row["kind"] for row in csv.DictReader(io.StringIO((run / "kinds.csv").read_text()))}


def files(run: Path) -> dict[str, bytes]:
    """Return all that a run holds, but its lock."""
    return {
        str(file.relative_to(run)): file.read_bytes()
        for file in sorted(run.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


def truth_says(run: Path) -> list[dict[str, Any]]:
    """Return actions that put every picture where it belongs."""
    kinds = [
        {"do": "move", "pictures": [name for name in table(run) if name.startswith(kind)], "to": "fresh"}
        for kind in UNSORTED
    ]
    return [*kinds, {"do": "name", "kind": "fresh", "name": UNSORTED[-1]}]


def command(*line: str) -> str:
    done = CliRunner().invoke(app, ["journal", *line], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_everything_follows_what_was_said(run: Path, photos: Path) -> None:
    before = nk.load(run)
    assert before.machine is None
    batch = {"do": "batch", "actions": truth_says(run)}
    nk.journal(run, say=batch, progress=QUIET)
    kinds = {kind: f"new:{number}" for number, kind in enumerate(UNSORTED, 3)}
    right = {name: kinds[name.partition("/")[0]] for name in table(run)}
    assert table(run) == right
    found = nk.load(run)
    assert dict(zip(found.names, found.kinds.tolist(), strict=True)) == right
    assert found.called == {"new:5": "washer"}
    assert found.scores is not None
    assert found.scores.acc == 1
    assert found.machine is not None
    assert found.machine.columns == before.columns
    assert found.confirmed is not None
    assert found.confirmed.all()
    scores, baseline = nk.evaluate(run, "folders", progress=QUIET)
    assert scores.acc == 1
    assert before.kmeans_scores is not None
    assert baseline.acc == before.kmeans_scores.acc
    nk.journal(run, undo=True, progress=QUIET)
    assert dict(zip(before.names, before.kinds.tolist(), strict=True)) == table(run)


def test_a_run_that_nobody_spoke_about_is_byte_for_byte_what_it_was(run: Path, photos: Path) -> None:
    before = files(run)
    nk.load(run)
    assert "Nothing has been said" in command(str(run))
    again(photos, run)
    assert files(run) == before
    nk.journal(run, say={"do": "accept", "kinds": ["new:0"]}, progress=QUIET)
    nk.journal(run, undo=True, progress=QUIET)
    after = files(run)
    del after["journal.jsonl"]
    assert after == before


def test_a_continued_run_keeps_what_was_said(run: Path, photos: Path) -> None:
    first = next(iter(table(run)))
    nk.journal(run, say={"do": "move", "pictures": [first], "to": "fresh"}, progress=QUIET)
    said, followed = (run / "journal.jsonl").read_bytes(), (run / "kinds.csv").read_bytes()
    found = again(photos, run)
    assert found.kinds[found.names.index(first)] == "new:3"
    assert (run / "journal.jsonl").read_bytes() == said
    assert (run / "kinds.csv").read_bytes() == followed
    assert RunFolder.open(run).is_whole


def test_the_same_line_makes_a_page_anew_that_does_not_follow_yet(run: Path, photos: Path) -> None:
    again(photos, run, page=True)
    page = run / "report" / "index.html"
    before = page.read_bytes()
    again(photos, run, page=True)
    nk.journal(run, say={"do": "name", "kind": "new:0", "name": "hinge"}, progress=QUIET)
    assert page.read_bytes() == before
    again(photos, run, page=True)
    made = page.stat().st_mtime_ns
    assert b"With people's corrections: 1 action in" in page.read_bytes()
    again(photos, run, page=True)
    assert page.stat().st_mtime_ns == made
    nk.journal(run, undo=True, progress=QUIET)
    again(photos, run, page=True)
    assert page.read_bytes() == before


@pytest.mark.parametrize("lost", ["kinds.csv", "features/probabilities.npy"])
def test_a_damaged_answer_is_made_anew_and_follows_again(run: Path, photos: Path, lost: str) -> None:
    first = next(iter(table(run)))
    nk.journal(run, say={"do": "move", "pictures": [first], "to": "fresh"}, progress=QUIET)
    before = files(run)
    (run / lost).write_bytes(b"damaged")
    with pytest.raises(NewkindsError, match="not what the run wrote"):
        nk.load(run)
    again(photos, run)
    after = files(run)
    assert {name for name in before if before[name] != after.get(name)} <= {"run.json"}
    assert after["kinds.csv"] == before["kinds.csv"]


def test_a_crash_while_the_table_follows_leaves_a_run_that_is_whole(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from newkinds.runs import folder

    first = next(iter(table(run)))
    move = {"do": "move", "pictures": [first], "to": "fresh"}
    nk.journal(run, say=move, progress=QUIET)
    real, turn = folder.write_atomic, 0

    def dies(*arguments: Any, **options: Any) -> None:
        nonlocal turn
        turn += 1
        if turn == at:
            raise KeyboardInterrupt
        real(*arguments, **options)

    at = 0
    for moment in (1, 2, 3):
        turn, at = 0, moment
        monkeypatch.setattr(folder, "write_atomic", dies)
        with pytest.raises(KeyboardInterrupt):
            nk.journal(run, say=move, progress=QUIET)
        monkeypatch.undo()
        assert RunFolder.open(run).is_whole
    nk.journal(run, undo=True, progress=QUIET)
    assert table(run)[first] == nk.load(run).kinds[nk.load(run).names.index(first)] == "new:5"


def test_what_is_said_while_somebody_works_in_the_folder_is_saved(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newkinds.runs.folder.PATIENCE", 0.05)
    held, before = FolderLock(run), table(run)
    nk.journal(run, say={"do": "reject", "kinds": ["new:0"]}, progress=QUIET)
    assert table(run) == before
    held.release()
    assert "none" in nk.load(run).kinds
    nk.evaluate(run, "folders", progress=QUIET)
    assert "none" in table(run).values()


def test_the_command_lists_undoes_and_does_again(run: Path) -> None:
    nk.journal(
        run, say=[{"do": "name", "kind": "new:0", "name": "[red]hinge"}, {"do": "merge", "kinds": ["new:1", "new:2"]}]
    )
    said = command(str(run))
    assert "new:0 called '[red]hinge'" in said
    assert "new:2 merged into new:1" in said
    assert "2 actions in force: 0 of 48 pictures confirmed, 1 kind named" in said
    said = command(str(run), "--undo", "--times", "2")
    assert said.count("(undone)") == 2
    assert "0 actions in force" in said
    assert "--redo restores up to 2" in said
    said = command(str(run), "--redo")
    assert said.count("(undone)") == 1
    lines = [json.loads(line) for line in command(str(run), "--json").splitlines()]
    assert [line["said"]["do"] for line in lines] == ["name", "merge", "undo", "undo", "redo"]
    for wrong in ({"undo": True, "redo": True}, {"undo": True, "times": 0}):
        with pytest.raises(UsageError):
            nk.journal(run, **wrong)  # type: ignore[arg-type]


def test_mending_by_command(run: Path) -> None:
    nk.journal(run, say=[{"do": "accept", "kinds": ["new:0"]}, {"do": "accept", "kinds": ["new:1"]}])
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    (run / "journal.jsonl").write_text("".join([*lines[:2], "{}\n"]))
    with pytest.raises(NewkindsError, match="line 2") as caught:
        nk.load(run)
    assert "--mend" in caught.value.hint
    assert "1 action in force" in command(str(run), "--mend")
    assert nk.load(run).called == {}


# Import


def imported(run: Path, text: str, name: str = "said.csv", **more: Any) -> Any:
    file = run.parent / name
    file.write_text(text, encoding="utf-8")
    return nk.journal(run, take=file, progress=QUIET, **more)


def test_a_table_is_imported_as_one_action(run: Path) -> None:
    names = list(table(run))
    kinds = ["new:0", "known:bolt", "gear", "none", "star", "Star ", "kind-1", ""]
    rows = "".join(f'{name},"{kind}"\n' for name, kind in zip(names, kinds, strict=False))
    found = imported(run, f"path,kind\n{rows}")
    assert found.last == 1
    now = table(run)
    expected = ["new:0", "known:bolt", "known:gear", "none", "new:3", "new:4", "new:1"]
    assert [now[name] for name in names[:7]] == expected
    assert found.state.called == {"new:3": "star", "new:4": "Star"}
    assert "imported from said.csv" in command(str(run))
    nk.journal(run, undo=True, progress=QUIET)
    assert table(run) == dict(zip(names, nk.load(run).kinds.tolist(), strict=True))


def test_rows_that_change_nothing_confirm_only_if_asked(run: Path) -> None:
    whole = (run / "kinds.csv").read_text()
    assert imported(run, whole).last == 0
    found = imported(run, whole, confirm=True)
    assert found.last == 1
    assert found.state.confirmed.all()
    again_ = imported(run, whole, confirm=True)
    assert again_.last == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("path,kind\nhinge/00.png,star\nnowhere.png,star\n", "not among the 48 pictures of the run: 'nowhere.png'"),
        ("path,kind\nhinge/00.png,star\nhinge/00.png,moon\n", "more than once"),
        ("path,kind\nhinge/00.png,new:99\n", "no kind 'new:99'"),
        ("path,kind\nhinge/00.png," + "x" * 300 + "\n", "cannot be the name"),
        ("path,kind\nhinge/00.png,\n", "says of no picture"),
        ("path\nhinge/00.png\n", "missing"),
    ],
)
def test_a_table_with_a_mistake_imports_nothing(run: Path, text: str, why: str) -> None:
    before = files(run)
    with pytest.raises(DataError, match=why) as caught:
        imported(run, text)
    assert caught.value.hint
    assert files(run) == before


def test_labels_name_the_kinds_that_they_are_mostly_of(run: Path) -> None:
    before = table(run)
    by = {kind: [name for name in before if before[name] == kind] for kind in ("new:0", "new:1")}
    rows = [(name, "alpha") for name in by["new:0"][:5]] + [(by["new:0"][5], "beta")]
    rows += [(name, "beta") for name in by["new:1"][:4]]
    found = imported(run, "path,kind\n" + "".join(f"{name},{kind}\n" for name, kind in rows), confirm=True)
    assert found.state.called == {"new:0": "alpha", "new:1": "beta"}
    assert not found.state.made
    assert int(found.state.confirmed.sum()) == 10
    assert found.state.kind_of(by["new:0"][5]) == "new:1"
    more = imported(run, f"path,kind\n{by['new:0'][6]},gamma\n", "more.csv")  # new:0 has a name
    assert more.state.called["new:3"] == "gamma"


def test_names_of_the_page_are_imported(run: Path) -> None:
    names = {"newkinds": "names", "run": "shop", "names": {"0": " hinge ", "2": "<b>", "1": ""}}
    found = imported(run, json.dumps(names), "names.json")
    assert found.state.called == {"new:0": "hinge", "new:2": "<b>"}
    assert found.last == 1
    assert imported(run, json.dumps(names), "names.json").last == 1
    nk.journal(run, undo=True, progress=QUIET)
    assert not nk.load(run).called
    with pytest.raises(DataError, match="kind that the run does not have: '7'"):
        imported(run, json.dumps({**names, "names": {"7": "x"}}), "names.json")


def test_the_own_table_may_be_changed_and_imported(run: Path) -> None:
    names = list(table(run))
    nk.journal(run, say={"do": "move", "pictures": names[5:6], "to": "none"}, progress=QUIET)
    rows = (run / "kinds.csv").read_text().splitlines()
    first, *rest = rows[1].split(",")
    rows[1] = ",".join([first, "star", *rest[1:]])
    changed = "\r\n".join(row.replace(",", ";") for row in rows)  # as some spreadsheets save it
    (run / "kinds.csv").write_text("\ufeff" + changed)
    with pytest.raises(NewkindsError, match="not what the run wrote"):
        nk.load(run)
    found = nk.journal(run, take=run / "kinds.csv", progress=QUIET)
    assert found.state.called == {"new:3": "star"}
    now = table(run)
    assert (now[names[0]], now[names[5]]) == ("new:3", "none")
    assert RunFolder.open(run).is_whole
    (run / "kinds.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]))
    with pytest.raises(DataError, match="not those of the run's pictures in their order") as caught:
        nk.journal(run, take=run / "kinds.csv", progress=QUIET)
    assert caught.value.hint


def annotated(picture: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return a task as Label Studio exports it."""
    chosen = {"from_name": "choice", "to_name": "image", "type": "choices", "value": {"choices": [kind]}}
    return {"id": 1, "data": {"image": picture}, "annotations": [{"result": [chosen], "was_cancelled": False}], **more}


def test_what_label_studio_exports_is_imported(run: Path) -> None:
    names = list(table(run))
    first = table(run)[names[0]]
    cancelled = annotated(names[5], "moon")
    cancelled["annotations"][0]["was_cancelled"] = True
    tasks = [
        annotated(f"/data/local-files/?d={names[0]}", first),
        annotated(names[1], "star"),
        annotated(f"https://example.com/{names[2]}", "bolt"),
        {"id": 4, "data": {"image": names[3]}, "annotations": []},
        cancelled,
        {"id": 6, "image": names[6], "choice": "star"},
    ]
    found = imported(run, json.dumps(tasks), "export.json")
    now = table(run)
    assert now[names[1]] == now[names[6]] == "new:3"
    assert now[names[2]] == "known:bolt"
    assert np.flatnonzero(found.state.confirmed).tolist() == [0, 1, 2, 6]


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[1]", "[" * 100_000])
def test_what_is_no_export_of_label_studio_is_refused(run: Path, text: str) -> None:
    with pytest.raises(DataError) as caught:
        imported(run, text, "export.json")
    assert "Label Studio" in caught.value.hint
    assert not (run / "journal.jsonl").exists()


# Scores


def test_the_machine_is_scored_by_what_was_confirmed(run: Path) -> None:
    with pytest.raises(UsageError, match="Nobody has confirmed any picture") as caught:
        nk.evaluate(run, "journal", progress=QUIET)
    assert caught.value.hint
    by_folders, _ = nk.evaluate(run, "folders", progress=QUIET)
    nk.journal(run, say={"do": "batch", "actions": truth_says(run)}, progress=QUIET)
    by_people, _ = nk.evaluate(run, "journal", progress=QUIET)  # they said the truth of all pictures
    assert by_people == by_folders
    loaded = nk.load(run)
    assert loaded.scores == by_people  # and not the corrected answer by itself
    nk.journal(run, undo=True, progress=QUIET)
    first = next(iter(table(run)))
    nk.journal(run, say={"do": "move", "pictures": [first], "to": "none"}, progress=QUIET)
    few, _ = nk.evaluate(run, "journal", progress=QUIET)
    assert few.n == 1
    assert few.acc is None


# Prediction


def test_predictions_follow_what_was_merged_rejected_and_split(run: Path, photos: Path) -> None:
    machine = nk.predict(run, photos / "unsorted", among="new", progress=QUIET)
    nk.journal(run, say={"do": "merge", "kinds": ["new:0", "new:1"]}, progress=QUIET)
    merged = nk.predict(run, photos / "unsorted", among="new", progress=QUIET)
    assert merged.columns == ("new:0", "new:2")
    np.testing.assert_allclose(merged.probabilities[:, 0], machine.probabilities[:, :2].sum(axis=1), rtol=1e-5)
    nk.journal(run, say={"do": "merge", "kinds": ["new:2", "known:bolt"]}, progress=QUIET)
    all_ = nk.predict(run, photos / "unsorted", progress=QUIET)
    assert all_.columns == ("new:0", "known:bolt", "known:gear", "known:nut", "known:screw")
    nk.journal(run, undo=True, times=2, progress=QUIET)
    nk.journal(run, say={"do": "reject", "kinds": ["new:1"]}, progress=QUIET)
    assert nk.predict(run, photos / "unsorted", progress=QUIET).columns[-1] == "none"
    nk.journal(run, undo=True, progress=QUIET)
    inside = [name for name, kind in table(run).items() if kind == "new:0"]
    alike = inside[0].partition("/")[0]
    part = [name for name in inside if name.startswith(alike)]
    nk.journal(run, say={"do": "split", "kind": "new:0", "parts": [{"pictures": part}]}, progress=QUIET)
    split = nk.predict(run, photos / "unsorted", among="new", progress=QUIET)
    assert split.columns == ("new:0", "new:1", "new:2", "new:3")
    together = split.probabilities[:, 0] + split.probabilities[:, 3]
    np.testing.assert_allclose(together, machine.probabilities[:, 0], rtol=1e-4, atol=1e-6)
    rows = [split.names.index(name) for name in part]
    assert (split.probabilities[rows, 3] > split.probabilities[rows, 0]).mean() > 0.9
    known = nk.predict(run, photos / "today", among="known", progress=QUIET)
    assert known.columns == ("known:bolt", "known:gear", "known:nut", "known:screw")


# Again


def test_sorting_again_keeps_what_was_said_numbers_and_names(run: Path, photos: Path) -> None:
    machine = nk.load(run)
    with pytest.raises(UsageError, match="Nobody has said anything"):
        again(photos, run, again=True)
    hinges = [name for name in machine.names if name.startswith("hinge")]
    others = [name for name in machine.names if not name.startswith("hinge")]
    say = [
        {"do": "move", "pictures": hinges[:8], "to": "fresh"},
        {"do": "name", "kind": "new:3", "name": "hinge"},
        {"do": "move", "pictures": others[:1], "to": "none"},
        {"do": "merge", "kinds": ["new:1", "new:2"]},
    ]
    nk.journal(run, say=say, progress=QUIET)
    before = nk.load(run)
    heard = io.StringIO()
    again(photos, run, progress=nk.Progress("plain", heard))
    assert ("People have said something about 9 pictures since the pictures were sorted; --again") in " ".join(
        heard.getvalue().split()
    )
    found = again(photos, run, again=True)
    kinds = dict(zip(found.names, found.kinds.tolist(), strict=True))
    assert {kinds[name] for name in hinges[:8]} == {"new:3"}
    assert kinds[others[0]] == "none"
    assert "new:2" not in found.columns
    assert found.called == {"new:3": "hinge"}
    first = dict(zip(before.names, before.kinds.tolist(), strict=True))
    told = [
        np.mean([(of[name] == "new:3") == name.startswith("hinge") for name in others[1:] + hinges[8:]])
        for of in (first, kinds)
    ]
    assert told[1] > told[0]  # of pictures that nobody spoke of
    assert table(run) == kinds
    kept = json.loads((run / "scores.json").read_text())["discovered"]["acc"]
    assert found.scores is not None
    assert kept == found.scores.acc
    assert before.scores is not None
    assert kept != before.scores.acc
    with pytest.raises(UsageError, match="since its pictures were last sorted again"):
        nk.evaluate(run, "journal", progress=QUIET)  # the machine has learnt the answers
    assert "pictures sorted again by what was said up to line 4" in command(str(run))
    assert RunFolder.open(run).is_whole
    # The same line again changes nothing; what is damaged is made anew, by what was said, with the same bytes.
    kept = files(run)
    again(photos, run)
    assert files(run) == kept
    (run / "assignment.json").write_bytes(b"damaged")
    again(photos, run)
    now = files(run)
    assert {name for name in kept if kept[name] != now[name]} <= {"run.json"}
    (run / "again.json").unlink()
    renewed = again(photos, run)
    assert {renewed.kinds[renewed.names.index(name)] for name in hinges[:8]} == {"new:3"}
    assert RunFolder.open(run).is_whole
    # Further corrections, undo, predictions and exports go on from there.
    nk.journal(run, undo=True, progress=QUIET)
    nk.journal(run, say={"do": "reject", "kinds": ["new:0"]}, progress=QUIET)
    predicted = nk.predict(run, photos / "unsorted", progress=QUIET)
    assert {"new:1", "new:3", "none"} <= set(predicted.columns)
    assert nk.export(run, "onnx", run.parent / "kinds.onnx", progress=QUIET).is_file()
    assert nk.report(run, progress=QUIET).is_file()


def test_a_crash_while_sorting_again_is_mended_by_the_same_line(
    run: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list(table(run))
    nk.journal(run, say={"do": "move", "pictures": names[:5], "to": "fresh"}, progress=QUIET)
    whole = Path(shutil.copytree(run, run.parent / "whole"))
    again(photos, whole, again=True)
    real = RunFolder.put
    for name in ("features/probabilities.npy", "kinds.csv"):
        crashed = Path(shutil.copytree(run, run.parent / name.replace("/", "-")))

        def dies(self: RunFolder, output: str, data: bytes, at: str = name) -> None:
            if output == at:
                raise KeyboardInterrupt
            real(self, output, data)

        monkeypatch.setattr(RunFolder, "put", dies)
        with pytest.raises(KeyboardInterrupt):
            again(photos, crashed, again=True)
        monkeypatch.undo()
        again(photos, crashed)
        for kept in ("features/probabilities.npy", "assignment.json", "kinds.csv"):
            assert (crashed / kept).read_bytes() == (whole / kept).read_bytes()


def test_an_open_journal_goes_by_the_new_answer(run: Path, photos: Path) -> None:
    window = nk.journal(run, progress=QUIET)
    names = list(table(run))
    nk.journal(run, say={"do": "move", "pictures": names[:5], "to": "fresh"}, progress=QUIET)
    found = again(photos, run, again=True)
    window.refresh()
    assert window.answer.columns == nk.journal(run, progress=QUIET).answer.columns
    assert [window.state.kind_of(name) for name in found.names] == found.kinds.tolist()
    with pytest.raises(NewkindsError, match="not something that can be said"):
        nk.journal(run, say={"do": "again", "line": 1}, progress=QUIET)


# The page, and how far to trust it


def test_the_page_and_what_to_expect_follow(run: Path) -> None:
    machine = nk.load(run)
    trust = Trust(0.6, 0.5, 0.7, None, (0.9, 0.5, 0.4), 0, 0, None, None, (), why="there are too few kinds")
    with RunFolder.open(run, writing=True) as folder:
        folder.put_json("trust.json", trust.to_dict())
    inside = [name for name, kind in zip(machine.names, machine.kinds, strict=True) if kind == "new:2"]
    say = [
        {"do": "merge", "kinds": ["new:0", "new:1"]},
        {"do": "confirm", "kind": "new:2", "pictures": inside},
        {"do": "name", "kind": "new:2", "name": "<i>washer</i>"},
        {"do": "move", "pictures": [machine.names[machine.kinds.tolist().index("new:0")]], "to": "known:bolt"},
    ]
    nk.journal(run, say=say, progress=QUIET)
    found = nk.load(run)
    assert found.trust is not None
    assert found.columns == ("new:0", "new:2", "known:bolt")
    zero, one = (int((machine.kinds == kind).sum()) for kind in ("new:0", "new:1"))
    merged = ((zero - 1) * 0.9 + one * 0.5) / (zero - 1 + one)
    assert found.trust.purity == pytest.approx((merged, 1.0, 1.0))
    assert found.trust.acc == pytest.approx(float(found.probabilities.max(axis=1).mean()))
    confirmed = (len(inside) + 1) / len(machine.names)
    assert found.trust.acc - found.trust.low == pytest.approx(0.1 * (1 - confirmed))
    assert f"{len(inside) + 1} pictures are confirmed by a person." in found.trust.remarks
    page = nk.report(run, progress=QUIET).read_text(encoding="utf-8")
    assert "With people's corrections: 4 actions" in page
    assert "<strong>2 new kinds</strong>" in page
    assert "&lt;i&gt;washer&lt;/i&gt;" in page
    assert "<i>washer" not in page
    assert "Kind 1" not in page
    assert ">bolt</bdi></h3>" in page
    assert page.count('data-name-of="') == 2  # a known kind has its name
    data = json.loads(re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, flags=re.DOTALL)[0])
    assert [(kind["key"], kind["size"]) for kind in data["kinds"]] == [
        ("0", zero + one - 1),
        ("2", len(inside)),
        ("known:bolt", 1),
    ]
