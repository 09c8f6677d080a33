"""Which known kind is nearest: by hand, and from a run's model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import newkinds as nk
from newkinds.report import known_kinds, write_report
from newkinds.report.known_kinds import NearestKnown, find_nearest_known
from newkinds.report.run import report_data
from newkinds.runs import RunFolder
from newkinds.runs.names import MODEL
from pictures import write_embeddings


def test_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # Known kinds at (0, 0) and (10, 0), new ones at (1, 0), (9, 2) and an empty one; the spread is 1 / sqrt(2) each.
    means = torch.tensor([[0.0, 0], [10, 0], [1, 0], [9, 2], [0, 0]])
    spread = torch.full((2,), 0.5**0.5)
    extra = {"means": means, "spread": spread, "present": torch.tensor([True, True, True, True, False])}
    features = np.array([[0, 3], [8, 0]], dtype=np.float32)
    found = find_nearest_known(extra, 3, features)
    assert found is not None
    assert found.of_kinds.tolist() == [0, 1, -1]
    np.testing.assert_allclose(found.kind_distances[:2], [1, 5**0.5], rtol=1e-6)
    assert found.of_items.tolist() == [0, 1]
    np.testing.assert_allclose(found.known_distances, [3, 2], rtol=1e-6)
    np.testing.assert_allclose(found.new_distances, [10**0.5, 5**0.5], rtol=1e-6)
    # It comes back from tensors as it was, and blocks of pictures change nothing.
    again = NearestKnown.from_tensors(found.to_tensors())
    monkeypatch.setattr(known_kinds, "BLOCK", 1)
    for other in (again, find_nearest_known(extra, 3, features)):
        assert other is not None
        assert all((getattr(other, name) == value).all() for name, value in vars(found).items())


def test_without_known_kinds_there_is_none() -> None:
    extra = {"means": torch.zeros(3, 2), "spread": torch.ones(2), "present": torch.tensor([False, True, True])}
    assert find_nearest_known(extra, 2, np.zeros((1, 2), dtype=np.float32)) is None


def test_of_a_run(real_run: Path) -> None:
    run = RunFolder.open(real_run)
    unsorted = nk.open_images(run.sources["unsorted"])
    data = report_data(run, unsorted)
    near = data.nearest_known
    assert near is not None
    assert len(near.of_items) == len(data)
    assert set(near.of_kinds) <= set(range(len(data.known_classes)))
    # A kind's pictures agree with it, mostly, on what it is like.
    assert (near.of_items == near.of_kinds[data.labels]).mean() > 0.5
    # Pictures usually lie about as far from the middle of their kind as the unit says.
    assert 0.3 < np.median(near.new_distances) < 1.5
    assert len(data.snapshots) == 3
    assert (run.path / MODEL).exists()


def test_a_method_without_a_model_leaves_it_out(tmp_path: Path) -> None:
    known, unsorted = write_embeddings(tmp_path)
    nk.discover(known, unsorted, out=tmp_path / "run", kinds=3, rehearsals=1, settings={"method": "lsc"})
    page = (tmp_path / "run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Nearest known kind" not in page
    assert 'id="map-epoch"' not in page
    assert report_data(RunFolder.open(tmp_path / "run"), nk.open_images(unsorted)).nearest_known is None


def test_the_page_of_a_run_is_the_same_again(real_run: Path, tmp_path: Path) -> None:
    run = RunFolder.open(real_run)
    page = write_report(report_data(run, nk.open_images(run.sources["unsorted"])), tmp_path)
    assert page.read_bytes() == (real_run / "report" / "index.html").read_bytes()
