"""Which known kind is nearest: by hand, and from a run's model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import newkinds as nk
from newkinds.errors import UsageError
from newkinds.predict import MODEL
from newkinds.report import known_kinds, write_report
from newkinds.report.known_kinds import find_nearest_known
from newkinds.runs import RunFolder
from newkinds.runs.results import report_data
from pictures import write_embeddings


def test_by_hand() -> None:
    # Known kinds at (0, 0) and (10, 0), new ones at (1, 0), (9, 2) and an empty one; the spread is 1 / sqrt(2) each.
    means = torch.tensor([[0.0, 0], [10, 0], [1, 0], [9, 2], [0, 0]])
    spread = torch.full((2,), 0.5**0.5)
    extra = {"means": means, "spread": spread, "present": torch.tensor([True, True, True, True, False])}
    features = np.array([[0, 3], [8, 0]], dtype=np.float32)
    found = find_nearest_known(extra, 3, features, np.array([4, 7]))
    assert found is not None
    assert found.of_kinds.tolist() == [0, 1, -1]
    np.testing.assert_allclose(found.kind_distances[:2], [1, 5**0.5], rtol=1e-6)
    assert found.items.tolist() == [4, 7]
    assert found.of_items.tolist() == [0, 1]
    np.testing.assert_allclose(found.known_distances, [3, 2], rtol=1e-6)
    np.testing.assert_allclose(found.new_distances, [10**0.5, 5**0.5], rtol=1e-6)
    without = find_nearest_known(extra, 3, None, np.array([], dtype=np.int64))
    assert without is not None
    assert (without.of_kinds == found.of_kinds).all()
    assert len(without.of_items) == 0


def test_without_known_kinds_there_is_none() -> None:
    extra = {"means": torch.zeros(3, 2), "spread": torch.ones(2), "present": torch.tensor([False, True, True])}
    assert find_nearest_known(extra, 2, None, np.zeros(0, dtype=np.int64)) is None


def test_of_a_run(real_run: Path) -> None:
    run = RunFolder.open(real_run)
    unsorted = nk.open_images(run.sources["unsorted"])
    data = report_data(run, unsorted)
    near = data.nearest_known
    assert near is not None
    assert near.items.tolist() == list(range(len(data)))
    assert set(near.of_kinds) <= set(range(len(data.known_classes)))
    # A kind's pictures agree with it, mostly, on what it is like.
    assert (near.of_items == near.of_kinds[data.kinds]).mean() > 0.5
    # Pictures usually lie about as far from the middle of their kind as the unit says.
    assert 0.3 < np.median(near.new_distances) < 1.5
    assert len(data.moments) == 3
    assert (run.path / MODEL).exists()


def test_a_network_that_may_not_be_built_leaves_the_kinds(real_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise UsageError("Say the network with --network.")

    run = RunFolder.open(real_run)
    unsorted = nk.open_images(run.sources["unsorted"])
    whole = report_data(run, unsorted).nearest_known
    monkeypatch.setattr(known_kinds, "clustering_from_bytes", refused)
    near = report_data(run, unsorted).nearest_known
    assert whole is not None
    assert near is not None
    assert (near.of_kinds == whole.of_kinds).all()
    assert len(near.items) == 0


def test_a_method_without_a_model_leaves_it_out(tmp_path: Path) -> None:
    known, unsorted = write_embeddings(tmp_path)
    nk.discover(known, unsorted, out=tmp_path / "run", kinds=3, settings={"method": "lsc"})
    page = (tmp_path / "run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Nearest known kind" not in page
    assert 'id="map-epoch"' not in page
    assert report_data(RunFolder.open(tmp_path / "run"), nk.open_images(unsorted)).nearest_known is None


def test_the_page_of_a_run_is_the_same_again(real_run: Path, tmp_path: Path) -> None:
    run = RunFolder.open(real_run)
    page = write_report(report_data(run, nk.open_images(run.sources["unsorted"])), tmp_path)
    assert page.read_bytes() == (real_run / "report" / "index.html").read_bytes()
