"""Rehearsals as part of a run: what is hidden, what is kept, what is chosen, refused and said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import newkinds as nk
from newkinds.cache import Cache
from newkinds.errors import HopelessError
from newkinds.images import open_images
from newkinds.pipeline.frozen import Views
from newkinds.pipeline.heap import Heap
from newkinds.pipeline.rehearsing import Stage
from newkinds.progress import QUIET as SILENT
from newkinds.rehearsal.outcome import AS_SET
from newkinds.runs import RunFolder, names

QUICK: dict[str, Any] = {"none": 0.0, "discover": {"epochs": 2, "warmup_epochs": 1}}


def embeddings(
    folder: Path, kinds: int = 14, known: int = 10, each: int = 24, apart: float = 3.0, seed: int = 0
) -> tuple[Path, Path]:
    """Write embeddings of known and of new kinds; `apart` says how far kinds are from one another."""
    rng = np.random.default_rng(seed)
    centres = apart * rng.normal(size=(kinds, 12))
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in (("known", range(known)), ("unsorted", range(known, kinds))):
        labels = np.repeat(np.array(some), each)
        points = (centres[labels] + rng.normal(size=(len(labels), 12))).astype(np.float32)
        np.savez(folder / f"{name}.npz", embeddings=points, labels=labels)
    return folder / "known.npz", folder / "unsorted.npz"


def discover(known: Path, unsorted: Path, out: Path, **options: Any) -> nk.Discovery:
    options = {"kinds": 4, "settings": QUICK, "page": False, "truth": "folders", **options}
    return nk.discover(known, unsorted, out=out, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run with rehearsals."""
    folder = tmp_path_factory.mktemp("rehearsed")
    discover(*embeddings(folder), folder / "run")
    return folder / "run"


def test_rehearsals_hide_known_kinds_and_are_kept(run: Path) -> None:
    kept = json.loads((run / names.REHEARSAL).read_text())
    assert len(kept["rehearsed"]) == 5
    assert all(len(one["hidden"]) == 4 for one in kept["rehearsed"])
    assert all(one["trials"][AS_SET]["acc"] > 2 * one["chance"] for one in kept["rehearsed"])
    assert [one["pixels"] for one in kept["rehearsed"]] == [None] * 5
    assert {one["name"] for one in kept["tried"]} >= {AS_SET, "kmeans", "no neighbours"}


def test_probabilities_are_calibrated_and_what_the_method_said_is_kept(run: Path) -> None:
    found = nk.load(run)
    said = RunFolder.open(run).get_array(names.UNCALIBRATED)
    assert found.assignment.calibrated
    assert np.array_equal(said.argmax(axis=1), found.labels)
    trust = json.loads((run / names.TRUST).read_text())
    assert found.assignment.probability.mean() == pytest.approx(trust["acc"], abs=1e-3)
    assert trust["low"] <= trust["acc"] <= trust["high"]
    assert found.scores is not None
    assert found.scores.acc is not None
    assert trust["low"] - 0.1 <= found.scores.acc <= trust["high"] + 0.1


def test_predict_says_calibrated_probabilities_of_new_kinds(run: Path) -> None:
    found = nk.load(run)
    with np.load(run.parent / "unsorted.npz") as arrays:
        again = nk.predict(run, arrays["embeddings"], among="new")
    assert again.calibrated
    assert not nk.predict(run, run.parent / "unsorted.npz").calibrated
    assert np.array_equal(again.labels, found.labels)
    assert np.abs(again.probability - found.assignment.probability).mean() < 0.1


def test_a_heap_of_another_sort_is_called_so(run: Path, tmp_path: Path) -> None:
    assert "unlike anything known" not in (run / names.TRUST).read_text()
    known, heap = embeddings(tmp_path)
    for file, first in ((known, True), (heap, False)):  # what the one varies in, the other does not
        with np.load(file) as arrays:
            points, labels = arrays["embeddings"], arrays["labels"]
        idle = np.random.default_rng(1).normal(size=points.shape).astype(np.float32)
        np.savez(file, embeddings=np.concatenate([points, idle] if first else [idle, points], axis=1), labels=labels)
    found = discover(known, heap, tmp_path / "run")
    assert found.trust is not None
    assert "The unsorted pictures are unlike anything known" in found.trust.remarks[0]


def test_without_rehearsals_nothing_is_claimed(tmp_path: Path) -> None:
    found = discover(*embeddings(tmp_path), tmp_path / "run", rehearsals=0)
    assert not found.assignment.calibrated
    assert not (tmp_path / "run" / names.REHEARSAL).exists()
    assert not (tmp_path / "run" / names.TRUST).exists()


def test_kinds_are_the_same_with_and_without_rehearsals(run: Path, tmp_path: Path) -> None:
    found = discover(*embeddings(tmp_path), tmp_path / "run", rehearsals=0)
    assert np.array_equal(found.probabilities, RunFolder.open(run).get_array(names.UNCALIBRATED))


