"""A run whose truth is known of a part of its pictures: what is scored, kept, logged, said and shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import newkinds as nk
from newkinds.cli.show import show_scores
from newkinds.evaluation.scores import score
from newkinds.evaluation.truth import read_truth
from newkinds.images import open_images
from newkinds.report.figures import shown
from newkinds.runs import RunFolder
from newkinds.runs.results import read_assignment, read_scores
from pictures import write_embeddings

SETTINGS = {"kinds": 3, "rehearse": {"rehearsals": 1}, "discover": {"warmup_epochs": 1, "epochs": 2}}
SCORES = ("acc", "nmi_geometric", "nmi_arithmetic", "ari")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return embeddings of known kinds, and 48 of three new ones."""
    return write_embeddings(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def found(sets: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> nk.Discovery:
    """Return a run that has not been scored."""
    return nk.discover(*sets, out=tmp_path_factory.mktemp("runs") / "run", settings=SETTINGS, page=False)


def written(folder: Path, found: nk.Discovery, sets: tuple[Path, Path], rows: range) -> Path:
    """Write the truth about some of the pictures, and return the file."""
    labels = np.load(sets[1])["labels"]
    file = folder / "truth.csv"
    file.write_text("path,kind\n" + "".join(f"{found.names[row]},kind {labels[row]}\n" for row in rows))
    return file


def test_a_part_is_scored_by_itself(
    found: nk.Discovery, sets: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = range(40)  # all of two kinds, and half of the third
    scores, baseline = nk.evaluate(found.path, written(tmp_path, found, sets, rows))
    labels = np.load(sets[1])["labels"]
    alone = score(found.labels[:40], labels[:40])
    assert [getattr(scores, name) for name in SCORES] == [getattr(alone, name) for name in SCORES]
    assert (scores.n, scores.of, baseline.n, baseline.of) == (40, 48, 40, 48)
    assert (scores.n_found, baseline.n_found, scores.error_in_k) == (3, 3, None)
    kept = json.loads((found.path / "scores.json").read_text())
    assert (kept["discovered"]["n"], kept["discovered"]["of"]) == (40, 48)
    assert kept["truth"][40:] == [""] * 8
    show_scores(scores, baseline)
    printed = capsys.readouterr().out
    assert "Scored on 40 of 48 pictures; the other pictures have no known truth." in " ".join(printed.split())
    assert "3 or more" in printed
    assert "(40 of 48 pictures with a truth)" in repr(nk.load(found.path))


def test_too_few_have_no_score_anywhere(
    found: nk.Discovery, sets: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, baseline = nk.evaluate(found.path, written(tmp_path, found, sets, range(15, 17)))
    assert {getattr(one, name) for one in (scores, baseline) for name in SCORES} == {None}
    kept = json.loads((found.path / "scores.json").read_text())
    assert {kept[which][name] for which in ("discovered", "kmeans") for name in SCORES} == {None}
    show_scores(scores, baseline)
    told = "2 of 48 pictures have a known truth, too few for scores: these need at least 30."
    assert " ".join(capsys.readouterr().out.split()) == told
    assert "no ACC (2 of 48 pictures with a truth)" in repr(nk.load(found.path))
    page = nk.report(found.path).read_text()
    assert told in page
    assert "<dt>ACC" not in page
    assert 'id="wrong"' not in page
    run = RunFolder.open(found.path)
    assert shown(run, open_images(sets[1])).truth is None  # figures match kinds, too


def test_the_log_has_no_acc_of_too_few(found: nk.Discovery, sets: tuple[Path, Path], tmp_path: Path) -> None:
    for rows, logged in ((range(2), False), (range(40), True)):
        truth = written(tmp_path, found, sets, rows)
        run = nk.discover(*sets, out=tmp_path / str(len(rows)), truth=truth, settings=SETTINGS, page=False)
        records = [json.loads(line) for line in (run.path / "log.jsonl").read_text().splitlines()]
        assert any("acc" in record for record in records) is logged
        assert run.labels.tolist() == found.labels.tolist()  # the truth is for scores only


def test_scores_of_runs_from_before_the_counts(found: nk.Discovery, sets: tuple[Path, Path]) -> None:
    with RunFolder.open(found.path, writing=True) as run:
        truth = read_truth("folders", open_images(sets[1]))
        full = score(read_assignment(run).labels, truth)
        before = {key: value for key, value in full.to_dict().items() if key != "of"}
        run.put_json("scores.json", {"discovered": before, "kmeans": before, "truth": list(truth)})
        assert read_scores(run) == (full, full, truth)
        few = [truth[0], truth[-1], *[""] * 46]
        run.put_json("scores.json", {"discovered": {**before, "n": 2}, "kmeans": {**before, "n": 2}, "truth": few})
        kept = read_scores(run)
    assert kept is not None
    assert (kept[0].acc, kept[0].n, kept[0].of) == (None, 2, 48)
