"""ImageNet over tiny copies in the publisher's layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from newkinds.datasets import files as reading
from newkinds.datasets import named
from newkinds.datasets.imagenet import is_probe
from newkinds.errors import DataError, UsageError
from newkinds.images import ImageSet
from publishers import write_imagenet


def opened(part: str, root: Path) -> ImageSet:
    images = named(f"imagenet:{part}", data=root)
    assert images is not None
    assert images.source == f"imagenet:{part}"
    return images


def test_82_of_882_classes_are_probes_evenly_spread() -> None:
    probes = [rank for rank in range(882) if is_probe(rank)]
    assert len(probes) == 82
    assert set(np.diff(probes)) == {10, 11}


@pytest.mark.parametrize("place", ["imagenet", "ImageNet", "ILSVRC2012"])
def test_parts(tmp_path: Path, place: str) -> None:
    classes = write_imagenet(tmp_path / place)
    labelled, train, probes = (opened(part, tmp_path) for part in ("labelled", "train", "probes"))
    assert labelled.classes == tuple(classes[:-9])
    assert probes.classes == tuple(classes[rank] for rank in range(15) if is_probe(rank)) == (classes[10],)
    assert sorted(train.classes + probes.classes) == classes[:-9]
    for number, letter in enumerate("abc"):
        images = opened(f"unlabelled-{letter}", tmp_path)
        assert images.classes == tuple(classes[15 + 3 * number : 18 + 3 * number])
        assert images.pixels.shape == (6, 3, 64, 64)
        assert images.labels is not None
        assert images.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert labelled.names[2] == f"{classes[1]}/{classes[1]}_0.JPEG"
    assert labelled.pixels[2].mean() == pytest.approx(10, abs=1)


def test_sizes_are_honoured(tmp_path: Path) -> None:
    write_imagenet(tmp_path / "imagenet")
    for size, channels, largest, expected in (
        (None, None, 24, (3, 24, 24)),
        (20, None, 24, (3, 20, 20)),
        (20, 1, 24, (1, 20, 20)),
    ):
        images = named("imagenet:probes", data=tmp_path, size=size, channels=channels, largest=largest)
        assert images is not None
        assert images.pixels.shape[1:] == expected


def test_large_sets_are_memory_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_imagenet(tmp_path / "imagenet")
    whole = opened("labelled", tmp_path)
    monkeypatch.setattr(reading, "MEMORY_MB", 0)
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "cache"))
    mapped = opened("labelled", tmp_path)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".pixels"]
    assert mapped.fingerprint == whole.fingerprint
    assert np.array_equal(mapped.pixels, whole.pixels)


def test_broken_pictures_are_skipped_but_not_whole_classes(tmp_path: Path) -> None:
    classes = write_imagenet(tmp_path / "imagenet")
    files = sorted((tmp_path / "imagenet" / "train" / classes[0]).iterdir())
    files[0].write_bytes(files[0].read_bytes()[:100])
    images = opened("labelled", tmp_path)
    assert [one.name for one in images.skipped] == [f"{classes[0]}/{files[0].name}"]
    assert len(images) == 29
    files[1].unlink()
    with pytest.raises(DataError, match=f"{classes[0]} is not as it was published: there is no .JPEG file in it"):
        opened("labelled", tmp_path)


def test_the_lists_may_lie_higher_up_or_in_a_folder_of_their_own(tmp_path: Path) -> None:
    classes = write_imagenet(tmp_path / "imagenet" / "images")
    for name in ("imagenet_118.txt", "imagenet_30_A.txt"):
        target = tmp_path / "imagenet" / "imagenet_rand118" / name
        target.parent.mkdir(exist_ok=True)
        (tmp_path / "imagenet" / "images" / name).rename(target)
    (tmp_path / "imagenet" / "images" / "imagenet_30_B.txt").rename(tmp_path / "imagenet_30_B.txt")
    assert opened("unlabelled-a", tmp_path).classes == tuple(classes[15:18])
    assert opened("unlabelled-b", tmp_path).classes == tuple(classes[18:21])
    assert len(opened("labelled", tmp_path).classes) == 15


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no class in it"),
        ("n00000003\ntench\n", "line 2 is 'tench', where a class such as n01440764 should be"),
        ("n000000031 too long", "line 1 is"),
        ("n00000003\nn99999999", "1 of the 2 classes in .* have no folder in .*, such as n99999999"),
    ],
)
def test_bad_lists(tmp_path: Path, text: str, why: str) -> None:
    write_imagenet(tmp_path / "imagenet")
    (tmp_path / "imagenet" / "imagenet_30_A.txt").write_text(text)
    with pytest.raises(DataError, match=why):
        opened("unlabelled-a", tmp_path)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"looked for imagenet/train or .* https://image-net\.org"):
        opened("labelled", tmp_path)
    write_imagenet(tmp_path / "imagenet")
    (tmp_path / "imagenet" / "imagenet_118.txt").unlink()
    with pytest.raises(DataError, match=r"The class list imagenet_118\.txt is missing: looked in .*vgg/research/DTC"):
        opened("train", tmp_path)
    with pytest.raises(UsageError, match="unlabelled-a, unlabelled-b, unlabelled-c"):
        named("imagenet", data=tmp_path)
    with pytest.raises(UsageError, match="Did you mean 'unlabelled-a'"):
        opened("unlabeled-a", tmp_path)
