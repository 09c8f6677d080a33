"""A run folder that nothing was trained for: tiny pictures in kinds that differ in colour, some of them put wrongly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from newkinds.assignment import Assignment
from newkinds.configure import make_settings
from newkinds.images.decode import encode
from newkinds.images.imageset import image_set
from newkinds.runs import RunFolder, names
from newkinds.runs.results import put_assignment

KNOWN = ("bolt", "nut")
SIDE = 24  # pixels of a picture


def make_run(
    folder: Path, pictures: int, kinds: int, *, wrong: float = 0.1, width: int = 16, seed: int = 0, embedding: int = 0
) -> Path:
    """Write `folder`/pictures and `folder`/run, and return the run.

    The file `17/000123.png` is truly of kind 17. wrong: the share of pictures that the answer puts into another kind,
    which its embedding does not know of. width: of the embedding; embedding: of features beside it, if not 0.
    """
    random = np.random.default_rng(seed)
    truth = np.sort(random.integers(0, kinds, pictures))
    listed = [f"{kind:02d}/{number:06d}.png" for number, kind in enumerate(truth.tolist())]
    pixels = _pixels(truth, kinds, random)
    for kind in range(kinds):
        (folder / "pictures" / f"{kind:02d}").mkdir(parents=True, exist_ok=True)
    for name, one in zip(listed, pixels, strict=True):
        (folder / "pictures" / name).write_bytes(encode(one, "png"))
    said = np.where(random.random(pictures) < wrong, random.integers(0, kinds, pictures), truth)
    probabilities = np.full((pictures, kinds), 0.2 / kinds, dtype=np.float32)
    probabilities[np.arange(pictures), said] += np.where(said == truth, 0.8, 0.5).astype(np.float32)
    centres = random.normal(size=(kinds, width))
    points = (centres[truth] + 0.35 * random.normal(size=(pictures, width))).astype(np.float32)
    mark = image_set(pixels, listed, None, (), "made up", labelled=False).fingerprint
    data = {"known": {"fingerprint": "0", "pictures": 0}, "unsorted": {"fingerprint": mark, "pictures": pictures}}
    sources = {"known": str(folder / "known"), "unsorted": str(folder / "pictures")}
    with RunFolder.start(folder / "run", make_settings({}), data, sources) as run:
        run.put_json(names.KNOWN, list(KNOWN))
        run.put_array(names.EMBEDDING, points)
        if embedding:
            turn = random.normal(size=(width, embedding)).astype(np.float32)
            run.put_array(names.features("unsorted"), points @ turn)
        columns = tuple(f"new:{kind}" for kind in range(kinds))
        put_assignment(run, Assignment(tuple(listed), columns, probabilities, {"method": "made up"}))
    return folder / "run"


def _pixels(truth: NDArray[np.int64], kinds: int, random: np.random.Generator) -> NDArray[np.uint8]:
    """Return pictures, uint8 (N, 3, SIDE, SIDE): a kind's colour and stripes, with noise."""
    colours = random.integers(40, 216, (kinds, 3, 1, 1))
    stripes = 30 * (np.arange(SIDE) // (1 + np.arange(kinds)[:, None] % 6) % 2)
    found = np.empty((len(truth), 3, SIDE, SIDE), dtype=np.uint8)
    for start in range(0, len(truth), 4096):
        some = truth[start : start + 4096]
        noise = random.integers(-20, 21, (len(some), 3, SIDE, SIDE))
        found[start : start + 4096] = np.clip(colours[some] + stripes[some][:, None, None, :] + noise, 0, 255)
    return found
