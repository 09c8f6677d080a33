"""Letters drawn in a font that comes with matplotlib, by name."""

from __future__ import annotations

import unicodedata
from dataclasses import fields, replace

import numpy as np
import pytest

from newkinds.datasets import named
from newkinds.datasets.letters import DISTORTION, PARTS, Distortion, drawn, letters
from newkinds.errors import UsageError
from newkinds.images.imageset import group_of

STILL = Distortion(**{one.name: 5 if one.name == "knots" else 0.0 for one in fields(Distortion)})


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a few pictures of each letter only."""
    for name, part in PARTS.items():
        monkeypatch.setitem(PARTS, name, replace(part, fewest=12, most=16))


@pytest.mark.parametrize(("part", "scripts"), [("known", {"latin", "greek", "cyrillic"}), ("georgian", {"georgian"})])
def test_parts(part: str, scripts: set[str], few: None) -> None:
    images = letters(part)
    assert images.pixels.shape == (len(images), 1, 32, 32)
    assert images.pixels.dtype == np.uint8
    assert images.source == f"letters:{part}"
    assert {group_of(name) for name in images.classes} == scripts
    assert len(images.classes) == len(PARTS[part].letters) == len(set(images.classes))
    sizes = np.bincount(images.labels)
    assert 12 <= sizes.min() <= sizes.max() <= 16
    assert [name.rsplit("-", 1)[0] for name in images.names] == [images.classes[label] for label in images.labels]


def test_names_are_those_of_unicode(few: None) -> None:
    assert letters("georgian").classes[0] == "georgian/ban"
    assert unicodedata.name(PARTS["georgian"].letters[0]) == "GEORGIAN LETTER BAN"
    assert "cyrillic/capital-zhe" in letters("known").classes


def test_the_same_seed_draws_the_same_pictures_and_no_two_are_alike(few: None) -> None:
    first, again, other = drawn("georgian", 3), drawn("georgian", 3), drawn("georgian", 4)
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint
    assert len({picture.tobytes() for picture in first.pixels}) == len(first)


def test_without_distortion_each_letter_looks_as_the_font_has_it(few: None) -> None:
    images = drawn("georgian", 0, STILL)
    shapes = [{image.tobytes() for image in images.pixels[images.labels == k]} for k in range(len(images.classes))]
    assert max(map(len, shapes)) == 1
    assert len(set().union(*shapes)) == sum(map(len, shapes))  # no two letters look the same
    assert 255 in images.pixels
    assert images.pixels.min() == 0
    assert not images.pixels[:, :, [0, -1]].max() < 255  # a margin around each


def test_every_distortion_changes_the_pictures(few: None) -> None:
    still = drawn("georgian", 0, STILL)
    for one in fields(Distortion):
        if one.name != "knots":
            moved = drawn("georgian", 0, replace(STILL, **{one.name: getattr(DISTORTION, one.name)}))
            assert not np.array_equal(moved.pixels, still.pixels), one.name


def test_named(few: None) -> None:
    assert named("letters").source == "letters:georgian"
    assert named("letters", labelled=True).source == "letters:known"
    with pytest.raises(UsageError, match="part of the letters"):
        named("letters:klingon")
