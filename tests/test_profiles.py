"""Profiles: which one a run has, what comes before it, and that the bench measures with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import newkinds as nk
from newkinds.configure import Settings
from newkinds.errors import UsageError
from newkinds.images.imageset import ImageSet
from newkinds.networks import Network, build_network
from newkinds.networks.foreign import Foreign
from newkinds.pipeline.resolve import resolved
from newkinds.presets import combine, find_preset
from newkinds.profiles import FOLDER, NAMES, about, in_words, suited_profile, values, with_profile
from newkinds.runs import RunFolder
from newkinds_bench.cells import cells, settings_of
from newkinds_bench.setups import OURS, SETUPS
from newkinds_bench.tables import TABLES

CPU = torch.device("cpu")


def pictures(channels: int = 3, embeddings: bool = False) -> ImageSet:
    shape = (20, channels) if embeddings else (20, channels, 32, 32)
    pixels = np.zeros(shape, dtype=np.float32 if embeddings else np.uint8)
    classes = tuple(f"kind {c}" for c in range(4))
    return ImageSet(pixels, tuple(map(str, range(20))), np.arange(20) % 4, classes, "made up", "no mark")


def pretrained() -> Network:
    module = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return Network("elsewhere:build", 3, 32, None, Foreign("elsewhere:build", module))


def test_the_files_are_the_names_that_the_setting_takes() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.toml")) == sorted(NAMES)
    field = Settings.model_fields["profile"]
    assert set(get_args(field.annotation)) == {"auto", "none", *NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_states_settings_that_differ_from_the_defaults(name: str) -> None:
    plain, chosen = Settings(), with_profile(Settings(), name)
    assert chosen.profile == name
    stated = values(name)
    assert stated
    for key in stated:
        section, _, last = key.partition(".")
        assert getattr(getattr(chosen, section), last) != getattr(getattr(plain, section), last), key
    assert "discover.evenness" not in stated  # assumes something about the heap
    assert in_words(name) == f"Profile {name}: {about(name)[0].lower()}{about(name)[1:]}"


@pytest.mark.parametrize(
    ("known", "weights", "name"),
    [
        (pictures(), None, "pictures"),
        (pictures(1), None, "characters"),
        (pictures(8, embeddings=True), None, "embeddings"),
        (pictures(), pretrained(), "photos"),
        (pictures(), build_network("vgg6-5-1-slim", 3, 32, 0), "pictures"),
    ],
)
def test_where_f_comes_from_chooses(known: ImageSet, weights: Network | None, name: str) -> None:
    chosen = resolved(Settings(), known, weights, CPU)
    assert chosen.profile == name
    for key, value in values(name).items():
        section, _, last = key.partition(".")
        assert getattr(getattr(chosen, section), last) == value, key


def test_what_was_said_comes_before_it() -> None:
    said = {"discover.neighbours": 3, "initialise.views": 0}  # of which one is the default
    chosen: Any = resolved(Settings().with_changes(said), pictures(), None, CPU)
    assert (chosen.discover.neighbours, chosen.initialise.views, chosen.initialise.neighbours) == (3, 0, 10)
    plain: Any = resolved(Settings().with_changes({"profile": "none"}), pictures(), None, CPU)
    assert plain.initialise.neighbours == plain.discover.neighbours == 0
    assert in_words("none") == "Profile: none."
    grey: Any = resolved(Settings().with_changes({"profile": "pictures"}), pictures(1), None, CPU)
    assert (grey.profile, grey.initialise.bottleneck) == ("pictures", "directions")


@pytest.mark.parametrize("name", ["cifar10-paper", "omniglot-authors"])
def test_the_papers_presets_have_none(name: str) -> None:
    preset = find_preset(name)
    chosen = combine(None, {}, preset)
    assert chosen.profile == "none"
    left = resolved(chosen.with_changes({"images.size": 32}), pictures(1 if "omniglot" in name else 3), None, CPU)
    assert left.initialise == chosen.initialise


@pytest.mark.parametrize(
    ("asked", "known", "weights", "words"),
    [
        ("photos", pictures(), None, "f is trained here"),
        ("pictures", pictures(), pretrained(), "f is pretrained"),
        ("embeddings", pictures(), None, "these are pictures"),
        ("photos", pictures(8, embeddings=True), None, "these are ready-made embeddings"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(asked: str, known: ImageSet, weights: Network | None, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        suited_profile(Settings().with_changes({"profile": asked}), known, weights is not None)
    assert "--profile" in refused.value.hint


def test_the_listing_and_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(nk.profiles()) == list(NAMES)
    assert nk.profiles("photos") == (FOLDER / "photos.toml").read_text()
    with pytest.raises(UsageError, match="photographs"):
        nk.profiles("photographs")
    random = np.random.default_rng(0)
    known = (random.normal(size=(24, 4)).astype(np.float32), ["a", "b", "c", "d"] * 6)
    settings = {"rehearse": {"rehearsals": 1}, "discover": {"epochs": 1, "warmup_epochs": 1, "neighbours": 3}}
    heap = random.normal(size=(20, 4)).astype(np.float32)
    nk.discover(
        known, heap, out=tmp_path / "run", kinds=2, settings=settings, page=False, progress=nk.Progress("plain")
    )
    assert "Profile embeddings: ready-made embeddings" in capsys.readouterr().err
    assert RunFolder.open(tmp_path / "run").settings.profile == "embeddings"


def test_the_bench_measures_with_the_profiles() -> None:
    """What the tables' own column has beside its profile is what rows are about, and what they say."""
    for table in TABLES.values():
        for cell in cells(table, OURS, 1):
            setup, chosen = SETUPS[cell.setup], settings_of(cell)
            assert chosen.profile in (setup.profile, "auto")
            said = {
                f"{section}.{key}"
                for section in ("initialise", "discover", "pretrain", "transfer")
                for key in getattr(chosen, section).model_fields_set
            }
            assert said <= {*cell.row.settings(cell.setup), *setup.own, *setup.own_of.get(cell.row.method, {})}
