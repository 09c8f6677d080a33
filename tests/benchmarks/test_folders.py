"""Folders of photographs as mixed heaps: which kinds a draw knows, which pictures are labelled, and what is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from newkinds.errors import DataError, UsageError
from newkinds.images.decode import encode
from newkinds_bench import folders
from newkinds_bench.folders import Folders, drawn, open_part


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write six kinds of five photographs each, of which a draw knows four."""
    folders._whole.cache_clear()
    monkeypatch.setitem(folders.FOLDERS, "grocery", Folders("grocery", 4, "photographs"))
    monkeypatch.setattr(folders, "SIZE", 16)
    random = np.random.default_rng(0)
    for kind in range(6):
        (tmp_path / "grocery" / f"kind {kind}").mkdir(parents=True)
        for number in range(5):
            pixels = random.integers(0, 256, (3, 20, 20), dtype=np.uint8)
            (tmp_path / "grocery" / f"kind {kind}" / f"{number}.png").write_bytes(encode(pixels, "png"))
    return tmp_path


def test_a_draw_is_split_into_labelled_pictures_and_a_heap(root: Path) -> None:
    labelled, heap = (open_part(f"grocery:gcd-{part}-1", root) for part in ("labelled", "heap"))
    assert labelled.labels is not None
    assert heap.labels is not None
    assert np.bincount(labelled.labels).tolist() == [3] * 4
    assert len(heap) == 30 - 12
    assert len(heap.classes) == 6
    assert set(labelled.names).isdisjoint(heap.names)
    for images in (labelled, heap):
        named = [images.classes[label] for label in images.labels]
        assert all(name.startswith(kind) for name, kind in zip(images.names, named, strict=True))
    of_heap = {heap.classes[label] for label, n in enumerate(np.bincount(heap.labels)) if n == 2}
    assert of_heap == set(labelled.classes)
    assert labelled.fingerprint != open_part("grocery:gcd-labelled-2", root).fingerprint
    assert labelled.fingerprint == open_part("grocery:gcd-labelled-1", root).fingerprint


def test_draws_are_those_of_the_study_of_photographs() -> None:
    labels = np.repeat(np.arange(82), 4)
    known, labelled = drawn(labels, 82, 54, draw=0)
    assert known.tolist() == sorted(np.random.default_rng(0).permutation(82)[:54].tolist())
    assert np.bincount(labels[labelled], minlength=82).tolist() == [2 if kind in known else 0 for kind in range(82)]


def test_what_is_not_there_is_said(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Unknown part of grocery: 'all'"):
        open_part("grocery:all", root)
    with pytest.raises(DataError, match="no folder grocery"):
        open_part("grocery:gcd-heap-0", root / "nowhere")
    folders._whole.cache_clear()
    folders.FOLDERS["grocery"] = Folders("grocery", 6, "photographs")
    with pytest.raises(DataError, match="has 6 kinds, but 6 are to be known"):
        open_part("grocery:gcd-heap-0", root)