def test_a_run_that_was_stopped_between_rehearsals_goes_on_to_the_same_bytes(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from newkinds.pipeline import rehearsing

    made, calls = rehearsing._made, []

    def killed(*arguments: Any) -> bytes:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return made(*arguments)

    paths = embeddings(tmp_path)
    monkeypatch.setattr(rehearsing, "_made", killed)
    with pytest.raises(KeyboardInterrupt):
        discover(*paths, tmp_path / "run")
    calls.clear()
    calls.append(())  # the third call is past
    calls.append(())
    monkeypatch.setattr(rehearsing, "_made", made)
    discover(*paths, tmp_path / "run")
    for name in (names.REHEARSAL, names.TRUST, names.PROBABILITIES, *(names.rehearsal(n) for n in range(5))):
        assert (tmp_path / "run" / name).read_bytes() == (run / name).read_bytes(), name


def test_noise_is_refused_and_sorted_anyway_if_asked(tmp_path: Path) -> None:
    known, unsorted = embeddings(tmp_path, apart=0.0, each=40)
    with pytest.raises(HopelessError, match="would not work") as error:
        discover(known, unsorted, tmp_path / "run")
    assert "--anyway" in error.value.hint
    assert "What may help" in error.value.hint
    found = discover(known, unsorted, tmp_path / "run", anyway=True)
    assert found.n_kinds > 0
    trust = json.loads((tmp_path / "run" / names.TRUST).read_text())
    assert trust["acc"] < 0.6


def test_too_few_known_kinds_are_said_and_the_range_is_wide(tmp_path: Path) -> None:
    discover(*embeddings(tmp_path, kinds=7, known=3), tmp_path / "run")
    trust = json.loads((tmp_path / "run" / names.TRUST).read_text())
    assert trust["rehearsals"] == 0
    assert "4 known kinds, each of 3 pictures or more" in trust["why"]
    assert trust["high"] - trust["low"] > 0.15


def test_settings_that_are_clearly_better_are_taken_unless_they_were_said_or_choosing_is_off(tmp_path: Path) -> None:
    # Kinds of few pictures: to average over ten neighbours throws them together.
    known, unsorted = embeddings(tmp_path, kinds=60, known=40, each=5, apart=2.0)
    found = discover(known, unsorted, tmp_path / "run", kinds=20)
    kept = json.loads((tmp_path / "run" / names.REHEARSAL).read_text())
    assert kept["chosen"] != AS_SET
    plain = discover(known, unsorted, tmp_path / "off", kinds=20, choose="off")
    assert [one["name"] for one in json.loads((tmp_path / "off" / names.REHEARSAL).read_text())["tried"]] == [AS_SET]
    assert found.scores is not None
    assert plain.scores is not None
    assert (found.scores.acc or 0) > (plain.scores.acc or 0) + 0.05
    said = {**QUICK, "initialise": {"neighbours": 10}, "method": "dtc"}
    discover(known, unsorted, tmp_path / "said", kinds=20, settings=said)
    tried = json.loads((tmp_path / "said" / names.REHEARSAL).read_text())["tried"]
    assert {one["name"] for one in tried} == {AS_SET, "features as they are"}


def test_rehearse_alone_and_like_a_heap(tmp_path: Path) -> None:
    known, unsorted = embeddings(tmp_path)
    alone = nk.rehearse(known, out=tmp_path / "alone", settings=QUICK, rehearsals=2)
    assert [len(one.hidden) for one in alone.rehearsed] == [4, 4]  # about a third of ten
    like = nk.rehearse(known, like=unsorted, out=tmp_path / "like", settings=QUICK, rehearsals=2, kinds=4)
    assert [len(one.hidden) for one in like.rehearsed] == [4, 4]
    assert "In 2 rehearsals with 4 of your own kinds hidden" in like.in_words()
    before = {file.name: file.read_bytes() for file in (tmp_path / "like" / "rehearsal").iterdir()}
    discover(known, unsorted, tmp_path / "like", rehearsals=2)
    assert {file.name: file.read_bytes() for file in (tmp_path / "like" / "rehearsal").iterdir()} == before


def test_a_network_that_learns_here_is_rehearsed_with_kinds_that_it_has_not_seen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (24, 1, 8, 8))
    labels = np.repeat(np.arange(24), 12)
    pictures = np.clip(patterns[labels] + rng.normal(0, 20, (len(labels), 1, 8, 8)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "known.npz", images=pictures[labels < 20], labels=labels[labels < 20])
    np.savez(tmp_path / "unsorted.npz", images=pictures[labels >= 20], labels=labels[labels >= 20])
    settings = {**QUICK, "pretrain": {"epochs": 2}, "network": "vgg6-4-2-slim"}
    discover(tmp_path / "known.npz", tmp_path / "unsorted.npz", tmp_path / "run", settings=settings, rehearsals=2)
    run = RunFolder.open(tmp_path / "run")
    from newkinds.networks.files import network_about

    learnt = set(network_about(run.get(names.NETWORK), "")["classes"])
    kept = run.get_json(names.REHEARSAL)
    assert kept["rehearsed"]
    assert all(not learnt & set(one["hidden"]) for one in kept["rehearsed"])
    assert all(one["pixels"] is not None for one in kept["rehearsed"])


def test_rehearsals_of_heaps_of_new_kinds_are_the_same_whatever_share_could_be_known(tmp_path: Path) -> None:
    """What they depend on is what they are found by in the cache."""
    pictures = open_images(embeddings(tmp_path)[0], labelled=True)
    rows, none = Views((np.zeros((len(pictures), 3), np.float32),)), cast(Any, None)

    def about(**heap: Any) -> dict[str, Any]:
        settings = nk.Settings()
        stage = Stage(
            none, none, pictures, pictures, rows, "none", settings, settings, none, Cache(), SILENT, Heap(**heap)
        )
        return stage.about

    assert about(holds="new", known=0.01, high=0.1) == about(holds="new", known=0.02, high=0.2)
    assert about(holds="mixed", known=0.4, high=0.5) != about(holds="mixed", known=0.5, high=0.6)
