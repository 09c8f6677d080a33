"""ImageNet (ILSVRC 2012): training pictures, one folder a class, with the class lists of the paper's split.

118 classes are kept for discovery, in three lists of 30 (A, B, C); the other 882 are labelled. The paper takes 82 of
those as the probes of Algorithm 2 and trains f on 800, without a list of which: its authors' choice depended on the
order of a Python set. Here the probes are spread evenly over the labelled classes, sorted by name, see `is_probe`.
"""

from __future__ import annotations

import re
from pathlib import Path

from newkinds.datasets.dataset import Dataset, Publisher, Request
from newkinds.datasets.files import decode_folders, subfolders
from newkinds.errors import unknown_name
from newkinds.images.imageset import ImageSet, fingerprint, numbered

PUBLISHER = Publisher("ImageNet", "https://image-net.org/challenges/LSVRC/2012/")
LISTS = Publisher("ImageNet's split", "https://www.robots.ox.ac.uk/~vgg/research/DTC/")
PLACES = (
    "imagenet/train",
    "imagenet/images/train",
    "ImageNet/train",
    "ImageNet/images/train",
    "ILSVRC2012/train",
    "ILSVRC2012_img_train",
    "ILSVRC/Data/CLS-LOC/train",
)
HELD_OUT = "imagenet_118.txt"
UNLABELLED = {f"unlabelled-{letter}": f"imagenet_30_{letter.upper()}.txt" for letter in "abc"}
LABELLED = ("labelled", "train", "probes")
CHANNELS = 3
N_LABELLED, N_PROBES = 882, 82

_CLASS = re.compile(r"n\d{8}")


def imagenet(part: str, request: Request) -> ImageSet:
    """Return the training pictures of a part's classes, in colour.

    Their size is the one asked for, otherwise `request.largest`. A class is named by its WordNet number, "n01440764".
    """
    if part not in (*LABELLED, *UNLABELLED):
        raise unknown_name("part of ImageNet", part, (*LABELLED, *UNLABELLED))
    train = PUBLISHER.find(PLACES, request)
    there = {name: path for name, path in subfolders(train, PUBLISHER).items() if _CLASS.fullmatch(name)}
    folders = {name: there[name] for name in _classes(part, train, there, request)}
    size = request.largest if request.size is None else request.size
    found = decode_folders(folders, ".JPEG", size, request.channels or CHANNELS, request)
    labels, classes = numbered([name.split("/", 1)[0] for name in found.names])
    empty = sorted(set(folders) - set(classes))
    if empty:
        raise PUBLISHER.damaged(folders[empty[0]], "there is no .JPEG file in it that can be used")
    mark = fingerprint(found.pixels, found.names, labels, classes, digest=found.digest)
    return ImageSet(found.pixels, found.names, labels, classes, f"imagenet:{part}", mark, found.skipped)


def is_probe(rank: int) -> bool:
    """Tell whether the labelled class of this rank, from 0 in order of names, is one of the 82 probes among 882."""
    return (rank + 1) * N_PROBES // N_LABELLED > rank * N_PROBES // N_LABELLED


def _classes(part: str, train: Path, there: dict[str, Path], request: Request) -> list[str]:
    """Return the classes of a part, sorted by name; each must have a folder."""
    if part in UNLABELLED:
        path = _find_list(UNLABELLED[part], train, request)
        listed = _read_list(path)
        missing = [name for name in listed if name not in there]
        if missing:
            what = f"{len(missing)} of the {len(listed)} classes in {path} have no folder in {train}"
            raise PUBLISHER.error(f"{what}, such as {missing[0]}.")
        return listed
    held_out = set(_read_list(_find_list(HELD_OUT, train, request)))
    labelled = [name for name in there if name not in held_out]
    chosen = [name for rank, name in enumerate(labelled) if part == "labelled" or is_probe(rank) == (part == "probes")]
    if not chosen:
        raise PUBLISHER.damaged(train, f"it has no folder of a class of imagenet:{part}")
    return chosen


def _find_list(name: str, train: Path, request: Request) -> Path:
    """Return the path of a class list: beside the pictures or further up, as far as the root."""
    folders = [train.parent, *(above for above in train.parent.parents if above.is_relative_to(request.root or train))]
    places = [folder / below / name for folder in folders for below in (".", "imagenet_rand118")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        looked = ", ".join(map(str, folders))
        raise LISTS.error(f"The class list {name} is missing: looked in {looked} and in imagenet_rand118 in each.")
    return found


def _read_list(path: Path) -> list[str]:
    """Return the classes in a list, sorted: the first word of each line; empty lines and those with # are left out."""
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise LISTS.damaged(path, f"it cannot be read ({error.strerror})") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        word = _CLASS.match(line.strip())
        if word is None or line.strip()[word.end() : word.end() + 1].isalnum():
            shown = line.strip()[:40]
            raise LISTS.damaged(path, f"line {number} is {shown!r}, where a class such as n01440764 should be")
        found.append(word[0])
    if not found:
        raise LISTS.damaged(path, "there is no class in it")
    return sorted(set(found))


IMAGENET = Dataset(
    name="imagenet",
    title="ImageNet (ILSVRC 2012)",
    parts={
        "labelled": f"all classes not in {HELD_OUT}: 882",
        "train": "800 of them, without the probes",
        "probes": "82 of them, evenly spread",
        **{part: f"the 30 classes of {name}" for part, name in UNLABELLED.items()},
    },
    known="labelled",
    unsorted=None,
    choose=f"Those of the paper: {', '.join(UNLABELLED)}.",
    open=imagenet,
    address=PUBLISHER.address,
    needs=f"imagenet/train/CLASS/*.JPEG and, in imagenet, {HELD_OUT} and imagenet_30_A.txt to _C, from {LISTS.address}",
)
