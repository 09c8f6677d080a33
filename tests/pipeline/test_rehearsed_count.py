"""Counting by rehearsals in a run: what is hidden, what is kept, and what happens with too few known kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds as nk
from newkinds.pipeline.frozen import Views
from newkinds.runs import RunFolder, names

QUICK: dict[str, Any] = {"count": {"estimator": "rehearsed", "max_kinds": 30}, "transfer": {"steps": (10,)}}


def embeddings(kinds: int, each: int, seed: int) -> tuple[Any, Any]:
    """Return kinds that differ in 8 directions and vary more, inside kinds, in 4 others."""
    random = np.random.default_rng(seed)
    means = np.concatenate([random.normal(size=(kinds, 8)), np.zeros((kinds, 4))], axis=1)
    labels = np.repeat(np.arange(kinds), each)
    points = means[labels] + random.normal(size=(len(labels), 12)) * ([0.2] * 8 + [2.0] * 4) + 4
    return points.astype(np.float32), labels


def test_frozen_features_are_counted_by_hidden_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, heap = embeddings(18, 14, seed=0), embeddings(7, 14, seed=1)[0]
    taught: list[int] = []
    learn = Views.learn

    def watched(self: Views, labels: Any, *rest: Any, **options: Any) -> Any:
        taught.append(len(np.unique(labels)))
        return learn(self, labels, *rest, **options)

    monkeypatch.setattr(Views, "learn", watched)
    counted = nk.count(known, heap, out=tmp_path / "run", settings=QUICK)
    assert taught.count(12) >= 4  # four transfers, each from two thirds of the kinds, beside those of other stages
    assert counted["estimator"] == "rehearsed"
    assert len(counted["answers"]) == 4
    assert 6 <= counted["k"] <= 8
    assert counted["low"] <= 7 <= counted["high"]
    assert counted["cannot_tell"] is None
    assert RunFolder.open(tmp_path / "run").has(names.COUNT_PLOT)


def test_too_few_known_kinds_are_counted_by_the_paper_s_algorithm(tmp_path: Path) -> None:
    known, heap = embeddings(6, 14, seed=0), embeddings(4, 14, seed=1)[0]
    settings = {**QUICK, "count": {**QUICK["count"], "splits": 2, "restarts": 2, "max_kinds": 8}}
    counted = nk.count(known, heap, out=tmp_path / "run", settings=settings)
    assert counted["estimator"] == "paper"
    assert any("6 known kinds are too few to hide some for rehearsals" in remark for remark in counted["remarks"])


def test_the_page_tells_of_rehearsals(tmp_path: Path) -> None:
    known, heap = embeddings(18, 14, seed=0), embeddings(7, 14, seed=1)[0]
    settings = {**QUICK, "discover": {"warmup_epochs": 1, "epochs": 1}}
    found = nk.discover(known, heap, out=tmp_path / "run", settings=settings)
    page = (found.path / names.PAGE).read_text()
    assert "Known kinds were hidden 4 times and counted in the same way" in page
    assert "Probability of each number" in page
    assert "Other numbers" not in page
