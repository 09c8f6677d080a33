"""Keep a trained network in the repository: python benchmarks/keep_weights.py RUN NAME.

RUN is the folder of a finished `newkinds pretrain`. Writes benchmarks/weights/NAME.safetensors, in half precision
and so half as large, and tells of it in the manifest there: hash, size, data, the command, the epochs and the score.
Only what the paper's tables start from is kept; a study trains what it needs beside that.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from newkinds.configure import Settings
from newkinds.files import digest
from newkinds.runs import RunFolder
from newkinds.runs.claim import flat
from newkinds.tensors import from_bytes, to_bytes
from newkinds_bench.house import WEIGHTS

SCORES = ("few_shot_accuracy", "held_out_accuracy")
ASKED = ("pretrain.loss", "pretrain.quarter_turns", "pretrain.epochs")  # said whatever "auto" would have come to


def main() -> None:
    """Write the file and its entry."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    chosen = parser.parse_args()
    run = RunFolder.open(chosen.run)
    tensors, about = from_bytes(run.get("network.safetensors"), str(chosen.run))
    data = to_bytes({key: x.half() if x.is_floating_point() else x for key, x in tensors.items()}, about)
    (WEIGHTS / f"{chosen.name}.safetensors").write_bytes(data)
    last = run.history()[-1]
    entry = {
        "sha256": digest(data),
        "bytes": len(data),
        "network": about["network"],
        "precision": "float16, of the float32 that was trained",
        "data": f"{run.sources['known']}, {len(about['classes'])} kinds",
        "command": command(run),
        "seed": run.settings.seed,
        "threads": run.threads,
        "epochs": last["epoch"] + 1,
        **{key: last[key] for key in SCORES if key in last},
    }
    file = WEIGHTS / "manifest.json"
    manifest = json.loads(file.read_text()) | {f"{chosen.name}.safetensors": entry}
    file.write_text(json.dumps(manifest, indent=2) + "\n")
    print(json.dumps(entry, indent=2))


def command(run: RunFolder) -> str:
    """Return the line that trains the same network again."""
    ours, default = (flat(values.model_dump(mode="json")) for values in (run.settings, Settings()))
    changed = {key: value for key, value in ours.items() if key.startswith("pretrain.") and value != default[key]}
    # What else "auto" was settled to need not be said.
    said = {key: value for key, value in changed.items() if default[key] != "auto" or key in ASKED}
    line = ["newkinds pretrain", run.sources["known"], "--network", run.settings.network, "--out RUN"]
    if run.data["weights"] is not None:
        line.append(f"--weights benchmarks/weights/{kept_as(run.data['weights'])}")
    return " ".join([*line, *(f"--set {key}={json.dumps(value).strip(chr(34))}" for key, value in said.items())])


def kept_as(sha256: str) -> str:
    """Return the name of the kept file with this hash."""
    manifest: dict[str, dict[str, str]] = json.loads((WEIGHTS / "manifest.json").read_text())
    return next(name for name, entry in manifest.items() if entry["sha256"] == sha256)


if __name__ == "__main__":
    main()
