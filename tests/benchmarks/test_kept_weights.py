"""The weights kept in the repository are those that the manifest tells of."""

from __future__ import annotations

import hashlib
import json

import pytest

from newkinds.networks.files import read_network
from newkinds_bench.house import WEIGHTS
from newkinds_bench.setups import SETUPS

MANIFEST = json.loads((WEIGHTS / "manifest.json").read_text())
MOST_BYTES = 7_000_000  # in all: a repository is cloned by everybody


def test_every_file_is_in_the_manifest() -> None:
    assert {path.name for path in WEIGHTS.glob("*.safetensors")} == set(MANIFEST)
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) < MOST_BYTES


def test_only_what_the_tables_start_from_is_kept() -> None:
    used = {f.weights for setup in SETUPS.values() for f in (setup.f, setup.f_but_probes) if f is not None}
    assert {name.removesuffix(".safetensors") for name in MANIFEST} <= used


@pytest.mark.parametrize("name", list(MANIFEST))
def test_the_manifest_is_true(name: str) -> None:
    told = MANIFEST[name]
    assert hashlib.sha256((WEIGHTS / name).read_bytes()).hexdigest() == told["sha256"]
    network, about = read_network(WEIGHTS / name)
    assert network.name == told["network"]
    assert (about["epochs"], about["seed"]) == (told["epochs"], told["seed"])
    measure = "few_shot_accuracy" if about["loss"] != "cross-entropy" else "held_out_accuracy"
    assert about[measure] == pytest.approx(told[measure], abs=5e-4)
    assert told["command"].startswith("newkinds pretrain ")
    assert told["command"].split()[2] in told["data"]
