"""One clustering with f given and K known, measured; and a file of such rows that grows while it is measured."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import newkinds as nk
from newkinds.clustering import kmeans
from newkinds.evaluation.scores import score
from newkinds.features import apply, averaged_features
from newkinds.methods.dtc.settings import Discover, resolved_discover
from newkinds.networks import Network
from newkinds.networks.files import read_network
from newkinds.start import initialise
from newkinds_bench import starts
from studies.tools.results import RESULTS, write_result


class Rows:
    """The rows of benchmarks/results/studies/NAME.json; those that are there already are not measured again."""

    def __init__(self, name: str, about: dict[str, Any]) -> None:
        self.name = name
        self.about = about
        path = RESULTS / f"{name}.json"
        self.rows: list[dict[str, Any]] = json.loads(path.read_text())["runs"] if path.exists() else []

    def has(self, **key: Any) -> bool:
        """Return whether a row with these values is there."""
        return any(all(row.get(name) == value for name, value in key.items()) for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Write a row down at once."""
        self.rows.append(row)
        self.write()

    def write(self) -> None:
        """Write all rows."""
        write_result(self.name, {**self.about, "runs": self.rows})


def measure(weights: Path, source: str, data: Path | None, changes: dict[str, Any], seed: int) -> dict[str, Any]:
    """Cluster the set of pictures called `source` into its true number of kinds, starting from f in `weights`.

    Returns the scores of k-means on f's features, of the start (k-means after the PCA), and of what was discovered.
    """
    images, features = opened(weights, source, data)
    assert images.labels is not None
    kinds = len(images.classes)
    settings = nk.Settings().with_changes({**changes, "seed": seed})
    records: list[dict[str, Any]] = []
    started = time.monotonic()
    found = nk.cluster(
        network(weights), images, kinds, settings, features=features, truth=images.labels, log=records.append
    )
    seconds = time.monotonic() - started
    assert found.choice is not None
    end, first = found.assignment.labels, settings.initialise
    plain = kmeans(features, kinds, seed=seed, restarts=first.restarts)
    # The start again, as `cluster` makes it: a solution does not keep it.
    how = resolved_discover(settings.section(Discover), images).augmentation
    seen = averaged_features(network(weights), images, features, first.views, how, seed)
    start = initialise(seen, kinds, first, seed=seed)
    row: dict[str, Any] = {"data": source, "kinds": kinds, "pictures": len(images), "seed": seed}
    for name, labels in (("kmeans", plain.labels), ("start", start.labels), ("discovered", end)):
        scores = score(labels, images.labels)
        row |= {f"{name}_acc": scores.acc, f"{name}_nmi": scores.nmi_geometric}
    # The log has what each epoch's steps said; the last state is looked at again, as what was discovered.
    last = end if found.last is None else apply(found.last, images).argmax(axis=1)
    row |= {"last_acc": score(last, images.labels).acc, "worst_acc": min(record["acc"] for record in records)}
    row |= {"kept": found.choice.kept, "kept_epoch": found.choice.epoch, "epochs": len(records), "seconds": seconds}
    return row


@cache
def network(weights: Path) -> Network:
    """Return f from a file."""
    return read_network(weights)[0]


@cache
def opened(weights: Path, source: str, data: Path | None) -> tuple[nk.ImageSet, Any]:
    """Return a set of pictures by name, and f's features of them."""
    images = starts.opened(source, data)
    return images, nk.extract_features(network(weights), images)
