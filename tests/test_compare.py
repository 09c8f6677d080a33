"""Several methods side by side: one f, nothing done twice, a table that says what the runs say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds as nk
from newkinds.cli.show import show_comparison
from newkinds.compare import COST, compare
from newkinds.configure import Settings
from newkinds.errors import NewkindsError, RunError, UsageError
from newkinds.evaluation.scores import score
from newkinds.methods.registry import METHODS
from newkinds.runs import RunFolder
from newkinds.runs.folder import CHECKPOINT_SECONDS
from newkinds.settings.files import parse_value
from pictures import write_embeddings

FAST = {"kinds": 3, "discover": {"warmup_epochs": 1, "epochs": 2}, "lsc": {"landmarks": 20}}


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return embeddings of known kinds, and of three new ones."""
    return write_embeddings(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def made(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> nk.Comparison:
    out = tmp_path_factory.mktemp("compared") / "run"
    return compare(*sets, out=out, methods=["kmeans", "lsc", "dtc"], seeds=2, truth="folders", settings=FAST)


def test_every_method_has_its_settings_and_a_line() -> None:
    assert set(METHODS) == set(Settings.model_fields["method"].annotation.__args__)  # type: ignore[union-attr]
    for method in METHODS.values():
        assert method.line
        assert all(section in Settings.model_fields for section in method.sections)


def test_the_table_says_what_the_runs_say(made: nk.Comparison, sets: tuple[Path, Path]) -> None:
    labels = np.load(sets[1])["labels"]
    assert [row["method"] for row in made.methods] == ["kmeans", "lsc", "dtc"]
    for row in made.methods:
        accs = []
        for seed in (0, 1):
            run = RunFolder.open(made.path / f"{row['method']}-{seed}")
            assert (run.settings.method, run.settings.seed) == (row["method"], seed)
            accs.append(score(run.get_array("features/probabilities.npy").argmax(axis=1), labels).acc)
            assert not (run.path / "report").exists()
        assert row["acc"] == pytest.approx(np.mean(accs))
        assert row["acc_std"] == pytest.approx(np.std(accs, ddof=1))
        assert row["acc"] > 0.9
        assert row["seconds"] > 0
    assert np.diag(made.agreement) == pytest.approx(1)
    assert np.array(made.agreement) == pytest.approx(np.array(made.agreement).T)
    assert made.table().decode().splitlines()[0].startswith("method,line,acc,acc_std,")
    assert json.loads((made.path / "table.json").read_text())["methods"] == list(made.methods)


def test_the_page_shows_them(made: nk.Comparison) -> None:
    page = made.page.read_text()
    assert "Methods side by side" in page
    for row in made.methods:
        assert f">{row['method']}</th>" in page
    section = page[page.index('id="methods"') : page.index('id="map"')]
    assert section.count('class="heat ') == 9


def test_again_nothing_is_repeated_and_more_can_be_added(
    made: nk.Comparison, sets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    plain = nk.api.discover

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(options["out"])
        return plain(*arguments, **options)

    monkeypatch.setattr("newkinds.api.discover", counted)
    methods = ["kmeans", "lsc", "dtc"]
    again = compare(*sets, out=made.path, methods=methods, seeds=2, truth="folders", settings=FAST)
    assert not asked
    assert again == made
    more = compare(*sets, out=made.path, methods=["kmeans", "constrained-kmeans"], seeds=2, settings=FAST)
    assert [path.name for path in asked] == ["constrained-kmeans-0", "constrained-kmeans-1"]
    assert len(more.methods) == 2
    # A run that was killed has no cost yet: it goes on, and its time is not known.
    (made.path / "lsc-1" / COST).unlink()
    compare(*sets, out=made.path, methods=methods, seeds=2, truth="folders", settings=FAST)
    assert asked[-1].name == "lsc-1"
    assert json.loads((made.path / "lsc-1" / COST).read_text())["seconds"] is None


# A truth about a part of the pictures


def scored_on(made: nk.Comparison, sets: tuple[Path, Path], folder: Path, rows: slice, seeds: int = 2) -> nk.Comparison:
    """Compare again in another folder, with the truth about some of the pictures."""
    names = nk.load(made.path / "kmeans-0").names[rows]
    file = folder / "truth.csv"
    kinds = np.load(sets[1])["labels"][rows]
    file.write_text("path,kind\n" + "".join(f"{name},{kind}\n" for name, kind in zip(names, kinds, strict=True)))
    return compare(*sets, out=folder / "run", methods=["kmeans", "lsc"], seeds=seeds, truth=file, settings=FAST)


def test_scores_of_a_part_are_said_to_be(made: nk.Comparison, sets: tuple[Path, Path], tmp_path: Path) -> None:
    assert made.remark == ""
    assert [(row["n"], row["of"]) for row in made.methods] == [(48, 48)] * 3
    found = scored_on(made, sets, tmp_path, slice(40))
    assert found.remark.startswith("Scored on 40 of 48 pictures; the other pictures have no known truth.")
    assert [(row["n"], row["of"]) for row in found.methods] == [(40, 48)] * 2
    assert found.methods[0]["acc"] > 0.9
    assert json.loads((found.path / "table.json").read_text())["remark"] == found.remark
    section = found.page.read_text().partition('id="methods"')[2].partition('id="map"')[0]
    assert found.remark in section
    # With another truth, which is complete, the runs that are asked for are scored again.
    more = compare(*sets, out=found.path, methods=["kmeans"], seeds=2, truth="folders", settings=FAST)
    assert (more.remark, more.methods[0]["n"]) == ("", 48)
    # There is no mean, and nothing to compare, of runs with different truths or of some that have none.
    both = compare(*sets, out=found.path, methods=["kmeans", "lsc"], seeds=2, settings=FAST)
    assert [(row["acc"], row["n"], row["kinds"]) for row in both.methods] == [(None, None, 3)] * 2
    assert "(kmeans: 48 of 48 pictures; lsc: 40 of 48 pictures)" in both.remark
    more = compare(*sets, out=found.path, methods=["kmeans"], seeds=3, settings=FAST)
    assert (more.methods[0]["acc"], more.methods[0]["n"], more.methods[0]["kinds"]) == (None, None, 3)
    assert "(kmeans: 48 of 48 pictures or no truth)" in more.remark


def test_too_few_have_no_scores_in_the_table(
    made: nk.Comparison, sets: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = scored_on(made, sets, tmp_path, slice(15, 17), seeds=1)
    assert {row[key] for row in found.methods for key in ("acc", "nmi_geometric", "ari")} == {None}
    assert found.remark == "2 of 48 pictures have a known truth, too few for scores: these need at least 30."
    show_comparison(found)
    printed = capsys.readouterr().out
    assert found.remark in " ".join(printed.split())
    assert "ACC" not in printed
    section = found.page.read_text().partition('id="methods"')[2].partition('id="map"')[0]
    assert found.remark in section
    assert "ACC" not in section


# What is learnt from the known kinds


def test_what_two_methods_learn_alike_is_learnt_once(sets: tuple[Path, Path], tmp_path: Path) -> None:
    small = {"epochs": 3, "milestones": [2]}
    settings = {**FAST, "similarity": small, "pairs": small}
    methods = ["kmeans", "kcl", "mcl", "centroid-networks"]
    found = compare(*sets, out=tmp_path / "run", methods=methods, seeds=2, settings=settings)
    assert list(found.learnt) == ["f", "similarity", "centroids"]
    costs = {name: json.loads((found.path / name / COST).read_text())["seconds"] for name in found.learnt}
    assert found.learnt == costs
    assert json.loads((found.path / "table.json").read_text())["learnt"] == costs
    told = " ".join(found.page.read_text().split())
    told = told.partition("Learnt once from the known kinds, for all methods, and not included in the seconds below: ")[
        2
    ]
    assert re.match(r"the network f in [^,]+ s, similarity in [^,]+ s, centroids in [^,]+ s\.", told), told[:100]
    logs = {path.parent.name: stages(path) for path in found.path.glob("*/log.jsonl")}
    assert logs["similarity"] == ["similarity"] * 3
    for seed in (0, 1):
        assert logs[f"kcl-{seed}"] == ["kcl"] * 3
        assert logs[f"mcl-{seed}"] == ["mcl"] * 3
    # Nothing of it is learnt again, and nothing for methods that take none.
    again = compare(*sets, out=found.path, methods=methods, seeds=2, settings=settings)
    assert again == found
    assert {path.parent.name: stages(path) for path in found.path.glob("*/log.jsonl")} == logs
    assert list(compare(*sets, out=found.path, methods=["kmeans"], seeds=2, settings=settings).learnt) == ["f"]


def stages(log: Path) -> list[str]:
    return [json.loads(line)["stage"] for line in log.read_text().splitlines()]


# Interrupted


def test_a_killed_comparison_goes_on(sets: tuple[Path, Path], tmp_path: Path) -> None:
    slow = ["discover.warmup_epochs=2", "discover.epochs=40", "discover.settled=0.0", "lsc.landmarks=20"]
    line = [sys.executable, "-m", "newkinds", "compare", *map(str, sets), "--out", str(tmp_path / "run"), "--quiet"]
    line += ["--methods", "kmeans,lsc,dtc", "--seeds", "2", "--kinds", "3", "--truth", "folders"]
    line += [part for setting in slow for part in ("--set", setting)]
    environment = {**os.environ, CHECKPOINT_SECONDS: "0", "OMP_NUM_THREADS": "1"}
    run = tmp_path / "run"
    with subprocess.Popen(line, env=environment) as process:
        while process.poll() is None and not finished_runs(run):
            time.sleep(0.005)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (run / "table.json").exists()
    finished = finished_runs(run)
    begun = {folder.name for folder in run.glob("*-[01]")} - {folder.name for folder in finished}
    assert 1 <= len(finished) < 6
    before = {file: contents(file) for folder in finished for file in folder.rglob("*") if file.is_file()}
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {file: contents(file) for folder in finished for file in folder.rglob("*") if file.is_file()} == before
    rows = json.loads((run / "table.json").read_text())["methods"]
    assert [row["method"] for row in rows] == ["kmeans", "lsc", "dtc"]
    assert all(row["acc"] > 0.9 and row["acc_std"] is not None and row["kinds"] == 3 for row in rows)
    for row in rows:
        assert row["method"] in done.stdout
    # What was under way when it was killed has no time; the others have.
    costs = {folder.parent.name: json.loads(folder.read_text())["seconds"] for folder in run.glob(f"*-[01]/{COST}")}
    assert {name for name, seconds in costs.items() if seconds is None} == begun
    assert len(costs) == 6
    # A comparison that nobody kills finds the same.
    settings = Settings().with_changes({"kinds": 3, **dict(map(as_change, slow))})
    whole = compare(*sets, out=tmp_path / "whole", methods=["kmeans", "lsc", "dtc"], seeds=2, settings=settings)
    for name in costs:
        one, two = (RunFolder.open(path / name).get("kinds.csv") for path in (run, whole.path))
        assert one == two, name


def finished_runs(folder: Path) -> list[Path]:
    """Return the folders of the runs whose cost is recorded, which is the last thing."""
    return [file.parent for file in folder.glob("*-[01]/run.json") if COST in json.loads(file.read_text())["outputs"]]


def contents(file: Path) -> tuple[int, bytes]:
    return file.stat().st_mtime_ns, file.read_bytes()


def as_change(setting: str) -> tuple[str, Any]:
    key, value = setting.split("=")
    return key, parse_value(value)


def test_side_by_side_gives_the_same(made: nk.Comparison, sets: tuple[Path, Path], tmp_path: Path) -> None:
    both = compare(*sets, out=tmp_path / "run", methods=["kmeans", "lsc"], seeds=1, settings=FAST, jobs=2)
    for row in both.methods:
        assert row["acc"] is None
        one, two = (RunFolder.open(path / f"{row['method']}-0").get("kinds.csv") for path in (made.path, both.path))
        assert one == two


def test_the_number_of_kinds_may_be_estimated(sets: tuple[Path, Path], tmp_path: Path) -> None:
    settings = {**FAST, "kinds": "auto", "count": {"max_kinds": 8, "splits": 2, "enough": 4}}
    found = compare(*sets, out=tmp_path / "run", methods=["kmeans"], seeds=1, settings=settings)
    assert found.methods[0]["kinds"] == json.loads((found.path / "f" / "count.json").read_text())["k"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["kmeans", "k-means"]}, "k-means"),
        ({"methods": ["kmeans", "kmeans"]}, "named once"),
        ({"methods": []}, "named once"),
        ({"seeds": 0}, "seeds=0"),
        ({"backend": "pigeons"}, "pigeons"),
    ],
)
def test_what_cannot_be_compared(options: dict[str, Any], words: str, sets: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        compare(*sets, out=tmp_path / "run", settings=FAST, **options)
    assert not (tmp_path / "run").exists()


def test_other_settings_or_a_folder_of_something_else(
    made: nk.Comparison, sets: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="other settings"):
        compare(*sets, out=made.path, methods=["kmeans"], seeds=1, settings={**FAST, "kinds": 4})
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NewkindsError, match="not empty"):
        compare(*sets, out=tmp_path, methods=["kmeans"], seeds=1, settings=FAST)
