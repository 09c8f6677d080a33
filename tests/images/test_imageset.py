"""Fingerprints: equal for equal data, different for different data and for different selections of the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from making import shop

from newkinds.images import imageset
from newkinds.images.imageset import ImageSet, fingerprint, pixel_digest
from newkinds.images.store import open_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two classes of three pictures, a broken one among them, and strays."""
    return shop(tmp_path)


def test_the_fingerprint_is_of_the_content(folder: Path, tmp_path: Path) -> None:
    images = open_images(folder, labelled=True)
    moved = folder.rename(tmp_path / "elsewhere")
    assert open_images(moved, labelled=True).fingerprint == images.fingerprint
    assert open_images(moved).fingerprint != images.fingerprint
    content = (images.pixels, images.names, images.labels, images.classes)
    assert fingerprint(*content) == images.fingerprint
    other_pixels = images.pixels.copy()
    other_pixels[5, 2, 11, 11] ^= 1
    assert images.labels is not None
    others = [
        (other_pixels, *content[1:]),
        (images.pixels, (*images.names[:5], "x"), *content[2:]),
        (images.pixels, images.names, 1 - images.labels, images.classes),
        (images.pixels, images.names, images.labels, ("caps", "jugs")),
        (images.pixels.reshape(6, 12, 3, 12), *content[1:]),
    ]
    assert len({fingerprint(*other) for other in others} | {images.fingerprint}) == 6


def test_the_pixel_digest_does_not_depend_on_its_parts() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 512, 512), dtype=np.uint8)  # several parts
    whole = hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest()
    assert pixel_digest(pixels) == whole
    assert pixel_digest(np.asfortranarray(pixels[:2])) == pixel_digest(pixels[:2])


def three_classes() -> ImageSet:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 1, 4, 4), dtype=np.uint8)
    names, labels, classes = tuple("uvwxyz"), np.array([0, 1, 2, 0, 1, 2]), ("a", "b", "c")
    return ImageSet(pixels, names, labels, classes, "shelf", fingerprint(pixels, names, labels, classes))


def test_selections_have_fingerprints_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    images = three_classes()
    monkeypatch.setattr(imageset, "pixel_digest", lambda _: pytest.fail("all pixels read again"))
    different = [
        images,
        images.select([0, 1]),
        images.select([1, 0]),
        images.select([0, 2]),
        images.select([0, 0]),
        images.select([]),
        images.select(range(6)),
        images.with_classes([0, 1]),
        images.with_classes([1, 0]),
        images.with_classes([0, 2]),
        images.with_classes([0, 1, 2]),
        images.with_classes([0, 1]).select([0, 1]),
        images.select([0, 1, 3, 4]),  # the pictures of the classes 0 and 1
        images.select([0, 1, 3, 4]).select([0, 1]),
    ]
    assert len({one.fingerprint for one in different}) == len(different)
    assert {len(one.fingerprint) for one in different} == {32}


def test_equal_selections_have_equal_fingerprints() -> None:
    images, again = three_classes(), three_classes()
    assert images.select([1, 5]).fingerprint == again.select(np.array([1, -1])).fingerprint
    assert images.with_classes([2, 0]).fingerprint == again.with_classes(np.array([2, 0]).tolist()).fingerprint


def test_a_selection_depends_on_what_it_is_taken_from() -> None:
    images = three_classes()
    pixels = images.pixels ^ 1
    other = ImageSet(
        pixels, images.names, images.labels, images.classes, "shelf", fingerprint(pixels, "uvwxyz", None, ())
    )
    assert images.select([0]).fingerprint != other.select([0]).fingerprint
    assert images.with_classes([0, 1]).fingerprint != other.with_classes([0, 1]).fingerprint


def test_classes_chosen_from_a_set_whose_fingerprint_leaves_its_labels_out() -> None:
    images = three_classes()
    assert images.labels is not None
    first, second = (
        ImageSet(images.pixels, images.names, labels, images.classes, "shelf", "same")
        for labels in (images.labels, np.array([1, 0, 2, 1, 0, 2]))
    )
    assert first.with_classes([0, 1]).names == second.with_classes([0, 1]).names
    assert first.with_classes([0, 1]).fingerprint != second.with_classes([0, 1]).fingerprint


def test_what_a_selection_holds() -> None:
    images = three_classes()
    chosen = images.select([4, 0])
    assert chosen.names == ("y", "u")
    assert (chosen.pixels == images.pixels[[4, 0]]).all()
    assert chosen.labels is not None
    assert chosen.labels.tolist() == [1, 0]
    assert chosen.classes == images.classes
    kept = images.with_classes([2, 0])
    assert kept.names == ("u", "w", "x", "z")
    assert kept.labels is not None
    assert kept.labels.tolist() == [1, 0, 1, 0]
    assert kept.classes == ("c", "a")
    with pytest.raises(IndexError):
        images.select([6])
    with pytest.raises(ValueError, match="no labels"):
        ImageSet(images.pixels, images.names, None, (), "shelf", "").with_classes([0])
