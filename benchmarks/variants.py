"""k-means and the four variants, K known: python benchmarks/variants.py NAME --weights FILE [--data ROOT] SOURCE ...

SOURCE is a set of pictures by name, such as omniglot:Tengwar or cifar100:unlabelled. f is taken from --weights, which
`newkinds pretrain` made. Writes benchmarks/results/NAME.json, row by row; what is there already is not measured again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from measure import Rows, measure

import newkinds as nk
from newkinds.discover import VARIANTS
from newkinds.settings import parse_value


def main() -> None:
    """Measure every source, variant and seed that the result file lacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the result file")
    parser.add_argument("sources", nargs="+", help="sets of pictures")
    parser.add_argument("--weights", type=Path, required=True, help="f, a network.safetensors")
    parser.add_argument("--data", type=Path, help="where the data sets lie; default $NEWKINDS_DATA")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings other than the defaults")
    chosen = parser.parse_args()
    changes = {key: parse_value(value) for key, _, value in (word.partition("=") for word in chosen.set)}
    settings = nk.Settings().with_changes(changes)
    about = {
        "what": "k-means on f's features, the start (PCA and k-means) and discovery; K is the true number; one f",
        "weights": chosen.weights.name,
        "settings_changed": changes,
        "discover": settings.discover.model_dump(mode="json"),
        "initialise": settings.initialise.model_dump(mode="json"),
    }
    rows = Rows(chosen.name, about)
    for source in chosen.sources:
        for seed in chosen.seeds:
            for variant in chosen.variants:
                if not rows.has(data=source, variant=variant, seed=seed):
                    row = measure(chosen.weights, source, chosen.data, {**changes, "discover.variant": variant}, seed)
                    rows.add({"variant": variant, **row})
                    print(rows.rows[-1], flush=True)


if __name__ == "__main__":
    main()
