"""OmniGlot over tiny copies in the publisher's layout."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from newkinds.datasets import named
from newkinds.datasets.omniglot import EVALUATION, GROUPS, PROBES, TRAIN
from newkinds.errors import DataError, UsageError
from newkinds.images import ImageSet
from publishers import drawing, write_omniglot


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with OmniGlot as torchvision unpacks it, to be read only."""
    folder = tmp_path_factory.mktemp("data")
    write_omniglot(folder / "omniglot-py")
    return folder


def opened(source: str, root: Path, **options: int) -> ImageSet:
    images = named(source, data=root, **options)  # type: ignore[arg-type]
    assert images is not None
    return images


def test_the_alphabets() -> None:
    assert (len(TRAIN), len(PROBES), len(EVALUATION)) == (25, 5, 20)
    assert len({*TRAIN, *PROBES, *EVALUATION}) == 50
    assert GROUPS["background"] == tuple(sorted(GROUPS["background"]))
    assert set(PROBES) == {"Alphabet_of_the_Magi", "Japanese_(katakana)", "Latin", "Cyrillic", "Grantha"}


@pytest.mark.parametrize(
    ("part", "n_alphabets"),
    [("background", 30), ("train", 25), ("probes", 5), ("Tengwar", 1), ("Grantha", 1), ("Japanese_(katakana)", 1)],
)
def test_parts(root: Path, part: str, n_alphabets: int) -> None:
    images = opened(f"omniglot:{part}", root)
    assert images.source == f"omniglot:{part}"
    assert len({name.split("/")[0] for name in images.names}) == n_alphabets
    assert images.pixels.shape == (4 * n_alphabets, 1, 32, 32)
    assert images.labels is not None
    assert np.array_equal(np.bincount(images.labels), [2] * 2 * n_alphabets)
    assert all(
        name.startswith(images.classes[label] + "/") for name, label in zip(images.names, images.labels, strict=True)
    )


def test_names_are_those_of_the_files(root: Path) -> None:
    images = opened("omniglot:Angelic", root)
    assert images.classes == ("Angelic/character01", "Angelic/character02")
    assert images.names[0] == "Angelic/character01/0061_01.png"
    assert (root / "omniglot-py" / "images_evaluation" / images.names[-1]).is_file()


def test_ink_is_bright_and_sizes_are_honoured(root: Path) -> None:
    number, drawer = map(int, Path(opened("omniglot:ULOG", root).names[0]).stem.split("_"))
    ink = 255 - drawing(1, 20 * number + drawer)
    for size, channels in ((None, None), (28, 1), (105, 1), (16, 3)):
        images = named("omniglot:ULOG", data=root, size=size, channels=channels)
        assert images is not None
        assert images.pixels.shape[1:] == (channels or 1, size or 32, size or 32)
        assert images.pixels[0].mean() == pytest.approx(ink.mean(), rel=0.12)  # Lanczos sharpens
        assert images.pixels[0, :, 0].max() < 10
    exact = opened("omniglot:ULOG", root, size=105)
    assert np.array_equal(exact.pixels[0], ink)


@pytest.mark.parametrize("above", ["", "omniglot", "omniglot-py", "omniglot/python"])
def test_places(tmp_path: Path, root: Path, above: str) -> None:
    shutil.copytree(root / "omniglot-py", tmp_path / above, dirs_exist_ok=True)
    found, expected = opened("omniglot:Latin", tmp_path), opened("omniglot:Latin", root)
    assert found.fingerprint == expected.fingerprint


def test_the_bare_name(root: Path) -> None:
    images = named("omniglot", labelled=True, data=root)
    assert images is not None
    assert images.source == "omniglot:train"
    with pytest.raises(UsageError) as caught:
        named("omniglot", data=root)
    assert all(alphabet in caught.value.message for alphabet in EVALUATION)
    assert "omniglot:PART" in caught.value.hint


def test_a_misspelt_alphabet_is_guessed(root: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'Tengwar'"):
        named("omniglot:tengwar", data=root)


def test_damage_is_described(tmp_path: Path, root: Path) -> None:
    shutil.copytree(root / "omniglot-py", tmp_path, dirs_exist_ok=True)
    background = tmp_path / "images_background"
    broken = background / "Greek" / "character02" / "0024_01.png"
    data = broken.read_bytes()
    broken.write_bytes(data[:-20])
    with pytest.raises(DataError, match=r"Greek/character02/0024_01\.png is not as it was published: cut short|broken"):
        named("omniglot:Greek", data=tmp_path)
    for file in (background / "Greek" / "character02").iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"Greek/character02 is not as it was published: there is no \.png file in it"):
        named("omniglot:train", data=tmp_path)
    shutil.rmtree(background / "Greek")
    with pytest.raises(DataError, match=r"The alphabet Greek of OmniGlot is missing: looked for .*/Greek"):
        named("omniglot:background", data=tmp_path)
    (background / "Greek").mkdir()
    with pytest.raises(DataError, match="there is no folder of a character in it") as caught:
        named("omniglot:train", data=tmp_path)
    assert "https://github.com/brendenlake/omniglot" in caught.value.hint
    assert len(opened("omniglot:probes", tmp_path)) == 20  # which are not touched by that
    shutil.rmtree(tmp_path / "images_evaluation")
    with pytest.raises(DataError, match="looked for omniglot-py/images_evaluation or"):
        named("omniglot:ULOG", data=tmp_path)
