"""Every address of the workbench: what it answers, and what it says to nonsense."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from windows import Window

from newkinds.app.serving import Serving, open_workbench
from newkinds.corrections import History
from newkinds.errors import RunError, UsageError
from newkinds.images.decode import encode
from newkinds.runs import RunFolder
from newkinds.runs.journal import Journal


def test_the_page_has_no_script_but_its_own_files(inside: Window) -> None:
    page = inside.get("/").text
    assert "<script>" not in page
    assert "onclick" not in page
    for name in ("main.js", "app.css", "base.css", "palette.css", "painters.js", "icon.svg"):
        answer = inside.get(f"/static/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].split(";")[0] in ("text/javascript", "text/css", "image/svg+xml")
    assert inside.get("/static/nothing.js").status_code == 404


def test_the_overview_has_every_kind_with_pictures_of_it(inside: Window) -> None:
    state = inside.asked("/api/state")
    assert sum(one["size"] for one in state["kinds"]) == 240
    assert state["known"] == ["bolt", "nut"]
    assert state["undo"] is state["redo"] is None
    assert state["progress"] == {"pictures": 240, "confirmed": 0, "left": 240, "judged": 0, "agreed": 0, "right": None}
    for one in state["kinds"]:
        rows = inside.asked("/api/kind", kind=one["kind"])["rows"]
        assert len(rows) == one["size"]
        assert set(one["cover"]) <= set(rows)
    assert inside.asked("/api/state", since=state["version"]) == {"version": state["version"]}


def test_a_kind_is_shown_in_three_orders_with_all_its_pictures(inside: Window) -> None:
    orders = [inside.asked("/api/kind", kind="new:1", order=order)["rows"] for order in ("typical", "doubtful")]
    orders.append(inside.asked("/api/kind", kind="new:1", order="similar", to=orders[0][7])["rows"])
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])
    assert orders[0] != orders[1]
    assert orders[2][0] == orders[0][7]
    truth = [int(inside.serving.bench.pictures.names[row][:2]) for row in orders[1]]
    assert truth[0] != 1  # what the answer put wrongly is most doubtful,
    assert truth[-1] == 1
    typical = [int(inside.serving.bench.pictures.names[row][:2]) for row in orders[0]]
    assert set(typical[:20]) == {1}  # and not typical
    assert sorted(inside.asked("/api/kind", kind="all")["rows"]) == list(range(240))


def test_pictures_are_encoded_again(inside: Window, made_up: Path) -> None:
    mark = inside.serving.bench.mark
    for place in ("thumb", "picture"):
        answer = inside.get(f"/{place}/{mark}/5")
        assert answer.headers["content-type"] == "image/png"
        assert Image.open(io.BytesIO(answer.content)).size == (24, 24)
    about = inside.asked("/api/picture", row=5)
    assert Path(about["path"]) == made_up / "pictures" / about["name"]
    assert about["there"] is True
    assert about["machine"][0]["kind"] == about["kind"]
    assert inside.asked("/api/names", rows="5,6")["names"]["5"] == about["name"]


def test_large_and_odd_files_become_small_jpegs_without_metadata(run: Path, made_up: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(made_up / "pictures", tmp_path / "moved"))
    names = open_workbench(run).pictures.names
    noise = np.random.default_rng(0).integers(0, 256, (3, 900, 3000), dtype=np.uint8)
    (moved / names[0]).write_bytes(encode(noise, "jpeg"))
    (moved / names[1]).write_bytes(b"<html><script>alert(1)</script>")
    (moved / names[2]).unlink()
    pictures = open_workbench(run, images=moved).pictures
    thumb, whole = pictures.thumbnail(0), pictures.whole(0)
    assert Image.open(io.BytesIO(thumb.data)).size == (192, 192)
    assert Image.open(io.BytesIO(whole.data)).size == (2048, 614)
    for row, why in ((1, "not a JPEG"), (2, "not there")):
        with pytest.raises(Exception, match=why):
            pictures.thumbnail(row)


def test_pictures_that_are_gone_are_missing_and_what_was_said_of_them_stays(
    made_up: Path, run: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(made_up / "pictures", tmp_path / "moved"))
    bench = open_workbench(run, images=moved)
    bench.say({"do": "move", "rows": [3], "to": "new:5"})
    (moved / bench.pictures.names[3]).unlink()
    bench = open_workbench(run)  # where they are is remembered
    assert bench.pictures.path(3) == moved / bench.pictures.names[3]
    with pytest.raises(Exception, match="not there"):
        bench.pictures.thumbnail(3)
    assert bench.now().kinds[bench.now().kind[3]] == "new:5"


def test_a_picture_folder_that_has_moved_is_asked_for_once(made_up: Path, run: Path, tmp_path: Path) -> None:
    shutil.copytree(made_up / "pictures", tmp_path / "old")
    open_workbench(run, images=tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(RunError, match="does not exist") as caught:
        open_workbench(run)
    assert "--pictures" in caught.value.hint
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="has none of the pictures"):
        open_workbench(run, images=tmp_path / "empty")
    assert open_workbench(run, images=tmp_path / "new").pictures.thumbnail(0)
    assert open_workbench(run).pictures.thumbnail(0)


def test_a_run_folder_that_has_moved_opens(run: Path, tmp_path: Path) -> None:
    open_workbench(run).say({"do": "name", "kind": "new:1", "name": "washer"})
    bench = open_workbench(run.rename(tmp_path / "elsewhere"))
    assert bench.overview()["kinds"][1]["called"] == "washer"


def test_a_journal_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    from studies.tools.made_up_run import make_run

    other = make_run(tmp_path / "other", 30, 3)
    bench = open_workbench(other)
    bench.say({"do": "move", "rows": [0], "to": "none"})
    shutil.copy(other / "journal.jsonl", run / "journal.jsonl")
    with pytest.raises(RunError, match="not about the pictures of this run"):
        open_workbench(run)


def test_a_name_in_a_run_folder_leads_to_no_file_outside(run: Path, made_up: Path) -> None:
    pictures = open_workbench(run).pictures
    pictures.names = ("../../../etc/passwd", "/etc/passwd", "a/../../b")
    assert [pictures.path(row) for row in range(3)] == [None, None, None]


# What can be said


def test_everything_that_can_be_said_is_saved_undone_and_done_again(window: Window, run: Path) -> None:
    def rows(kind: str) -> list[int]:
        return list(window.asked("/api/kind", kind=kind)["rows"])

    some = rows("new:0")[:3]
    actions: list[dict[str, Any]] = [
        {"do": "name", "kind": "new:0", "name": "<b>washer</b>"},
        {"do": "move", "rows": some, "to": "new:1"},
        {"do": "move", "rows": rows("new:2")[:2], "to": "fresh"},
        {"do": "move", "rows": rows("new:2")[4:6], "to": "none"},
        {"do": "move", "rows": rows("new:2")[6:8], "to": "known:nut"},
        {"do": "confirm", "kind": "new:3", "rows": rows("new:3")[:5]},
        {"do": "merge", "kinds": ["new:3", "new:4", "new:5"]},
        {"do": "split", "kind": "new:1", "parts": [{"rows": some}]},
        {"do": "accept", "kinds": ["new:0", "new:1"]},
        {"do": "reject", "kinds": ["new:2"]},
        {"do": "reopen", "kinds": ["new:2"]},
        {
            "do": "batch",
            "actions": [{"do": "accept", "kinds": ["new:2"]}, {"do": "name", "kind": "new:2", "name": "x"}],
        },
    ]
    seen = [window.asked("/api/state")["kinds"]]
    for number, action in enumerate(actions, 1):
        answer = window.say(**action)
        assert answer["saved"] == [number]
        assert Journal.open(RunFolder.open(run)).last == number  # on the disk before the page is told
        seen.append(answer["kinds"])
        assert seen[-1] != seen[-2]
    for before in reversed(seen[:-1]):
        line = window.asked("/api/state")["undo"]["line"]
        answer = window.post("/api/undo", {"line": line}).json()
        assert answer["kinds"] == before
    assert answer["undo"] is None
    for after in seen[1:]:
        line = window.asked("/api/state")["redo"]["line"]
        answer = window.post("/api/redo", {"line": line}).json()
        assert answer["kinds"] == after
    assert answer["redo"] is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": None},
        {"action": {"do": "fly"}},
        {"action": {"do": "move", "rows": [240], "to": "none"}},
        {"action": {"do": "move", "rows": [-1], "to": "none"}},
        {"action": {"do": "move", "rows": ["0"], "to": "none"}},
        {"action": {"do": "move", "rows": [True], "to": "none"}},
        {"action": {"do": "move", "rows": [0, 0], "to": "none"}},
        {"action": {"do": "move", "rows": [0], "pictures": ["bolt/0.png"], "to": "none"}},
        {"action": {"do": "move", "rows": [0], "to": "new:99"}},
        {"action": {"do": "move", "pictures": ["../../etc/passwd"], "to": "none"}},
        {"action": {"do": "merge", "kinds": ["new:0"]}},
        {"action": {"do": "merge", "kinds": ["known:bolt", "known:nut"]}},
        {"action": {"do": "name", "kind": "known:bolt", "name": "x"}},
        {"action": {"do": "name", "kind": "new:0", "name": "x" * 300}},
        {"action": {"do": "undo", "line": 1}},
        {"action": {"do": "accept", "kinds": ["new:0"]}, "base": 7},
        {"action": {"do": "accept", "kinds": ["new:0"]}, "base": "x"},
    ],
)
def test_what_cannot_be_said_is_refused_with_a_reason_and_changes_nothing(inside: Window, body: dict[str, Any]) -> None:
    before = inside.asked("/api/state")
    answer = inside.post("/api/say", body)
    assert answer.status_code in (409, 422), answer.text
    assert answer.json()["error"]
    assert inside.asked("/api/state") == before
    assert inside.serving.bench.journal.last == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"[" * 100_000, b"\xff", b'"x"', b"NaN"])
def test_a_body_that_is_no_json_object_is_refused(inside: Window, content: bytes) -> None:
    headers = {"Origin": inside.origin, "Content-Type": "application/json"}
    assert inside.http.post("/api/say", content=content, headers=headers).status_code == 422


@pytest.mark.parametrize(
    "question",
    [
        "kind?kind=new:99",
        "kind?kind=",
        "kind?kind=new:0&order=sideways",
        "kind?kind=new:0&order=similar",
        "kind?kind=new:0&order=similar&to=240",
        "kind?kind=new:0&to=x",
        "picture?row=240",
        "picture",
        "names?rows=1,x",
        "names?rows=999",
        "parts?kind=new:0&n=1",
        "parts?kind=new:0&n=51",
        "parts?kind=new:0&seeds=1",
        "parts?kind=new:99&n=2",
        "grow?kind=new:99",
        "state?since=-1",
    ],
)
def test_questions_that_make_no_sense_are_answered_with_a_reason(inside: Window, question: str) -> None:
    answer = inside.get(f"/api/{question}")
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize("row", ["240", "-1", "x", "1e9", "9" * 5000, "%C2%B2"])
def test_a_picture_that_is_not_there_is_not_found(inside: Window, row: str) -> None:
    for size in ("thumb", "picture"):
        assert inside.get(f"/{size}/{inside.serving.bench.mark}/{row}").status_code == 404


def test_a_run_folder_that_goes_away_is_said_to_be_gone(window: Window, run: Path, tmp_path: Path) -> None:
    run.rename(tmp_path / "elsewhere")
    answer = window.post("/api/say", {"action": {"do": "accept", "kinds": ["new:0"]}})
    assert answer.status_code in (400, 500)
    assert str(run) in answer.json()["error"]
    (tmp_path / "elsewhere").rename(run)
    assert window.say(do="accept", kinds=["new:0"])["saved"] == [1]


def test_two_windows_see_each_other_and_an_undo_takes_back_what_was_seen(window: Window, run: Path) -> None:
    window.say(do="name", kind="new:0", name="washer")
    journal = Journal.open(RunFolder.open(run))  # another window, or the command line
    seen = window.asked("/api/state")
    journal.say(*[journal.history.resolved(action) for action in _moves(journal.history)])
    assert window.asked("/api/state", since=seen["version"])["version"] == 2
    answer = window.post("/api/undo", {"line": seen["undo"]["line"]})
    assert answer.status_code == 422
    assert "not the last" in answer.json()["error"]
    stale = window.post("/api/say", {"action": {"do": "accept", "kinds": ["new:0"]}, "base": 1})
    assert stale.status_code == 409
    assert Journal.open(RunFolder.open(run)).last == 2


def _moves(history: History) -> list[Any]:
    from newkinds.corrections import Move

    return [Move(pictures=(history.state.names[0],), to="none")]


def test_the_answer_follows_when_the_workbench_is_closed(window: Window, run: Path) -> None:
    name = window.serving.bench.pictures.names[0]
    window.say(do="move", rows=[0], to="known:nut")
    window.serving.stop()
    import time

    end = time.monotonic() + 10
    while f"{name},known:nut" not in (run / "kinds.csv").read_text() and time.monotonic() < end:
        time.sleep(0.1)
    assert f"{name},known:nut" in (run / "kinds.csv").read_text()


def test_a_port_that_is_taken_says_so(serving: Serving, run: Path) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        Serving(open_workbench(run), serving.port)
    with pytest.raises(UsageError, match="is no port"):
        Serving(open_workbench(run), 70_000)
