"""The quality of the known kinds in runs: measured honestly, kept, said, warned of and shown."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import newkinds as nk
from newkinds.cache import Cache
from newkinds.configure import make_settings
from newkinds.evaluation.known_quality import from_dict
from newkinds.images import open_images
from newkinds.images.imageset import ImageSet, image_set
from newkinds.pipeline.backbone import told_by
from newkinds.pipeline.frozen import Views
from newkinds.pipeline.known_quality import FOLDS, nearest_mean, quality_of_features, quality_of_training
from newkinds.pretrain.pretraining import what_was_learnt
from newkinds.progress import Progress
from newkinds.runs import RunFolder, names
from pictures import photograph

QUICK: dict[str, Any] = {
    "pretrain": {"epochs": 2},
    "rehearse": {"rehearsals": 1},
    "discover": {"warmup_epochs": 1, "epochs": 1},
    "transfer": {"steps": (10,)},
}
SETTINGS = make_settings(QUICK)


def clouds(kinds: int, each: int, spread: float, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(kinds), each)
    points = random.normal(size=(kinds, 12))[labels] + spread * random.normal(size=(len(labels), 12))
    return points.astype(np.float32), labels


def as_set(points: NDArray[Any], labels: NDArray[np.int64], **more: Any) -> ImageSet:
    classes = [f"kind {number}" for number in range(labels.max() + 1)]
    return image_set(points, [str(i) for i in range(len(points))], labels, classes, "made up", labelled=True, **more)


@pytest.mark.parametrize("way", ["none", "whiten", "project-10"])
def test_clear_kinds_are_named_and_noise_is_not(way: str) -> None:
    points, labels = clouds(10, 12, 0.1)
    assert quality_of_features(Views((points,)), as_set(points, labels), SETTINGS, way).accuracy == 1.0
    noise = np.random.default_rng(1).normal(size=points.shape).astype(np.float32)
    found = quality_of_features(Views((noise,)), as_set(noise, labels), SETTINGS, way)
    assert found.accuracy is not None
    assert found.accuracy < 0.25
    assert found.near_chance
    assert (found.pictures, found.kinds, found.of) == (120, 10, "embeddings")


def test_wide_noise_is_not_learnt_by_heart() -> None:
    """More numbers than pictures: a transfer that had seen the pictures would tell them apart perfectly."""
    labels = np.repeat(np.arange(6), 8)
    noise = np.random.default_rng(0).normal(size=(48, 400)).astype(np.float32)
    settings = SETTINGS.with_changes({"transfer.kind": "whiten"})
    assert nearest_mean(Views((noise,)), labels, settings).mean() < 0.4
    views = Views((noise,))
    moved = views.transferred(views.learn(labels, settings, Cache()))
    means = np.stack([moved[labels == kind].mean(axis=0) for kind in range(6)])
    assert ((moved @ means.T).argmax(axis=1) == labels).mean() == 1.0


def test_every_picture_is_named_once_and_single_ones_are_left_out() -> None:
    points, labels = clouds(5, 7, 0.1)
    assert len(nearest_mean(Views((points,)), labels, SETTINGS)) == 35
    labels[-1] = 9  # the only one of its kind
    assert len(nearest_mean(Views((points,)), labels, SETTINGS)) == 34
    pairs = np.repeat(np.arange(12), 2)
    assert len(nearest_mean(Views((clouds(12, 2, 0.1)[0],)), pairs, SETTINGS)) == 24
    assert FOLDS >= 2


def told_by_file(**more: Any) -> dict[str, Any]:
    return {"classes": ["kind 0", "kind 1"], "held_out_accuracy": 0.5, "held_out": 40, "epochs": 2, **more}


def remedies_for(points: NDArray[Any], kinds: int = 2, **more: Any) -> str:
    labels = np.arange(len(points)) % kinds
    found = quality_of_training(told_by_file(**more), as_set(points, labels), SETTINGS)
    assert found is not None
    assert found.near_chance
    return "; ".join(found.remedies)


def test_remedies_are_those_that_apply() -> None:
    photos = np.stack([photograph(seed) for seed in range(12)])
    told = remedies_for(photos)
    assert "newkinds[photos]" in told
    assert "more than 2 known kinds" in told
    assert "pictures of each kind (typically 6 now)" in told
    assert "longer training (2 epochs now)" in told
    assert "longer training (1 epoch now)" in remedies_for(photos, epochs=1)
    assert "pictures larger" not in told
    symbols = np.random.default_rng(0).integers(0, 2, (200, 1, 28, 28)).astype(np.uint8) * 255
    told = remedies_for(symbols)
    assert "photos" not in told
    assert "pictures larger than 28 x 28" in told
    assert "pictures of each kind" not in told


def test_a_file_about_other_kinds_tells_nothing() -> None:
    points, labels = clouds(3, 10, 0.1)
    known = as_set(points, labels)
    assert quality_of_training({}, known, SETTINGS) is None
    assert quality_of_training(told_by_file(classes=["kind 0", "else"]), known, SETTINGS) is None
    found = quality_of_training(told_by_file(), known, SETTINGS)
    assert found is not None
    assert found.kinds == 2  # of the three: the others were probes
    few = quality_of_training(
        {"few_shot_accuracy": 0.9, "classes": list(known.classes), "held_out": 30}, known, SETTINGS
    )
    assert few is not None
    assert few.kinds == 3


# In runs


@pytest.fixture(scope="module")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[nk.Discovery, str]:
    stream = io.StringIO()
    settings = {**QUICK, "pretrain": {"epochs": 30}}
    out = tmp_path_factory.mktemp("trained") / "run"
    say = Progress("plain", stream)
    found = nk.discover(
        photos / "known",
        photos / "unsorted",
        out=out,
        kinds=3,
        network="resnet18-slim",
        settings=settings,
        progress=say,
    )
    return found, stream.getvalue()


def test_a_trained_network_keeps_and_says_its_held_out_accuracy(trained: tuple[nk.Discovery, str]) -> None:
    found, said = trained
    quality = found.known_quality
    assert quality is not None
    assert found.known_accuracy == quality.accuracy
    assert (quality.pictures, quality.kinds, quality.chance, quality.how) == (8, 4, 0.25, "held-out")
    assert said.count(quality.in_words()) == 1
    run = RunFolder.open(found.path)
    assert run.has(names.KNOWN_QUALITY)
    assert from_dict(run.get_json(names.KNOWN_QUALITY)) == quality
    last = [record for record in run.history() if record["stage"] == "pretrain"][-1]
    assert quality.accuracy == last["held_out_accuracy"]


def test_the_page_shows_it(trained: tuple[nk.Discovery, str]) -> None:
    page = (trained[0].path / names.PAGE).read_text()
    assert "Known kinds right" in page
    assert "guessing would get 25% right" in page


def test_weights_of_ones_own_bring_their_figure(
    trained: tuple[nk.Discovery, str], photos: Path, tmp_path: Path
) -> None:
    weights, stream = trained[0].path / names.NETWORK, io.StringIO()
    places = photos / "known", photos / "unsorted"
    again = nk.discover(*places, out=tmp_path / "run", kinds=3, weights=weights, settings=QUICK, page=False)
    assert again.known_accuracy == trained[0].known_accuracy
    known = tmp_path / "known"
    for kind in ("bolt", "gear"):
        (known / f"a {kind}").mkdir(parents=True)
        for file in (photos / "known" / kind).iterdir():
            (known / f"a {kind}" / file.name).write_bytes(file.read_bytes())
    options: dict[str, Any] = {"kinds": 3, "weights": weights, "settings": QUICK, "page": False}
    others = nk.discover(known, places[1], out=tmp_path / "others", progress=Progress("plain", stream), **options)
    assert others.known_accuracy is None
    assert "could not be measured: the network was given" in stream.getvalue()


def test_frozen_features_are_measured_without_training(tmp_path: Path) -> None:
    known, heap = clouds(12, 10, 0.2), clouds(4, 10, 0.2, seed=1)[0]
    found = nk.discover(known, heap, out=tmp_path / "run", kinds=4, settings=QUICK)
    assert found.known_quality is not None
    assert found.known_quality.how == "nearest-mean"
    assert found.known_accuracy is not None
    assert found.known_accuracy > 0.9


def test_near_chance_is_warned_of_in_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    random, stream = np.random.default_rng(0), io.StringIO()
    known = random.normal(size=(120, 8)).astype(np.float32), np.arange(120) % 6
    heap = random.normal(size=(40, 8)).astype(np.float32)
    say = Progress("quiet", stream)
    nk.discover(known, heap, out=tmp_path / "run", kinds=3, settings=QUICK, progress=say)
    assert "Warning: The known kinds can hardly be told apart" in stream.getvalue()
    assert "embeddings from another network" in stream.getvalue()
    page = (tmp_path / "run" / names.PAGE).read_text()
    assert 'class="alarm"' in page
    assert "<li>more than 6 known kinds</li>" in page
    assert json.loads((tmp_path / "run" / names.KNOWN_QUALITY).read_text())["near_chance"] is True


def test_counting_says_it_too(tmp_path: Path) -> None:
    stream, known, heap = io.StringIO(), clouds(12, 10, 0.2), clouds(4, 10, 0.2, seed=1)[0]
    nk.count(known, heap, out=tmp_path / "run", settings=QUICK, progress=Progress("plain", stream))
    assert "guessing would get" in stream.getvalue()


def test_pretraining_alone_keeps_and_says_it(photos: Path, tmp_path: Path) -> None:
    stream = io.StringIO()
    file = nk.pretrain(photos / "known", out=tmp_path / "f", settings=QUICK, progress=Progress("plain", stream))
    assert RunFolder.open(tmp_path / "f").has(names.KNOWN_QUALITY)
    assert "guessing would get 25% right" in stream.getvalue()
    learnt = what_was_learnt(told_by(file), open_images(photos / "known", labelled=True))
    assert learnt is not None
    assert 0 < len(learnt.held_out) < len(learnt.kept)
    assert not len(learnt.unseen)


def test_a_comparison_warns_once(tmp_path: Path) -> None:
    random, stream = np.random.default_rng(0), io.StringIO()
    known = random.normal(size=(60, 8)).astype(np.float32), np.arange(60) % 3
    heap = np.concatenate([random.normal(size=(30, 8)).astype(np.float32), known[0][:2]])
    options: dict[str, Any] = {"methods": ["kmeans", "dtc"], "seeds": 2, "kinds": 3, "settings": QUICK}
    nk.compare(known, heap, out=tmp_path / "all", progress=Progress("quiet", stream), **options)
    assert stream.getvalue().count("hardly be told apart") == 1
    assert stream.getvalue().count("2 of 32 unsorted pictures are also among the known ones") == 1
