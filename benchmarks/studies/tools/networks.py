"""The networks that studies start from: those of the tables, and the studies' own, which are not kept but trained."""

from __future__ import annotations

from pathlib import Path

import newkinds as nk
from newkinds_bench.setups import SETUPS, Trained
from newkinds_bench.starts import Where, trained

RUNS = Path("runs/studies")  # where they are trained
OWN = (
    Trained(
        "omniglot-25",
        "omniglot:train",
        {
            "network": "vgg6-4-2",
            "pretrain.loss": "prototypical",
            "pretrain.quarter_turns": True,
            "pretrain.episode_kinds": 40,
            "pretrain.epochs": 8,
            "pretrain.weight_decay": 0.0,
        },
    ),
    Trained(
        "cifar100-80-half",
        "cifar100:labelled",
        {
            "network": "vgg6-5-1-half",
            "pretrain.loss": "cross-entropy",
            "pretrain.quarter_turns": False,
            "pretrain.epochs": 30,
        },
    ),
)
_OF_TABLES = (f for setup in SETUPS.values() for f in (setup.f, setup.f_but_probes) if f is not None)
NETWORKS = {f.weights: f for f in (*_OF_TABLES, *OWN)}


def network_file(name: str, data: Path | None) -> Path:
    """Return the file of a network by name: the kept one, or that of a run which trains it first."""
    return trained(NETWORKS[name], Where(runs=RUNS, data=data), nk.Progress())
