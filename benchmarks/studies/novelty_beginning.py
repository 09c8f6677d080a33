"""What novelty begins from: src/newkinds/novelty-beginning.json, found on data sets for tuning.

ROOT/grocery and ROOT/tiny-imagenet/train have one folder of photographs a kind. Known kinds are drawn as in the study
`mixed_heaps`, draws 100 and 101, which are for tuning; half of the pictures of each are labelled. Rehearsals of novelty
are made of these as every run makes them, at every ratio of known pictures, and one regression is fitted to all of them
from nothing. Beside it stand the shares of known and of new pictures below levels of it, from which the share of known
ones is read.

Each data set is also judged by what the other one alone would teach: the AUROC of new against known pictures.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import newkinds as nk
from newkinds import novelty
from newkinds.cache import open_cache
from newkinds.features import extract_features
from newkinds.images import open_images
from newkinds.networks import Network, open_foreign
from newkinds.novelty import RATIOS, Rehearsed, Scale, counted, observations
from newkinds.pipeline.frozen import Views
from newkinds.pipeline.heap import frozen_draws, parted
from newkinds.regression import Regression
from studies.tools.results import write_result

NAME = "novelty_beginning"
SOURCES = {"grocery": ("grocery", 54), "tiny-imagenet": ("tiny-imagenet/train", 30)}  # folder, kinds known
DRAWS = (100, 101)
NEW = (0.03, 0.1, 0.3, 1.0)  # new pictures in the heap to labelled ones
NEXT_TO_NOTHING = 0.1  # observations that zero coefficients count as: the fit is finite even if all can be told


def main() -> None:
    """Fit the beginning, write it into the package, and keep how well each data set foretells the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, help="the folder of the data sets")
    chosen = parser.parse_args()
    found: dict[str, list[Rehearsed]] = {}
    for name in SOURCES:
        views, labels = photographs(name, chosen.root)
        found[name] = [one for draw in DRAWS for one in rehearsed(views, labels, SOURCES[name][1], draw)]
    fitted = fit([one for of_one in found.values() for one in of_one])
    file = Path(novelty.__file__).with_name("novelty-beginning.json")
    file.write_text(json.dumps(fitted.to_dict(), indent=1) + "\n", encoding="utf-8")
    crossed = {}
    for name, own in found.items():
        others = fit([one for other, of_one in found.items() if other != name for one in of_one])
        crossed[name] = judged(others, own)
    values: dict[str, Any] = {"draws": list(DRAWS), "names": list(novelty.NAMES), **fitted.to_dict()}
    write_result(NAME, {**values, "judged_by_the_other": crossed, "judged_by_both": judged_all(fitted, found)})


def photographs(name: str, root: Path) -> tuple[Views, NDArray[np.int64]]:
    """Return features of photographs as a run has them, plain and mirrored, and the kinds of these."""
    foreign, kept = open_foreign("efficientnet-lite0", admitted=None, features="auto", offline=True), open_cache()
    side = foreign.input_size
    assert side is not None
    images = open_images(root / SOURCES[name][0], labelled=True, largest=side, cache=kept)
    network = Network(foreign.name, images.channels, images.size, None, foreign)
    assert images.labels is not None
    rows = (extract_features(network, images, view=view, cache=kept) for view in ("plain", "mirrored"))
    return Views(tuple(rows)), images.labels


def rehearsed(views: Views, labels: NDArray[np.int64], known: int, draw: int) -> list[Rehearsed]:
    """Return the rehearsals of novelty that half of the pictures of so many known kinds allow, at each ratio."""
    kinds = np.random.default_rng(draw).permutation(int(labels.max()) + 1)[:known]
    taught = np.concatenate(
        [
            np.random.default_rng([draw, n]).permutation(np.flatnonzero(labels == kind))[::2]
            for n, kind in enumerate(kinds)
        ]
    )
    mine, own = views.of(taught), np.unique(labels[taught], return_inverse=True)[1]
    settings, kept = nk.Settings(), open_cache()
    way = mine.learn(own, settings, kept).chosen
    draws = frozen_draws(mine, own, parted(mine, own, way, settings, kept))
    return [seen for one, known, new in product(draws, RATIOS, NEW) for seen in one.at(known, new)]


def fit(some: list[Rehearsed]) -> Scale:
    """Return what these rehearsals teach, from nothing."""
    x, yes, weights = (np.concatenate(part) for part in zip(*map(observations, some), strict=True))
    nothing = Regression(x.mean(axis=0), x.std(axis=0), np.zeros(x.shape[1] + 1))
    return counted(nothing.moved(x, yes, weights, NEXT_TO_NOTHING), some)


def judged(scale: Scale, some: list[Rehearsed]) -> dict[str, float]:
    """Return how well a scale tells hidden from held-out pictures, and how far its share of known ones is off."""
    return {
        "auroc": float(np.mean([roc_auc_score(one.is_new, scale.regression(one.signals)) for one in some])),
        "error_of_share": float(np.mean([abs(scale.known(one.signals) - (~one.is_new).mean()) for one in some])),
    }


def judged_all(scale: Scale, found: dict[str, list[Rehearsed]]) -> dict[str, dict[str, float]]:
    """Return the same of each data set."""
    return {name: judged(scale, some) for name, some in found.items()}


if __name__ == "__main__":
    main()
