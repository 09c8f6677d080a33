"""The paper's figures of a run: all that there is material for, the same bytes every time, text that stays text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import newkinds as nk
from newkinds import api
from newkinds.errors import DataError
from newkinds.progress import QUIET
from newkinds.report.figures import (
    FIGURES,
    GRID,
    REACH,
    Shown,
    commonest_confusions,
    draw_figures,
    failures,
    heats,
    panels,
    shown,
    tiled,
)
from newkinds.runs import RunFolder
from pictures import write_embeddings, write_pictures


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return a run over drawn pictures, with the truth and a few states on the way."""
    root = tmp_path_factory.mktemp("figures")
    write_pictures(root / "known", ("disc", "ring", "cross", "bar"))
    write_pictures(root / "new", ("square", "stripes", "dots"), seed=1)
    settings = {
        "rehearse": {"rehearsals": 1},
        "discover": {"warmup_epochs": 1, "epochs": 3, "snapshots": 3},
        "pretrain": {"epochs": 2},
    }
    folder = root / "run"
    nk.discover(root / "known", root / "new", out=folder, kinds=3, truth="folders", settings=settings, page=False)
    return RunFolder.open(folder)


@pytest.fixture
def what(run: RunFolder) -> Shown:
    return shown(run, api.unsorted_of(run, None, QUIET))


def test_all_figures_are_drawn_twice_alike(run: RunFolder, tmp_path: Path) -> None:
    first, second = (api.figures(run.path, out=tmp_path / name) for name in ("one", "two"))
    names = {path.stem for path in first}
    assert {"tsne-over-epochs", "tsne-with-images", "p-and-q"} <= names <= set(FIGURES)
    assert {path.suffix for path in first} == {".png", ".svg"}
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    text = (tmp_path / "one" / "tsne-over-epochs.svg").read_text()
    assert "(a) init" in text
    assert "stripes" in text  # the legend, as text


def test_the_first_panel_is_f_and_the_others_the_states(what: Shown) -> None:
    found = panels(what)
    assert [panel.title for panel in found] == ["(a) init", "(b) epoch 2", "(c) epoch 4"]
    for panel in found:
        assert len(panel.places) == len(panel.groups) == len(what.images)
        assert panel.places.min() >= 0
        assert panel.places.max() <= 1
    assert sorted(np.bincount(found[0].groups)) == sorted(np.bincount(what.truth))


def test_right_assignments_lie_on_the_diagonal(what: Shown) -> None:
    # Kinds are numbered anyhow: 2, 0, 1 stand for the classes 0, 1, 2.
    truth = np.repeat(np.arange(3), 20)
    kinds = np.array([2, 0, 1])[truth]
    p = np.eye(3, dtype=np.float32)[kinds]
    moment = replace(what.snapshots[0], items=np.arange(60), p=p, q=p)
    made = replace(what, kinds=kinds, truth=truth, classes=("a", "b", "c"), n_kinds=3, snapshots=[moment])
    ideal, of_p, of_q = heats(made)
    assert len(ideal.values) == 48  # as many of each class
    np.testing.assert_array_equal(of_p[0].values, ideal.values)
    np.testing.assert_array_equal(of_q[0].values, ideal.values)
    assert (np.diff(ideal.values.argmax(axis=1)) >= 0).all()


def test_confusions_are_counted_after_matching(what: Shown) -> None:
    truth = np.repeat(np.arange(3), 10)
    kinds = np.array([1, 2, 0])[truth]
    kinds[[0, 1, 2]] = 2  # three of class 0 in the kind of class 1
    kinds[[25]] = 1  # one of class 2 in the kind of class 0
    truth[[9]] = -1  # nobody named it
    made = replace(what, kinds=kinds, truth=truth, classes=("a", "b", "c"), n_kinds=3)
    found = commonest_confusions(made)
    assert [(true, told, items.tolist()) for true, told, items in found] == [(0, 1, [0, 1, 2]), (2, 0, [25])]
    perfect = replace(made, kinds=np.array([1, 2, 0])[np.repeat(np.arange(3), 10)])
    assert failures(perfect) is None


def test_without_truth_colours_are_the_kinds(what: Shown) -> None:
    blind = replace(what, truth=None, classes=())
    assert blind.names == ["kind 0", "kind 1", "kind 2"]
    assert (blind.colours == blind.kinds).all()
    assert heats(blind)[0].title == "kinds found"
    assert failures(blind) is None


def test_what_a_run_has_nothing_for_is_left_out_or_an_error(tmp_path: Path) -> None:
    sources = write_embeddings(tmp_path)
    settings = {"rehearse": {"rehearsals": 1}, "discover": {"warmup_epochs": 1, "epochs": 1, "snapshots": 0}}
    nk.discover(*sources, out=tmp_path / "run", kinds=3, settings=settings, page=False)
    run = RunFolder.open(tmp_path / "run")
    with pytest.raises(DataError, match="nothing to draw"):
        draw_figures(run, nk.open_images(sources[1]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.5])
def test_pictures_hide_none_and_stay_near_their_points(spread: float) -> None:
    places = np.clip(0.5 + spread * np.random.default_rng(0).normal(size=(400, 2)), 0, 1)
    found = tiled(places)
    assert len({place for _, place in found}) == len(found)
    assert len({number for number, _ in found}) == len(found)
    away = [np.hypot(*(places[number] - place)) for number, place in found]
    assert max(away) <= REACH / GRID
    assert np.diff(sorted({round(place[0], 9) for _, place in found})).min() == pytest.approx(1 / GRID)
    if spread == 0:  # all at one point: as many as there is room for around it
        assert 12 < len(found) < 30
    elif spread == 0.5:
        assert len(found) > 300
