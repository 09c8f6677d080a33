"""OmniGlot: handwritten characters of 50 alphabets, each drawn by 20 people.

The paper trains f on the background alphabets and discovers the characters of each evaluation alphabet on its own. Five
background alphabets are the probes of Algorithm 2; the authors train f on the other 25, whether they count or not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from newkinds.datasets.dataset import Dataset, Publisher, Request
from newkinds.datasets.files import decode_folders, subfolders
from newkinds.errors import unknown_name
from newkinds.images.imageset import ImageSet, fingerprint, numbered

PUBLISHER = Publisher("OmniGlot", "https://github.com/brendenlake/omniglot")
SIZE = 32  # the paper's; the published pictures have 105 x 105 pixels
PLACES = {
    folder: tuple(f"{above}{folder}" for above in ("omniglot-py/", "omniglot/", "omniglot/python/", ""))
    for folder in ("images_background", "images_evaluation")
}

PROBES = ("Alphabet_of_the_Magi", "Cyrillic", "Grantha", "Japanese_(katakana)", "Latin")
TRAIN = (
    "Anglo-Saxon_Futhorc",
    "Arcadian",
    "Armenian",
    "Asomtavruli_(Georgian)",
    "Balinese",
    "Bengali",
    "Blackfoot_(Canadian_Aboriginal_Syllabics)",
    "Braille",
    "Burmese_(Myanmar)",
    "Early_Aramaic",
    "Futurama",
    "Greek",
    "Gujarati",
    "Hebrew",
    "Inuktitut_(Canadian_Aboriginal_Syllabics)",
    "Japanese_(hiragana)",
    "Korean",
    "Malay_(Jawi_-_Arabic)",
    "Mkhedruli_(Georgian)",
    "N_Ko",
    "Ojibwe_(Canadian_Aboriginal_Syllabics)",
    "Sanskrit",
    "Syriac_(Estrangelo)",
    "Tagalog",
    "Tifinagh",
)
EVALUATION = (
    "Angelic",
    "Atemayar_Qelisayer",
    "Atlantean",
    "Aurek-Besh",
    "Avesta",
    "Ge_ez",
    "Glagolitic",
    "Gurmukhi",
    "Kannada",
    "Keble",
    "Malayalam",
    "Manipuri",
    "Mongolian",
    "Old_Church_Slavonic_(Cyrillic)",
    "Oriya",
    "Sylheti",
    "Syriac_(Serto)",
    "Tengwar",
    "Tibetan",
    "ULOG",
)
GROUPS = {"background": tuple(sorted(TRAIN + PROBES)), "train": TRAIN, "probes": PROBES}


def omniglot(part: str, request: Request) -> ImageSet:
    """Return the characters of a group of alphabets ("background", "train", "probes") or of one alphabet.

    Grey, ink bright on black, 32 x 32 unless another size is asked for. A class is "Alphabet/character01".
    """
    if part not in GROUPS and part not in GROUPS["background"] + EVALUATION:
        raise unknown_name("part of OmniGlot", part, [*GROUPS, *GROUPS["background"], *EVALUATION])
    characters: dict[str, Path] = {}
    for alphabet in GROUPS.get(part, (part,)):
        characters |= _characters(alphabet, request)
    size = SIZE if request.size is None else request.size
    found = decode_folders(characters, ".png", size, request.channels or 1, request)
    if found.skipped:
        first = found.skipped[0]
        raise PUBLISHER.damaged(characters[first.name.rsplit("/", 1)[0]] / Path(first.name).name, first.reason)
    labels, classes = numbered([name.rsplit("/", 1)[0] for name in found.names])
    empty = sorted(set(characters) - set(classes))
    if empty:
        raise PUBLISHER.damaged(characters[empty[0]], "there is no .png file in it")
    np.subtract(255, found.pixels, out=found.pixels)  # published as black ink on white paper
    mark = fingerprint(found.pixels, found.names, labels, classes)
    return ImageSet(found.pixels, found.names, labels, classes, f"omniglot:{part}", mark)


def _characters(alphabet: str, request: Request) -> dict[str, Path]:
    """Return the folders of an alphabet's characters by class name."""
    places = PLACES["images_evaluation" if alphabet in EVALUATION else "images_background"]
    folder = PUBLISHER.find(places, request) / alphabet
    if not folder.is_dir():
        raise PUBLISHER.error(f"The alphabet {alphabet} of OmniGlot is missing: looked for {folder}.")
    found = {f"{alphabet}/{name}": path for name, path in subfolders(folder, PUBLISHER).items()}
    if not found:
        raise PUBLISHER.damaged(folder, "there is no folder of a character in it")
    return found


OMNIGLOT = Dataset(
    name="omniglot",
    title=PUBLISHER.title,
    parts={
        "background": "all 30 background alphabets, 964 characters",
        "train": "25 of them, without the probes, 795 characters",
        "probes": f"{', '.join(PROBES)}: 169 characters",
        "ALPHABET": "a single one by its folder's name, such as Tengwar",
    },
    known="train",
    unsorted=None,
    choose=f"The evaluation alphabets: {', '.join(EVALUATION)}.",
    open=omniglot,
    address=PUBLISHER.address,
    needs="omniglot-py/images_background and omniglot-py/images_evaluation, or those two without the folder around",
)
