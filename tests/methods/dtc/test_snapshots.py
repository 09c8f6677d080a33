"""States on the way: when they are taken, what they hold, and that taking them changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import newkinds as nk
from newkinds.configure import Settings
from newkinds.methods.base import Snapshot
from newkinds.methods.dtc import snapshots as module
from newkinds.methods.dtc.settings import resolved_discover
from newkinds.methods.dtc.snapshots import due_epochs
from newkinds.networks import build_network
from newkinds.runs import RunFolder, names
from newkinds.runs.results import put_snapshot, read_snapshots
from newkinds.start import initialise
from pictures import write_embeddings


def images() -> nk.ImageSet:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    points = (4 * rng.normal(size=(3, 6))[labels] + rng.normal(size=(60, 6))).astype(np.float32)
    return nk.ImageSet(points, tuple(map(str, range(60))), labels, ("a", "b", "c"), "made up", "no mark")


def settings(**changes: object) -> Settings:
    chosen = {
        "rehearse.rehearsals": 0,
        "discover.warmup_epochs": 2,
        "discover.epochs": 6,
        "discover.settled": 0,
        "discover.snapshots": 3,
    }
    return Settings().with_changes({**chosen, **changes})


def test_moments_are_spread_over_all_epochs() -> None:
    assert due_epochs(3, 8) == {0, 4, 8}
    assert due_epochs(6, 45) == {0, 9, 18, 27, 36, 45}
    assert due_epochs(5, 2) == {0, 1, 2}
    assert due_epochs(1, 8) == {0}
    assert due_epochs(0, 8) == set()


def test_a_moment_is_what_the_network_says_then() -> None:
    seen: list[Snapshot] = []
    f = build_network("identity", 6, 1, seed=0)
    found = nk.cluster(f, images(), 3, settings(), watch=seen.append)
    assert [moment.epoch for moment in seen] == [0, 4, 8]
    first, last = seen[0], seen[-1]
    plan = resolved_discover(settings().discover, images(), 3)
    start = initialise(images().pixels, 3, settings().initialise, alpha=plan.alpha)
    assert (first.p.argmax(axis=1) == start.labels).all()
    np.testing.assert_allclose(first.p, start.probabilities, atol=1e-4)
    np.testing.assert_allclose(last.embedding, found.embedding, atol=1e-5)  # the last epoch's state is the result
    np.testing.assert_allclose(last.p, found.assignment.probabilities, atol=1e-5)
    for moment in seen:
        assert moment.q.sum(axis=1) == pytest.approx(1, abs=1e-4)
        assert moment.embedding.shape == (60, 3)
    assert np.abs(first.p - last.p).max() > 1e-3
    unwatched = nk.cluster(f, images(), 3, settings())
    assert (unwatched.assignment.probabilities == found.assignment.probabilities).all()


def test_of_many_pictures_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 25)
    seen: list[Snapshot] = []
    whole = nk.cluster(build_network("identity", 6, 1, seed=0), images(), 3, settings(), watch=seen.append)
    assert all(len(moment.items) == 25 == len(moment.p) == len(moment.q) for moment in seen)
    assert (np.diff(seen[0].items) > 0).all()
    assert (seen[0].items == seen[-1].items).all()
    np.testing.assert_allclose(seen[-1].p, whole.assignment.probabilities[seen[-1].items], atol=1e-5)


def test_a_run_keeps_them(tmp_path: Path) -> None:
    nk.discover(*write_embeddings(tmp_path), out=tmp_path / "run", kinds=3, settings=settings(), page=False)
    run = RunFolder.open(tmp_path / "run")
    kept = read_snapshots(run)
    assert [moment.epoch for moment in kept] == [0, 4, 8]
    again = run.get_array(names.PROBABILITIES)  # as the method said: nothing is rehearsed
    np.testing.assert_allclose(kept[-1].p, again[kept[-1].items], atol=1e-3)
    none = settings(**{"discover.snapshots": 0})
    nk.discover(*write_embeddings(tmp_path), out=tmp_path / "none", kinds=3, settings=none, page=False)
    assert read_snapshots(RunFolder.open(tmp_path / "none")) == []


def test_a_moment_comes_back_as_it_was_but_for_precision(tmp_path: Path) -> None:
    nk.discover(*write_embeddings(tmp_path), out=tmp_path / "run", kinds=3, settings=settings(), page=False)
    with RunFolder.open(tmp_path / "run", writing=True) as run:
        moment = replace(read_snapshots(run)[0], epoch=3)
        put_snapshot(run, moment)
    back = read_snapshots(run)[1]
    assert back.epoch == 3
    for name in ("items", "embedding", "p", "q"):
        assert (getattr(back, name) == getattr(moment, name)).all()
