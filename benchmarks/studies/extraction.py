"""Pictures a second of extracting features, beside the bare forward pass of the same network on ready tensors.

Extraction starts from decoded pixels (uint8) and includes all that `discover` does to them: batches, conversion,
scaling to the network's size, copying, hashing for the cache and writing to it. The bare pass has tensors of the
network's size ready, normalised, in the same batches. They take turns in one run, in CPU time. Beside them: the network
as it is, with batch norm, in batches of 20; in bfloat16; and features that the cache has. The pictures are made
up: what is on them does not matter. Writes benchmarks/results/studies/extraction.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from newkinds.cache import Cache
from newkinds.features import CACHED_PIXELS, apply, extract_features
from newkinds.images.imageset import ImageSet, image_set
from newkinds.networks import Network, bfloat16, build_network
from newkinds.networks.folding import folded
from studies.tools.results import write_result
from studies.tools.timing import seconds_in_turn


def main() -> None:
    """Measure one network at some sizes of pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="efficientnet-lite0")
    parser.add_argument("--sides", type=int, nargs="+", default=[128, 224], help="of the pictures, in pixels")
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for side in chosen.sides:
        rows.append(measure(chosen.network, side, chosen.pictures, chosen.turns))
        print(rows[-1], flush=True)
    values = {"what": "pictures a CPU second, medians of turns; ratio: extraction / bare", "threads": 1}
    write_result("extraction", {**values, "network": chosen.network, "turns": chosen.turns, "rows": rows})


def measure(name: str, side: int, pictures: int, turns: int) -> dict[str, Any]:
    """Return pictures a second of each way for pictures of one size."""
    network = build_network(name, 3, side, seed=0).eval()
    images = made_up(pictures, side)
    with tempfile.TemporaryDirectory() as folder:
        seconds = seconds_in_turn(ways(network, images, Path(folder)), turns, time.process_time)
    speed = {way: pictures / taken for way, taken in seconds.items()}
    exact, folded_in = apply(network, images), extract_features(network, images)
    return {
        "side": side,
        "network_size": network.network_size,
        "pictures": pictures,
        "pictures_a_second": speed,
        "ratio": speed["extraction"] / speed["bare"],
        "error_of_folding_in_millionths": 1e6 * float(np.linalg.norm(exact - folded_in) / np.linalg.norm(exact)),
    }


def made_up(pictures: int, side: int) -> ImageSet:
    """Return pictures of noise."""
    pixels = np.random.default_rng(0).integers(0, 256, (pictures, 3, side, side), dtype=np.uint8)
    return image_set(pixels, [str(number) for number in range(pictures)], None, (), "made up", labelled=False)


def ways(network: Network, images: ImageSet, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return what is timed."""
    module, side = folded(network), network.network_size
    size = CACHED_PIXELS // side**2
    ready = [torch.rand(size, 3, side, side) for _ in range(len(images) // size)]
    number = iter(range(1_000_000))
    extract_features(network, images, cache=Cache(folder / "full"))

    def bare() -> None:
        with torch.inference_mode():
            for batch in ready:
                module.backbone(batch)

    def in_bfloat16() -> None:
        with bfloat16(module), torch.inference_mode():
            for batch in ready:
                module(_shrunk(batch, images.size))

    return {
        "bare": bare,
        "extraction": lambda: extract_features(network, images, cache=Cache(folder / str(next(number)))),
        "mirrored": lambda: extract_features(network, images, view="mirrored", cache=Cache(folder / str(next(number)))),
        "with batch norm, batches of 20": lambda: apply(network, images),
        "bfloat16": in_bfloat16,
        "from the cache": lambda: extract_features(network, images, cache=Cache(folder / "full")),
    }


def _shrunk(batch: Tensor, side: int) -> Tensor:
    return batch[..., :side, :side].contiguous()


if __name__ == "__main__":
    main()
